package org.voltdb.task;

/** Where a task runs. */
public enum TaskScope {
    /** Once in the cluster. */
    DATABASE,
    /** On each host. */
    HOSTS,
    /** On each partition. */
    PARTITIONS
}
