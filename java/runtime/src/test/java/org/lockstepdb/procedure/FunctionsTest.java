package org.lockstepdb.procedure;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.voltdb.VoltType;

/** Functions that SQL calls. */
class FunctionsTest {
    private final ClassSpace space = TestJars.space();

    /** Calls with a parameter set; the answer's bytes. */
    private static ByteBuffer answer(HeapEngine engine, int length) {
        return ByteBuffer.wrap(engine.written(length));
    }

    private Object call(String method, Object... parameters) throws DescribeException {
        byte[] set = HeapEngine.parameterSet(parameters);
        HeapEngine engine = new HeapEngine(set);
        ScalarFunction function = space.function("user.Functions", method);
        ByteBuffer answer = answer(engine, function.newInstance(engine).invoke(set.length));
        Site.forget(engine);
        byte status = answer.get();
        if (status != 1) {
            FakeEngine.Ended ended = FakeEngine.ended(answer.position(0));
            return ended.status() + " " + ended.origin() + " " + ended.message();
        }
        Object value = FakeEngine.value(answer);
        assertEquals(0, answer.remaining());
        return value;
    }

    @Test
    void scalars() throws DescribeException {
        assertEquals(7L, call("add", 3L, 4));
        assertEquals(7L, call("add", (byte) 3, 4L));
        assertNull(call("add", null, 4));
        assertEquals("a12" + "1.500000000000" + "2.5",
                call("join", "a", 1, new byte[] {1, 2}, new BigDecimal("1.5"), 2.5));
        // NULL is a value of a boxed number, too, as VoltDB's functions get it.
        assertEquals("a-2147483648nullnull-1.7E308", call("join", "a", null, null, null, null));
        assertNull(call("join", null, 1, null, null, null));
        assertEquals("bytes 018002", call("bytes", new byte[] {1, -128, 2}));
        assertEquals(1L, call("same", new byte[] {5, -128}, new byte[] {5, -128}));
        assertNull(call("bytes", (Object) null));
    }

    @Test
    void failures() throws DescribeException {
        assertEquals("-1 0 stop here", call("fail", 0));
        assertEquals("-2 0 broken", call("fail", 2));
        Watchdog.start(50, 5_000);
        try {
            assertTrue(call("fail", 1).toString().startsWith("-2 2 "));
        } finally {
            Watchdog.start(0, 5_000);
        }
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "twice; Class Functions has multiple methods named twice",
        "fixed; A method of that name is static.",
        "nothing; A method of that name returns void.",
        "absent; Cannot find the implementation method absent",
        "wrong; has an unsupported parameter type java.lang.Object at position 0"})
    void wrongMethodsAreRefused(String method, String part) {
        DescribeException thrown = assertThrows(DescribeException.class,
                () -> space.function("user.Functions", method));
        assertTrue(thrown.getMessage().contains(part), thrown.getMessage());
    }

    @Test
    void descriptions() throws DescribeException {
        assertArrayEquals(new byte[] {9, 0, 5, 9, 5, 25, 22, 8},
                space.function("user.Functions", "join").describe());
        assertArrayEquals(new byte[] {5, 9},
                space.aggregate("user.Functions$Longest").describe());
        assertThrows(DescribeException.class, () -> space.aggregate("user.Functions"));
    }

    @Test
    void aggregatesAreCombined() throws DescribeException {
        AggregateFunction function = space.aggregate("user.Functions$Longest");
        byte[] values = HeapEngine.parameterSet("a", null, "abcd", "xy");
        HeapEngine there = new HeapEngine(values);
        AggregateFunction.Instance part = function.newInstance(there);
        assertEquals(1, part.start());
        assertEquals(1, part.assemble(values.length));
        ByteBuffer serialized = answer(there, part.serialize());
        assertEquals(1, serialized.get());
        byte[] bytes = new byte[serialized.getInt()];
        serialized.get(bytes);
        HeapEngine here = new HeapEngine(bytes);
        AggregateFunction.Instance whole = function.newInstance(here);
        whole.start();
        assertEquals(VoltType.NULL.getValue(), answer(here, whole.end()).get(1));
        assertEquals(1, whole.combine(bytes.length));
        ByteBuffer end = answer(here, whole.end());
        assertEquals(1, end.get());
        assertEquals(4, FakeEngine.value(end));
        byte[] damaged = Arrays.copyOf(bytes, bytes.length / 2);
        assertEquals(-2, answer(here, whole.combine(damaged.length)).get(0));
    }
}
