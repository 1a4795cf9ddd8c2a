package org.lockstepdb.procedure;

/** Ends a call from outside. Handlers in user code cannot keep it: they poll before all else. */
public final class Cancelled extends Error {
    private static final long serialVersionUID = 1L;

    Cancelled(String reason) {
        super(reason);
    }
}
