package org.lockstepdb.procedure;

/** The client's parameters do not fit the procedure; the message is the status string. */
final class ParameterFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    ParameterFailure(String status) {
        super(status, null, false, false);
    }
}
