package org.voltdb.task;

/** What an action is. */
public enum ActionType {
    /** Calls a procedure. */
    PROCEDURE(false),
    /** Runs code of the task's own. */
    CALLBACK(false),
    /** Ends the task as failed. */
    ERROR(true),
    /** Ends the task. */
    EXIT(true);

    private final boolean stop;

    ActionType(boolean stop) {
        this.stop = stop;
    }

    /** Whether the task ends with it. */
    public boolean isStop() {
        return stop;
    }
}
