package org.voltdb;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.lockstepdb.procedure.Bytes;
import org.lockstepdb.procedure.Decimals;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** Writes one row behind the others of a table. A row that fails leaves the table as it was. */
final class RowWriter {
    private byte[] data;
    private final int start;
    private int at;

    RowWriter(byte[] data, int end) {
        this.data = data;
        start = end;
        at = end;
        room(4);
        at += 4;
    }

    byte[] data() {
        return data;
    }

    /** Writes the row's length; its bytes with it. */
    int finish() {
        int length = at - start - 4;
        if (length > VoltTableRow.MAX_TUPLE_LENGTH) {
            throw new VoltOverflowException("Table row total length larger than allowed max "
                    + VoltTableRow.MAX_TUPLE_LENGTH_STR);
        }
        Bytes.putInt(data, start, length);
        return at - start;
    }

    private void room(int bytes) {
        if (data.length - at < bytes) {
            data = Arrays.copyOf(data, Math.max(at + bytes, 2 * data.length));
        }
    }

    void append(VoltTable table, int column, Object value) {
        byte code = table.typeCode(column);
        room(16);
        // The commonest values first, each without a detour.
        if (value instanceof Long && code == 6) {
            Bytes.putLong(data, at, (Long) value);
            at += 8;
            return;
        }
        if (value instanceof String && code == 9) {
            variable(((String) value).getBytes(StandardCharsets.UTF_8));
            return;
        }
        VoltType type = VoltType.get(code);
        if (VoltType.isVoltNullValue(value)) {
            appendNull(type);
            return;
        }
        VoltType given = VoltType.typeFromObject(value);
        if (given == VoltType.BOOLEAN && type != VoltType.BOOLEAN) {
            throw new VoltTypeException("Unsupported type: " + given);
        }
        if (!appendValue(type, value)) {
            throw new VoltTypeException("Value for column " + column + " ("
                    + table.getColumnName(column) + ") is type " + value.getClass().getSimpleName()
                    + " when type " + type + " was expected.");
        }
    }

    private void appendNull(VoltType type) {
        switch (type) {
            case TINYINT:
            case BOOLEAN:
                data[at++] = VoltType.NULL_TINYINT;
                break;
            case SMALLINT:
                Bytes.putShort(data, at, VoltType.NULL_SMALLINT);
                at += 2;
                break;
            case INTEGER:
                Bytes.putInt(data, at, VoltType.NULL_INTEGER);
                at += 4;
                break;
            case BIGINT:
            case TIMESTAMP:
                Bytes.putLong(data, at, VoltType.NULL_BIGINT);
                at += 8;
                break;
            case FLOAT:
                Bytes.putLong(data, at, Double.doubleToRawLongBits(VoltType.NULL_FLOAT));
                at += 8;
                break;
            case DECIMAL:
                fixed(Decimals.bytes(null));
                break;
            case STRING:
            case VARBINARY:
            case GEOGRAPHY:
                Bytes.putInt(data, at, VoltType.NULL_STRING_LENGTH);
                at += 4;
                break;
            case GEOGRAPHY_POINT:
                GeographyPointValue.serializeNull(ByteBuffer.wrap(data, at, 16));
                at += 16;
                break;
            default:
                throw new VoltTypeException("Unsupported type: " + type);
        }
    }

    /** Writes a value that is not NULL; false if it does not fit the type. */
    private boolean appendValue(VoltType type, Object value) {
        switch (type) {
            case TINYINT:
            case SMALLINT:
            case INTEGER:
            case BIGINT:
                return !(value instanceof BigDecimal) && value instanceof Number
                        && appendInteger(type, (Number) value);
            case FLOAT:
                if (!(value instanceof Number) || value instanceof BigDecimal) {
                    return false;
                }
                double number = ((Number) value).doubleValue();
                Bytes.putLong(data, at, Double.doubleToRawLongBits(number));
                at += 8;
                return true;
            case TIMESTAMP:
                return appendTimestamp(value);
            case DECIMAL:
                if (!(value instanceof BigDecimal)) {
                    return false;
                }
                fixed(Decimals.bytes((BigDecimal) value));
                return true;
            case STRING:
                if (value instanceof byte[]) {
                    variable((byte[]) value);
                    return true;
                }
                return false;
            case VARBINARY:
                return appendBinary(value);
            case BOOLEAN:
                if (!(value instanceof Boolean)) {
                    return false;
                }
                data[at++] = (byte) ((Boolean) value ? 1 : 0);
                return true;
            default:
                return appendGeography(type, value);
        }
    }

    private boolean appendInteger(VoltType type, Number value) {
        long number = value.longValue();
        int bits = 8 * type.getLengthInBytesForFixedTypes();
        if (bits < 64 && (number >= 1L << (bits - 1) || number <= -(1L << (bits - 1)))) {
            throw new VoltTypeException("Cast of " + value.doubleValue() + " to " + type
                    + " would overflow");
        }
        switch (type) {
            case TINYINT:
                data[at++] = (byte) number;
                return true;
            case SMALLINT:
                Bytes.putShort(data, at, (short) number);
                at += 2;
                return true;
            case INTEGER:
                Bytes.putInt(data, at, (int) number);
                at += 4;
                return true;
            default:
                Bytes.putLong(data, at, number);
                at += 8;
                return true;
        }
    }

    private boolean appendTimestamp(Object value) {
        long micros;
        if (value instanceof TimestampType) {
            micros = ((TimestampType) value).getTime();
        } else if (value instanceof java.util.Date) {
            micros = new TimestampType((java.util.Date) value).getTime();
        } else if (value instanceof Number && !(value instanceof BigDecimal)) {
            micros = ((Number) value).longValue();
        } else {
            return false;
        }
        Bytes.putLong(data, at, micros);
        at += 8;
        return true;
    }

    private boolean appendBinary(Object value) {
        if (value instanceof byte[]) {
            variable((byte[]) value);
        } else if (value instanceof String) {
            variable(Bytes.unhex((String) value));
        } else if (value instanceof Byte[]) {
            Byte[] boxed = (Byte[]) value;
            byte[] bytes = new byte[boxed.length];
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = boxed[i];
            }
            variable(bytes);
        } else if (value instanceof ByteBuffer) {
            ByteBuffer rest = ((ByteBuffer) value).duplicate();
            byte[] bytes = new byte[rest.remaining()];
            rest.get(bytes);
            variable(bytes);
        } else {
            return false;
        }
        return true;
    }

    private boolean appendGeography(VoltType type, Object value) {
        if (type == VoltType.GEOGRAPHY_POINT && value instanceof GeographyPointValue) {
            ((GeographyPointValue) value).flattenToBuffer(ByteBuffer.wrap(data, at, 16));
            at += 16;
            return true;
        }
        if (type == VoltType.GEOGRAPHY && value instanceof GeographyValue) {
            GeographyValue polygon = (GeographyValue) value;
            ByteBuffer bytes = ByteBuffer.allocate(polygon.getLengthInBytes());
            polygon.flattenToBuffer(bytes);
            variable(bytes.array());
            return true;
        }
        return false;
    }

    private void fixed(byte[] value) {
        room(value.length);
        System.arraycopy(value, 0, data, at, value.length);
        at += value.length;
    }

    private void variable(byte[] value) {
        if (value.length > VoltType.MAX_VALUE_LENGTH) {
            throw new VoltOverflowException("Value in VoltTable.addRow(...) larger than allowed"
                    + " max " + VoltType.humanReadableSize(VoltType.MAX_VALUE_LENGTH));
        }
        room(4 + value.length);
        Bytes.putInt(data, at, value.length);
        System.arraycopy(value, 0, data, at + 4, value.length);
        at += 4 + value.length;
    }
}
