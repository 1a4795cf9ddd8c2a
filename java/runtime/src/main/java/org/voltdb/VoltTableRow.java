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

/**
 * A cursor on the rows of a table. Values are read from the table's bytes where they lie; the
 * place of the column that was read last is remembered, so reading columns in order walks over a
 * row once.
 */
public abstract class VoltTableRow {
    /** Longest row, in bytes. */
    public static final int MAX_TUPLE_LENGTH = 2 * 1024 * 1024;
    public static final String MAX_TUPLE_LENGTH_STR = MAX_TUPLE_LENGTH / 1024 + "k";

    private static final byte TINYINT = 3;
    private static final byte SMALLINT = 4;
    private static final byte INTEGER = 5;
    private static final byte BIGINT = 6;
    private static final byte FLOAT = 8;
    private static final byte STRING = 9;
    private static final byte TIMESTAMP = 11;
    private static final byte DECIMAL = 22;
    private static final byte BOOLEAN = 23;
    private static final byte VARBINARY = 25;
    private static final byte POINT = 26;
    private static final byte GEOGRAPHY = 27;

    /** Where the active row begins, at its length; -1 before the first row. */
    int rowStart = -1;
    int activeRow = -1;
    private boolean wasNull;
    /** A column of the active row and the place of its value. */
    private int knownColumn;
    private int knownPlace;

    VoltTableRow() {}

    /** The table that the row is in. */
    abstract VoltTable table();

    /** The type of a column, from 0. */
    public abstract VoltType getColumnType(int column);

    /** The place of a column, whose name may be in any case. */
    public abstract int getColumnIndex(String name);

    public abstract int getColumnCount();

    /** A cursor of its own on the same row. */
    public abstract VoltTableRow cloneRow();

    abstract int rowCount();

    /** Goes before the first row. */
    public void resetRowPosition() {
        activeRow = -1;
        rowStart = -1;
        knownColumn = 0;
    }

    /** The place of the active row, -1 before the first. */
    public int getActiveRowIndex() {
        return activeRow;
    }

    /** Goes to the next row, if there is one. */
    public boolean advanceRow() {
        return advanceToRow(activeRow + 1);
    }

    /**
     * Goes forward to a row. Past the last, or back, it stays where it is and says false;
     * {@link #getActiveRowIndex} then tells how far past.
     */
    public boolean advanceToRow(int row) {
        VoltTable table = table();
        int rows = table.rowCount();
        if (row >= rows) {
            activeRow = row;
            return false;
        }
        if (row < 0 || row < activeRow) {
            return false;
        }
        int at = rowStart < 0 ? table.firstRow() : rowStart;
        for (int i = Math.max(activeRow, 0); i < row; i++) {
            at += 4 + Bytes.getInt(table.data, at);
        }
        place(row, at);
        return true;
    }

    final void place(int row, int start) {
        activeRow = row;
        rowStart = start;
        knownColumn = 0;
        knownPlace = start + 4;
    }

    /** The place of a column's value in the table's bytes. */
    private int place(VoltTable table, int column) {
        if (rowStart < 0) {
            throw new RuntimeException("VoltTableRow.advanceRow() must be called to advance to"
                    + " the first row before any access.");
        }
        if (column < 0) {
            throw new IndexOutOfBoundsException("Column index " + column + " is negative");
        }
        if (column >= table.columns) {
            throw new IndexOutOfBoundsException("Column index " + column
                    + " is beyond number of columns " + table.columns);
        }
        int at = knownPlace;
        int i = knownColumn;
        if (column < i) {
            i = 0;
            at = rowStart + 4;
        }
        while (i < column) {
            at += width(table, i, at);
            i++;
        }
        knownColumn = column;
        knownPlace = at;
        return at;
    }

    private static int width(VoltTable table, int column, int at) {
        switch (table.typeCode(column)) {
            case TINYINT:
            case BOOLEAN:
                return 1;
            case SMALLINT:
                return 2;
            case INTEGER:
                return 4;
            case BIGINT:
            case FLOAT:
            case TIMESTAMP:
                return 8;
            case DECIMAL:
            case POINT:
                return 16;
            case STRING:
            case VARBINARY:
            case GEOGRAPHY:
                return 4 + Math.max(Bytes.getInt(table.data, at), 0);
            default:
                throw new RuntimeException("Unknown type code " + table.typeCode(column)
                        + " of column " + column);
        }
    }

    /** How far a column's value lies behind the row's length field. */
    public final int getOffset(int column) {
        return place(table(), column) - rowStart - 4;
    }

    /** Whether the value read last was NULL. */
    public final boolean wasNull() {
        return wasNull;
    }

    private static IllegalArgumentException wrongType(VoltTable table, int column) {
        return new IllegalArgumentException("Column index " + column + " is type "
                + table.getColumnType(column));
    }

    /** An integer of any width; NULL is the least value of the column's type. */
    public final long getLong(int column) {
        VoltTable table = table();
        int at = place(table, column);
        long value;
        switch (table.typeCode(column)) {
            case BIGINT:
                value = Bytes.getLong(table.data, at);
                wasNull = value == VoltType.NULL_BIGINT;
                return value;
            case INTEGER:
                value = Bytes.getInt(table.data, at);
                wasNull = value == VoltType.NULL_INTEGER;
                return value;
            case SMALLINT:
                value = Bytes.getShort(table.data, at);
                wasNull = value == VoltType.NULL_SMALLINT;
                return value;
            case TINYINT:
                value = table.data[at];
                wasNull = value == VoltType.NULL_TINYINT;
                return value;
            default:
                throw new IllegalArgumentException("getLong() called on non-integral column.");
        }
    }

    public final long getLong(String column) {
        return getLong(getColumnIndex(column));
    }

    /** A FLOAT; NULL is {@link VoltType#NULL_FLOAT}. */
    public final double getDouble(int column) {
        VoltTable table = table();
        int at = place(table, column);
        expect(table, column, FLOAT);
        double value = Bytes.getDouble(table.data, at);
        wasNull = value <= VoltType.NULL_FLOAT;
        return value;
    }

    public final double getDouble(String column) {
        return getDouble(getColumnIndex(column));
    }

    private void expect(VoltTable table, int column, byte type) {
        if (table.typeCode(column) != type) {
            throw wrongType(table, column);
        }
    }

    /** A string, null for NULL. */
    public final String getString(int column) {
        VoltTable table = table();
        int at = place(table, column);
        expect(table, column, STRING);
        int length = Bytes.getInt(table.data, at);
        wasNull = length < 0;
        return wasNull ? null
                : new String(table.data, at + 4, length, StandardCharsets.UTF_8);
    }

    public final String getString(String column) {
        return getString(getColumnIndex(column));
    }

    /** A string's bytes, null for NULL. */
    public final byte[] getStringAsBytes(int column) {
        VoltTable table = table();
        int at = place(table, column);
        expect(table, column, STRING);
        return bytes(table, at);
    }

    public final byte[] getStringAsBytes(String column) {
        return getStringAsBytes(getColumnIndex(column));
    }

    private byte[] bytes(VoltTable table, int at) {
        int length = Bytes.getInt(table.data, at);
        wasNull = length < 0;
        if (wasNull) {
            return null;
        }
        byte[] value = new byte[length];
        System.arraycopy(table.data, at + 4, value, 0, length);
        return value;
    }

    /** The bytes of a binary value or of a polygon; null for NULL. */
    public final byte[] getVarbinary(int column) {
        VoltTable table = table();
        int at = place(table, column);
        expectVariable(table, column);
        return bytes(table, at);
    }

    private void expectVariable(VoltTable table, int column) {
        byte type = table.typeCode(column);
        if (type != VARBINARY && type != GEOGRAPHY) {
            throw wrongType(table, column);
        }
    }

    public final byte[] getVarbinary(String column) {
        return getVarbinary(getColumnIndex(column));
    }

    /** Length of a binary value in bytes, -1 for NULL. */
    public final int getVarbinaryLen(int column) {
        VoltTable table = table();
        int at = place(table, column);
        expectVariable(table, column);
        int length = Bytes.getInt(table.data, at);
        wasNull = length < 0;
        return length;
    }

    /** A timestamp's microseconds; NULL is the least long. */
    public final long getTimestampAsLong(int column) {
        VoltTable table = table();
        int at = place(table, column);
        expect(table, column, TIMESTAMP);
        long value = Bytes.getLong(table.data, at);
        wasNull = value == VoltType.NULL_BIGINT;
        return value;
    }

    public final long getTimestampAsLong(String column) {
        return getTimestampAsLong(getColumnIndex(column));
    }

    /** A timestamp, null for NULL. */
    public final TimestampType getTimestampAsTimestamp(int column) {
        long value = getTimestampAsLong(column);
        return wasNull ? null : new TimestampType(value);
    }

    public final TimestampType getTimestampAsTimestamp(String column) {
        return getTimestampAsTimestamp(getColumnIndex(column));
    }

    /** A timestamp, null for NULL. */
    public final java.sql.Timestamp getTimestampAsSqlTimestamp(int column) {
        TimestampType value = getTimestampAsTimestamp(column);
        return value == null ? null : value.asJavaTimestamp();
    }

    public java.sql.Timestamp getTimestampAsSqlTimestamp(String column) {
        return getTimestampAsSqlTimestamp(getColumnIndex(column));
    }

    /** A decimal with twelve digits behind the point, null for NULL. */
    public final BigDecimal getDecimalAsBigDecimal(int column) {
        VoltTable table = table();
        int at = place(table, column);
        expect(table, column, DECIMAL);
        BigDecimal value = Decimals.read(table.data, at);
        wasNull = value == null;
        return value;
    }

    public BigDecimal getDecimalAsBigDecimal(String column) {
        return getDecimalAsBigDecimal(getColumnIndex(column));
    }

    /** A point, null for NULL. */
    public final GeographyPointValue getGeographyPointValue(int column) {
        VoltTable table = table();
        int at = place(table, column);
        expect(table, column, POINT);
        GeographyPointValue value =
                GeographyPointValue.unflattenFromBuffer(ByteBuffer.wrap(table.data), at);
        wasNull = value == null;
        return value;
    }

    public final GeographyPointValue getGeographyPointValue(String column) {
        return getGeographyPointValue(getColumnIndex(column));
    }

    /** A polygon, null for NULL. */
    public final GeographyValue getGeographyValue(int column) {
        VoltTable table = table();
        int at = place(table, column);
        expect(table, column, GEOGRAPHY);
        byte[] value = bytes(table, at);
        return value == null ? null : GeographyValue.unflattenFromBuffer(ByteBuffer.wrap(value));
    }

    public final GeographyValue getGeographyValue(String column) {
        return getGeographyValue(getColumnIndex(column));
    }

    /**
     * A value as an object. NULL is the null value of integers and FLOAT, and null of other types;
     * integers are read as any integer type.
     */
    public final Object get(int column, VoltType type) {
        switch (type) {
            case TINYINT:
                return (byte) getLong(column);
            case SMALLINT:
                return (short) getLong(column);
            case INTEGER:
                return (int) getLong(column);
            case BIGINT:
                return getLong(column);
            case FLOAT:
                return getDouble(column);
            case STRING:
                return getString(column);
            case VARBINARY:
                return getVarbinary(column);
            case TIMESTAMP:
                return getTimestampAsTimestamp(column);
            case DECIMAL:
                return getDecimalAsBigDecimal(column);
            case GEOGRAPHY_POINT:
                return getGeographyPointValue(column);
            case GEOGRAPHY:
                return getGeographyValue(column);
            case BOOLEAN:
                return getBoolean(column);
            default:
                throw new IllegalArgumentException("Invalid type '" + type + "'");
        }
    }

    private Boolean getBoolean(int column) {
        VoltTable table = table();
        int at = place(table, column);
        expect(table, column, BOOLEAN);
        byte value = table.data[at];
        wasNull = value != 0 && value != 1;
        return wasNull ? null : (Boolean) (value == 1);
    }

    public final Object get(String column, VoltType type) {
        return get(getColumnIndex(column), type);
    }

    /** A value as an object of its column's type; null for NULL. */
    public final Object get(int column) {
        return get(column, getColumnType(column));
    }

    /** All values of the row. */
    public final Object[] getRowObjects() {
        Object[] values = new Object[getColumnCount()];
        for (int i = 0; i < values.length; i++) {
            values[i] = get(i);
        }
        return values;
    }

    /** A copy of the bytes of the row, with its length. */
    public final ByteBuffer getRawRow() {
        VoltTable table = table();
        place(table, 0);
        int end = rowStart + 4 + Bytes.getInt(table.data, rowStart);
        return ByteBuffer.wrap(Arrays.copyOfRange(table.data, rowStart, end));
    }

    /** The row as a line of text: values divided by commas. */
    public String getRow() {
        return TableText.row(this);
    }
}
