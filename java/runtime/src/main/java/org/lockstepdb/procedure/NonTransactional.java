package org.lockstepdb.procedure;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/** Runs procedures that are no transactions on threads of their own. */
public final class NonTransactional {
    private static final int THREADS = 20;
    private static final HostCalls HOST = new NativeCalls();
    private static final AtomicLong NEXT_REQUEST = new AtomicLong(1);
    private static final Map<Long, Consumer<ByteBuffer>> PENDING = new ConcurrentHashMap<>();
    /** The host admits calls; here none is refused. */
    private static final ThreadPoolExecutor POOL = new ThreadPoolExecutor(THREADS, THREADS, 60,
            TimeUnit.SECONDS, new LinkedBlockingQueue<>(), daemons("procedure"));
    static final ScheduledExecutorService TIMER =
            Executors.newSingleThreadScheduledExecutor(daemons("procedure timer"));

    static {
        POOL.allowCoreThreadTimeOut(true);
    }

    private NonTransactional() {}

    private static ThreadFactory daemons(String name) {
        return task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        };
    }

    /** Begins a call of a non-transactional or compound procedure. */
    public static void start(Procedure procedure, long call, byte[] record) {
        start(procedure, call, record, HOST);
    }

    static void start(Procedure procedure, long call, byte[] record, HostCalls host) {
        run(() -> new NonTransactionalCall(procedure, call, record, host).run());
    }

    static void run(Runnable task) {
        POOL.execute(task);
    }

    /** Takes the answer of an inner call; the layout is in README.md. */
    public static void complete(long request, byte[] responses) {
        Consumer<ByteBuffer> waiting = PENDING.remove(request);
        if (waiting != null) {
            run(() -> waiting.accept(ByteBuffer.wrap(responses)));
        }
    }

    static void request(HostCalls host, long call, int mode, String procedure, byte[] parameters,
            Consumer<ByteBuffer> then) {
        long request = NEXT_REQUEST.getAndIncrement();
        PENDING.put(request, then);
        try {
            host.start(call, request, mode, procedure, parameters);
        } catch (RuntimeException | Error e) {
            PENDING.remove(request);
            throw e;
        }
    }
}
