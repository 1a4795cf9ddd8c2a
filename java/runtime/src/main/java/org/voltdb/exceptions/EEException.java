package org.voltdb.exceptions;

/** A statement failed in the executor. */
public class EEException extends SerializableException {
    private static final long serialVersionUID = 1L;

    public EEException(String message) {
        super(message);
    }
}
