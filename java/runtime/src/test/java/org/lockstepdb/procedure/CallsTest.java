package org.lockstepdb.procedure;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** What procedures do with the API, and what becomes of it. */
class CallsTest {
    private final ClassSpace space = TestJars.space();
    private final FakeEngine engine = new FakeEngine();

    private ProcedureInstance instance(String name) throws DescribeException {
        return space.procedure("user." + name).newInstance(engine);
    }

    private FakeEngine.Ended call(String name, Object... parameters) throws DescribeException {
        return engine.call(instance(name), parameters);
    }

    @Test
    void insertDistrict() throws DescribeException {
        FakeEngine.Ended ended = call("InsertDistrict", 3, 1, "north", "a", "b", "c", "MA", "12345",
                0.07, 30_000.0);
        assertEquals(1, ended.status(), ended.statusString());
        assertEquals(1, ended.tables()[0].asScalarLong());
        FakeEngine.Batch batch = engine.batches.get(0);
        assertTrue(batch.isFinal());
        assertArrayEquals(new Object[] {3, 1, "north", "a", "b", "c", "MA", "12345", 0.07,
            30_000.0}, batch.statements().get(0).parameters());
    }

    private static VoltTable texts(String... values) {
        VoltTable table = new VoltTable(new VoltTable.ColumnInfo("STATE", VoltType.STRING));
        for (String value : values) {
            table.addRow(value);
        }
        return table;
    }

    private long vote(long[] contestants, long[] votes, String... states)
            throws DescribeException {
        engine.batches.clear();
        engine.answers = batch -> batch.isFinal() ? new VoltTable[] {FakeEngine.modified(1)}
                : new VoltTable[] {FakeEngine.longs("C", contestants),
                    FakeEngine.longs("N", votes), texts(states)};
        FakeEngine.Ended ended = call("Vote", 6_175_551_234L, 2, 2L);
        assertEquals(1, ended.status(), ended.statusString());
        assertEquals("", ended.tables()[0].getColumnName(0));
        assertEquals(VoltType.BIGINT, ended.tables()[0].getColumnType(0));
        return ended.tables()[0].asScalarLong();
    }

    @Test
    void voteInTwoBatches() throws DescribeException {
        assertEquals(0, vote(new long[] {2}, new long[] {1}, "MA"));
        assertEquals(2, engine.batches.size());
        assertArrayEquals(new Object[] {(short) 617},
                engine.batches.get(0).statements().get(2).parameters());
        FakeEngine.Queued insert = engine.batches.get(1).statements().get(0);
        assertEquals(3, insert.statement());
        assertArrayEquals(new Object[] {6_175_551_234L, "MA", 2}, insert.parameters());
        assertEquals(0, vote(new long[] {2}, new long[0]));
        assertEquals("XX", engine.batches.get(1).statements().get(0).parameters()[1]);
        assertEquals(1, vote(new long[0], new long[0]));
        assertEquals(2, vote(new long[] {2}, new long[] {2}, "MA"));
        assertEquals(1, engine.batches.size());
    }

    @Test
    void everyWayToReturn() throws DescribeException {
        assertEquals(42, call("Returns$ALong").tables()[0].asScalarLong());
        assertEquals(43, call("Returns$ABoxedLong").tables()[0].asScalarLong());
        assertEquals(0, call("Returns$Nothing").tables().length);
        assertEquals(7, call("Returns$ATable").tables()[0].asScalarLong());
        FakeEngine.Ended ended = call("Returns$NullTable");
        assertEquals(-3, ended.status());
        assertTrue(ended.statusString().contains("null table"), ended.statusString());
        assertEquals(5, call("Returns$Secluded").tables()[0].asScalarLong());
        assertEquals(1, call("Returns$Inheriting").status());
        assertEquals(0, engine.batches.get(0).statements().get(0).statement());
    }

    @Test
    void theContextOfACall() throws DescribeException {
        ProcedureInstance instance = instance("Uses$Context");
        for (int i = 0; i < 2; i++) {
            FakeEngine.Ended ended = engine.call(instance);
            assertEquals(9, ended.applicationStatus());
            assertEquals("applied", ended.applicationText());
            VoltTable table = ended.tables()[0];
            table.advanceRow();
            assertEquals(77_000_001L, table.getLong("unique"));
            assertEquals(1_600_000_000_123L, table.getLong("ms"));
            assertEquals(3, table.getLong("partition"));
            assertEquals(5, table.getLong("cluster"));
            assertEquals(new Random(77_000_001L).nextLong(), table.getLong("random"));
            assertEquals(1, table.getLong("same"));
        }
        FakeEngine.Ended other = call("Returns$ALong");
        assertEquals(-128, other.applicationStatus());
        assertNull(other.applicationText());
    }

    @Test
    void everyKindOfArgument() throws DescribeException {
        assertEquals(1, call("Uses$Kinds").status());
        Object[] sent = engine.batches.get(0).statements().get(0).parameters();
        assertEquals(Arrays.asList((byte) 1, (short) 2, 3, 4L, 5.5, 1.5, "text", "bytes 0A0B",
                new BigDecimal("1.250000000000"), "micros 99", "micros 7000", null, null,
                Long.MIN_VALUE, List.of(1L, 2L), List.of(3), Arrays.asList("a", null),
                List.of(1L, 2L), List.of("x"), Arrays.asList("bytes 01", null)),
                Arrays.asList(sent));
    }

    @ParameterizedTest
    @CsvSource(nullValues = "-", value = {
        "0, 0, -", "0, 1, 'Expected zero row, but got 1'",
        "1, 1, -", "1, 0, 'Expected one row, but got 0'", "1, 2, 'Expected one row, but got 2'",
        "2, 0, -", "2, 1, -", "2, 2, 'Expected zero or one rows, but got 2'",
        "3, 2, -", "3, 0, 'Expected one or more rows, but got 0'",
        "4, 1, -", "4, 2, 'Expected one row, but got 2'",
        "5, 1, -", "5, 0, 'Expected one row, but got 0'",
        "6, 1, -", "6, 2, 'Expected one row, but got 2'"})
    void expectations(int kind, int rows, String fault) throws DescribeException {
        long[] values = new long[rows];
        Arrays.fill(values, 7);
        engine.answers = batch -> new VoltTable[] {FakeEngine.longs("A", values)};
        FakeEngine.Ended ended = call("Uses$Expecting", kind);
        assertEquals(fault == null ? 1 : -1, ended.status());
        if (fault != null) {
            assertEquals("Expectation failing in procedure: Uses$Expecting\n"
                    + "  Running SQL: SELECT 1 FROM t;\n  Error message: " + fault,
                    ended.message());
        }
    }

    @Test
    void expectationsOfScalars() throws DescribeException {
        engine.answers = batch -> new VoltTable[] {FakeEngine.longs("A", 8)};
        assertTrue(call("Uses$Expecting", 6).message().contains("Expected scalar 7, but got 8"));
        engine.answers = batch -> new VoltTable[] {texts("a")};
        assertEquals(1, call("Uses$Expecting", 4).status());
        assertTrue(call("Uses$Expecting", 5).message().contains("BIGINT"));
    }

    @Test
    void batches() throws DescribeException {
        engine.answers = batch -> batch.isFinal()
                ? new VoltTable[] {FakeEngine.longs("A", 4)}
                : new VoltTable[] {FakeEngine.longs("A", 2), FakeEngine.longs("A", 3)};
        FakeEngine.Ended ended = call("Uses$Batches", 0);
        assertEquals(3004, ended.tables()[0].asScalarLong());
        assertEquals(2, engine.batches.size(), "the empty batch and the queued rest cost nothing");
        assertFalse(engine.batches.get(0).isFinal());
        assertEquals(2L, engine.batches.get(1).statements().get(0).parameters()[0]);
        FakeEngine.Ended late = call("Uses$Batches", 1);
        assertEquals(-3, late.status());
        assertTrue(late.message().startsWith("Procedure Uses$Batches attempted to execute a"
                + " batch after claiming a previous batch was final"), late.message());
    }

    @Test
    void argumentsAreChecked() throws DescribeException {
        Procedure procedure = space.procedure("user.Uses$WrongArguments");
        // Two statements: one without parameters, one with a BIGINT.
        procedure.bind(new byte[] {0, 2, 1, 0, 0, 1, 0, 1, 6});
        ProcedureInstance instance = procedure.newInstance(engine);
        FakeEngine.Ended ended = engine.call(instance, 0);
        assertEquals(-1, ended.status());
        assertEquals("Number of arguments provided was 0 where 1 was expected for statement"
                + " SELECT a FROM t WHERE b = ?;", ended.message());
        ended = engine.call(instance, 1);
        assertEquals("org.voltdb.VoltTypeException", ended.exception());
        assertEquals("Procedure Uses$WrongArguments: Incompatible parameter type: can not"
                + " convert type 'VARBINARY' to 'BIGINT' for arg 0"
                + " for SQL stmt: SELECT a FROM t WHERE b = ?;"
                + " Try explicitly using a BIGINT parameter.", ended.message());
        assertEquals("java.lang.IllegalArgumentException", engine.call(instance, 2).exception());
        assertEquals("java.lang.IllegalArgumentException", engine.call(instance, 3).exception());
        assertTrue(engine.call(instance, 4).message().contains("'BIGINT[]' to 'BIGINT'"));
        assertEquals("org.voltdb.VoltTypeException", engine.call(instance, 7).exception());
        assertTrue(engine.batches.isEmpty());
        assertEquals(1, engine.call(instance, 5).status());
        assertEquals(1, engine.call(instance, 6).status());
        assertEquals(2, engine.batches.size());
    }

    @Test
    void abortsAndExceptions() throws DescribeException {
        FakeEngine.Ended ended = call("Uses$Failing", 0);
        assertEquals(-1, ended.status());
        assertEquals(4, ended.applicationStatus());
        assertTrue(ended.statusString().matches("VOLTDB ERROR: USER ABORT no more\n"
                + "    at user.Uses\\$Failing.run\\(Uses.java:\\d+\\)"), ended.statusString());
        assertEquals("No message specified.", call("Uses$Failing", 1).message());
        ended = call("Uses$Failing", 2);
        assertEquals(-3, ended.status());
        assertTrue(ended.statusString().matches("(?s)VOLTDB ERROR: UNEXPECTED FAILURE:"
                + " java.lang.IllegalStateException: broken\n"
                + "    at user.Uses\\$Failing.run\\(Uses.java:\\d+\\)\n"
                + "Caused by: java.lang.RuntimeException: inside\n"
                + "    at user.Uses\\$Failing.run\\(Uses.java:\\d+\\)"), ended.statusString());
        assertEquals("java.io.IOException", call("Uses$Failing", 3).exception());
        ended = call("Uses$Failing", 4);
        assertEquals("java.lang.NullPointerException", ended.exception());
        assertTrue(ended.statusString().contains("user.Uses$Failing.helper("));
        assertEquals(-3, call("Uses$Failing", 8).status());
    }

    @Test
    void failuresOfTheEngine() throws DescribeException {
        engine.answers = batch -> {
            if (batch.statements().get(0).parameters()[0].equals(1)) {
                throw new FakeEngine.Failure(1, "23505", "VOLTDB ERROR: CONSTRAINT VIOLATION x");
            }
            return new VoltTable[] {FakeEngine.modified(5)};
        };
        FakeEngine.Ended ended = call("Uses$Failing", 5);
        assertEquals(-2, ended.status());
        assertEquals(1, ended.origin());
        assertEquals("VOLTDB ERROR: CONSTRAINT VIOLATION x", ended.statusString());
        assertEquals(5, call("Uses$Failing", 6).tables()[0].asScalarLong(), "caught, and went on");
        ended = call("Uses$Failing", 7);
        assertEquals(-1, ended.status());
        assertEquals(0, ended.origin());
    }

    @Test
    void multiPartitionProceduresCannotGoOnAfterAFailure() throws DescribeException {
        engine.answers = batch -> {
            throw new FakeEngine.Failure(1, "23505", "violated");
        };
        FakeEngine.Ended ended = engine.callRaw(instance("Uses$Failing"),
                HeapEngine.parameterSet(6), 1);
        assertEquals(-3, ended.status());
        assertTrue(ended.message().contains("attempted to execute new batch after hitting EE"
                + " exception in a previous batch"), ended.message());
    }

    @Test
    void fatalFailuresCannotBeCaught() throws DescribeException {
        engine.answers = batch -> {
            throw new FakeEngine.Failure(4, null, "the partition goes away");
        };
        FakeEngine.Ended ended = call("Uses$Failing", 6);
        assertEquals(1, ended.origin());
        assertEquals("the partition goes away", ended.statusString());
        assertEquals(0, Guard.raised);
    }

    /** A call must not get slower or keep memory with the number of calls before it. */
    @Test
    void manyCallsKeepNoMemory() throws DescribeException {
        ProcedureInstance instance = instance("Vote");
        VoltTable[] first = {FakeEngine.longs("C", 2), FakeEngine.longs("N", 1), texts("MA")};
        VoltTable[] second = {FakeEngine.modified(1)};
        engine.answers = batch -> {
            engine.batches.clear();
            return batch.isFinal() ? second : first;
        };
        byte[] parameters = HeapEngine.parameterSet(6_175_551_234L, 2, 2L);
        Runtime runtime = Runtime.getRuntime();
        long before = 0;
        for (int i = 0; i <= 200_000; i++) {
            if (i == 20_000) {
                System.gc();
                before = runtime.totalMemory() - runtime.freeMemory();
            }
            assertEquals(1, engine.callRaw(instance, parameters, 0).status());
        }
        System.gc();
        long kept = runtime.totalMemory() - runtime.freeMemory() - before;
        assertTrue(kept < 2_000_000, kept + " bytes are kept");
    }
}
