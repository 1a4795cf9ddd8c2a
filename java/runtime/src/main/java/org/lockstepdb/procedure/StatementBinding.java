package org.lockstepdb.procedure;

/** The place of a statement in its procedure, and what the planner found of it. */
public final class StatementBinding {
    final Procedure procedure;
    final int index;

    StatementBinding(Procedure procedure, int index) {
        this.procedure = procedure;
        this.index = index;
    }

    /** Whether the statement changes nothing. */
    public boolean readOnly() {
        return procedure.readOnly(index);
    }
}
