package org.lockstepdb.procedure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Procedures that are no transactions, with a host that answers their calls. */
class DirectedTest {
    private final ClassSpace space = TestJars.space();

    /** Answers with the number of the call, from 1; {@code Fails} fails. */
    private static final class Host implements HostCalls {
        final List<String> called = Collections.synchronizedList(new ArrayList<>());
        final BlockingQueue<byte[]> finished = new ArrayBlockingQueue<>(10);

        @Override
        public void start(long call, long request, int mode, String procedure, byte[] set) {
            ByteBuffer in = ByteBuffer.wrap(set);
            StringBuilder text = new StringBuilder(mode + procedure);
            for (int count = in.getShort(); count > 0; count--) {
                text.append(' ').append(FakeEngine.value(in));
            }
            called.add(text.toString());
            int partitions = mode == HostCalls.ONE ? 1 : 3;
            ByteBuffer out = ByteBuffer.allocate(1_000);
            out.putShort((short) partitions);
            for (int partition = 0; partition < partitions; partition++) {
                out.putInt(partition);
                int start = out.position();
                out.putInt(0);
                boolean fails = procedure.equals("Fails");
                out.put((byte) 0).putLong(9).put((byte) (fails ? 0x20 : 0));
                out.put((byte) (fails ? -2 : 1));
                if (fails) {
                    out.putInt(3).put("why".getBytes());
                }
                out.put((byte) -128).putInt(0).putShort((short) (fails ? 0 : 1));
                if (!fails) {
                    FakeEngine.longs("A", called.size()).flattenToBuffer(out);
                }
                out.putInt(start, out.position() - start - 4);
            }
            NonTransactional.complete(request, out.array());
        }

        @Override
        public void finish(long call, byte[] outcome) {
            assertEquals(8, call);
            finished.add(outcome);
        }
    }

    private final Host host = new Host();

    private FakeEngine.Ended call(String name, Object... parameters) throws Exception {
        Procedure procedure = space.procedure("user.Directed$" + name);
        NonTransactional.start(procedure, 8,
                FakeEngine.call(HeapEngine.parameterSet(parameters), 0), host);
        byte[] outcome = host.finished.poll(10, TimeUnit.SECONDS);
        assertTrue(outcome != null, "no answer");
        return FakeEngine.ended(ByteBuffer.wrap(outcome));
    }

    @Test
    void callsAndFutures() throws Exception {
        FakeEngine.Ended ended = call("Adding", 5L, "x");
        assertEquals(1, ended.status(), ended.statusString());
        assertEquals(3, ended.tables()[0].asScalarLong());
        assertEquals(3, ended.applicationStatus());
        assertEquals("cluster 5", ended.applicationText());
        assertEquals(List.of("0First 5 x", "0Second 5"), host.called);
        assertEquals(1, call("Passing", "Any").status());
        ended = call("Passing", "Fails");
        assertEquals(-2, ended.status());
        assertEquals("why", ended.statusString());
    }

    @Test
    void everyPartition() throws Exception {
        assertEquals(6, call("Everywhere").tables()[0].asScalarLong());
        assertEquals(List.of("1Count 5"), host.called);
    }

    @Test
    void failures() throws Exception {
        FakeEngine.Ended ended = call("Throwing");
        assertEquals(-3, ended.status());
        assertEquals("java.lang.IllegalArgumentException", ended.exception());
        assertEquals(-2, call("Adding", 5L).status());
        assertEquals(-2, call("Adding", "x", "y").status());
    }

    @Test
    void stages() throws Exception {
        FakeEngine.Ended ended = call("Stages", 0);
        assertEquals(1, ended.status(), ended.statusString());
        assertEquals(1201, ended.tables()[0].asScalarLong());
        assertEquals(20, ended.applicationStatus());
        assertEquals(List.of("0Ask 0", "0Ask 1", "0Tell 12"), host.called);
        ended = call("Stages", 1);
        assertEquals(-17, ended.status());
        assertEquals("COMPOUND PROC ERROR: User abort: because", ended.statusString());
        assertEquals(-1, call("Stages", 2).tables()[0].asScalarLong(), "other stages");
        ended = call("Stages", 3);
        assertEquals(-3, ended.status());
        assertTrue(ended.statusString().contains("without completeProcedure"));
        ended = call("Stages", 4);
        assertEquals(-3, ended.status());
        assertTrue(ended.statusString().startsWith("COMPOUND PROC ERROR: Unexpected failure: "
                + "java.lang.IllegalStateException: odd\n    at user.Directed$Stages.first("));
        assertTrue(call("Stages", 5).statusString().contains("more than 10 calls"));
    }
}
