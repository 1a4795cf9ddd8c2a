package org.voltdb.task;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** What a task does next, and when. */
public final class ScheduledAction {
    private final ActionType type;
    private final long delay;
    private final TimeUnit timeUnit;
    private final Function<ActionResult, ScheduledAction> callback;
    private final String statusMessage;
    private final String procedure;
    private final Object[] parameters;

    private ScheduledAction(ActionType type, long delay, TimeUnit timeUnit,
            Function<ActionResult, ScheduledAction> callback, String statusMessage,
            String procedure, Object... parameters) {
        if (delay < 0) {
            throw new IllegalArgumentException("delay " + delay + " < 0");
        }
        this.type = type;
        this.delay = delay;
        this.timeUnit = Objects.requireNonNull(timeUnit, "timeUnit");
        this.callback = callback;
        this.statusMessage = statusMessage;
        this.procedure = procedure;
        this.parameters = parameters;
    }

    /** Calls a procedure after a delay; the callback gets its result and says what follows. */
    public static ScheduledAction procedureCall(long delay, TimeUnit timeUnit,
            Function<ActionResult, ScheduledAction> callback, String procedure,
            Object... parameters) {
        return new ScheduledAction(ActionType.PROCEDURE, delay, timeUnit,
                Objects.requireNonNull(callback, "callback"), null,
                Objects.requireNonNull(procedure, "procedure"), parameters.clone());
    }

    /** Calls a procedure after a delay; the callback gets its result and says what follows. */
    public static ScheduledAction procedureCall(Duration delay,
            Function<ActionResult, ScheduledAction> callback, String procedure,
            Object... parameters) {
        return procedureCall(delay.toNanos(), TimeUnit.NANOSECONDS, callback, procedure,
                parameters);
    }

    /** Runs the callback after a delay. */
    public static ScheduledAction callback(long delay, TimeUnit timeUnit,
            Function<ActionResult, ScheduledAction> callback) {
        return new ScheduledAction(ActionType.CALLBACK, delay, timeUnit,
                Objects.requireNonNull(callback, "callback"), null, null);
    }

    /** Runs the callback after a delay. */
    public static ScheduledAction callback(Duration delay,
            Function<ActionResult, ScheduledAction> callback) {
        return callback(delay.toNanos(), TimeUnit.NANOSECONDS, callback);
    }

    /** Ends the task as failed. */
    public static ScheduledAction createError(String statusMessage) {
        return new ScheduledAction(ActionType.ERROR, 0, TimeUnit.NANOSECONDS, null, statusMessage,
                null);
    }

    /** Ends the task. */
    public static ScheduledAction createExit(String statusMessage) {
        return new ScheduledAction(ActionType.EXIT, 0, TimeUnit.NANOSECONDS, null, statusMessage,
                null);
    }

    public ActionType getType() {
        return type;
    }

    public long getDelay(TimeUnit unit) {
        return unit.convert(delay, timeUnit);
    }

    public Function<ActionResult, ScheduledAction> getCallback() {
        return callback;
    }

    public String getStatusMessage() {
        return statusMessage;
    }

    public String getProcedure() {
        return procedure;
    }

    public Object[] getProcedureParameters() {
        return parameters.clone();
    }
}
