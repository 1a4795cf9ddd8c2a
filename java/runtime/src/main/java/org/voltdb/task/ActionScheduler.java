package org.voltdb.task;

/** Says what a task does and when. */
public interface ActionScheduler extends Initializable {
    ScheduledAction getFirstScheduledAction();
}
