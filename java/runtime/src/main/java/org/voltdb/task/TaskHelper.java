package org.voltdb.task;

/** What a task's classes can ask of the host. */
public interface TaskHelper {
    String getTaskName();

    TaskScope getTaskScope();

    /** The host or partition that the task runs for, -1 if it runs once in the cluster. */
    int getScopeId();

    boolean isDebugLoggingEnabled();

    void logDebug(String message);

    void logInfo(String message);

    void logWarning(String message);

    void logWarning(String message, Throwable throwable);

    void logError(String message);

    void logError(String message, Throwable throwable);
}
