package org.lockstepdb.procedure;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.voltdb.VoltTable;

/** Writes into the buffer that goes to the host, and lets it grow. */
final class Output {
    /** The longest outcome, in bytes: VoltDB's limit of a message. */
    private static final int MAX_OUTCOME_BYTES = 52_428_800;

    private final Engine engine;
    private int limit = MAX_OUTCOME_BYTES;
    private ByteBuffer data;
    private int at;

    Output(Engine engine) {
        this.engine = engine;
    }

    /** Begins an outcome at a position of the buffer that is there now. */
    void begin(int start) {
        begin(start, MAX_OUTCOME_BYTES);
    }

    /** As {@link #begin(int)}, with the most bytes that may be written. */
    void begin(int start, int limit) {
        data = engine.fromJava();
        at = start;
        this.limit = limit;
    }

    int length() {
        return at;
    }

    void room(int bytes) {
        if (data.capacity() - at < bytes) {
            grow(bytes);
        }
    }

    private void grow(int bytes) {
        long wanted = (long) at + bytes;
        if (wanted > limit) {
            throw new IllegalStateException("a batch or a result of more than " + limit
                    + " bytes" + (limit == MAX_OUTCOME_BYTES ? "" : " (max_java_batch_bytes)"));
        }
        long roomy = Math.min(limit, Math.max(wanted, 2L * data.capacity()));
        data = engine.growFromJava((int) roomy, at);
    }

    // The writers without a check of room say so; their callers ask for it.

    void putByteUnchecked(int value) {
        data.put(at, (byte) value);
        at++;
    }

    void putLongUnchecked(long value) {
        data.putLong(at, value);
        at += 8;
    }

    void putIntUnchecked(int value) {
        data.putInt(at, value);
        at += 4;
    }

    void putShortUnchecked(int value) {
        data.putShort(at, (short) value);
        at += 2;
    }

    void putByte(int value) {
        room(1);
        putByteUnchecked(value);
    }

    void putShort(int value) {
        room(2);
        putShortUnchecked(value);
    }

    void putInt(int value) {
        room(4);
        putIntUnchecked(value);
    }

    void putLong(long value) {
        room(8);
        putLongUnchecked(value);
    }

    void setShort(int place, int value) {
        data.putShort(place, (short) value);
    }

    void setInt(int place, int value) {
        data.putInt(place, value);
    }

    void putBytes(byte[] value) {
        room(value.length);
        data.put(at, value);
        at += value.length;
    }

    /** Bytes with their length, -1 for null. */
    void putVariable(byte[] value) {
        if (value == null) {
            putInt(-1);
            return;
        }
        room(4 + value.length);
        putIntUnchecked(value.length);
        data.put(at, value);
        at += value.length;
    }

    void putString(String value) {
        putVariable(value == null ? null : value.getBytes(StandardCharsets.UTF_8));
    }

    void putDecimal(BigDecimal value) {
        putBytes(Decimals.bytes(value));
    }

    void putTable(VoltTable table) {
        int bytes = table.getSerializedSize();
        room(bytes);
        ByteBuffer place = data.duplicate();
        place.position(at);
        ApiAccess.API.write(table, place);
        at += bytes;
    }

    /** A view of the buffer at the present place, for writers of their own; see {@link #skip}. */
    ByteBuffer here(int bytes) {
        room(bytes);
        ByteBuffer place = data.duplicate();
        place.position(at);
        return place;
    }

    void skip(int bytes) {
        at += bytes;
    }
}
