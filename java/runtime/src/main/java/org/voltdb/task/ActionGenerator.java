package org.voltdb.task;

/** Gives the actions of a task. */
public interface ActionGenerator extends ActionGeneratorBase {
    /** The first action; those that follow come from its callback. */
    Action getFirstAction();
}
