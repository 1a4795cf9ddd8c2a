package org.lockstepdb.procedure;

/** What a procedure returned. */
public final class Returned {
    private boolean isLong;
    private long number;
    private Object object;

    Returned() {}

    void clear() {
        isLong = false;
        object = null;
    }

    /** A procedure that returns {@code long}. */
    public void set(long value) {
        isLong = true;
        number = value;
    }

    /** Any other procedure. */
    public void set(Object value) {
        if (value instanceof Long) {
            set((long) (Long) value);
        } else {
            object = value;
        }
    }

    boolean isLong() {
        return isLong;
    }

    long number() {
        return number;
    }

    Object object() {
        return object;
    }
}
