package org.voltdb;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.zip.CRC32;
import org.json_voltpatches.JSONException;
import org.json_voltpatches.JSONObject;
import org.json_voltpatches.JSONString;
import org.json_voltpatches.JSONStringer;
import org.lockstepdb.procedure.Bytes;

/**
 * A table of rows in the protocol's binary form, which is also the form in memory: a header with
 * the columns, a count and the rows. What statements return can only be read.
 */
public final class VoltTable extends VoltTableRow implements JSONString {
    /** Advised size of a table, in bytes. */
    public static final int MAX_SERIALIZED_TABLE_LENGTH = 10 * 1024 * 1024;
    public static final String MAX_SERIALIZED_TABLE_LENGTH_STR =
            MAX_SERIALIZED_TABLE_LENGTH / 1024 + "k";
    /** Longest table that can be built. */
    private static final int MAX_BYTES = 52_428_800;
    private static final byte DEFAULT_STATUS = Byte.MIN_VALUE;
    private static final int FIRST_CAPACITY = 256;

    /** The bytes that hold the table, between {@link #base} and {@link #end}. */
    byte[] data;
    /** Number of columns. */
    final int columns;
    private final int base;
    private int end;
    /** Where the row count stands. */
    private final int countAt;
    private final boolean readOnly;
    /** Made when a name is asked for. */
    private String[] names;

    /** A column's name and type. */
    public static class ColumnInfo implements Cloneable {
        final String name;
        final VoltType type;

        public ColumnInfo(String name, VoltType type) {
            this.name = name;
            this.type = type;
        }

        @Override
        public ColumnInfo clone() {
            return new ColumnInfo(name, type);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof ColumnInfo && ((ColumnInfo) other).name.equals(name)
                    && ((ColumnInfo) other).type == type;
        }

        @Override
        public int hashCode() {
            return name.hashCode() * 31 + type.hashCode();
        }

        @Override
        public String toString() {
            return "ColumnInfo{ name=" + name + ", type=" + type + " }";
        }
    }

    /** A cursor apart from the table's own. */
    static final class Row extends VoltTableRow {
        private final VoltTable table;

        Row(VoltTable table) {
            this.table = table;
        }

        @Override
        VoltTable table() {
            return table;
        }

        @Override
        public VoltType getColumnType(int column) {
            return table.getColumnType(column);
        }

        @Override
        public int getColumnIndex(String name) {
            return table.getColumnIndex(name);
        }

        @Override
        public int getColumnCount() {
            return table.columns;
        }

        @Override
        public VoltTableRow cloneRow() {
            Row row = new Row(table);
            row.place(activeRow, rowStart);
            return row;
        }

        @Override
        int rowCount() {
            return table.rowCount();
        }
    }

    /** A table of the engine in a part of an array: only read, nothing of it parsed yet. */
    VoltTable(byte[] data, int base, int end) {
        this(data, base, end, true);
    }

    private VoltTable(byte[] data, int base, int end, boolean readOnly) {
        this.data = data;
        this.base = base;
        this.end = end;
        this.readOnly = readOnly;
        countAt = base + 4 + Bytes.getInt(data, base);
        columns = Bytes.getShort(data, base + 5);
        if (columns < 1 || countAt < base + 7 + columns || countAt > end - 4) {
            throw new IllegalArgumentException("not a table: " + columns + " columns, a header of "
                    + (countAt - base - 4) + " bytes, " + (end - base) + " bytes in all");
        }
    }

    public VoltTable(ColumnInfo[] columns) {
        this(columns, columns.length);
    }

    public VoltTable(ColumnInfo first, ColumnInfo... rest) {
        this(joined(first, rest));
    }

    /** A table of the first {@code count} columns. */
    public VoltTable(ColumnInfo[] columns, int count) {
        this(header(columns, count), false);
    }

    private VoltTable(byte[] empty, boolean readOnly) {
        this(empty, 0, 8 + Bytes.getInt(empty, 0), readOnly);
    }

    private static ColumnInfo[] joined(ColumnInfo first, ColumnInfo[] rest) {
        ColumnInfo[] all = new ColumnInfo[rest.length + 1];
        all[0] = first;
        System.arraycopy(rest, 0, all, 1, rest.length);
        return all;
    }

    private static byte[] header(ColumnInfo[] columns, int count) {
        if (count < 1) {
            throw new RuntimeException(
                    "VoltTable(..) constructor requires at least one column.");
        }
        if (count > Short.MAX_VALUE) {
            throw new RuntimeException("VoltTable has " + count + " columns, the limit is "
                    + Short.MAX_VALUE);
        }
        int bytes = 3 + count;
        for (int i = 0; i < count; i++) {
            if (columns[i].name == null) {
                throw new IllegalArgumentException("VoltTable column names can not be null.");
            }
            bytes += 4 + columns[i].name.length();
        }
        byte[] data = new byte[Math.max(FIRST_CAPACITY, 2 * bytes)];
        Bytes.putInt(data, 0, bytes);
        data[4] = DEFAULT_STATUS;
        Bytes.putShort(data, 5, (short) count);
        int at = 7 + count;
        for (int i = 0; i < count; i++) {
            data[7 + i] = columns[i].type.getValue();
            byte[] name = columns[i].name.getBytes(StandardCharsets.US_ASCII);
            Bytes.putInt(data, at, name.length);
            System.arraycopy(name, 0, data, at + 4, name.length);
            at += 4 + name.length;
        }
        // The check of the constructor wants room for the count.
        return data;
    }

    /** A table that begins at a buffer's position with its header's length. */
    public static VoltTable getInstanceForTest(ByteBuffer buffer) {
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return new VoltTable(data, 0, data.length, true);
    }

    @Override
    VoltTable table() {
        return this;
    }

    @Override
    int rowCount() {
        return Bytes.getInt(data, countAt);
    }

    int firstRow() {
        return countAt + 4;
    }

    int headerBytes() {
        return countAt - base - 4;
    }

    byte typeCode(int column) {
        return data[base + 7 + column];
    }

    @Override
    public int getColumnCount() {
        return columns;
    }

    public int getRowCount() {
        return rowCount();
    }

    private String[] names() {
        if (names == null) {
            String[] found = new String[columns];
            int at = base + 7 + columns;
            for (int i = 0; i < columns; i++) {
                int length = Bytes.getInt(data, at);
                found[i] = new String(data, at + 4, length, StandardCharsets.UTF_8);
                at += 4 + length;
            }
            names = found;
        }
        return names;
    }

    public String getColumnName(int column) {
        if (column < 0 || column >= columns) {
            throw new IllegalArgumentException("Not a valid column index.");
        }
        return names()[column];
    }

    @Override
    public VoltType getColumnType(int column) {
        if (column < 0 || column >= columns) {
            throw new IllegalArgumentException("Not a valid column index: " + column);
        }
        return VoltType.get(typeCode(column));
    }

    @Override
    public int getColumnIndex(String name) {
        String[] all = names();
        for (int i = 0; i < all.length; i++) {
            if (all[i].equalsIgnoreCase(name)) {
                return i;
            }
        }
        StringBuilder message = new StringBuilder("No Column named '" + name
                + "'. Existing columns are:");
        for (int i = 0; i < all.length; i++) {
            message.append('[').append(i).append(']').append(all[i]).append(',');
        }
        throw new IllegalArgumentException(message.toString());
    }

    public ColumnInfo[] getTableSchema() {
        ColumnInfo[] schema = new ColumnInfo[columns];
        for (int i = 0; i < columns; i++) {
            schema[i] = new ColumnInfo(getColumnName(i), getColumnType(i));
        }
        return schema;
    }

    @Override
    public VoltTableRow cloneRow() {
        Row row = new Row(this);
        row.place(activeRow, rowStart);
        return row;
    }

    /** A cursor on a row, which can go on from there. */
    public VoltTableRow fetchRow(int index) {
        if (index < 0 || index >= rowCount()) {
            throw new IndexOutOfBoundsException("index = " + index + "; rows = " + rowCount());
        }
        Row row = new Row(this);
        row.advanceToRow(index);
        return row;
    }

    /** The single integer of the table; fails if there are more values. */
    public long asScalarLong() {
        if (rowCount() != 1) {
            throw new IllegalStateException("table must contain exactly 1 tuple; tuples = "
                    + rowCount());
        }
        if (columns != 1) {
            throw new IllegalStateException("table must contain exactly 1 column; columns = "
                    + columns);
        }
        if (!getColumnType(0).isAnyIntegerType()) {
            throw new IllegalStateException("table must contain exactly 1 integral value; column"
                    + " 1 is type = " + getColumnType(0));
        }
        return fetchRow(0).getLong(0);
    }

    public byte getStatusCode() {
        return data[base + 4];
    }

    public void setStatusCode(byte code) {
        data[base + 4] = code;
    }

    /** An empty table of the same columns, with so much more room. */
    public VoltTable clone(int extraBytes) {
        if (extraBytes < 0) {
            throw new IllegalArgumentException("extra bytes " + extraBytes + " < 0");
        }
        byte[] copy = new byte[firstRow() - base + Math.min(extraBytes, MAX_BYTES)];
        System.arraycopy(data, base, copy, 0, countAt - base);
        VoltTable table = new VoltTable(copy, false);
        table.setStatusCode(getStatusCode());
        return table;
    }

    private void mustBeWritable() {
        if (readOnly) {
            throw new IllegalStateException("table is read-only; columns = " + columns
                    + ", rows = " + rowCount());
        }
    }

    /** Drops all rows. */
    public void clearRowData() {
        mustBeWritable();
        // Rows that were fetched before keep the old bytes.
        data = Arrays.copyOf(data, data.length);
        end = firstRow();
        Bytes.putInt(data, countAt, 0);
        resetRowPosition();
    }

    /** Appends a row; integers are fitted, null and null values become NULL. */
    public void addRow(Object... values) {
        mustBeWritable();
        if (values.length != columns) {
            throw new IllegalArgumentException(values.length + " arguments but table has "
                    + columns + " columns");
        }
        RowWriter writer = new RowWriter(data, end);
        for (int i = 0; i < columns; i++) {
            writer.append(this, i, values[i]);
        }
        int length = writer.finish();
        data = writer.data();
        rowAdded(length);
    }

    private void rowAdded(int bytes) {
        if (end - base + bytes > MAX_BYTES) {
            throw new VoltOverflowException("Table is larger than allowed max " + MAX_BYTES
                    + " bytes");
        }
        end += bytes;
        Bytes.putInt(data, countAt, rowCount() + 1);
    }

    /** Appends a row of a table with as many columns, whose values fit. */
    public void add(VoltTableRow row) {
        mustBeWritable();
        VoltTable from = row.table();
        if (row.rowStart < 0 || !hasTypesOf(from)) {
            addRow(row.getRowObjects());
            return;
        }
        int length = 4 + Bytes.getInt(from.data, row.rowStart);
        byte[] source = from.data;
        int start = row.rowStart;
        reserve(length);
        System.arraycopy(source, start, data, end, length);
        rowAdded(length);
    }

    private void reserve(int bytes) {
        if (end - data.length + bytes > 0) {
            data = Arrays.copyOf(data, Math.max(end + bytes, 2 * data.length));
        }
    }

    private boolean hasTypesOf(VoltTable from) {
        boolean same = from.columns == columns;
        for (int i = 0; same && i < columns; i++) {
            same = from.typeCode(i) == typeCode(i);
        }
        return same;
    }

    private void mustHaveTypesOf(VoltTable from) {
        if (!hasTypesOf(from)) {
            throw new IllegalArgumentException("Could not merge table with schema "
                    + TableText.schema(from) + " into " + TableText.schema(this));
        }
    }

    /** Appends all rows of a table with the same column types. */
    public void addTable(VoltTable from) {
        mustBeWritable();
        mustHaveTypesOf(from);
        byte[] source = from.data;
        int bytes = from.end - from.firstRow();
        if (end - base + (long) bytes > MAX_BYTES) {
            throw new VoltOverflowException("Table is larger than allowed max " + MAX_BYTES
                    + " bytes");
        }
        int rows = from.rowCount();
        reserve(bytes);
        System.arraycopy(source, from.firstRow(), data, end, bytes);
        end += bytes;
        Bytes.putInt(data, countAt, rowCount() + rows);
    }

    /** Appends all rows of tables with the same column types. */
    public void addTables(Collection<VoltTable> tables) {
        for (VoltTable table : tables) {
            addTable(table);
        }
    }

    /** Appends all rows of a table that has more columns: those beyond ours are left out. */
    public void addTableWithExtraColumns(VoltTable from) {
        addValues(from, columns);
    }

    /** Appends all rows of a table that has fewer columns: the missing ones are NULL. */
    public void addTableWithLessColumns(VoltTable from) {
        addValues(from, from.columns);
    }

    private void addValues(VoltTable from, int taken) {
        Row row = new Row(from);
        while (row.advanceRow()) {
            Object[] values = new Object[columns];
            for (int i = 0; i < taken; i++) {
                Object value = row.get(i, getColumnType(i));
                values[i] = row.wasNull() ? null : value;
            }
            addRow(values);
        }
    }

    /** Bytes of the wire form, with its length. */
    public int getSerializedSize() {
        return 4 + end - base;
    }

    /** Writes the wire form, with its length. */
    public void flattenToBuffer(ByteBuffer buffer) {
        buffer.putInt(end - base);
        buffer.put(data, base, end - base);
    }

    /** The wire form without its length, to be read. */
    public ByteBuffer getBuffer() {
        return ByteBuffer.wrap(data, base, end - base).slice().asReadOnlyBuffer();
    }

    /** Nothing to do: tables live in the heap. */
    public void convertToHeapBuffer() {}

    /** A copy of the wire form without its length. */
    public byte[] buildReusableDependenyResult() {
        return Arrays.copyOfRange(data, base, end);
    }

    /** Whether types and rows, in their order, are the same. */
    public boolean hasSameContents(VoltTable other) {
        return hasSameContents(other, false);
    }

    /** Whether types and rows are the same, in any order if asked so. */
    public boolean hasSameContents(VoltTable other, boolean ignoreOrder) {
        if (other == this) {
            return true;
        }
        if (other == null || !hasTypesOf(other) || other.rowCount() != rowCount()) {
            return false;
        }
        if (!ignoreOrder) {
            return Arrays.equals(data, firstRow(), end, other.data, other.firstRow(), other.end);
        }
        return Arrays.deepEquals(sortedRows(), other.sortedRows());
    }

    private byte[][] sortedRows() {
        byte[][] rows = new byte[rowCount()][];
        int at = firstRow();
        for (int i = 0; i < rows.length; i++) {
            int length = Bytes.getInt(data, at);
            rows[i] = Arrays.copyOfRange(data, at + 4, at + 4 + length);
            at += 4 + length;
        }
        Arrays.sort(rows, Arrays::compareUnsigned);
        return rows;
    }

    /** A checksum of the rows, which does not depend on their order, and of the header. */
    public long getTableCheckSum(boolean includeHeader) {
        CRC32 sum = new CRC32();
        if (includeHeader) {
            sum.update(data, base, countAt - base);
        }
        for (byte[] row : sortedRows()) {
            sum.update(row, 0, row.length);
        }
        return sum.getValue();
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof VoltTable)) {
            return false;
        }
        VoltTable table = (VoltTable) other;
        return Arrays.equals(data, base, end, table.data, table.base, table.end);
    }

    /** Tables change, so they have none. */
    @Override
    public int hashCode() {
        throw new UnsupportedOperationException("a table has no hash code: it can change");
    }

    /** All of the table, a line a row. */
    @Override
    public String toString() {
        return TableText.plain(this);
    }

    /** The table in columns, under their names. */
    public String toFormattedString() {
        return toFormattedString(true);
    }

    /** The table in columns. */
    public String toFormattedString(boolean includeColumnNames) {
        return TableText.formatted(this, includeColumnNames);
    }

    /** A binary value as {@link #toString} shows it: its checksum and its beginning. */
    public static String varbinaryToPrintableString(byte[] value) {
        return TableText.binary(value);
    }

    @Override
    public String toJSONString() {
        return TableJson.write(this);
    }

    /** Adds the table as a value. */
    public JSONStringer toJSONStringerV2(JSONStringer stringer) throws JSONException {
        stringer.value(new JSONObject(toJSONString()));
        return stringer;
    }

    /** The table that {@link #toJSONString} wrote. */
    public static VoltTable fromJSONString(String json)
            throws JSONException, java.io.IOException {
        return fromJSONObject(new JSONObject(json));
    }

    /** The table that {@link #toJSONString} wrote. */
    public static VoltTable fromJSONObject(JSONObject json)
            throws JSONException, java.io.IOException {
        try {
            return TableJson.read(json);
        } catch (BufferUnderflowException e) {
            throw new JSONException("a value's bytes are cut off: " + e.getMessage());
        }
    }
}
