package org.lockstepdb.procedure;

/**
 * Runs user code that a statement waits for: static initializers and constructors. On a thread of
 * its own, so that whoever waits goes on when the code does not end.
 */
final class Loading<T> extends Thread {
    /** How long it may take where calls have no limit. */
    private static final int LIMIT_MS = 10_000;
    /** How long it may take at least: it stops no partition. */
    private static final int LEAST_LIMIT_MS = 2_000;
    /** How long code that was told to stop may take to end. */
    private static final int GRACE_MS = 500;

    /** What is to be run. */
    interface Work<T> {
        T run() throws DescribeException;
    }

    private final String className;
    private final Work<T> work;
    private final Site site = Site.unwatched();
    private volatile long call;
    private T result;
    private DescribeException refusal;
    private Throwable failure;

    private Loading(String className, Work<T> work) {
        super("procedure loading");
        this.className = className;
        this.work = work;
        setDaemon(true);
    }

    /**
     * Runs it for at most as long as a call may run, or two seconds if that is longer.
     *
     * @throws DescribeException it failed, or did not end
     */
    static <T> T guarded(String className, Work<T> work) throws DescribeException {
        Loading<T> loading = new Loading<>(className, work);
        loading.start();
        int limit = Watchdog.limitMillis() == 0 ? LIMIT_MS
                : Math.max(LEAST_LIMIT_MS, Watchdog.limitMillis());
        loading.await(limit);
        if (loading.isAlive()) {
            Guard.stop(loading.site, loading.call,
                    "its code ran for more than " + limit + " ms");
            loading.await(GRACE_MS);
        }
        if (loading.isAlive()) {
            Guard.abandon(loading.site);
            throw new DescribeException("Cannot load class: " + className + ": its static"
                    + " initializer or constructor does not end, and cannot be stopped"
                    + UserTrace.frames(loading.getStackTrace()));
        }
        return loading.outcome();
    }

    /** An interrupt, which may be meant for a call that has ended, does not cut it short. */
    private void await(long millis) {
        long end = System.nanoTime() + millis * 1_000_000;
        boolean interrupted = false;
        long left = millis;
        while (left > 0 && isAlive()) {
            try {
                join(left);
            } catch (InterruptedException e) {
                interrupted = true;
            }
            left = (end - System.nanoTime()) / 1_000_000;
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void run() {
        site.enter();
        call = site.call();
        try {
            result = work.run();
        } catch (DescribeException e) {
            refusal = e;
        } catch (Throwable e) {
            failure = e;
        } finally {
            site.leave();
            Site.restore(null);
        }
    }

    private T outcome() throws DescribeException {
        if (failure != null) {
            String what = failure instanceof Cancelled ? failure.getMessage()
                    : failure.toString();
            throw new DescribeException("Cannot load class: " + className + ": " + what
                    + UserTrace.framesOf(failure, className), failure);
        }
        if (refusal != null) {
            throw refusal;
        }
        return result;
    }
}
