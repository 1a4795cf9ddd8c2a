package org.voltdb.task;

import java.util.Objects;
import java.util.function.Function;

/** What a task does next. */
public final class Action {
    private final ActionType type;
    private final Function<ActionResult, Action> callback;
    private final String statusMessage;
    private final String procedure;
    private final Object[] parameters;

    private Action(ActionType type, Function<ActionResult, Action> callback, String statusMessage,
            String procedure, Object[] parameters) {
        this.type = type;
        this.callback = callback;
        this.statusMessage = statusMessage;
        this.procedure = procedure;
        this.parameters = parameters;
    }

    /** Calls a procedure; the callback gets its result and says what follows. */
    public static Action procedureCall(Function<ActionResult, Action> callback, String procedure,
            Object... parameters) {
        return new Action(ActionType.PROCEDURE, Objects.requireNonNull(callback, "callback"), null,
                Objects.requireNonNull(procedure, "procedure"), parameters.clone());
    }

    /** Runs the callback, which says what follows. */
    public static Action callback(Function<ActionResult, Action> callback) {
        return new Action(ActionType.CALLBACK, Objects.requireNonNull(callback, "callback"), null,
                null, new Object[0]);
    }

    /** Ends the task as failed. */
    public static Action createError(String statusMessage) {
        return new Action(ActionType.ERROR, null, statusMessage, null, new Object[0]);
    }

    /** Ends the task. */
    public static Action createExit(String statusMessage) {
        return new Action(ActionType.EXIT, null, statusMessage, null, new Object[0]);
    }

    public ActionType getType() {
        return type;
    }

    public Function<ActionResult, Action> getCallback() {
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
