package org.voltdb.task;

import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** What a task does next, and when. */
public class ScheduledAction {
    /** The interval of an action that ends the task: it has none. */
    private static final long NO_INTERVAL = -1;

    private final long intervalNanos;
    private final ActionDescription action;
    private final Function<ActionResult, ScheduledAction> callback;
    private Object attachment;

    private ScheduledAction(long intervalNanos, ActionDescription action,
            Function<ActionResult, ScheduledAction> callback) {
        this.intervalNanos = intervalNanos;
        this.action = action;
        this.callback = callback;
    }

    private static ScheduledAction after(long interval, TimeUnit timeUnit,
            ActionDescription action, Function<ActionResult, ScheduledAction> callback) {
        long nanos = Objects.requireNonNull(timeUnit, "timeUnit").toNanos(interval);
        return new ScheduledAction(nanos, action, Objects.requireNonNull(callback, "callback"));
    }

    /** An action that ends the task. */
    public static ScheduledAction of(Action action) {
        if (!action.getType().isStop()) {
            throw new IllegalArgumentException("an action of type " + action.getType()
                    + " does not end the task: it needs an interval");
        }
        return new ScheduledAction(NO_INTERVAL, action, null);
    }

    /** An action after an interval; both are followed by what their callbacks give. */
    public static ScheduledAction of(Interval interval, Action action) {
        Objects.requireNonNull(interval, "interval");
        if (action.getType().isStop()) {
            throw new IllegalArgumentException("an action of type " + action.getType()
                    + " ends the task: it takes no interval");
        }
        return new ScheduledAction(interval.getInterval(TimeUnit.NANOSECONDS), action, result -> {
            Action next = action.getCallback().apply(result);
            return next.getType().isStop() ? of(next)
                    : of(interval.getCallback().apply(result), next);
        });
    }

    /** Ends the task as failed; the message may be null. */
    public static ScheduledAction error(String statusMessage) {
        return of(Action.error(statusMessage));
    }

    /** Ends the task; the message may be null. */
    public static ScheduledAction exit(String statusMessage) {
        return of(Action.exit(statusMessage));
    }

    /** Calls a procedure after an interval; the callback gets its result. */
    public static ScheduledAction procedureCall(long interval, TimeUnit timeUnit,
            Function<ActionResult, ScheduledAction> callback, String procedure,
            Object... procedureParameters) {
        return after(interval, timeUnit, new ActionDescription(ActionType.PROCEDURE, null,
                Objects.requireNonNull(procedure, "procedure"),
                Objects.requireNonNull(procedureParameters, "procedureParameters")), callback);
    }

    /** Runs the callback after an interval. */
    public static ScheduledAction callback(long interval, TimeUnit timeUnit,
            Function<ActionResult, ScheduledAction> callback) {
        return after(interval, timeUnit, new ActionDescription(ActionType.CALLBACK, null, null),
                callback);
    }

    /** How long after the action before it this one comes. */
    public long getInterval(TimeUnit timeUnit) {
        return timeUnit.convert(intervalNanos, TimeUnit.NANOSECONDS);
    }

    /** What the action is. */
    public ActionType getType() {
        return action.getType();
    }

    /** The message that statistics of the task show, null if there is none. */
    public String getStatusMessage() {
        return action.getStatusMessage();
    }

    /** Sets the message that statistics of the task show; null for none. */
    public ScheduledAction setStatusMessage(String statusMessage) {
        action.setStatusMessage(statusMessage);
        return this;
    }

    /** The procedure to be called, null if the action calls none. */
    public String getProcedure() {
        return action.getProcedure();
    }

    /** A copy of the parameters of the procedure. */
    public Object[] getProcedureParameters() {
        return action.getProcedureParameters();
    }

    /** Gives the next action; null if this one ends the task. */
    public Function<ActionResult, ScheduledAction> getCallback() {
        return callback;
    }

    /** Attaches an object, which the action's result has too; null for none. */
    public ScheduledAction setAttachment(Object attachment) {
        this.attachment = attachment;
        return this;
    }

    /** The attached object, null if there is none. */
    @SuppressWarnings("unchecked")
    public <T> T getAttachment() {
        return (T) attachment;
    }

    @Override
    public String toString() {
        return action + " after " + intervalNanos + " ns";
    }
}
