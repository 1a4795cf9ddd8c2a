package org.voltdb.task;

import org.voltdb.client.ClientResponse;

/** What became of an action. */
public interface ActionResult {
    ActionType getType();

    /** Null if no procedure was called. */
    String getProcedure();

    Object[] getProcedureParameters();

    /** Null if no procedure was called. */
    ClientResponse getResponse();
}
