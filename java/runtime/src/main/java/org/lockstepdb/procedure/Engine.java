package org.lockstepdb.procedure;

import java.nio.ByteBuffer;

/**
 * The executor behind procedures, as one thread sees it. The layout of what the buffers hold is in
 * README.md of this module. An engine belongs to one thread; nothing here may be called by another.
 */
public interface Engine {
    /** What the host wrote last: a call, results or a failure. Big-endian; read absolutely. */
    ByteBuffer toJava();

    /** Where Java writes batches and outcomes. Big-endian; written absolutely. */
    ByteBuffer fromJava();

    /**
     * A buffer of at least so many bytes in place of {@link #fromJava()}, with the first
     * {@code kept} bytes of it.
     */
    ByteBuffer growFromJava(int minimumBytes, int kept);

    /**
     * Executes the batch in the first {@code length} bytes of {@link #fromJava()}.
     *
     * @return the length of the results in {@link #toJava()}, or, negative, of a failure
     */
    int executeBatch(int length);

    /**
     * Whether calls have the host's limits of time and size. A log is replayed without: its calls
     * succeeded before, and must succeed again.
     */
    default boolean isLimited() {
        return true;
    }

    /**
     * A call on this engine's thread cannot be stopped. Called by the watchdog's thread, again and
     * again.
     *
     * @param what the call's stack, for people
     */
    default void stuck(String what) {}
}
