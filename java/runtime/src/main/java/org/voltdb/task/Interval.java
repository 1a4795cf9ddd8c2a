package org.voltdb.task;

import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** The time until an action, and what gives the next one. */
public class Interval {
    private final long nanos;
    private final Function<ActionResult, Interval> callback;

    public Interval(long interval, TimeUnit timeUnit, Function<ActionResult, Interval> callback) {
        nanos = timeUnit.toNanos(interval);
        this.callback = callback;
    }

    /** The time in a unit. */
    public long getInterval(TimeUnit timeUnit) {
        return timeUnit.convert(nanos, TimeUnit.NANOSECONDS);
    }

    /** Gives the next interval, from the action's result. */
    public Function<ActionResult, Interval> getCallback() {
        return callback;
    }

    @Override
    public String toString() {
        return nanos + " ns";
    }
}
