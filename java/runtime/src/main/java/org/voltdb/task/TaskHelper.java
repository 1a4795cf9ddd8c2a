package org.voltdb.task;

import org.voltdb.utils.CompoundErrors;

/** What a task's classes can ask of the host. */
public interface TaskHelper {
    String getTaskName();

    TaskScope getTaskScope();

    /** The host or partition that the task runs for, -1 if it runs once in the cluster. */
    int getScopeId();

    boolean isDebugLoggingEnabled();

    void logDebug(String message);

    void logDebug(String message, Throwable throwable);

    void logInfo(String message);

    void logInfo(String message, Throwable throwable);

    void logWarning(String message);

    void logWarning(String message, Throwable throwable);

    void logError(String message);

    void logError(String message, Throwable throwable);

    /**
     * Looks a procedure up and compares parameters with its own.
     *
     * @param errors gets what is wrong
     * @param restrictProcedureByScope whether the procedure has to fit the scope of the task
     */
    void validateProcedure(CompoundErrors errors, boolean restrictProcedureByScope,
            String procedureName, Object[] parameters);

    /** Whether there is such a procedure and it only reads. */
    boolean isProcedureReadOnly(String procedureName);
}
