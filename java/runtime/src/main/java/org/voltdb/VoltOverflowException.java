package org.voltdb;

/** A value, row or table is larger than allowed. */
public class VoltOverflowException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public VoltOverflowException(String message) {
        super(message);
    }
}
