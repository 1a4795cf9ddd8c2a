package org.lockstepdb.procedure;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.voltdb.VoltType;
import org.voltdb.VoltTypeException;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/**
 * The parameters of a call as the client sent them, read one after the other as what {@code run}
 * declares. A value that has the declared type already is read without an object in between.
 */
public final class Parameters {
    private static final byte ARRAY = -99;
    private static final byte NULL = 1;
    private static final byte TINYINT = 3;
    private static final byte SMALLINT = 4;
    private static final byte INTEGER = 5;
    private static final byte BIGINT = 6;
    private static final byte FLOAT = 8;
    private static final byte STRING = 9;

    private final Class<?>[] classes;
    private final boolean nullsAreNumbers;
    private ByteBuffer data;
    private int at;
    private int end;
    /** The parameter that is read, or was read last. */
    private int number;
    private boolean complete;

    Parameters(Class<?>[] classes) {
        this(classes, false);
    }

    /**
     * @param nullsAreNumbers NULL for a boxed number is, as for one that is not boxed, the value
     *     of its type that stands for NULL: so functions get it, and procedures do not
     */
    Parameters(Class<?>[] classes, boolean nullsAreNumbers) {
        this.classes = classes;
        this.nullsAreNumbers = nullsAreNumbers;
    }

    /** Begins a call: a parameter set between two places of a buffer. */
    void begin(ByteBuffer buffer, int from, int to) {
        data = buffer;
        at = from + 2;
        end = to;
        number = -1;
        complete = false;
    }

    /** How many parameters the client sent. */
    static int count(ByteBuffer buffer, int from) {
        return buffer.getShort(from);
    }

    int number() {
        return number;
    }

    /** Whether all were read: what fails from then on is the procedure's. */
    boolean isComplete() {
        return complete;
    }

    /** All have been read. */
    public void end() {
        complete = true;
    }

    private byte nextType() {
        number++;
        need(1);
        return data.get(at++);
    }

    private void need(int bytes) {
        if (bytes < 0 || end - at < bytes) {
            throw new VoltTypeException("the parameter's bytes are cut off");
        }
    }

    public long nextLong() {
        byte type = nextType();
        if (type == BIGINT && end - at >= 8) {
            at += 8;
            return data.getLong(at - 8);
        }
        if (type == INTEGER && end - at >= 4) {
            int value = data.getInt(at);
            at += 4;
            return value == VoltType.NULL_INTEGER ? VoltType.NULL_BIGINT : value;
        }
        return (Long) convert(type, long.class);
    }

    public int nextInt() {
        byte type = nextType();
        if (type == INTEGER && end - at >= 4) {
            at += 4;
            return data.getInt(at - 4);
        }
        if (type == BIGINT && end - at >= 8) {
            long value = data.getLong(at);
            if ((int) value == value && value != VoltType.NULL_INTEGER) {
                at += 8;
                return (int) value;
            }
        }
        return (Integer) convert(type, int.class);
    }

    public short nextShort() {
        byte type = nextType();
        if (type == SMALLINT && end - at >= 2) {
            at += 2;
            return data.getShort(at - 2);
        }
        return (Short) convert(type, short.class);
    }

    public byte nextByte() {
        byte type = nextType();
        if (type == TINYINT && end - at >= 1) {
            return data.get(at++);
        }
        return (Byte) convert(type, byte.class);
    }

    public double nextDouble() {
        byte type = nextType();
        if (type == FLOAT && end - at >= 8) {
            at += 8;
            double value = data.getDouble(at - 8);
            return value <= VoltType.NULL_FLOAT ? VoltType.NULL_FLOAT : value;
        }
        return (Double) convert(type, double.class);
    }

    public String nextString() {
        byte type = nextType();
        if (type != STRING) {
            return (String) convert(type, String.class);
        }
        String text = readString();
        return Conversions.TEXT_NULL.equals(text) ? null : text;
    }

    /** The next parameter as the class that is declared for it. */
    public Object next() {
        byte type = nextType();
        return convert(type, classes[number]);
    }

    /** The next parameter as a class that was not declared for its place. */
    Object nextAs(Class<?> wanted) {
        return convert(nextType(), wanted);
    }

    private Object convert(byte type, Class<?> wanted) {
        Object value = Conversions.convert(type == ARRAY ? readArray() : readScalar(type), wanted);
        return value == null && nullsAreNumbers && isBoxed(wanted)
                ? VoltType.typeFromClass(wanted).getNullValue() : value;
    }

    private String readString() {
        byte[] value = readBytes();
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }

    private byte[] readBytes() {
        need(4);
        int length = data.getInt(at);
        at += 4;
        if (length == VoltType.NULL_STRING_LENGTH) {
            return null;
        }
        need(length);
        byte[] value = new byte[length];
        data.get(at, value);
        at += length;
        return value;
    }

    private int skip(int bytes) {
        need(bytes);
        at += bytes;
        return at - bytes;
    }

    /** A value as the object that stands for its type; null for a NULL of any type. */
    private Object readScalar(byte code) {
        if (code == NULL) {
            return null;
        }
        Object value = readTyped(code);
        return value instanceof Number && VoltType.isVoltNullValue(value) ? null : value;
    }

    private Object readTyped(byte code) {
        switch (typeOf(code)) {
            case NULL:
                return null;
            case TINYINT:
            case BOOLEAN:
                return data.get(skip(1));
            case SMALLINT:
                return data.getShort(skip(2));
            case INTEGER:
                return data.getInt(skip(4));
            case BIGINT:
                return data.getLong(skip(8));
            case FLOAT:
                return data.getDouble(skip(8));
            case STRING:
                return readString();
            case TIMESTAMP:
                long micros = data.getLong(skip(8));
                return micros == VoltType.NULL_BIGINT ? null : new TimestampType(micros);
            case DECIMAL:
                return Decimals.read(data, skip(16));
            case VARBINARY:
                return readBytes();
            case GEOGRAPHY_POINT:
                return GeographyPointValue.unflattenFromBuffer(data, skip(16));
            case GEOGRAPHY:
                byte[] polygon = readBytes();
                return polygon == null ? null
                        : GeographyValue.unflattenFromBuffer(ByteBuffer.wrap(polygon));
            case VOLTTABLE:
                byte[] table = readBytes();
                return table == null ? null : ApiAccess.API.table(table, 0, table.length);
            default:
                throw new VoltTypeException("parameters of type " + typeOf(code).getName()
                        + " cannot be read");
        }
    }

    private static VoltType typeOf(byte code) {
        try {
            return VoltType.get(code);
        } catch (AssertionError e) {
            throw new VoltTypeException("there is no type with code " + code);
        }
    }

    /** An array of the elements' own class. */
    private Object readArray() {
        need(1);
        byte code = data.get(at++);
        int count = code == TINYINT ? data.getInt(skip(4)) : data.getShort(skip(2));
        // Every element has a byte at least, so that a count cannot ask for more than there is.
        need(count);
        switch (code) {
            case TINYINT:
                byte[] bytes = new byte[count];
                data.get(at, bytes);
                at += count;
                return bytes;
            case SMALLINT:
                short[] shorts = new short[count];
                for (int i = 0; i < count; i++) {
                    shorts[i] = data.getShort(skip(2));
                }
                return shorts;
            case INTEGER:
                int[] ints = new int[count];
                for (int i = 0; i < count; i++) {
                    ints[i] = data.getInt(skip(4));
                }
                return ints;
            case BIGINT:
                long[] longs = new long[count];
                for (int i = 0; i < count; i++) {
                    longs[i] = data.getLong(skip(8));
                }
                return longs;
            case FLOAT:
                double[] doubles = new double[count];
                for (int i = 0; i < count; i++) {
                    doubles[i] = data.getDouble(skip(8));
                }
                return doubles;
            default:
                return readObjects(code, count);
        }
    }

    private Object readObjects(byte code, int count) {
        Class<?> elements = typeOf(code).classFromType();
        Object[] values = (Object[]) java.lang.reflect.Array.newInstance(
                elements.isPrimitive() ? Object.class : elements, count);
        for (int i = 0; i < count; i++) {
            values[i] = readTyped(code);
        }
        return values;
    }

    /** Whether a class may be declared for a parameter. */
    static boolean isAllowed(Class<?> declared) {
        Class<?> element = declared.isArray() && declared != byte[].class
                && declared != Byte[].class ? declared.getComponentType() : declared;
        return element == long.class || element == int.class || element == short.class
                || element == byte.class || element == double.class || isAllowedObject(element);
    }

    private static boolean isAllowedObject(Class<?> element) {
        return element == String.class || element == byte[].class || element == Byte[].class
                || element == ByteBuffer.class
                || element == BigDecimal.class || element == TimestampType.class
                || element == java.util.Date.class || element == java.sql.Date.class
                || element == java.sql.Timestamp.class || element == GeographyPointValue.class
                || element == GeographyValue.class || element == org.voltdb.VoltTable.class
                || isBoxed(element);
    }

    static boolean isBoxed(Class<?> element) {
        return element == Long.class || element == Integer.class || element == Short.class
                || element == Byte.class || element == Double.class;
    }
}
