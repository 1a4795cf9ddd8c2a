package org.voltdb.task;

import java.util.concurrent.TimeUnit;
import org.voltdb.client.ClientResponse;

/** What became of an action. */
public interface ActionResult {
    /** What the action was. */
    ActionType getType();

    /** The time that the action waited for, in a unit. */
    long getInterval(TimeUnit timeUnit);

    /** The procedure that was called, null if none was. */
    String getProcedure();

    /** The parameters of the procedure. */
    Object[] getProcedureParameters();

    /** The procedure's response, null if none was called. */
    ClientResponse getResponse();

    /** The object that was attached to the action, null if none was. */
    <T> T getAttachment() throws ClassCastException;
}
