package org.lockstepdb.procedure;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.VoltTypeException;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** Java values as typed parameters in the wire's form. */
final class Arguments {
    private static final int ARRAY = -99;

    private Arguments() {}

    /** Writes a value with its type in front; the type's code, negative for an array. */
    static int put(Output out, Object value) {
        if (value instanceof Long) {
            out.room(9);
            out.putByteUnchecked(6);
            out.putLongUnchecked((Long) value);
            return 6;
        }
        if (value instanceof Integer) {
            out.room(5);
            out.putByteUnchecked(5);
            out.putIntUnchecked((Integer) value);
            return 5;
        }
        if (value instanceof String) {
            out.putByte(9);
            out.putString((String) value);
            return 9;
        }
        if (value instanceof Short) {
            out.room(3);
            out.putByteUnchecked(4);
            out.putShortUnchecked((Short) value);
            return 4;
        }
        if (value instanceof Byte) {
            out.room(2);
            out.putByteUnchecked(3);
            out.putByteUnchecked((Byte) value);
            return 3;
        }
        if (value instanceof Double) {
            out.room(9);
            out.putByteUnchecked(8);
            out.putLongUnchecked(Double.doubleToRawLongBits((Double) value));
            return 8;
        }
        return putOther(out, value);
    }

    private static int putOther(Output out, Object value) {
        // An integer's null value keeps its type; other nulls have none.
        if (value == null || (!(value instanceof Number) && VoltType.isVoltNullValue(value))) {
            out.putByte(1);
            return 1;
        }
        if (value.getClass().isArray() && !(value instanceof byte[])
                && !(value instanceof Byte[])) {
            out.putByte(ARRAY);
            return -putArray(out, value);
        }
        VoltType type = VoltType.typeFromClass(value.getClass());
        out.putByte(type.getValue());
        putValue(out, type, value);
        return type.getValue();
    }

    private static void putValue(Output out, VoltType type, Object value) {
        switch (type) {
            case TINYINT:
                out.putByte(((Number) value).byteValue());
                break;
            case SMALLINT:
                out.putShort(((Number) value).shortValue());
                break;
            case INTEGER:
                out.putInt(((Number) value).intValue());
                break;
            case BIGINT:
                out.putLong(((Number) value).longValue());
                break;
            case FLOAT:
                out.putLong(Double.doubleToRawLongBits(((Number) value).doubleValue()));
                break;
            case STRING:
                out.putString((String) value);
                break;
            case TIMESTAMP:
                out.putLong(value instanceof TimestampType ? ((TimestampType) value).getTime()
                        : new TimestampType((java.util.Date) value).getTime());
                break;
            case DECIMAL:
                out.putDecimal((BigDecimal) value);
                break;
            case BOOLEAN:
                out.putByte((Boolean) value ? 1 : 0);
                break;
            case VARBINARY:
                out.putVariable(binary(value));
                break;
            case GEOGRAPHY_POINT:
                ((GeographyPointValue) value).flattenToBuffer(out.here(16));
                out.skip(16);
                break;
            case GEOGRAPHY:
                GeographyValue polygon = (GeographyValue) value;
                int bytes = polygon.getLengthInBytes();
                out.putInt(bytes);
                polygon.flattenToBuffer(out.here(bytes));
                out.skip(bytes);
                break;
            case VOLTTABLE:
                out.putTable((VoltTable) value);
                break;
            default:
                throw new VoltTypeException("Unsupported type: " + type);
        }
    }

    /** Bytes that are a list of numbers; an array of bytes would be one VARBINARY. */
    static short[] numbers(byte[] bytes) {
        short[] numbers = new short[bytes.length];
        for (int i = 0; i < bytes.length; i++) {
            numbers[i] = bytes[i] == VoltType.NULL_TINYINT ? VoltType.NULL_SMALLINT : bytes[i];
        }
        return numbers;
    }

    private static byte[] binary(Object value) {
        if (value instanceof byte[]) {
            return (byte[]) value;
        }
        if (value instanceof ByteBuffer) {
            ByteBuffer rest = ((ByteBuffer) value).duplicate();
            byte[] bytes = new byte[rest.remaining()];
            rest.get(bytes);
            return bytes;
        }
        Byte[] boxed = (Byte[]) value;
        byte[] bytes = new byte[boxed.length];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = boxed[i];
        }
        return bytes;
    }

    /** Writes an array behind its mark; the code of its elements. */
    private static int putArray(Output out, Object value) {
        if (value.getClass() == Object[].class) {
            return putArray(out, typed((Object[]) value));
        }
        VoltType type = VoltType.typeFromClass(value.getClass().getComponentType());
        int length = java.lang.reflect.Array.getLength(value);
        if (length > Short.MAX_VALUE) {
            throw new VoltTypeException("an array of " + length + " elements; the limit is "
                    + Short.MAX_VALUE);
        }
        out.putByte(type.getValue());
        if (type == VoltType.TINYINT) {
            out.putInt(length);
        } else {
            out.putShort(length);
        }
        if (value instanceof long[]) {
            for (long element : (long[]) value) {
                out.putLong(element);
            }
            return type.getValue();
        }
        for (int i = 0; i < length; i++) {
            Object element = java.lang.reflect.Array.get(value, i);
            putElement(out, type, element);
        }
        return type.getValue();
    }

    private static void putElement(Output out, VoltType type, Object element) {
        if (element != null) {
            putValue(out, type, element);
            return;
        }
        switch (type) {
            case STRING:
            case VARBINARY:
            case GEOGRAPHY:
                out.putInt(VoltType.NULL_STRING_LENGTH);
                break;
            case DECIMAL:
                out.putDecimal(null);
                break;
            case TIMESTAMP:
                out.putLong(VoltType.NULL_BIGINT);
                break;
            case GEOGRAPHY_POINT:
                GeographyPointValue.serializeNull(out.here(16));
                out.skip(16);
                break;
            default:
                putValue(out, type, type.getNullValue());
        }
    }

    /** An array of objects as one of what they are: integers, floats or strings. */
    private static Object typed(Object[] values) {
        boolean floats = false;
        boolean texts = values.length > 0;
        for (Object value : values) {
            floats |= value instanceof Double || value instanceof Float;
            texts &= value == null || value instanceof String;
        }
        if (texts) {
            return java.util.Arrays.copyOf(values, values.length, String[].class);
        }
        Object typed = floats ? new double[values.length] : new long[values.length];
        for (int i = 0; i < values.length; i++) {
            if (!(values[i] instanceof Number) || values[i] instanceof BigDecimal) {
                throw new VoltTypeException("Unsupported type in an array of objects: "
                        + (values[i] == null ? "null" : values[i].getClass().getName()));
            }
            Number number = (Number) values[i];
            if (floats) {
                ((double[]) typed)[i] = number.doubleValue();
            } else {
                ((long[]) typed)[i] = number.longValue();
            }
        }
        return typed;
    }
}
