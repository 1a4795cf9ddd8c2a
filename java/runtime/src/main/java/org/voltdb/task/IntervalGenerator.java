package org.voltdb.task;

/** Says when a task runs. */
public interface IntervalGenerator extends Initializable {
    Interval getFirstInterval();
}
