package org.voltdb.task;

/** Gives the actions of a task and their times. */
public interface ActionScheduler extends ActionGeneratorBase {
    /** The first action with its time; those that follow come from its callback. */
    ScheduledAction getFirstScheduledAction();
}
