package org.voltdb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.json_voltpatches.JSONObject;
import org.json_voltpatches.JSONStringer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.voltdb.VoltTable.ColumnInfo;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** Tables: the wire form, reading, building and texts, as VoltDB's clients know them. */
class TableTest {
    private static final String TRIANGLE = "POLYGON ((0.0 0.0, 1.0 0.0, 0.0 1.0, 0.0 0.0))";

    private static VoltTable two() {
        VoltTable table = new VoltTable(new ColumnInfo("ID", VoltType.INTEGER),
                new ColumnInfo("NAME", VoltType.STRING));
        table.addRow(1, "ab");
        table.addRow(null, null);
        return table;
    }

    private static VoltTable all() {
        VoltTable table = new VoltTable(new ColumnInfo("ID", VoltType.INTEGER),
                new ColumnInfo("NAME", VoltType.STRING), new ColumnInfo("F", VoltType.FLOAT),
                new ColumnInfo("D", VoltType.DECIMAL), new ColumnInfo("TS", VoltType.TIMESTAMP),
                new ColumnInfo("B", VoltType.VARBINARY),
                new ColumnInfo("P", VoltType.GEOGRAPHY_POINT),
                new ColumnInfo("G", VoltType.GEOGRAPHY), new ColumnInfo("TI", VoltType.TINYINT));
        table.addRow(1, "ab", 1.5, new BigDecimal("12.5"), new TimestampType(1234567L),
                new byte[] {1, 2}, new GeographyPointValue(-71.25, 42.5),
                new GeographyValue(TRIANGLE), (byte) 3);
        table.addRow(null, null, null, null, null, null, null, null, null);
        return table;
    }

    private static String hex(VoltTable table) {
        ByteBuffer bytes = ByteBuffer.allocate(table.getSerializedSize());
        table.flattenToBuffer(bytes);
        assertFalse(bytes.hasRemaining());
        return HexFormat.of().formatHex(bytes.array());
    }

    @Test
    void wireForm() {
        assertEquals("00000035" + "00000013" + "8000020509" + "000000024944" + "000000044e414d45"
                + "00000002" + "0000000a0000000100000002" + "6162" + "0000000880000000ffffffff",
                hex(two()));
        VoltTable numbers = new VoltTable(new ColumnInfo[] {new ColumnInfo("a", VoltType.TINYINT),
            new ColumnInfo("b", VoltType.SMALLINT), new ColumnInfo("c", VoltType.FLOAT),
            new ColumnInfo("d", VoltType.TIMESTAMP), new ColumnInfo("e", VoltType.DECIMAL),
            new ColumnInfo("f", VoltType.VARBINARY),
            new ColumnInfo("g", VoltType.GEOGRAPHY_POINT), new ColumnInfo("x", VoltType.NULL)}, 7);
        numbers.addRow(1, 2, 1.5, new TimestampType("2000-01-01 00:00:00.123456"),
                new BigDecimal("123.45"), "0a0b", new GeographyPointValue(-71.25, 42.5));
        numbers.addRow(new Object[7]);
        String wire = hex(numbers);
        assertTrue(wire.endsWith("00000039" + "01" + "0002" + "3ff8000000000000"
                + "00035d013b39c240" + "0000000000000000" + "00007046f165c400" + "000000020a0b"
                + "c051d00000000000" + "4045400000000000"
                + "00000037" + "80" + "8000" + "ffee42d130773b76" + "8000000000000000"
                + "8000000000000000" + "0000000000000000" + "ffffffff" + "4076800000000000"
                + "4076800000000000"), wire);
        VoltTable polygon = new VoltTable(new ColumnInfo("g", VoltType.GEOGRAPHY));
        polygon.addRow(new GeographyValue("POLYGON((0 0,1 0,0 1,0 0))"));
        assertTrue(hex(polygon).contains("0000009b" + "00010000000001000000000" + "3"
                + "3ff0000000000000"), hex(polygon));
    }

    /** What is read is what was written, also from a part of somebody else's buffer. */
    @Test
    void readingEveryType() {
        VoltTable built = all();
        VoltTable table = VoltTable.getInstanceForTest(built.getBuffer());
        assertEquals(2, table.getRowCount());
        assertTrue(table.advanceRow());
        assertEquals(1, table.getLong("id"));
        assertEquals("ab", table.getString(1));
        assertArrayEquals(new byte[] {97, 98}, table.getStringAsBytes("NAME"));
        assertEquals(1.5, table.getDouble("f"));
        assertEquals(new BigDecimal("12.500000000000"), table.getDecimalAsBigDecimal("D"));
        assertEquals(1234567, table.getTimestampAsLong("TS"));
        assertEquals(new TimestampType(1234567), table.getTimestampAsTimestamp(4));
        assertEquals(234_567_000, table.getTimestampAsSqlTimestamp("TS").getNanos());
        assertArrayEquals(new byte[] {1, 2}, table.getVarbinary("B"));
        assertEquals(2, table.getVarbinaryLen(5));
        assertEquals(new GeographyPointValue(-71.25, 42.5), table.getGeographyPointValue("P"));
        assertEquals(TRIANGLE, table.getGeographyValue("G").toWKT());
        assertEquals(3, table.getLong(8));
        // Back again, out of order.
        assertEquals("ab", table.getString("name"));
        assertEquals(3, table.getLong("ti"));
        assertFalse(table.wasNull());
        Object[] row = table.getRowObjects();
        assertEquals(List.of(1, "ab", 1.5), List.of(row).subList(0, 3));
        assertEquals((byte) 3, row[8]);
        assertEquals(1.5, table.get(2, VoltType.FLOAT));
        assertEquals(1L, table.get("id", VoltType.BIGINT));
        assertTrue(table.advanceRow());
        readingNulls(table);
        assertFalse(table.advanceRow());
        table.resetRowPosition();
        assertEquals(-1, table.getActiveRowIndex());
        assertTrue(table.advanceToRow(1));
        assertEquals(Integer.MIN_VALUE, table.getLong(0));
    }

    private static void readingNulls(VoltTable table) {
        assertEquals(Integer.MIN_VALUE, table.getLong(0));
        assertTrue(table.wasNull());
        assertNull(table.getString(1));
        assertTrue(table.wasNull());
        assertEquals(VoltType.NULL_FLOAT, table.getDouble(2));
        assertNull(table.getDecimalAsBigDecimal(3));
        assertEquals(Long.MIN_VALUE, table.getTimestampAsLong(4));
        assertNull(table.getTimestampAsTimestamp(4));
        assertNull(table.getTimestampAsSqlTimestamp(4));
        assertNull(table.getVarbinary(5));
        assertEquals(-1, table.getVarbinaryLen(5));
        assertNull(table.getGeographyPointValue(6));
        assertNull(table.getGeographyValue(7));
        assertEquals(-128, table.getLong(8));
        assertTrue(table.wasNull());
    }

    @Test
    void misuseOfReaders() {
        VoltTable table = two();
        RuntimeException early = assertThrows(RuntimeException.class, () -> table.getLong(0));
        assertTrue(early.getMessage().startsWith("VoltTableRow.advanceRow() must be called"));
        table.advanceRow();
        assertThrows(IndexOutOfBoundsException.class, () -> table.getLong(2));
        assertThrows(IndexOutOfBoundsException.class, () -> table.getLong(-1));
        assertThrows(IllegalArgumentException.class, () -> table.getLong(1));
        assertThrows(IllegalArgumentException.class, () -> table.getString(0));
        assertThrows(IllegalArgumentException.class, () -> table.getDouble(0));
        assertEquals("No Column named 'zz'. Existing columns are:[0]ID,[1]NAME,",
                assertThrows(IllegalArgumentException.class, () -> table.getLong("zz"))
                        .getMessage());
        assertThrows(IllegalArgumentException.class, () -> table.getColumnName(2));
        assertThrows(IndexOutOfBoundsException.class, () -> table.fetchRow(2));
    }

    @Test
    void cursorsOfTheirOwn() {
        VoltTable table = two();
        VoltTableRow row = table.fetchRow(0);
        assertEquals(0, row.getActiveRowIndex());
        VoltTableRow copy = row.cloneRow();
        assertTrue(row.advanceRow());
        assertEquals(1, copy.getLong(0));
        assertTrue(row.get(0, VoltType.INTEGER).equals(Integer.MIN_VALUE) && row.wasNull());
        assertEquals(-1, table.getActiveRowIndex());
        assertEquals("1,ab\n", copy.getRow());
        assertEquals(14, copy.getRawRow().remaining());
        assertEquals(4, copy.getOffset(1));
    }

    @ParameterizedTest
    @CsvSource({"TINYINT,127", "SMALLINT,32767", "INTEGER,2147483647"})
    void integersMustFit(VoltType type, long most) {
        VoltTable table = new VoltTable(new ColumnInfo("A", type));
        table.addRow(most);
        table.addRow(-most);
        for (long wrong : new long[] {most + 1, -most - 1, -most - 2}) {
            if (!VoltType.isVoltNullValue(wrong)) {
                String message = assertThrows(VoltTypeException.class, () -> table.addRow(wrong))
                        .getMessage();
                assertTrue(message.endsWith("to " + type + " would overflow"), message);
            }
        }
        assertEquals(2, table.getRowCount());
    }

    @Test
    void limitsOfRows() {
        VoltTable table = two();
        assertEquals("1 arguments but table has 2 columns", assertThrows(
                IllegalArgumentException.class, () -> table.addRow(1)).getMessage());
        String large = "x".repeat(1 << 20);
        assertEquals("Value in VoltTable.addRow(...) larger than allowed max 1024K",
                assertThrows(VoltOverflowException.class, () -> table.addRow(1, large + "x"))
                        .getMessage());
        VoltTable wide = new VoltTable(new ColumnInfo("A", VoltType.STRING),
                new ColumnInfo("B", VoltType.STRING));
        wide.addRow(large, large.substring(8));
        assertEquals("Table row total length larger than allowed max 2048k", assertThrows(
                VoltOverflowException.class, () -> wide.addRow(large, large)).getMessage());
        assertEquals(1, wide.getRowCount());
        assertEquals(2, table.getRowCount());
        VoltTable read = VoltTable.getInstanceForTest(table.getBuffer());
        assertThrows(IllegalStateException.class, () -> read.addRow(1, "a"));
        assertThrows(IllegalStateException.class, read::clearRowData);
        assertThrows(VoltTypeException.class,
                () -> table.addRow(new BigDecimal(1), "a"));
        assertThrows(RuntimeException.class, () -> new VoltTable(new ColumnInfo[0]));
    }

    @Test
    void joiningTables() {
        VoltTable table = two();
        table.add(table.fetchRow(0));
        table.addTable(two());
        table.addTables(List.of(two(), two()));
        assertEquals(9, table.getRowCount());
        VoltTable wider = new VoltTable(new ColumnInfo("ID", VoltType.BIGINT),
                new ColumnInfo("NAME", VoltType.STRING));
        wider.add(two().fetchRow(0));
        assertEquals(1, wider.fetchRow(0).getLong(0));
        assertThrows(IllegalArgumentException.class, () -> wider.addTable(table));
        VoltTable three = new VoltTable(new ColumnInfo("ID", VoltType.INTEGER),
                new ColumnInfo("NAME", VoltType.STRING), new ColumnInfo("C", VoltType.BIGINT));
        three.addTableWithLessColumns(two());
        assertNull(three.fetchRow(1).getString(1));
        VoltTable narrow = two();
        narrow.addTableWithExtraColumns(three);
        assertTrue(narrow.fetchRow(2).getString(1).equals("ab"));
        VoltTable empty = table.clone(100);
        assertEquals(0, empty.getRowCount());
        assertArrayEquals(table.getTableSchema(), empty.getTableSchema());
        VoltTableRow kept = narrow.fetchRow(0);
        narrow.clearRowData();
        assertEquals(0, narrow.getRowCount());
        narrow.addRow(9, "new");
        assertEquals(9, narrow.fetchRow(0).getLong(0));
        assertEquals(0, kept.getActiveRowIndex());
    }

    @Test
    void comparingTables() {
        VoltTable a = two();
        VoltTable b = a.clone(0);
        b.add(a.fetchRow(1));
        b.add(a.fetchRow(0));
        assertFalse(a.hasSameContents(b));
        assertTrue(a.hasSameContents(b, true));
        assertEquals(a.getTableCheckSum(true), b.getTableCheckSum(true));
        assertNotEquals(a.getTableCheckSum(true), a.getTableCheckSum(false));
        assertEquals(a, two());
        assertNotEquals(a, b);
        assertThrows(UnsupportedOperationException.class, a::hashCode);
        a.setStatusCode((byte) 5);
        assertEquals(5, a.getStatusCode());
        assertEquals(a.getSerializedSize() - 4, a.buildReusableDependenyResult().length);
        assertEquals(7, scalar(7).asScalarLong());
        assertThrows(IllegalStateException.class, a::asScalarLong);
    }

    private static VoltTable scalar(long value) {
        VoltTable table = new VoltTable(new ColumnInfo("", VoltType.BIGINT));
        table.addRow(value);
        return table;
    }

    @Test
    void texts() {
        VoltTable table = new VoltTable(new ColumnInfo("A", VoltType.TINYINT),
                new ColumnInfo("B", VoltType.STRING));
        table.addRow(5, "x");
        table.addRow(null, "long text");
        assertEquals("A     B         \n----- ----------\n    5 x         \n NULL long text \n",
                table.toFormattedString());
        assertTrue(table.toFormattedString(false).startsWith("    5 x"));
        assertEquals(" header size: 19\n status code: -128 column count: 2\n"
                + "(ID:INTEGER), (NAME:STRING),  rows -\n  1,ab\n  NULL,NULL\n",
                two().toString());
        assertEquals("bin[crc:852952723,value:0x0A]",
                VoltTable.varbinaryToPrintableString(new byte[] {10}));
        assertTrue(all().toFormattedString().contains(
                "    1 ab      1.5  12.500000000000 1970-01-01 00:00:01.234567  0102  POINT"));
        VoltTable binary = new VoltTable(new ColumnInfo("B", VoltType.VARBINARY));
        binary.addRow(new byte[50]);
        assertTrue(binary.toFormattedString().contains("0".repeat(87) + "... \n"));
    }

    @Test
    void json() throws Exception {
        assertEquals("{\"status\":-128,\"schema\":[{\"name\":\"ID\",\"type\":5},"
                + "{\"name\":\"NAME\",\"type\":9}],\"data\":[[1,\"ab\"],[null,null]]}",
                two().toJSONString());
        VoltTable table = all();
        assertTrue(VoltTable.fromJSONString(table.toJSONString()).hasSameContents(table));
        assertTrue(VoltTable.fromJSONObject(new JSONObject(table.toJSONString()))
                .hasSameContents(table));
        JSONStringer stringer = new JSONStringer();
        stringer.object().key("t");
        two().toJSONStringerV2(stringer).endObject();
        assertTrue(VoltTable.fromJSONObject(new JSONObject(stringer.toString())
                .getJSONObject("t")).hasSameContents(two()));
        assertEquals("a\"\n\\u00e9", new JSONObject("{\"x\": \"a\\\"\\n\\\\u00e9\"}")
                .getString("x"));
        for (String wrong : new String[] {"", "{", "{\"a\":1,}", "[1]", "{\"a\":tru}", "{}x"}) {
            assertThrows(org.json_voltpatches.JSONException.class, () -> new JSONObject(wrong));
        }
        assertThrows(org.json_voltpatches.JSONException.class,
                () -> new JSONObject("{\"a\":" + "[".repeat(100_000)));
    }
}
