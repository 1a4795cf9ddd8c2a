// `Client2`, which came with version 11 of the client and is not in 10.1.1.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.voltdb.client.Client2;
import org.voltdb.client.Client2CallOptions;
import org.voltdb.client.Client2Config;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;
import org.voltdb.client.ProcCallException;

class Client2Test {
    private static final long TIMEOUT_S = 60;

    /** Calls through `Client2`, waiting for its answer or for its future. */
    static final class Client2Caller implements Caller {
        final Client2 client;
        private final boolean async;

        Client2Caller(String address, boolean async) throws Exception {
            this.async = async;
            Client2Config config = new Client2Config()
                    .procedureCallTimeout(TIMEOUT_S, TimeUnit.SECONDS);
            client = ClientFactory.createClient(config);
            client.connectSync(Target.host(address), Target.port(address));
            assertTrue(client.waitForTopology(10, TimeUnit.SECONDS), "no topology in time");
        }

        @Override
        public ClientResponse call(String procedure, Object... parameters) throws Exception {
            if (async) {
                return client.callProcedureAsync(procedure, parameters)
                        .get(TIMEOUT_S, TimeUnit.SECONDS);
            }
            try {
                return client.callProcedureSync(procedure, parameters);
            } catch (ProcCallException failure) {
                return failure.getClientResponse();
            }
        }

        @Override
        public ClientResponseWithPartitionKey[] callAllPartitions(
                String procedure, Object... parameters) throws Exception {
            Client2CallOptions options = new Client2CallOptions();
            if (async) {
                return client.callAllPartitionProcedureAsync(options, procedure, parameters)
                        .get(TIMEOUT_S, TimeUnit.SECONDS);
            }
            return client.callAllPartitionProcedureSync(options, procedure, parameters);
        }

        @Override
        public void close() throws Exception {
            client.drain();
            client.close();
        }
    }

    @Nested
    class SyncTypes extends TypesContract {
        @Override
        Caller open() throws Exception {
            return new Client2Caller(Target.server(), false);
        }
    }

    @Nested
    class SyncCalls extends CallsContract {
        @Override
        Caller open() throws Exception {
            return new Client2Caller(Target.server(), false);
        }
    }

    @Nested
    class AsyncTypes extends TypesContract {
        @Override
        Caller open() throws Exception {
            return new Client2Caller(Target.server(), true);
        }
    }

    @Nested
    class AsyncCalls extends CallsContract {
        @Override
        Caller open() throws Exception {
            return new Client2Caller(Target.server(), true);
        }
    }

    @Nested
    class AdminCalls extends CallsContract {
        @Override
        Caller open() throws Exception {
            return new Client2Caller(Target.admin(), true);
        }
    }

    @Test
    void prioritiesAndTimeoutsTravelWithTheCall() throws Exception {
        try (Client2Caller one = new Client2Caller(Target.server(), false)) {
            for (int priority : new int[] {Client2Config.HIGHEST_PRIORITY, 4,
                    Client2Config.LOWEST_PRIORITY}) {
                Client2CallOptions options = new Client2CallOptions().requestPriority(priority)
                        .clientTimeout(10, TimeUnit.SECONDS).queryTimeout(3, TimeUnit.SECONDS);
                ClientResponse response = one.client.callProcedureSync(options, "@Ping");
                assertEquals(ClientResponse.SUCCESS, response.getStatus());
            }
        }
    }

    @Test
    void manyInFlight() throws Exception {
        int calls = 5000;
        try (Client2Caller one = new Client2Caller(Target.server(), true)) {
            one.client.setRequestLimits(calls + 1, calls, calls / 2);
            List<CompletableFuture<ClientResponse>> waiting = new ArrayList<>();
            for (int i = 0; i < calls; i++) {
                waiting.add(one.client.callProcedureAsync("@Ping"));
            }
            for (CompletableFuture<ClientResponse> future : waiting) {
                assertEquals(ClientResponse.SUCCESS,
                        future.get(TIMEOUT_S, TimeUnit.SECONDS).getStatus());
            }
        }
    }

    @Nested
    class Pause extends PauseContract {
        @Override
        Caller open(String address) throws Exception {
            return new Client2Caller(address, false);
        }
    }

    @Test
    void aFailureIsAnException() throws Exception {
        try (Client2Caller one = new Client2Caller(Target.server(), false)) {
            ProcCallException failure = assertThrows(ProcCallException.class,
                    () -> one.client.callProcedureSync("NoSuch"));
            assertEquals(ClientResponse.UNEXPECTED_FAILURE,
                    failure.getClientResponse().getStatus());
        }
    }

    @Test
    void connectionFacts() throws Exception {
        try (Client2Caller one = new Client2Caller(Target.server(), false)) {
            assertFalse(one.client.connectedHosts().isEmpty());
            assertFalse(one.client.clusterBuildString().isEmpty());
            assertEquals(2, one.client.clusterInstanceId().length);
        }
    }
}
