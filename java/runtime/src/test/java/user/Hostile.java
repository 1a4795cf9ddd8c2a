package user;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntConsumer;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** Procedures that mean no good, or were written badly. */
public final class Hostile {
    private Hostile() {}

    static final Object LOCK = new Object();

    /** Many ways not to end. */
    public static class Endless extends VoltProcedure {
        int field;

        public long run(int kind) throws InterruptedException {
            switch (kind) {
                case 0:
                    while (true) {
                        field++;
                    }
                case 1:
                    while (true) {
                        try {
                            while (true) {
                                field++;
                            }
                        } catch (Throwable t) {
                            field--;
                        }
                    }
                case 2:
                    return swallow(0);
                case 3:
                    return recursion(60);
                case 4:
                    while (true) {
                        try {
                            Thread.sleep(100_000);
                        } catch (InterruptedException e) {
                            field++;
                        }
                    }
                case 5:
                    while (true) {
                        LockSupport.park();
                    }
                case 6:
                    while (true) {
                        synchronized (LOCK) {
                            field++;
                        }
                    }
                case 7:
                    new CountDownLatch(1).await();
                    return 0;
                case 8:
                    synchronized (LOCK) {
                        LOCK.wait();
                    }
                    return 0;
                case 9:
                    for (;;) {
                        switch (field) {
                            case 0:
                                continue;
                            case 1:
                                field = 0;
                                continue;
                            default:
                                field = 1;
                        }
                    }
                case 10:
                    return java.util.stream.LongStream.iterate(0, i -> i + 1).sum();
                default:
                    do {
                        try {
                            field++;
                        } finally {
                            if (field != 0) {
                                continue;
                            }
                        }
                    } while (true);
            }
        }

        private long swallow(int depth) {
            while (true) {
                try {
                    if (depth < 50) {
                        return swallow(depth + 1);
                    }
                    field++;
                } catch (Throwable t) {
                    field--;
                }
            }
        }

        private long recursion(int n) {
            return n < 2 ? n : recursion(n - 1) + recursion(n - 2);
        }
    }

    /** Many ways to end the process. */
    public static class Exit extends VoltProcedure {
        public long run(int kind) throws Throwable {
            switch (kind) {
                case 0:
                    System.exit(3);
                    return 0;
                case 1:
                    Runtime.getRuntime().exit(3);
                    return 0;
                case 2:
                    Runtime.getRuntime().halt(3);
                    return 0;
                case 3:
                    IntConsumer exit = System::exit;
                    exit.accept(3);
                    return 0;
                case 4:
                    System.class.getMethod("exit", int.class).invoke(null, 3);
                    return 0;
                case 5:
                    MethodHandles.lookup().findStatic(System.class, "exit",
                            MethodType.methodType(void.class, int.class)).invoke(3);
                    return 0;
                default:
                    MethodHandles.lookup().findVirtual(Runtime.class, "halt",
                            MethodType.methodType(void.class, int.class))
                            .invoke(Runtime.getRuntime(), 3);
                    return 0;
            }
        }
    }

    /** Many ways to start threads. */
    public static class Threads extends VoltProcedure {
        public final SQLStmt read = new SQLStmt("SELECT 1 FROM t");

        public long run(int kind) throws Exception {
            AtomicReference<Throwable> seen = new AtomicReference<>();
            Runnable use = () -> {
                try {
                    voltQueueSQL(read);
                    voltExecuteSQL();
                } catch (Throwable e) {
                    seen.set(e);
                }
            };
            switch (kind) {
                case 0:
                    new Thread(use).start();
                    return 1;
                case 1:
                    new Thread(use) {
                        @Override
                        public void start() {
                            super.start();
                        }
                    }.start();
                    return 1;
                case 2:
                    Executors.newSingleThreadExecutor().submit(use);
                    return 1;
                case 3:
                    new java.util.Timer();
                    return 1;
                case 4:
                    Thread.class.getMethod("start").invoke(new Thread(use));
                    return 1;
                default:
                    java.util.concurrent.CompletableFuture.runAsync(use).get();
                    throw new VoltAbortException(String.valueOf(seen.get()));
            }
        }
    }

    /** More memory and stack than there is. */
    public static class Hungry extends VoltProcedure {
        public long run(int kind) {
            if (kind == 0) {
                return deeper(0);
            }
            if (kind == 1) {
                return new long[Integer.MAX_VALUE - 8].length;
            }
            List<long[]> all = new ArrayList<>();
            while (true) {
                all.add(new long[1 << 24]);
            }
        }

        private long deeper(long n) {
            return deeper(n + 1) + 1;
        }
    }

    /** Never ready: its first use does not end. */
    public static class EndlessInitializer extends VoltProcedure {
        static final long NEVER = never();

        private static long never() {
            long n = 0;
            while (true) {
                n++;
            }
        }

        public long run() {
            return NEVER;
        }
    }

    /** The same in code of the JDK that takes no notice of being interrupted. */
    public static class StuckInitializer extends VoltProcedure {
        static final Object NEVER = new java.util.concurrent.CompletableFuture<>().join();

        public long run() {
            return NEVER == null ? 0 : 1;
        }
    }

    /** Its first object is made at once; others never are. */
    public static class EndlessConstructor extends VoltProcedure {
        private static int made;

        public EndlessConstructor() {
            while (made > 0) {
                Thread.onSpinWait();
            }
            made++;
        }

        public long run() {
            return made;
        }
    }

    /** Keeps its context beyond the call. */
    public static class Hoarder extends VoltProcedure {
        private static VoltProcedure kept;

        public final SQLStmt read = new SQLStmt("SELECT 1 FROM t");

        public long run(int kind) {
            if (kind == 0) {
                kept = this;
                return 0;
            }
            kept.voltQueueSQL(read);
            return 1;
        }
    }

    /** Reflection on itself still works. */
    public static class Reflective extends VoltProcedure {
        public long run() throws Exception {
            Object secret = Class.forName("user.Hostile$Secret").getDeclaredConstructor()
                    .newInstance();
            return (Integer) secret.getClass().getMethod("value").invoke(secret);
        }
    }

    static class Secret {
        public Integer value() {
            return 11;
        }
    }
}
