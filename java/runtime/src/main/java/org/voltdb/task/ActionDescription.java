package org.voltdb.task;

import java.util.Arrays;

/** What actions have in common, whether they come with a time or not. */
class ActionDescription {
    private final ActionType type;
    private final String procedure;
    private final Object[] parameters;
    private String statusMessage;

    ActionDescription(ActionType type, String statusMessage, String procedure,
            Object... parameters) {
        this.type = type;
        this.statusMessage = statusMessage;
        this.procedure = procedure;
        this.parameters = parameters.clone();
    }

    /** What the action is. */
    public ActionType getType() {
        return type;
    }

    /** The message that statistics of the task show, null if there is none. */
    public String getStatusMessage() {
        return statusMessage;
    }

    /** Sets the message that statistics of the task show; null for none. */
    public ActionDescription setStatusMessage(String statusMessage) {
        this.statusMessage = statusMessage;
        return this;
    }

    /** The procedure to be called, null if the action calls none. */
    public String getProcedure() {
        return procedure;
    }

    /** A copy of the parameters of the procedure. */
    public Object[] getProcedureParameters() {
        return parameters.clone();
    }

    @Override
    public String toString() {
        return type + (procedure == null ? "" : " " + procedure + Arrays.toString(parameters))
                + (statusMessage == null ? "" : " (" + statusMessage + ")");
    }
}
