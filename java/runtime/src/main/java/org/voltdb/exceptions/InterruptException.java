package org.voltdb.exceptions;

/** A statement was interrupted, as by a time limit. */
public class InterruptException extends EEException {
    private static final long serialVersionUID = 1L;

    public InterruptException(String message) {
        super(message);
    }
}
