package org.voltdb.task;

/** Says what a task does. */
public interface ActionGenerator extends Initializable {
    Action getFirstAction();
}
