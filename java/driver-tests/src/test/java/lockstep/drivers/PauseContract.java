// A paused host, as each client sees it.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.voltdb.client.ClientResponse;

abstract class PauseContract {
    abstract Caller open(String address) throws Exception;

    private static long number(Caller caller, String sql) throws Exception {
        return succeeded(caller.call("@AdHoc", sql)).getResults()[0].asScalarLong();
    }

    private static ClientResponse succeeded(ClientResponse response) {
        assertEquals(ClientResponse.SUCCESS, response.getStatus(), response.getStatusString());
        return response;
    }

    @Test
    void aPausedHostIsReadOnlyForClientsUntilItIsResumed() throws Exception {
        try (Caller user = open(Target.server()); Caller admin = open(Target.admin())) {
            succeeded(user.call("@AdHoc", "DROP TABLE jpaused IF EXISTS"));
            succeeded(user.call("@AdHoc", "CREATE TABLE jpaused (n BIGINT NOT NULL)"));
            succeeded(admin.call("@Pause"));
            try {
                ClientResponse refused = user.call("JPAUSED.insert", 1L);
                assertEquals(ClientResponse.SERVER_UNAVAILABLE, refused.getStatus());
                assertEquals("Server is paused and is available in read-only mode - please try"
                        + " again later.", refused.getStatusString());
                assertEquals(0, number(user, "SELECT COUNT(*) FROM jpaused"));
                succeeded(admin.call("JPAUSED.insert", 2L));
            } finally {
                succeeded(admin.call("@Resume"));
            }
            succeeded(user.call("JPAUSED.insert", 3L));
            assertEquals(5, number(user, "SELECT SUM(n) FROM jpaused"));
            succeeded(user.call("@AdHoc", "DROP TABLE jpaused"));
        }
    }
}
