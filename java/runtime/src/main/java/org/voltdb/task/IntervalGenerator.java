package org.voltdb.task;

/** Gives the times of a task. */
public interface IntervalGenerator extends Initializable {
    /** The time until the first action; those that follow come from its callback. */
    Interval getFirstInterval();
}
