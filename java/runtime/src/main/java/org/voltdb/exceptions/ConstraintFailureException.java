package org.voltdb.exceptions;

/** A statement would have violated a constraint. */
public class ConstraintFailureException extends SQLException {
    private static final long serialVersionUID = 1L;

    public ConstraintFailureException(String sqlState, String message) {
        super(sqlState, message);
    }
}
