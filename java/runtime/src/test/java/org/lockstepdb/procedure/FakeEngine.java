package org.lockstepdb.procedure;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** An engine that answers batches as a test says, through the same buffers as the host's. */
final class FakeEngine implements Engine {
    /** A queued statement as the engine sees it. */
    record Queued(int statement, Object... parameters) {}

    /** A batch as the engine sees it. */
    record Batch(boolean isFinal, List<Queued> statements) {}

    /** What a batch fails with. */
    static final class Failure extends RuntimeException {
        private static final long serialVersionUID = 1L;
        final int kind;
        final String state;

        Failure(int kind, String state, String message) {
            super(message);
            this.kind = kind;
            this.state = state;
        }
    }

    /** How a call ended. */
    record Ended(int status, int applicationStatus, String applicationText, VoltTable[] tables,
            int origin, String exception, String message, String statusString) {}

    final List<Batch> batches = new ArrayList<>();
    final List<String> stuck = new ArrayList<>();
    Function<Batch, VoltTable[]> answers = batch -> new VoltTable[batch.statements().size()];
    private ByteBuffer toJava = ByteBuffer.allocateDirect(64);
    // Small, so that every longer batch makes it grow.
    private ByteBuffer fromJava = ByteBuffer.allocateDirect(16);

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
        ByteBuffer larger = ByteBuffer.allocateDirect(minimumBytes);
        larger.put(0, fromJava, 0, kept);
        fromJava = larger;
        return larger;
    }

    @Override
    public void stuck(String what) {
        synchronized (stuck) {
            stuck.add(what);
        }
    }

    private void put(byte[] data) {
        if (toJava.capacity() < data.length) {
            toJava = ByteBuffer.allocateDirect(data.length);
        }
        toJava.put(0, data);
    }

    @Override
    public int executeBatch(int length) {
        ByteBuffer in = fromJava.duplicate().position(0).limit(length);
        boolean isFinal = in.getInt() == 1;
        List<Queued> statements = new ArrayList<>();
        int count = in.getInt();
        for (int i = 0; i < count; i++) {
            int statement = in.getInt();
            Object[] parameters = new Object[in.getShort()];
            for (int j = 0; j < parameters.length; j++) {
                parameters[j] = value(in);
            }
            statements.add(new Queued(statement, parameters));
        }
        if (in.hasRemaining()) {
            throw new AssertionError(in.remaining() + " bytes behind the batch");
        }
        Batch batch = new Batch(isFinal, statements);
        batches.add(batch);
        try {
            VoltTable[] tables = answers.apply(batch);
            int bytes = 0;
            for (int i = 0; i < tables.length; i++) {
                tables[i] = tables[i] == null ? modified(1) : tables[i];
                bytes += tables[i].getSerializedSize();
            }
            ByteBuffer out = ByteBuffer.allocate(bytes);
            for (VoltTable table : tables) {
                table.flattenToBuffer(out);
            }
            put(out.array());
            return bytes;
        } catch (Failure failure) {
            byte[] record = new Record().putByte(failure.kind).putString(failure.state)
                    .putString(failure.getMessage()).toBytes();
            put(record);
            return -record.length;
        }
    }

    static VoltTable modified(long count) {
        return longs("modified_tuples", count);
    }

    static VoltTable longs(String column, long... values) {
        VoltTable table = new VoltTable(new VoltTable.ColumnInfo(column, VoltType.BIGINT));
        for (long value : values) {
            table.addRow(value);
        }
        return table;
    }

    /** A typed value; an array as a list. */
    static Object value(ByteBuffer in) {
        byte code = in.get();
        if (code != -99) {
            return scalar(in, code);
        }
        byte element = in.get();
        int count = element == 3 ? in.getInt() : in.getShort();
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            values.add(scalar(in, element));
        }
        return values;
    }

    private static Object scalar(ByteBuffer in, byte code) {
        switch (code) {
            case 1:
                return null;
            case 3:
                return in.get();
            case 4:
                return in.getShort();
            case 5:
                return in.getInt();
            case 6:
                return in.getLong();
            case 8:
                return in.getDouble();
            case 9:
                byte[] text = bytes(in);
                return text == null ? null : new String(text, StandardCharsets.UTF_8);
            case 11:
                return "micros " + in.getLong();
            case 22:
                in.position(in.position() + 16);
                return Decimals.read(in, in.position() - 16);
            case 25:
                byte[] data = bytes(in);
                return data == null ? null : "bytes " + Bytes.hex(data);
            case 26:
                return in.getDouble() + " " + in.getDouble();
            default:
                throw new AssertionError("type " + code);
        }
    }

    private static byte[] bytes(ByteBuffer in) {
        int length = in.getInt();
        if (length < 0) {
            return null;
        }
        byte[] data = new byte[length];
        in.get(data);
        return data;
    }

    /** The head of a call and a parameter set. */
    static byte[] call(byte[] parameterSet, int flags) {
        ByteBuffer call = ByteBuffer.allocate(28 + parameterSet.length);
        call.putLong(77_000_001L).putLong(1_600_000_000_123L).putInt(3).putInt(5).putInt(flags);
        return call.put(parameterSet).array();
    }

    Ended call(ProcedureInstance instance, Object... parameters) {
        return callRaw(instance, HeapEngine.parameterSet(parameters), 0);
    }

    Ended callRaw(ProcedureInstance instance, byte[] parameterSet, int flags) {
        byte[] call = call(parameterSet, flags);
        put(call);
        int length = instance.invoke(call.length);
        return ended(fromJava.duplicate().position(0).limit(length));
    }

    static Ended ended(ByteBuffer out) {
        int status = out.get();
        int applicationStatus = out.get();
        byte[] text = bytes(out);
        String applicationText = text == null ? null : new String(text, StandardCharsets.UTF_8);
        if (status != 1) {
            Ended failed = new Ended(status, applicationStatus, applicationText, null, out.get(),
                    string(out), string(out), string(out));
            if (out.hasRemaining()) {
                throw new AssertionError(out.remaining() + " bytes behind the outcome");
            }
            return failed;
        }
        VoltTable[] tables = new VoltTable[out.getShort()];
        for (int i = 0; i < tables.length; i++) {
            byte[] data = bytes(out);
            tables[i] = VoltTable.getInstanceForTest(ByteBuffer.wrap(data));
        }
        if (out.hasRemaining()) {
            throw new AssertionError(out.remaining() + " bytes behind the outcome");
        }
        return new Ended(status, applicationStatus, applicationText, tables, -1, null, null, null);
    }

    private static String string(ByteBuffer in) {
        byte[] data = bytes(in);
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}
