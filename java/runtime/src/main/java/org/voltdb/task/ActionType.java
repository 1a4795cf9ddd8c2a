package org.voltdb.task;

/** What an action is. */
public enum ActionType {
    /** Calls a procedure. */
    PROCEDURE,
    /** Runs code of the task's own. */
    CALLBACK,
    /** Ends the task as failed. */
    ERROR,
    /** Ends the task. */
    EXIT
}
