package org.voltdb.task;

/** What the classes that give actions have in common. */
interface ActionGeneratorBase extends Initializable {
    /** Whether the procedures have to fit the scope of the task, as directed ones partitions. */
    default boolean restrictProcedureByScope() {
        return false;
    }

    /** Whether all procedures that the task calls only read. */
    default boolean isReadOnly() {
        return false;
    }
}
