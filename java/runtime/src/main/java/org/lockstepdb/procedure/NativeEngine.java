package org.lockstepdb.procedure;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The engine of the host process: its methods are registered by the host, which is in Rust. */
public final class NativeEngine implements Engine {
    /** What the host knows this engine by. */
    private final long handle;
    /** Set by the host, which replaces it when an answer needs more room. */
    private ByteBuffer toJava;
    private ByteBuffer fromJava;
    private final boolean limited;

    private NativeEngine(long handle, ByteBuffer toJava, ByteBuffer fromJava, boolean limited) {
        this.handle = handle;
        this.limited = limited;
        this.toJava = toJava.order(ByteOrder.BIG_ENDIAN);
        this.fromJava = fromJava.order(ByteOrder.BIG_ENDIAN);
    }

    @Override
    public ByteBuffer toJava() {
        return toJava;
    }

    @Override
    public ByteBuffer fromJava() {
        return fromJava;
    }

    @Override
    public ByteBuffer growFromJava(int minimumBytes, int kept) {
        grow(handle, minimumBytes, kept);
        return fromJava;
    }

    @Override
    public int executeBatch(int length) {
        return execute(handle, length);
    }

    @Override
    public boolean isLimited() {
        return limited;
    }

    @Override
    public void stuck(String what) {
        stuck(handle, what);
    }

    /** See {@link #stuck(String)}; on the watchdog's thread. */
    private static native void stuck(long handle, String what);

    /** Executes a batch; the host checks that the calling thread is the handle's own. */
    private static native int execute(long handle, int length);

    /** Sets {@link #fromJava} to a larger buffer with the first {@code kept} bytes of the old. */
    private native void grow(long handle, int minimumBytes, int kept);
}
