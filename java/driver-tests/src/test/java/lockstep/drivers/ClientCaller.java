// Calls through `Client`, the interface that both tested versions have.
package lockstep.drivers;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.voltdb.client.Client;
import org.voltdb.client.ClientConfig;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;
import org.voltdb.client.ProcCallException;

/** A topology-aware `Client`, used synchronously or with callbacks. */
final class ClientCaller implements Caller {
    private static final long TIMEOUT_S = 60;
    final Client client;
    private final boolean async;

    ClientCaller(String address, boolean async) throws Exception {
        ClientConfig config = new ClientConfig("", "");
        config.setProcedureCallTimeout(TIMEOUT_S * 1000);
        config.setTopologyChangeAware(true);
        this.async = async;
        client = ClientFactory.createClient(config);
        client.createConnection(Target.host(address), Target.port(address));
    }

    @Override
    public ClientResponse call(String procedure, Object... parameters) throws Exception {
        if (async) {
            return start(procedure, parameters).get(TIMEOUT_S, TimeUnit.SECONDS);
        }
        try {
            return client.callProcedure(procedure, parameters);
        } catch (ProcCallException failure) {
            return failure.getClientResponse();
        }
    }

    /** A call with a callback, as a future. */
    CompletableFuture<ClientResponse> start(String procedure, Object... parameters)
            throws Exception {
        CompletableFuture<ClientResponse> future = new CompletableFuture<>();
        if (!client.callProcedure(future::complete, procedure, parameters)) {
            throw new IllegalStateException("the client did not queue a call of " + procedure);
        }
        return future;
    }

    @Override
    public ClientResponseWithPartitionKey[] callAllPartitions(
            String procedure, Object... parameters) throws Exception {
        if (!async) {
            return client.callAllPartitionProcedure(procedure, parameters);
        }
        CompletableFuture<ClientResponseWithPartitionKey[]> future = new CompletableFuture<>();
        client.callAllPartitionProcedure(future::complete, procedure, parameters);
        return future.get(TIMEOUT_S, TimeUnit.SECONDS);
    }

    @Override
    public void close() throws Exception {
        client.drain();
        client.close();
    }
}
