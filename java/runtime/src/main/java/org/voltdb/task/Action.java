package org.voltdb.task;

import java.util.Objects;
import java.util.function.Function;

/** What a task does next. */
public final class Action extends ActionDescription {
    private final Function<ActionResult, Action> callback;

    private Action(ActionType type, String statusMessage, Function<ActionResult, Action> callback,
            String procedure, Object... parameters) {
        super(type, statusMessage, procedure, parameters);
        this.callback = callback;
    }

    /** Ends the task as failed; the message may be null. */
    public static Action error(String statusMessage) {
        return new Action(ActionType.ERROR, statusMessage, null, null);
    }

    /** Ends the task; the message may be null. */
    public static Action exit(String statusMessage) {
        return new Action(ActionType.EXIT, statusMessage, null, null);
    }

    /** Calls a procedure; the callback gets its result and gives the next action. */
    public static Action procedureCall(Function<ActionResult, Action> callback, String procedure,
            Object... procedureParameters) {
        return new Action(ActionType.PROCEDURE, null, Objects.requireNonNull(callback, "callback"),
                Objects.requireNonNull(procedure, "procedure"),
                Objects.requireNonNull(procedureParameters, "procedureParameters"));
    }

    /** Runs the callback, which gives the next action. */
    public static Action callback(Function<ActionResult, Action> callback) {
        return new Action(ActionType.CALLBACK, null, Objects.requireNonNull(callback, "callback"),
                null);
    }

    @Override
    public Action setStatusMessage(String statusMessage) {
        super.setStatusMessage(statusMessage);
        return this;
    }

    /** Gives the next action; null if the action ends the task. */
    public Function<ActionResult, Action> getCallback() {
        return callback;
    }
}
