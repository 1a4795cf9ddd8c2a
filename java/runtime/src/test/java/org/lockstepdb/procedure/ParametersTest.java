package org.lockstepdb.procedure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** What clients send becomes what {@code run} declares. */
class ParametersTest {
    private final ClassSpace space = TestJars.space();
    private final FakeEngine engine = new FakeEngine();

    private FakeEngine.Ended call(String of, Object... parameters) throws DescribeException {
        return engine.call(space.procedure("user.Echo$Of" + of).newInstance(engine), parameters);
    }

    private String echo(String of, Object... parameters) throws DescribeException {
        FakeEngine.Ended ended = call(of, parameters);
        assertEquals(1, ended.status(), ended.statusString());
        ended.tables()[0].advanceRow();
        return ended.tables()[0].getString(0);
    }

    private void refused(String part, String of, Object... parameters) throws DescribeException {
        FakeEngine.Ended ended = call(of, parameters);
        assertEquals(-2, ended.status(), "accepted");
        String begin = "VOLTDB ERROR: PROCEDURE Echo$Of" + of + " TYPE ERROR FOR PARAMETER "
                + (parameters.length - 1) + ": org.voltdb.VoltTypeException: ";
        assertTrue(ended.statusString().startsWith(begin), ended.statusString());
        assertTrue(ended.statusString().contains(part), ended.statusString());
    }

    @Test
    void integersToIntegers() throws DescribeException {
        Object[] sent = {(byte) 5, (short) 5, 5, 5L};
        for (String of : new String[] {"Byte", "Short", "Int", "Long"}) {
            for (Object value : sent) {
                assertEquals("5", echo(of, value));
            }
            assertEquals("-7", echo(of, " -7 "));
            assertEquals("5", echo(of, new BigDecimal("5.000")));
            refused("not a match", of, new BigDecimal("5.1"));
            refused("not a match", of, 5.0);
            refused("not a match", of, "five");
            refused("not a match", of, "1.5");
        }
        assertEquals("1234", echo("Int", "1,234"));
        assertEquals("255", echo("Long", "X'FF'"));
        assertEquals("-1", echo("Long", "x'FFFFFFFFFFFFFFFF'"));
        refused("out of range", "Byte", 128);
        refused("out of range", "Short", 40_000L);
        refused("out of range", "Int", 1L << 31);
        refused("interpreted as integer null", "Int", (long) Integer.MIN_VALUE);
        refused("interpreted as integer null", "Byte", -128L);
        refused("interpreted as integer null", "Byte", (short) -128);
    }

    @Test
    void nullsOfEveryKind() throws DescribeException {
        assertEquals("-128", echo("Byte", (Object) null));
        assertEquals("-32768", echo("Short", (Object) null));
        assertEquals("-2147483648", echo("Int", (Object) null));
        assertEquals("-9223372036854775808", echo("Long", (Object) null));
        assertEquals("-1.7E308", echo("Double", (Object) null));
        assertEquals("-2147483648", echo("Int", Long.MIN_VALUE));
        assertEquals("-9223372036854775808", echo("Long", Integer.MIN_VALUE));
        assertEquals("-9223372036854775808", echo("Long", (byte) -128));
        assertEquals("-9223372036854775808", echo("Long", "\\N"));
        assertEquals("[[null, null, null, null, null]]",
                echo("Boxed", null, Short.MIN_VALUE, null, Long.MIN_VALUE, VoltType.NULL_FLOAT));
        for (String of : new String[] {"String", "Bytes", "BoxedBytes", "Decimal", "Timestamp"}) {
            assertEquals("null", echo(of, (Object) null));
        }
        assertEquals("null", echo("String", "\\N"));
        assertEquals("null null", echo("Geography", null, null));
        assertEquals("[[null, null, null]]", echo("Dates", null, null, null));
        assertEquals("null", echo("Longs", (Object) null));
        assertEquals(0, call("Table", (Object) null).tables().length);
    }

    @Test
    void numbersToDoubleDecimalAndString() throws DescribeException {
        assertEquals("5.0", echo("Double", 5));
        assertEquals("1.5", echo("Double", 1.5));
        assertEquals("NaN", echo("Double", Double.NaN));
        assertEquals("NaN", echo("Double", "NaN"));
        assertEquals("1.5", echo("Double", 1.5f));
        assertEquals("2.25", echo("Double", new BigDecimal("2.25")));
        assertEquals("1234.5", echo("Double", "1,234.5"));
        assertEquals("5.000000000000", echo("Decimal", 5));
        assertEquals("0.100000000000", echo("Decimal", 0.1));
        assertEquals("1.000000000001", echo("Decimal", "1.0000000000005"));
        refused("digits before the point", "Decimal", "1" + "0".repeat(26));
        refused("not a match", "Decimal", "x");
        assertEquals("12", echo("String", 12L));
        assertEquals("1.5", echo("String", 1.5));
        assertEquals("hé", echo("String", "hé"));
        assertEquals("A", echo("String", new byte[] {65}));
    }

    @Test
    void bytesTimesAndPlaces() throws DescribeException {
        assertEquals("[[10, -1]]", echo("Bytes", new byte[] {10, -1}));
        assertEquals("[[10, -1]]", echo("Bytes", "0aFF"));
        assertEquals("[[10, -1]]", echo("Bytes", "x'0aFF'"));
        assertEquals("[[10, -1]]", echo("BoxedBytes", new byte[] {10, -1}));
        refused("hex", "Bytes", "0g");
        refused("hex", "Bytes", "0");
        refused("not a match", "Bytes", 5);
        assertEquals("1970-01-01 00:00:00.000005", echo("Timestamp", 5L));
        assertEquals("1970-01-01 00:00:00.000005", echo("Timestamp", new TimestampType(5)));
        assertEquals("1970-01-01 00:00:00.000005", echo("Timestamp", "5"));
        assertEquals("2020-02-03 00:00:00.000000", echo("Timestamp", "2020-02-03"));
        assertEquals("2020-02-03 04:05:06.700000", echo("Timestamp", "2020-02-03 04:05:06.7"));
        refused("Timestamp format", "Timestamp", "yesterday");
        TimestampType exact = new TimestampType(5_000);
        assertEquals("[[date 5, date 5, 1970-01-01 00:00:00.005]]",
                echo("Dates", exact, exact, exact));
        assertEquals("[[date 5, date 5, 1970-01-01 00:00:00.000005]]",
                echo("Dates", exact, exact, new TimestampType(5)));
        assertEquals(-2, call("Dates", new TimestampType(5), exact, exact).status());
        assertEquals(-2, call("Dates", 5L, exact, exact).status());
        String triangle = "POLYGON ((0.0 0.0, 1.0 0.0, 0.0 1.0, 0.0 0.0))";
        assertEquals("POINT (1.0 2.0) " + triangle, echo("Geography",
                new GeographyPointValue(1, 2), new GeographyValue(triangle)));
        assertEquals("POINT (1.0 2.0) " + triangle,
                echo("Geography", "POINT(1 2)", "POLYGON((0 0,1 0,0 1,0 0))"));
    }

    @Test
    void arrays() throws DescribeException {
        assertEquals("[[1, 2]]", echo("Longs", new long[] {1, 2}));
        assertEquals("[[]]", echo("Longs", new int[0]));
        refused("not a match", "Longs", new int[] {1});
        refused("Array / Scalar parameter mismatch", "Longs", 1L);
        refused("Array / Scalar parameter mismatch", "Long", new long[] {1});
        assertEquals("[[[1], [2], [1.5], [a, null], [[1, 2], null],"
                + " [1.000000000000], [1970-01-01 00:00:00.000001]]]",
                echo("Arrays", new int[] {1}, new short[] {2}, new double[] {1.5},
                        new String[] {"a", null}, new byte[][] {{1, 2}, null},
                        new BigDecimal[] {BigDecimal.ONE},
                        new TimestampType[] {new TimestampType(1)}));
        assertEquals("[[[1], [2], [1.5], [A], [[10]], [], []]]",
                echo("Arrays", new int[] {1}, new short[] {2}, new double[] {1.5},
                        new byte[][] {{65}}, new String[] {"0a"}, new int[0], new long[0]));
        assertEquals("[[[1, null], [2], [1.5]]]", echo("BoxedArrays",
                new long[] {1, Long.MIN_VALUE}, new int[] {2}, new double[] {1.5}));
    }

    @Test
    void tables() throws DescribeException {
        VoltTable one = FakeEngine.longs("A", 1, 2);
        assertTrue(one.hasSameContents(call("Table", one).tables()[0]));
        VoltTable[] returned = call("Tables", (Object) new VoltTable[] {one, one}).tables();
        assertEquals(2, returned.length);
        assertTrue(one.hasSameContents(returned[1]));
    }

    @Test
    void theNumberOfParametersMustFit() throws DescribeException {
        FakeEngine.Ended ended = call("Long", 1, 2);
        assertEquals(-2, ended.status());
        assertEquals("VOLTDB ERROR: PROCEDURE Echo$OfLong EXPECTS 1 PARAMS, BUT RECEIVED 2",
                ended.statusString());
    }

    /** Whatever bytes come, the call ends with an answer. */
    @Test
    void damagedParametersAreAnError() throws DescribeException {
        Random random = new Random(11);
        String[] all = {"Byte", "Long", "Double", "String", "Bytes", "Decimal", "Timestamp",
            "Table", "Longs", "Tables"};
        byte[] whole = HeapEngine.parameterSet((Object) new String[] {"abc", "defg"});
        for (String of : all) {
            ProcedureInstance instance =
                    space.procedure("user.Echo$Of" + of).newInstance(engine);
            for (int i = 0; i < 2_000; i++) {
                byte[] bytes = new byte[3 + random.nextInt(40)];
                random.nextBytes(bytes);
                bytes[0] = 0;
                bytes[1] = 1;
                bytes[2] = (byte) (random.nextBoolean() ? -99 : random.nextInt(28));
                if (random.nextBoolean() && bytes.length > 8) {
                    bytes[4] = 0;
                    bytes[5] = 0;
                    bytes[3] = 0;
                }
                FakeEngine.Ended ended = engine.callRaw(instance, bytes, 0);
                assertTrue(ended.status() == 1 || ended.status() == -2 || ended.status() == -3);
            }
            for (int length = 3; length < whole.length; length++) {
                byte[] cut = ByteBuffer.allocate(length).put(whole, 0, length).array();
                assertEquals(-2, engine.callRaw(instance, cut, 0).status());
            }
        }
    }
}
