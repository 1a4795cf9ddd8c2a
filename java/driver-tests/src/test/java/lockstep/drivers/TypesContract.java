// Every column type both ways, as Java values.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.client.ClientResponse;
import org.voltdb.types.TimestampType;

/** Values through a generated insert procedure and back through SQL. */
abstract class TypesContract extends Contract {
    private static final BigDecimal NINES =
            new BigDecimal("99999999999999999999999999.999999999999");

    @Override
    List<String> schema() {
        return List.of(
                "CREATE TABLE jtypes (id INTEGER NOT NULL, ti TINYINT, si SMALLINT, ii INTEGER,"
                        + " bi BIGINT, fl FLOAT, de DECIMAL, vs VARCHAR(100), vb VARBINARY(100),"
                        + " ts TIMESTAMP, PRIMARY KEY (id))",
                "PARTITION TABLE jtypes ON COLUMN id",
                "CREATE PROCEDURE JIn AS SELECT id FROM jtypes WHERE id IN ? ORDER BY id",
                "CREATE PROCEDURE JInText AS SELECT id FROM jtypes WHERE vs IN ? ORDER BY id");
    }

    @Override
    List<String> cleanup() {
        return List.of("DROP PROCEDURE JIn IF EXISTS", "DROP PROCEDURE JInText IF EXISTS",
                "DROP TABLE jtypes IF EXISTS");
    }

    @AfterEach
    void empty() throws Exception {
        sql("DELETE FROM jtypes");
    }

    private VoltTable row(Object... values) throws Exception {
        sql("DELETE FROM jtypes");
        assertEquals(1, call("JTYPES.insert", values)[0].asScalarLong());
        VoltTable table = sql("SELECT * FROM jtypes");
        assertTrue(table.advanceRow());
        return table;
    }

    @Test
    void schemaOfAResult() throws Exception {
        assertEquals("ID:INTEGER TI:TINYINT SI:SMALLINT II:INTEGER BI:BIGINT FL:FLOAT DE:DECIMAL"
                + " VS:STRING VB:VARBINARY TS:TIMESTAMP", columns(sql("SELECT * FROM jtypes")));
    }

    @Test
    void largestValues() throws Exception {
        TimestampType moment = new TimestampType(Long.MAX_VALUE);
        VoltTable row = row(Integer.MAX_VALUE, Byte.MAX_VALUE, Short.MAX_VALUE, Integer.MAX_VALUE,
                Long.MAX_VALUE, Double.MAX_VALUE, NINES, "🙂".repeat(100), new byte[100], moment);
        assertEquals(Integer.MAX_VALUE, row.getLong(0));
        assertEquals(Byte.MAX_VALUE, row.getLong(1));
        assertEquals(Short.MAX_VALUE, row.getLong(2));
        assertEquals(Integer.MAX_VALUE, row.getLong("II"));
        assertEquals(Long.MAX_VALUE, row.getLong("BI"));
        assertEquals(Double.MAX_VALUE, row.getDouble("FL"));
        assertEquals(NINES, row.getDecimalAsBigDecimal("DE"));
        assertEquals("🙂".repeat(100), row.getString("VS"));
        assertArrayEquals(new byte[100], row.getVarbinary("VB"));
        assertEquals(Long.MAX_VALUE, row.getTimestampAsLong("TS"));
    }

    @Test
    void smallestValues() throws Exception {
        VoltTable row = row(-Integer.MAX_VALUE, (byte) -127, (short) -32767, -Integer.MAX_VALUE,
                -Long.MAX_VALUE, -1.69e308, NINES.negate(), "", new byte[0],
                new TimestampType(-Long.MAX_VALUE));
        assertEquals(-Integer.MAX_VALUE, row.getLong(0));
        assertEquals(-127, row.getLong(1));
        assertEquals(-32767, row.getLong(2));
        assertEquals(-Integer.MAX_VALUE, row.getLong(3));
        assertEquals(-Long.MAX_VALUE, row.getLong(4));
        assertEquals(-1.69e308, row.getDouble(5));
        assertEquals(NINES.negate(), row.getDecimalAsBigDecimal(6));
        assertEquals("", row.getString(7));
        assertArrayEquals(new byte[0], row.getVarbinary(8));
        assertEquals(-Long.MAX_VALUE, row.getTimestampAsLong(9));
        assertFalse(row.wasNull());
    }

    @Test
    void nanIsAValue() throws Exception {
        VoltTable row = row(1, null, null, null, null, Double.NaN, null, null, null, null);
        assertTrue(Double.isNaN(row.getDouble("FL")));
        assertFalse(row.wasNull());
    }

    @Test
    void untypedNulls() throws Exception {
        assertNulls(row(1, null, null, null, null, null, null, null, null, null));
    }

    @Test
    void typedNulls() throws Exception {
        assertNulls(row(1, VoltType.NULL_TINYINT, VoltType.NULL_SMALLINT, VoltType.NULL_INTEGER,
                VoltType.NULL_BIGINT, VoltType.NULL_FLOAT, VoltType.NULL_DECIMAL,
                VoltType.NULL_STRING_OR_VARBINARY, VoltType.NULL_STRING_OR_VARBINARY,
                VoltType.NULL_TIMESTAMP));
    }

    private static void assertNulls(VoltTable row) {
        for (int i = 1; i < row.getColumnCount(); i++) {
            row.get(i, row.getColumnType(i));
            assertTrue(row.wasNull(), row.getColumnName(i));
        }
        assertNull(row.getString("VS"));
        assertNull(row.getVarbinary("VB"));
        assertNull(row.getDecimalAsBigDecimal("DE"));
        assertNull(row.getTimestampAsTimestamp("TS"));
        assertEquals(VoltType.NULL_BIGINT, row.getLong("BI"));
    }

    @Test
    void otherJavaTypes() throws Exception {
        java.util.Date date = new java.util.Date(1_000_000_000_123L);
        VoltTable row = row(1L, 5L, 6, 7L, 8, 1.5f, 9.25, "0a0B", "0a0B", date);
        assertEquals(5, row.getLong(1));
        assertEquals(8, row.getLong(4));
        assertEquals(1.5, row.getDouble(5));
        assertEquals(new BigDecimal("9.250000000000"), row.getDecimalAsBigDecimal(6));
        assertArrayEquals(new byte[] {10, 11}, row.getVarbinary(8));
        assertEquals(1_000_000_000_123_000L, row.getTimestampAsLong(9));
        assertEquals(date.getTime(), row.getTimestampAsSqlTimestamp(9).getTime());
    }

    @Test
    void textStaysWhole() throws Exception {
        for (String text : List.of("hé", "日本語", "a\nb", "it's", "x".repeat(63), "x".repeat(64))) {
            assertEquals(text, row(1, null, null, null, null, null, null, text, null, null)
                    .getString("VS"));
        }
    }

    @Test
    void outOfRange() throws Exception {
        refused(ClientResponse.GRACEFUL_FAILURE, "out of range", "JTYPES.insert", 1, 128, null,
                null, null, null, null, null, null, null);
        refused(ClientResponse.GRACEFUL_FAILURE, "exceeds the size of the VARCHAR\\(100\\)",
                "JTYPES.insert", 1, null, null, null, null, null, null, "x".repeat(101), null,
                null);
        assertEquals(0, number("SELECT COUNT(*) FROM jtypes"));
    }

    @Test
    void arrays() throws Exception {
        for (int id = 0; id < 10; id++) {
            call("JTYPES.insert", id, null, null, null, null, null, null, "n" + id, null, null);
        }
        VoltTable found = call("JIn", (Object) new int[] {7, 3, 99})[0];
        assertEquals(2, found.getRowCount());
        assertEquals(3, found.fetchRow(0).getLong(0));
        found = call("JInText", (Object) new String[] {"n4", "none"})[0];
        assertEquals(4, found.asScalarLong());
    }

    @Test
    void oneMegabyteOfBytes() throws Exception {
        sql("CREATE TABLE jlong (id INTEGER NOT NULL PRIMARY KEY, v VARBINARY(1048576))");
        try {
            byte[] bytes = new byte[1 << 20];
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = (byte) (i * 31);
            }
            call("JLONG.insert", 1, bytes);
            assertArrayEquals(bytes, sql("SELECT v FROM jlong").fetchRow(0).getVarbinary(0));
        } finally {
            sql("DROP TABLE jlong IF EXISTS");
        }
    }
}
