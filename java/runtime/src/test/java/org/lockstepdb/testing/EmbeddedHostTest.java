package org.lockstepdb.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.voltdb.VoltTable;
import org.voltdb.client.ClientResponse;
import user.Hostile;
import user.InsertDistrict;
import user.Vote;

/** Procedures in a real host, as users test theirs. */
class EmbeddedHostTest {
    @BeforeEach
    void needsTheProgram() {
        assumeTrue(System.getenv("LOCKSTEP_BINARY") != null, "LOCKSTEP_BINARY names no program");
    }

    @Test
    void aProcedureWithTenParameters() throws IOException {
        try (EmbeddedHost host = EmbeddedHost.start()) {
            host.sql("CREATE TABLE district (d_id INTEGER NOT NULL, d_w_id INTEGER NOT NULL,"
                    + " d_name VARCHAR(10), street_1 VARCHAR(20), street_2 VARCHAR(20),"
                    + " city VARCHAR(20), state VARCHAR(2), zip VARCHAR(9), tax FLOAT, ytd FLOAT,"
                    + " PRIMARY KEY (d_w_id, d_id)); PARTITION TABLE district ON COLUMN d_w_id;");
            host.loadClasses(InsertDistrict.class);
            host.sql("CREATE PROCEDURE PARTITION ON TABLE district COLUMN d_w_id PARAMETER 1"
                    + " FROM CLASS user.InsertDistrict;");
            Object[] row = {3, 1, "north", "a", "b", "c", "MA", "12345", 0.07, 30_000.0};
            ClientResponse response = host.call("InsertDistrict", row);
            assertEquals(1, response.getStatus(), response.getStatusString());
            assertEquals(1, response.getResults()[0].asScalarLong());
            response = host.call("InsertDistrict", row);
            assertEquals(-2, response.getStatus());
            assertTrue(response.getStatusString().contains("CONSTRAINT VIOLATION"),
                    response.getStatusString());
            VoltTable found = host.sql("SELECT * FROM district").getResults()[0];
            found.advanceRow();
            assertEquals(List.of(row), List.of(found.getRowObjects()));
        }
    }

    @Test
    void votesInTwoBatches() throws IOException {
        try (EmbeddedHost host = EmbeddedHost.start(2)) {
            host.sql("CREATE TABLE contestants (contestant_number INTEGER NOT NULL,"
                    + " PRIMARY KEY (contestant_number));"
                    + "CREATE TABLE area_code_state (area_code SMALLINT NOT NULL,"
                    + " state VARCHAR(2) NOT NULL, PRIMARY KEY (area_code));"
                    + "CREATE TABLE votes (phone_number BIGINT NOT NULL, state VARCHAR(2) NOT NULL,"
                    + " contestant_number INTEGER NOT NULL);"
                    + "PARTITION TABLE votes ON COLUMN phone_number;"
                    + "CREATE VIEW v_votes_by_phone_number (phone_number, num_votes) AS"
                    + " SELECT phone_number, COUNT(*) FROM votes GROUP BY phone_number;");
            host.sql("INSERT INTO contestants VALUES (2)");
            host.sql("INSERT INTO area_code_state VALUES (617, 'MA')");
            host.loadClasses(Vote.class);
            host.sql("CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone_number"
                    + " FROM CLASS user.Vote;");
            long[] expected = {0, 0, 2};
            for (long result : expected) {
                ClientResponse response = host.call("Vote", 6_175_551_234L, 2, 2L);
                assertEquals(1, response.getStatus(), response.getStatusString());
                assertEquals(result, response.getResults()[0].asScalarLong());
            }
            assertEquals(1, host.call("Vote", 1L, 9, 2L).getResults()[0].asScalarLong());
            assertEquals(2, host.sql("SELECT COUNT(*) FROM votes WHERE state = 'MA'")
                    .getResults()[0].asScalarLong());
        }
    }

    @Test
    void hostileProceduresLeaveTheHostServing() throws IOException {
        try (EmbeddedHost host = EmbeddedHost.start()) {
            host.sql("CREATE TABLE t (id INTEGER NOT NULL, PRIMARY KEY (id));"
                    + " PARTITION TABLE t ON COLUMN id;");
            host.loadClasses(Hostile.Exit.class);
            host.sql("CREATE PROCEDURE PARTITION ON TABLE t COLUMN id FROM CLASS"
                    + " user.Hostile$Exit;");
            for (int kind = 0; kind < 7; kind++) {
                ClientResponse response = host.call("Hostile$Exit", kind);
                assertEquals(-3, response.getStatus());
                assertTrue(response.getStatusString().contains("cannot end the host"),
                        response.getStatusString());
            }
            host.sql("INSERT INTO t VALUES (1)");
        }
    }

    @Test
    void failuresAreExceptions() throws IOException {
        try (EmbeddedHost host = EmbeddedHost.start()) {
            IOException thrown = assertThrows(IOException.class, () -> host.sql("SELECT nothing"));
            assertTrue(thrown.getMessage().contains("failed: "), thrown.getMessage());
            assertThrows(IOException.class, () -> host.loadJar(new byte[] {1}));
            assertEquals(-3, host.call("Absent").getStatus());
        }
    }
}
