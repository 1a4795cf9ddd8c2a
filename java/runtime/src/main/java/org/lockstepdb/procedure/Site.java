package org.lockstepdb.procedure;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What a thread that runs procedures is doing, for those who watch it. The thread itself writes
 * plain numbers; it takes no lock and reads no clock.
 */
final class Site {
    private static final VarHandle PROGRESS;
    private static final Map<Engine, Site> BY_ENGINE = new ConcurrentHashMap<>();
    static final Map<Thread, Site> BY_THREAD = new ConcurrentHashMap<>();

    static {
        try {
            PROGRESS = MethodHandles.lookup().findVarHandle(Site.class, "progress", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    final Engine engine;
    /** Odd while user code runs; each change says that it gets on. */
    private long progress;
    /** The number of the call under way; those of other calls are void. */
    volatile long call;
    volatile Thread thread;
    private volatile long stoppedCall = -1;
    private volatile String reason;
    /** 1 while a call is under way; the thread's own. */
    private int depth;
    // The watchdog's own.
    long seenProgress = -1;
    long seenAtMillis;

    Site(Engine engine) {
        this.engine = engine;
    }

    static Site of(Engine engine) {
        return BY_ENGINE.computeIfAbsent(engine, Site::new);
    }

    /** The site of the calling thread, null if it runs no procedures. */
    static Site current() {
        return BY_THREAD.get(Thread.currentThread());
    }

    /** Forgets an engine whose thread has ended. */
    static void forget(Engine engine) {
        Site site = BY_ENGINE.remove(engine);
        if (site != null && site.thread != null) {
            BY_THREAD.remove(site.thread, site);
        }
    }

    /** Whether a call is under way, in the engine: its statement may call functions. */
    boolean isNested() {
        return depth > 0 && !isInUserCode();
    }

    /** User code begins on the calling thread. */
    void enter() {
        depth = 1;
        Thread current = Thread.currentThread();
        if (thread != current) {
            Thread former = thread;
            if (former != null) {
                BY_THREAD.remove(former, this);
            }
            thread = current;
            BY_THREAD.put(current, this);
        }
        call++;
        step();
    }

    /** User code has ended. */
    void leave() {
        depth = 0;
        step();
        if (Guard.raised != 0) {
            Guard.settle(this);
        }
    }

    /** User code hands over to the engine, or the engine to user code. */
    void step() {
        PROGRESS.setRelease(this, progress + 1);
    }

    long progress() {
        return (long) PROGRESS.getAcquire(this);
    }

    boolean isInUserCode() {
        return (progress() & 1) == 1;
    }

    boolean isStopped() {
        return stoppedCall == call;
    }

    String reason() {
        return reason;
    }

    void markStopped(long number, String why) {
        reason = why;
        stoppedCall = number;
    }

    void clearStop() {
        stoppedCall = -1;
    }
}
