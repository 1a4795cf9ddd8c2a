// Java procedures: every type of parameter, argument and result, tables, and refused classes.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.util.Date;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.voltdb.VoltTable;
import org.voltdb.VoltTable.ColumnInfo;
import org.voltdb.VoltType;
import org.voltdb.client.ClientResponse;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** The rows of docs/java-api.md on types and tables, through a host. */
class ProcedureTypesTest extends ProcedureContract {
    private static final String TRIANGLE = "POLYGON ((0.0 0.0, 1.0 0.0, 0.0 1.0, 0.0 0.0))";
    private static final GeographyPointValue POINT = new GeographyPointValue(1, 2);
    private static final GeographyValue POLYGON = new GeographyValue(TRIANGLE);

    @Override
    List<String> everywhere() {
        return List.of("Takes$TakesNumbers", "Takes$TakesBoxed", "Takes$TakesTexts",
                "Takes$TakesTimes", "Takes$TakesPlaces", "Takes$TakesTable", "Takes$TakesTables",
                "Takes$TakesNumberArrays", "Takes$TakesBoxedArrays", "Takes$TakesTextArrays",
                "Takes$TakesOtherArrays", "Takes$TakesNothing", "Returns$ReturnsLong",
                "Returns$ReturnsBoxed", "Returns$ReturnsTable", "Returns$ReturnsTables", "Tables",
                "Places");
    }

    @Override
    List<String> partitioned() {
        return List.of("Arguments");
    }

    @Test
    void numbers() throws Exception {
        assertEquals("1 | 2 | 3 | 4 | 5.5",
                shown("Takes$TakesNumbers", (byte) 1, (short) 2, 3, 4L, 5.5));
        assertEquals("1 | 2 | 3 | 4 | 5.0", shown("Takes$TakesNumbers", 1L, 2L, 3L, 4, 5));
        assertEquals("1 | 2 | 1234 | -4 | 5.5",
                shown("Takes$TakesNumbers", "1", " 2 ", "1,234", "-4", "5.5"));
        assertEquals("1 | 2 | 3 | 255 | 2.5", shown("Takes$TakesNumbers", new BigDecimal("1.000"),
                new BigDecimal(2), 3, "X'FF'", new BigDecimal("2.5")));
        assertEquals("1 | 2 | 3 | 4 | 5.5", shown("Takes$TakesBoxed", (byte) 1, (short) 2, 3, 4L,
                5.5));
        assertEquals("1 | 2 | 3 | 4 | NaN", shown("Takes$TakesNumbers", 1, 2, 3, 4, Double.NaN));
        assertEquals("1 | 2 | 3 | 4 | NaN", shown("Takes$TakesNumbers", 1, 2, 3, 4, "NaN"));
        assertEquals("1 | 2 | 3 | 4 | NaN", shown("Takes$TakesBoxed", (byte) 1, (short) 2, 3, 4L,
                Double.NaN));
    }

    @Test
    void nulls() throws Exception {
        assertEquals("-128 | -32768 | -2147483648 | -9223372036854775808 | -1.7E308",
                shown("Takes$TakesNumbers", null, null, null, null, null));
        assertEquals("-128 | -32768 | -2147483648 | -9223372036854775808 | -1.7E308",
                shown("Takes$TakesNumbers", VoltType.NULL_BIGINT, VoltType.NULL_TINYINT,
                        VoltType.NULL_SMALLINT, VoltType.NULL_INTEGER, VoltType.NULL_FLOAT));
        assertEquals("null | null | null | null | null",
                shown("Takes$TakesBoxed", null, null, null, null, null));
        assertEquals("null | null | null | null", shown("Takes$TakesTexts", null, null, null,
                null));
        assertEquals("null | null | null | null", shown("Takes$TakesTimes", null, null, null,
                null));
        assertEquals("null | null", shown("Takes$TakesPlaces", null, null));
        assertEquals("null | null | null | null",
                shown("Takes$TakesNumberArrays", null, null, null, null));
    }

    @Test
    void placesInTables() throws Exception {
        GeographyPointValue inside = new GeographyPointValue(0.25, 0.25);
        String first = "1,POINT (0.25 0.25)," + TRIANGLE + ",0.25,4";
        String second = "2,NULL,NULL,NULL,NULL";
        assertEquals(first + " | 1 | 1 | POINT (0.25 0.25), 1; ",
                results("Places", 1L, inside, POLYGON));
        assertEquals(first + "; " + second + " | 0 | 0 | POINT (0.25 0.25), 1; null null, none; ",
                results("Places", 2L, null, null));
        assertEquals(first + "; " + second + "; 3,POINT (1.0 2.0)," + TRIANGLE + ",2.0,4"
                + " | 0 | 1 | POINT (0.25 0.25), 1; null null, none; POINT (1.0 2.0), 1; ",
                results("Places", 3L, "POINT(1 2)", TRIANGLE));
        VoltTable[] tables = call("Places", 4L, POINT, null);
        assertEquals("ID:BIGINT P:GEOGRAPHY_POINT G:GEOGRAPHY C4:FLOAT C5:INTEGER",
                columns(tables[0]));
        refused(FAILED, "TYPE ERROR FOR PARAMETER 1", "Places", 5L, 7, null);
        assertEquals(4, number("SELECT COUNT(*) FROM place"));
    }

    private void wrongNumber(int parameter, String part, Object... values) throws Exception {
        refused(FAILED, "PROCEDURE Takes\\$TakesNumbers TYPE ERROR FOR PARAMETER " + parameter
                + ": org.voltdb.VoltTypeException: .*" + part, "Takes$TakesNumbers", values);
    }

    @Test
    void whatDoesNotFit() throws Exception {
        wrongNumber(0, "out of range", 128, 0, 0, 0, 0);
        wrongNumber(1, "out of range", 0, 40_000, 0, 0, 0);
        wrongNumber(2, "out of range", 0, 0, 1L << 31, 0, 0);
        wrongNumber(2, "interpreted as integer null", 0, 0, (long) Integer.MIN_VALUE, 0, 0);
        wrongNumber(3, "", 0, 0, 0, 1.0, 0);
        wrongNumber(3, "", 0, 0, 0, new BigDecimal("1.5"), 0);
        wrongNumber(2, "", 0, 0, "one", 0, 0);
        wrongNumber(2, "Array / Scalar parameter mismatch", 0, 0, new int[] {1}, 0, 0);
        refused(FAILED, "TYPE ERROR FOR PARAMETER 2", "Takes$TakesNumberArrays", new short[0],
                new int[0], new int[] {1}, new double[0]);
        refused(FAILED, "EXPECTS 5 PARAMS, BUT RECEIVED 2", "Takes$TakesNumbers", 1, 2);
        refused(FAILED, "TYPE ERROR FOR PARAMETER 0", "Takes$TakesTimes", "yesterday", null, null,
                null);
        refused(FAILED, "TYPE ERROR FOR PARAMETER 1", "Takes$TakesTexts", "", "no hex", null, null);
    }

    @Test
    void textsAndBytes() throws Exception {
        assertEquals("täxt | [10, -1] | [1] | 2.500000000000", shown("Takes$TakesTexts", "täxt",
                new byte[] {10, -1}, new byte[] {1}, new BigDecimal("2.5")));
        assertEquals("12 | [10, -1] | null | 7.000000000000",
                shown("Takes$TakesTexts", 12L, "0aFF", null, 7));
        assertEquals("A | [] | [] | 0.100000000000",
                shown("Takes$TakesTexts", new byte[] {65}, "", new byte[0], 0.1));
        assertEquals(" | [10] | null | 1.000000000001",
                shown("Takes$TakesTexts", "", "X'0a'", null, "1.0000000000005"));
    }

    @Test
    void times() throws Exception {
        TimestampType exact = new TimestampType(1_500_000);
        assertEquals("1500000 | Date 1500 | Date 1500 | Timestamp 1500",
                shown("Takes$TakesTimes", exact, exact, exact, exact));
        assertEquals("1500000 | Date 1500 | Date 1500 | Timestamp 1500", shown("Takes$TakesTimes",
                new Date(1500), new Date(1500), new java.sql.Date(1500),
                new java.sql.Timestamp(1500)));
        assertEquals("7 | null | null | null", shown("Takes$TakesTimes", 7L, null, null, null));
        assertEquals("1500000 | null | null | null",
                shown("Takes$TakesTimes", "1970-01-01 00:00:01.5", null, null, null));
        refused(FAILED, "TYPE ERROR FOR PARAMETER 1", "Takes$TakesTimes", null,
                new TimestampType(5),
                null, null);
    }

    @Test
    void places() throws Exception {
        assertEquals("POINT (1.0 2.0) | " + TRIANGLE, shown("Takes$TakesPlaces", POINT, POLYGON));
        assertEquals("POINT (1.0 2.0) | " + TRIANGLE,
                shown("Takes$TakesPlaces", "POINT(1 2)", "POLYGON((0 0,1 0,0 1,0 0))"));
    }

    private static VoltTable sent() {
        VoltTable table = new VoltTable(new ColumnInfo("A", VoltType.INTEGER),
                new ColumnInfo("B", VoltType.STRING));
        table.addRow(1, "x");
        table.addRow(2, null);
        return table;
    }

    @Test
    void tablesAsParameters() throws Exception {
        assertEquals("1,x; 2,NULL | 2,NULL", results("Takes$TakesTable", sent(), 1));
        VoltTable[] both = {sent(), sent()};
        assertEquals("1,x; 2,NULL | 1,x; 2,NULL", results("Takes$TakesTables", (Object) both));
    }

    @Test
    void arrays() throws Exception {
        assertEquals("[1] | [2, 3] | [4] | [5.5]", shown("Takes$TakesNumberArrays", new short[] {1},
                new int[] {2, 3}, new long[] {4}, new double[] {5.5}));
        assertEquals("[] | [] | [] | []", shown("Takes$TakesNumberArrays", new int[0], new int[0],
                new int[0], new int[0]));
        assertEquals("[1] | [2, null] | [4] | [5.5]", shown("Takes$TakesBoxedArrays",
                new short[] {1},
                new int[] {2, Integer.MIN_VALUE}, new long[] {4}, new double[] {5.5}));
        assertEquals("[a, null] | [[1, 2], null] | [2.500000000000]", shown("Takes$TakesTextArrays",
                new String[] {"a", null}, new byte[][] {{1, 2}, null},
                new BigDecimal[] {new BigDecimal("2.5")}));
        assertEquals("[A] | [[10]] | []", shown("Takes$TakesTextArrays", new byte[][] {{65}},
                new String[] {"0a"}, new BigDecimal[0]));
        assertEquals("6 | [POINT (1.0 2.0)] | [" + TRIANGLE + "]", shown("Takes$TakesOtherArrays",
                new TimestampType[] {new TimestampType(5)}, new GeographyPointValue[] {POINT},
                new GeographyValue[] {POLYGON}));
    }

    @Test
    void results() throws Exception {
        VoltTable number = call("Returns$ReturnsLong", 7L)[0];
        assertEquals(7, number.asScalarLong());
        assertEquals(":BIGINT", columns(number));
        assertEquals(8, call("Returns$ReturnsBoxed", 8L)[0].asScalarLong());
        assertEquals(0, call("Takes$TakesNothing")[0].asScalarLong());
        assertEquals(0, call("Returns$ReturnsTable", -1).length);
        assertEquals(3, call("Returns$ReturnsTable", 3)[0].getRowCount());
        assertEquals(0, call("Returns$ReturnsTables", 0).length);
        assertEquals("0 | 1 | 2", results("Returns$ReturnsTables", 3));
    }

    @Test
    void argumentsOfStatements() throws Exception {
        String row = ",1,2,3,4,1.5,2.500000000000,text,[10, 11],";
        String stored = results("Arguments", 1L, "own types");
        assertTrue(stored.startsWith("1 | 1" + row), stored);
        stored = results("Arguments", 2L, "texts");
        assertTrue(stored.startsWith("1 | 2" + row), stored);
        stored = results("Arguments", 3L, "other types");
        assertTrue(stored.startsWith("1 | 3,1,2,3,4,1.0,2.500000000000,12,[10, 11],"), stored);
        stored = results("Arguments", 16L, "fractions");
        assertTrue(stored.startsWith("1 | 16" + row), stored);
        stored = results("Arguments", 17L, "decimals");
        assertTrue(stored.startsWith("1 | 17" + row), stored);
        assertEquals(5, number("SELECT COUNT(*) FROM kinds WHERE SINCE_EPOCH(MICROSECOND, t)"
                + " = 1500000"));
        String nothing = ",NULL".repeat(9);
        assertEquals("1 | 4" + nothing, results("Arguments", 4L, "nulls"));
        assertEquals("1 | 5" + nothing, results("Arguments", 5L, "null values"));
        assertEquals("1 | 1 | 1 | 1 | 0 | 1 | 1 | 1", results("Arguments", 6L, "arrays"));
    }

    @Test
    void argumentsThatDoNotFit() throws Exception {
        String refusal = "Incompatible parameter type: can not convert type .* for arg 0 for SQL";
        refused(UNEXPECTED, refusal, "Arguments", 1L, "bytes for a number");
        refused(UNEXPECTED, refusal, "Arguments", 1L, "an array for a number");
        refused(UNEXPECTED, "VoltTypeException", "Arguments", 1L, "an object of no type");
    }

    private void fillTwice() throws Exception {
        call("Arguments", 1L, "own types");
        call("Arguments", 2L, "nulls");
    }

    @Test
    void reading() throws Exception {
        fillTwice();
        String first = "1, 2, 3, 4, 1.5, 2.500000000000, text, [116, 101, 120, 116], [10, 11],"
                + " 2, 1500000, 1500000, Timestamp 1500; ";
        String second = "-128 null, -32768 null, -2147483648 null, -9223372036854775808 null,"
                + " -1.7E308 null, null, null, null, null, -1,"
                + " -9223372036854775808, null, null null; ";
        assertEquals(first + second, shown("Tables", 1L, "by number"));
        assertEquals("1 | 2 | 3 | 4 | 1.5 | 2.500000000000 | text | [116, 101, 120, 116] |"
                + " [10, 11] | 1500000 | 1500000 | Timestamp 1500",
                shown("Tables", 1L, "by name"));
        String place = "POINT (1.0 2.0), POINT (1.0 2.0), " + TRIANGLE + ", " + TRIANGLE + "; ";
        assertEquals(place + "null, null, null null, null; ".repeat(2),
                shown("Tables", 1L, "places"));
        assertEquals("Byte Short Integer Long Double BigDecimal String byte[] TimestampType"
                + "  | 1 | 4 | 1.5 | 1.5 | text |"
                + " 2.500000000000 | 2", shown("Tables", 1L, "objects"));
    }

    @Test
    void cursorsAndSchema() throws Exception {
        fillTwice();
        assertEquals("-1 | true | 1 | false | 1 | true | 1 | 1 | 0 | true | true",
                shown("Tables", 1L, "cursors"));
        assertEquals("TI TINYINT 0 SI SMALLINT 1 I INTEGER 2 B BIGINT 3 F FLOAT 4 D DECIMAL 5"
                + " S STRING 6 VB VARBINARY 7 T TIMESTAMP 8 "
                + " | 9 | 2 | -128", shown("Tables", 1L, "schema"));
    }

    @Test
    void misuseOfTables() throws Exception {
        fillTwice();
        String[] thrown = shown("Tables", 1L, "misuse").split(" \\| ");
        assertTrue(thrown[0].startsWith("RuntimeException VoltTableRow.advanceRow() must be"));
        assertTrue(thrown[1].startsWith("IndexOutOfBoundsException"), thrown[1]);
        for (int i = 2; i < 6; i++) {
            assertTrue(thrown[i].startsWith("IllegalArgumentException"), thrown[i]);
        }
        assertTrue(thrown[5].contains("No Column named 'zz'."), thrown[5]);
        assertTrue(thrown[6].startsWith("IndexOutOfBoundsException"), thrown[6]);
        assertTrue(thrown[7].startsWith("IllegalStateException"), thrown[7]);
    }

    @Test
    void building() throws Exception {
        VoltTable[] built = call("Tables", 1L, "built");
        assertEquals("TI:TINYINT SI:SMALLINT I:INTEGER B:BIGINT F:FLOAT D:DECIMAL S:STRING"
                + " VB:VARBINARY T:TIMESTAMP P:GEOGRAPHY_POINT G:GEOGRAPHY", columns(built[0]));
        assertEquals("TI:TINYINT SI:SMALLINT I:INTEGER B:BIGINT F:FLOAT D:DECIMAL S:STRING"
                + " VB:VARBINARY T:TIMESTAMP", columns(built[1]));
        assertEquals(0, built[1].getRowCount());
        VoltTable all = built[0];
        assertEquals(3, all.getRowCount());
        String text = rows(all);
        String[] found = text.split("; ");
        assertTrue(found[0].startsWith("1,2,3,4,1.5,2.500000000000,text,[10, 11],"), found[0]);
        assertTrue(found[0].endsWith(",POINT (1.0 2.0)," + TRIANGLE), found[0]);
        assertEquals("NULL,".repeat(10) + "NULL", found[1]);
        assertTrue(found[2].startsWith("1,2,3,4,2.0,7.000000000000,té,[10, -1],"), found[2]);
        assertTrue(found[2].endsWith(",NULL,NULL"), found[2]);
        assertEquals(2_000_000, all.fetchRow(2).getTimestampAsLong("T"));
        String[] limits = shown("Tables", 1L, "limits").split(" \\| ");
        assertTrue(limits[0].contains("2 arguments but table has 3 columns"), limits[0]);
        assertTrue(limits[1].contains("to VoltType.TINYINT would overflow"), limits[1]);
        assertTrue(limits[2].contains("to VoltType.TINYINT would overflow"), limits[2]);
        assertTrue(limits[3].startsWith("VoltTypeException"), limits[3]);
        assertTrue(limits[4].contains("larger than allowed max 1024K"), limits[4]);
        assertTrue(limits[5].contains("larger than allowed max 2048k"), limits[5]);
        assertEquals("0", limits[6]);
    }

    @Test
    void joiningAndComparing() throws Exception {
        fillTwice();
        VoltTable[] joined = call("Tables", 1L, "joined");
        assertEquals(7, joined[0].getRowCount());
        assertEquals(9, joined[0].getStatusCode());
        assertEquals(0, joined[1].getRowCount());
        assertEquals("true | true", text(joined[2]));
    }

    @Test
    void tablesAsTexts() throws Exception {
        fillTwice();
        String texts = shown("Tables", 1L, "texts");
        assertTrue(texts.startsWith("A  B \n-- --\n 5 x \n"), texts);
        assertTrue(texts.contains("{\"status\":-128,\"schema\":[{\"name\":\"A\",\"type\":3},"
                + "{\"name\":\"B\",\"type\":9}],\"data\":[[5,\"x\"]]}"), texts);
        assertTrue(texts.contains(" | 0 | true | 7 | IllegalStateException"), texts);
        assertTrue(texts.endsWith("bin[crc:852952723,value:0x0A]"), texts);
    }

    private void refusedClass(String part, String className) throws Exception {
        refusedSql(part, "CREATE PROCEDURE FROM CLASS procedures." + className);
    }

    @Test
    void refusedClasses() throws Exception {
        refusedClass("contains a non-final SQLStmt field", "Refused$NotFinal");
        refusedClass("has multiple public run(...) methods", "Refused$TwoRuns");
        refusedClass("has no run(...) method", "Refused$NoRun");
        refusedClass("has no run(...) method", "Refused$HiddenRun");
        refusedClass("doesn't return long, Long, VoltTable or VoltTable[]", "Refused$WrongReturn");
        refusedClass("Replace this parameter type with double", "Refused$WithFloat");
        refusedClass("has a parameter with invalid type", "Refused$WithList");
        refusedClass("has a parameter with invalid type", "Refused$WithChar");
        refusedClass("VoltProcedure", "Refused$NoProcedure");
        refusedClass("abstract", "Refused$Abstract");
        refusedClass("constructor", "Refused$HiddenConstructor");
        refusedClass("not today", "Refused$FailingConstructor");
        refusedClass("NOWHERE", "Refused$BadSql");
        refusedClass("NoSuchClass", "Refused$NoSuchClass");
    }

    @Test
    void refusedPartitioning() throws Exception {
        String create = "CREATE PROCEDURE PARTITION ON TABLE ";
        refusedSql("TRUNCATE", create + "item COLUMN k FROM CLASS procedures.Refused$Truncates");
        refusedSql("Type mismatch between partition column",
                create + "item COLUMN k PARAMETER 1"
                + " FROM CLASS procedures.Refused$OtherKeys");
        refusedSql("Invalid parameter index value 5", create + "item COLUMN k PARAMETER 5"
                + " FROM CLASS procedures.Refused$OtherKeys");
        assertFalse(call("@SystemCatalog", "PROCEDURES")[0].toFormattedString()
                .contains("Refused$OtherKeys"));
    }

    @Test
    void whatIsReadOnly() throws Exception {
        VoltTable table = call("@SystemCatalog", "PROCEDURES")[0];
        String remarks = "";
        while (table.advanceRow()) {
            boolean mine = List.of("Tables", "Arguments").contains(table.getString(2));
            remarks += mine ? table.getString(2) + table.getString(6) : "";
        }
        assertTrue(remarks.contains("Tables{\"readOnly\":true,\"singlePartition\":false"), remarks);
        assertTrue(remarks.contains("Arguments{\"readOnly\":false,\"singlePartition\":true"),
                remarks);
    }
}
