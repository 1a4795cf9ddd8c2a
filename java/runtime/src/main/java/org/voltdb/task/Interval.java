package org.voltdb.task;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** A delay, and who says the next one. */
public final class Interval {
    private final long delay;
    private final TimeUnit timeUnit;
    private final Function<ActionResult, Interval> callback;

    public Interval(Duration delay, Function<ActionResult, Interval> callback) {
        this(delay.toNanos(), TimeUnit.NANOSECONDS, callback);
    }

    public Interval(long delay, TimeUnit timeUnit, Function<ActionResult, Interval> callback) {
        if (delay < 0) {
            throw new IllegalArgumentException("delay " + delay + " < 0");
        }
        this.delay = delay;
        this.timeUnit = Objects.requireNonNull(timeUnit, "timeUnit");
        this.callback = Objects.requireNonNull(callback, "callback");
    }

    public long getDelay(TimeUnit unit) {
        return unit.convert(delay, timeUnit);
    }

    /** Called with the action's result. */
    public Function<ActionResult, Interval> getCallback() {
        return callback;
    }
}
