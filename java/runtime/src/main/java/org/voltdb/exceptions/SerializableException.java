package org.voltdb.exceptions;

/** A failure that the engine reports. */
public class SerializableException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public SerializableException(String message) {
        super(message);
    }
}
