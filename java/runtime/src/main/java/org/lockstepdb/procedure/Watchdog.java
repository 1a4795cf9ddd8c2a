package org.lockstepdb.procedure;

/** Stops calls that stay in user code for too long, and reports those that cannot be stopped. */
public final class Watchdog {
    private static final int MAX_TICK_MS = 50;
    /** 0 is off. */
    private static volatile int limitMs;
    private static volatile int stuckMs = 10_000;
    private static Thread thread;

    private Watchdog() {}

    /**
     * Starts watching, or changes the limits.
     *
     * @param limit how long a call may stay in user code between batches, in ms; 0 is off
     * @param stuck how long after that the engine hears of one that did not stop, in ms
     */
    public static synchronized void start(int limit, int stuck) {
        limitMs = limit;
        stuckMs = stuck;
        if (limit > 0 && thread == null) {
            thread = new Thread(Watchdog::watch, "procedure watchdog");
            thread.setDaemon(true);
            thread.start();
        }
    }

    static int limitMillis() {
        return limitMs;
    }

    private static void watch() {
        long last = System.nanoTime() / 1_000_000;
        while (true) {
            int limit = limitMs;
            int tick = limit == 0 ? MAX_TICK_MS : Math.max(1, Math.min(MAX_TICK_MS, limit / 4));
            try {
                Thread.sleep(tick);
            } catch (InterruptedException e) {
                continue;
            }
            long now = System.nanoTime() / 1_000_000;
            // While this thread was held up, by the collector or the machine, so were the others:
            // that is no time of theirs.
            long lost = Math.max(0, now - last - 2L * tick);
            last = now;
            for (Site site : Site.BY_THREAD.values()) {
                site.seenAtMillis += lost;
                look(site, now, limit);
            }
        }
    }

    private static void look(Site site, long now, int limit) {
        if (!site.watched) {
            return;
        }
        long call = site.call();
        long progress = site.progress();
        if ((progress & 1) == 0 || progress != site.seenProgress) {
            site.seenProgress = progress;
            site.seenAtMillis = now;
            return;
        }
        long spent = now - site.seenAtMillis;
        Thread user = site.thread;
        if (limit > 0 && spent >= limit && !site.isStopped()) {
            Guard.stop(site, call, "the procedure ran for " + limit
                    + " ms without executing a batch");
        } else if (site.isStopped() && user != null) {
            user.interrupt();
            if (spent >= limit + (long) stuckMs && site.engine != null) {
                site.engine.stuck(describe(user, spent));
                site.seenAtMillis = now;
            }
        }
    }

    private static String describe(Thread user, long spent) {
        return "a procedure has not stopped for " + spent + " ms:"
                + UserTrace.frames(user.getStackTrace());
    }
}
