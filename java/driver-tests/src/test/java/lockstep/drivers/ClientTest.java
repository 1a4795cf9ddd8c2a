// `Client`: synchronous, asynchronous, on the admin port.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
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
import org.voltdb.client.Client;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ProcCallException;

class ClientTest {
    @Nested
    class SyncTypes extends TypesContract {
        @Override
        Caller open() throws Exception {
            return new ClientCaller(Target.server(), false);
        }
    }

    @Nested
    class SyncCalls extends CallsContract {
        @Override
        Caller open() throws Exception {
            return new ClientCaller(Target.server(), false);
        }
    }

    @Nested
    class AsyncTypes extends TypesContract {
        @Override
        Caller open() throws Exception {
            return new ClientCaller(Target.server(), true);
        }
    }

    @Nested
    class AsyncCalls extends CallsContract {
        @Override
        Caller open() throws Exception {
            return new ClientCaller(Target.server(), true);
        }
    }

    @Nested
    class AdminTypes extends TypesContract {
        @Override
        Caller open() throws Exception {
            return new ClientCaller(Target.admin(), false);
        }
    }

    @Nested
    class AdminCalls extends CallsContract {
        @Override
        Caller open() throws Exception {
            return new ClientCaller(Target.admin(), true);
        }
    }

    @Nested
    class ManyInFlight extends Contract {
        private static final int CALLS = 20_000;
        private static final int KEYS = 100;

        @Override
        Caller open() throws Exception {
            return new ClientCaller(Target.server(), true);
        }

        @Override
        List<String> schema() {
            return List.of("CREATE TABLE jcount (k BIGINT NOT NULL PRIMARY KEY, v BIGINT NOT NULL)",
                    "PARTITION TABLE jcount ON COLUMN k",
                    "CREATE PROCEDURE JBump PARTITION ON TABLE jcount COLUMN k AS"
                            + " UPDATE jcount SET v = v + 1 WHERE k = ?");
        }

        @Override
        List<String> cleanup() {
            return List.of("DROP PROCEDURE JBump IF EXISTS", "DROP TABLE jcount IF EXISTS");
        }

        @Test
        void eachIsAnsweredOnce() throws Exception {
            for (long key = 0; key < KEYS; key++) {
                call("JCOUNT.insert", key, 0L);
            }
            List<CompletableFuture<ClientResponse>> calls = new ArrayList<>();
            for (int i = 0; i < CALLS; i++) {
                calls.add(((ClientCaller) caller).start("JBump", (long) (i % KEYS)));
            }
            for (CompletableFuture<ClientResponse> one : calls) {
                assertEquals(ClientResponse.SUCCESS, one.get(60, TimeUnit.SECONDS).getStatus());
            }
            assertEquals(CALLS, number("SELECT SUM(v) FROM jcount"));
            assertEquals(CALLS / KEYS, number("SELECT MIN(v) FROM jcount"));
        }
    }

    @Test
    void connectionsBelongToOneCluster() throws Exception {
        try (ClientCaller first = new ClientCaller(Target.server(), false);
                ClientCaller second = new ClientCaller(Target.admin(), false)) {
            assertArrayEquals(first.client.getInstanceId(), second.client.getInstanceId());
            assertFalse(first.client.getBuildString().isEmpty());
            assertFalse(first.client.getConnectedHostList().isEmpty());
        }
    }

    @Nested
    class Pause extends PauseContract {
        @Override
        Caller open(String address) throws Exception {
            return new ClientCaller(address, false);
        }
    }

    @Test
    void aFailureIsAnException() throws Exception {
        try (ClientCaller one = new ClientCaller(Target.server(), false)) {
            ProcCallException failure = assertThrows(ProcCallException.class,
                    () -> one.client.callProcedure("NoSuch"));
            assertEquals(ClientResponse.UNEXPECTED_FAILURE,
                    failure.getClientResponse().getStatus());
        }
    }

    @Test
    void aQueryTimeoutTravelsWithTheCall() throws Exception {
        String endless = "SELECT COUNT(*) FROM jlong a, jlong b, jlong c, jlong d, jlong e, jlong f"
                + " WHERE a.n + b.n + c.n + d.n + e.n + f.n < 0";
        try (ClientCaller one = new ClientCaller(Target.server(), false)) {
            Client client = one.client;
            client.callProcedure("@AdHoc", "DROP TABLE jlong IF EXISTS");
            client.callProcedure("@AdHoc", "CREATE TABLE jlong (n INTEGER NOT NULL)");
            for (int n = 0; n < 80; n++) {
                client.callProcedure("JLONG.insert", n);
            }
            ProcCallException stopped = assertThrows(ProcCallException.class,
                    () -> client.callProcedureWithTimeout(200, "@AdHoc", endless));
            assertEquals(ClientResponse.GRACEFUL_FAILURE,
                    stopped.getClientResponse().getStatus());
            assertTrue(stopped.getMessage().contains("query-specific timeout period of 0.200"),
                    stopped.getMessage());
            assertEquals(80, client.callProcedureWithTimeout(3000, "@AdHoc",
                    "SELECT COUNT(*) FROM jlong").getResults()[0].asScalarLong());
            client.callProcedure("@AdHoc", "DROP TABLE jlong");
        }
    }
}
