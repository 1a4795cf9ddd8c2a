package org.lockstepdb.procedure;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
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
    private static final Map<Long, Pending> PENDING = new ConcurrentHashMap<>();
    /** The calls under way, to be stopped. */
    private static final Map<Long, NonTransactionalCall> RUNNING = new ConcurrentHashMap<>();
    /** Runs procedures, which may wait for answers. The host admits calls; none is refused here. */
    private static final ThreadPoolExecutor POOL = pool("procedure");
    /** Hands out answers, also when all procedures wait; runs the stages of compound procedures. */
    private static final ThreadPoolExecutor ANSWERS = pool("procedure answers");

    /** Who waits for the answer of an inner call. */
    private record Pending(long call, Consumer<ByteBuffer> then) {}

    private NonTransactional() {}

    private static ThreadPoolExecutor pool(String name) {
        ThreadPoolExecutor pool = new ThreadPoolExecutor(THREADS, THREADS, 60, TimeUnit.SECONDS,
                new LinkedBlockingQueue<>(), daemons(name));
        pool.allowCoreThreadTimeOut(true);
        return pool;
    }

    /** Sets how many procedures run at a time. */
    public static synchronized void configure(int threads) {
        for (ThreadPoolExecutor pool : new ThreadPoolExecutor[] {POOL, ANSWERS}) {
            if (threads > pool.getMaximumPoolSize()) {
                pool.setMaximumPoolSize(threads);
                pool.setCorePoolSize(threads);
            } else {
                pool.setCorePoolSize(threads);
                pool.setMaximumPoolSize(threads);
            }
        }
    }

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
        NonTransactionalCall started = new NonTransactionalCall(procedure, call, record, host);
        RUNNING.put(call, started);
        // Compound procedures do not wait.
        (procedure.kind() == Procedure.COMPOUND ? ANSWERS : POOL).execute(started::run);
    }

    static void run(Runnable task) {
        ANSWERS.execute(task);
    }

    /** The call has ended. */
    static void ended(long call) {
        RUNNING.remove(call);
    }

    /** Stops a call whose time is over: its code, and what it waits for. Any thread may call it. */
    public static void stop(long call, String reason) {
        NonTransactionalCall running = RUNNING.remove(call);
        if (running != null) {
            running.stop(reason);
        }
        PENDING.values().removeIf(pending -> pending.call() == call);
    }

    /** Takes the answer of an inner call; the layout is in README.md. */
    public static void complete(long request, byte[] responses) {
        Pending waiting = PENDING.remove(request);
        if (waiting != null) {
            run(() -> waiting.then().accept(ByteBuffer.wrap(responses)));
        }
    }

    static void request(HostCalls host, long call, int mode, String procedure, byte[] parameters,
            Consumer<ByteBuffer> then) {
        long request = NEXT_REQUEST.getAndIncrement();
        PENDING.put(request, new Pending(call, then));
        try {
            host.start(call, request, mode, procedure, parameters);
        } catch (RuntimeException | Error e) {
            PENDING.remove(request);
            throw e;
        }
    }
}
