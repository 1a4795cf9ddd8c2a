package org.lockstepdb.procedure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The thread that runs hostile procedures serves again at once. */
class HostileTest {
    private static final int LIMIT_MS = 100;

    private final ClassSpace space = TestJars.space();
    private final FakeEngine engine = new FakeEngine();

    @BeforeEach
    void watch() {
        Watchdog.start(LIMIT_MS, 5_000);
    }

    @AfterEach
    void stopWatching() {
        Watchdog.start(0, 5_000);
    }

    private ProcedureInstance instance(String name) throws DescribeException {
        return space.procedure("user.Hostile$" + name).newInstance(engine);
    }

    /** A call of another procedure works as if nothing had been. */
    private void servesAgain() throws DescribeException {
        ProcedureInstance other = space.procedure("user.Returns$ALong").newInstance(engine);
        FakeEngine.Ended ended = engine.call(other);
        assertEquals(1, ended.status(), ended.statusString());
        assertEquals(42, ended.tables()[0].asScalarLong());
        assertEquals(0, Guard.raised, "a stop is left over");
        assertFalse(Thread.currentThread().isInterrupted());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
    void endlessProceduresAreStopped(int kind) throws DescribeException {
        ProcedureInstance endless = instance("Endless");
        Assertions.assertTimeout(Duration.ofMillis(1_000), () -> {
            FakeEngine.Ended ended = engine.call(endless, kind);
            assertEquals(-3, ended.status());
            assertEquals(2, ended.origin(), ended.statusString());
        });
        servesAgain();
        // The same object, and the lock that it may have held, serve as well.
        Assertions.assertTimeout(Duration.ofMillis(1_000),
                () -> assertEquals(2, engine.call(endless, 6).origin()));
        servesAgain();
    }

    @Test
    void onlyTheCallThatIsMeantIsStopped() throws Exception {
        FakeEngine other = new FakeEngine();
        ProcedureInstance there = space.procedure("user.Hostile$Endless").newInstance(other);
        FakeEngine.Ended[] ended = new FakeEngine.Ended[1];
        Watchdog.start(0, 5_000);
        Thread thread = new Thread(() -> ended[0] = other.call(there, 0));
        thread.start();
        while (!Site.of(other).isInUserCode()) {
            Thread.onSpinWait();
        }
        for (int i = 0; i < 1_000; i++) {
            servesAgain();
        }
        assertTrue(Guard.stop(other, "the client went away"));
        thread.join(1_000);
        assertEquals("the client went away", ended[0].message());
        assertFalse(Guard.stop(other, "too late"));
        servesAgain();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5, 6})
    void proceduresCannotEndTheProcess(int kind) throws DescribeException {
        FakeEngine.Ended ended = engine.call(instance("Exit"), kind);
        assertEquals(-3, ended.status());
        assertTrue(ended.statusString().contains("procedures cannot end the host"),
                ended.statusString());
        assertTrue(ended.statusString().contains("user.Hostile$Exit.run(Hostile.java:"),
                ended.statusString());
        servesAgain();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4})
    void threadsAreRefused(int kind) throws DescribeException {
        FakeEngine.Ended ended = engine.call(instance("Threads"), kind);
        assertEquals(-3, ended.status());
        assertTrue(ended.statusString().contains("cannot start threads"), ended.statusString());
        servesAgain();
    }

    @Test
    void threadsOfPoolsCannotUseTheContext() throws DescribeException {
        FakeEngine.Ended ended = engine.call(instance("Threads"), 5);
        assertEquals(-1, ended.status());
        assertTrue(ended.message().contains("in another thread"), ended.message());
        assertTrue(engine.batches.isEmpty());
        servesAgain();
    }

    @Test
    void deepRecursionEndsTheCallAlone() throws DescribeException {
        FakeEngine.Ended ended = engine.call(instance("Hungry"), 0);
        assertEquals("java.lang.StackOverflowError", ended.exception());
        assertTrue(ended.statusString().length() < 20_000);
        servesAgain();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void hugeAllocationsEndTheCallAlone(int kind) throws DescribeException {
        // Collecting garbage in vain takes its time; that is not what is tested.
        Watchdog.start(0, 5_000);
        FakeEngine.Ended ended = engine.call(instance("Hungry"), kind);
        assertEquals("java.lang.OutOfMemoryError", ended.exception());
        servesAgain();
    }

    @Test
    void theContextIsDeadOutsideACall() throws DescribeException {
        ProcedureInstance first = instance("Hoarder");
        ProcedureInstance second = instance("Hoarder");
        assertEquals(1, engine.call(first, 0).status());
        FakeEngine.Ended ended = engine.call(second, 1);
        assertTrue(ended.message().contains("outside a call"), ended.message());
        servesAgain();
    }

    @Test
    void reflectionOnOwnClassesWorks() throws DescribeException {
        FakeEngine.Ended ended = engine.call(instance("Reflective"));
        assertNull(ended.statusString());
        assertEquals(11, ended.tables()[0].asScalarLong());
    }

    @Test
    void loadingHasALimit() throws DescribeException {
        Watchdog.start(LIMIT_MS, 5_000);
        DescribeException thrown = Assertions.assertThrows(DescribeException.class,
                () -> space.procedure("user.Returns$LoopingConstructor"));
        assertTrue(thrown.getMessage().contains("instantiated"), thrown.getMessage());
        servesAgain();
    }

    @ParameterizedTest
    @ValueSource(strings = {"EndlessInitializer", "StuckInitializer"})
    void initializersHaveALimit(String name) throws DescribeException {
        for (int attempt = 0; attempt < 2; attempt++) {
            // Loading may take two seconds, whatever less a call may take.
            Assertions.assertTimeout(Duration.ofMillis(4_000),
                    () -> Assertions.assertThrows(DescribeException.class, () -> instance(name)));
            servesAgain();
        }
    }

    @Test
    void theConstructorsOfFurtherObjectsHaveALimit() throws DescribeException {
        Assertions.assertTimeout(Duration.ofMillis(1_000), () -> Assertions.assertThrows(
                DescribeException.class, () -> instance("EndlessConstructor")));
        servesAgain();
    }
}
