package org.lockstepdb.procedure;

/** A class cannot be what DDL asks for; the message is the statement's error. */
public final class DescribeException extends Exception {
    private static final long serialVersionUID = 1L;

    DescribeException(String message) {
        super(message);
    }

    DescribeException(String message, Throwable cause) {
        super(message, cause);
    }
}
