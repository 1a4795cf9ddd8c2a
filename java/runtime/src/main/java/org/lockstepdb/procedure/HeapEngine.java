package org.lockstepdb.procedure;

import java.nio.ByteBuffer;
import java.util.Arrays;

/** Buffers in the heap, for calls that do not run on a site's thread. It executes nothing. */
final class HeapEngine implements Engine {
    private static final int FIRST_CAPACITY = 256;

    private final ByteBuffer in;
    private ByteBuffer out = ByteBuffer.allocate(FIRST_CAPACITY);

    HeapEngine(byte[] in) {
        this.in = ByteBuffer.wrap(in);
    }

    @Override
    public ByteBuffer toJava() {
        return in;
    }

    @Override
    public ByteBuffer fromJava() {
        return out;
    }

    @Override
    public ByteBuffer growFromJava(int minimumBytes, int kept) {
        out = ByteBuffer.wrap(Arrays.copyOf(out.array(), minimumBytes));
        return out;
    }

    @Override
    public int executeBatch(int length) {
        throw new IllegalStateException("this procedure has no statements");
    }

    /** The first bytes of what was written. */
    byte[] written(int length) {
        return Arrays.copyOf(out.array(), length);
    }

    /** A parameter set. */
    static byte[] parameterSet(Object... parameters) {
        if (parameters.length > Short.MAX_VALUE) {
            throw new IllegalArgumentException(parameters.length + " parameters; the limit is "
                    + Short.MAX_VALUE);
        }
        HeapEngine heap = new HeapEngine(new byte[0]);
        Output out = new Output(heap);
        out.begin(0);
        out.putShort(parameters.length);
        for (Object parameter : parameters) {
            Arguments.put(out, parameter);
        }
        return heap.written(out.length());
    }
}
