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
    private static final VarHandle CALL;
    private static final Map<Engine, Site> BY_ENGINE = new ConcurrentHashMap<>();
    static final Map<Thread, Site> BY_THREAD = new ConcurrentHashMap<>();

    static {
        try {
            PROGRESS = MethodHandles.lookup().findVarHandle(Site.class, "progress", long.class);
            CALL = MethodHandles.lookup().findVarHandle(Site.class, "call", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    final Engine engine;
    /** Whether the rules of transactions hold for the code. */
    final boolean transactional;
    /** Whether the watchdog stops it. */
    final boolean watched;
    /** Odd while user code runs; each change says that it gets on. */
    private long progress;
    /** Odd while a call is under way; each has a number of its own. */
    private long call;
    volatile Thread thread;
    private volatile long stoppedCall = -1;
    private volatile String reason;
    // The watchdog's own.
    long seenProgress = -1;
    long seenAtMillis;

    Site(Engine engine) {
        this(engine, true, engine.isLimited());
    }

    private Site(Engine engine, boolean transactional, boolean watched) {
        this.engine = engine;
        this.transactional = transactional;
        this.watched = watched;
    }

    /** One for code outside transactions: it may take long, wait and start threads. */
    static Site outside() {
        return new Site(null, false, false);
    }

    /** One for code that somebody else than the watchdog stops. */
    static Site unwatched() {
        return new Site(null, true, false);
    }

    static Site of(Engine engine) {
        return BY_ENGINE.computeIfAbsent(engine, Site::new);
    }

    /** The site of the calling thread, null if it runs no procedures. */
    static Site current() {
        return BY_THREAD.get(Thread.currentThread());
    }

    /** Makes a site that of the calling thread again, or makes it have none. */
    static void restore(Site former) {
        if (former == null) {
            BY_THREAD.remove(Thread.currentThread());
        } else {
            BY_THREAD.put(Thread.currentThread(), former);
        }
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
        return (call & 1) == 1 && !isInUserCode();
    }

    /** User code begins on the calling thread. */
    void enter() {
        Thread current = Thread.currentThread();
        if (thread != current) {
            Thread former = thread;
            if (former != null) {
                BY_THREAD.remove(former, this);
            }
            thread = current;
            BY_THREAD.put(current, this);
        }
        CALL.setRelease(this, call + 1);
        step();
    }

    /** User code has ended. */
    void leave() {
        step();
        CALL.setRelease(this, call + 1);
        if (Guard.raised != 0) {
            Guard.settle(this);
        }
    }

    /** User code has ended, and the thread goes on to something else. */
    void leaveThread() {
        leave();
        BY_THREAD.remove(Thread.currentThread(), this);
        thread = null;
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

    /** The number of the call under way, even when there is none. */
    long call() {
        return (long) CALL.getAcquire(this);
    }

    boolean isStopped() {
        return stoppedCall == call();
    }

    /** Whether a stop is marked, be it for a call that has ended. */
    boolean hasStop() {
        return stoppedCall != -1;
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
