package org.voltdb;

import java.util.concurrent.CompletableFuture;
import org.lockstepdb.procedure.NonTransactionalCall;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/** The base of procedures that call others, each in a transaction of its own. */
public class VoltNonTransactionalProcedure {
    /** Null while the constructor runs. */
    NonTransactionalCall call;

    public VoltNonTransactionalProcedure() {}

    private NonTransactionalCall call() {
        if (call == null) {
            throw new IllegalStateException("procedure " + getClass().getSimpleName()
                    + " used its context outside a call");
        }
        return call;
    }

    /** Calls a procedure. */
    public CompletableFuture<ClientResponse> callProcedure(String procedure, Object... parameters) {
        return call().callProcedure(procedure, parameters);
    }

    /** Calls a single-partition procedure on every partition. */
    public CompletableFuture<ClientResponseWithPartitionKey[]> callAllPartitionProcedure(
            String procedure, Object... parameters) {
        return call().callAllPartitionProcedure(procedure, parameters);
    }

    /** The identity of this cluster among those that replicate to each other. */
    public int getClusterId() {
        return call().clusterId();
    }

    /** A code for the client, beside the status. */
    public void setAppStatusCode(byte statusCode) {
        call().setApplicationStatus(statusCode);
    }

    /** A text for the client, beside the status. */
    public void setAppStatusString(String statusString) {
        call().setApplicationStatus(statusString);
    }
}
