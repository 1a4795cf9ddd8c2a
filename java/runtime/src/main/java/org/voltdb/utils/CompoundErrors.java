package org.voltdb.utils;

import java.util.ArrayList;
import java.util.List;

/** Messages that are gathered, so that all that is wrong is reported together. */
public final class CompoundErrors {
    private final List<String> messages = new ArrayList<>();

    /** Adds a message; null is ignored. */
    public void addErrorMessage(String error) {
        if (error != null) {
            messages.add(error);
        }
    }

    /** Whether there is a message. */
    public boolean hasErrors() {
        return !messages.isEmpty();
    }

    /** All messages, a line each; null if there are none. */
    public String getErrorMessage() {
        return getErrorMessage('\n');
    }

    /** All messages with a character between two; null if there are none. */
    public String getErrorMessage(char separator) {
        return hasErrors() ? String.join(String.valueOf(separator), messages) : null;
    }
}
