// Java procedures: batches, expectations, context, and every way to end.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.voltdb.VoltTable;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/** The rows of docs/java-api.md on VoltProcedure and SQLStmt, through a host. */
class ProcedureCallsTest extends ProcedureContract {
    private static final int MULTI_PARTITION = 16383;

    @Override
    List<String> everywhere() {
        return List.of("BatchesEverywhere", "ContextEverywhere", "Expecting");
    }

    @Override
    List<String> partitioned() {
        return List.of("Batches", "Context", "Ends");
    }

    @Test
    void insertDistrict() throws Exception {
        sql("DROP PROCEDURE InsertDistrict IF EXISTS");
        sql("DROP TABLE district IF EXISTS");
        sql("CREATE TABLE district (d_id TINYINT NOT NULL, d_w_id SMALLINT NOT NULL,"
                + " d_name VARCHAR(16), d_street_1 VARCHAR(32), d_street_2 VARCHAR(32),"
                + " d_city VARCHAR(32), d_state VARCHAR(2), d_zip VARCHAR(9), d_tax FLOAT,"
                + " d_next_o_id INTEGER, PRIMARY KEY (d_w_id, d_id))");
        sql("PARTITION TABLE district ON COLUMN d_w_id");
        sql("CREATE PROCEDURE PARTITION ON TABLE district COLUMN d_w_id PARAMETER 1"
                + " FROM CLASS procedures.InsertDistrict");
        for (int warehouse = 1; warehouse <= 5; warehouse++) {
            for (int id = 1; id <= 10; id++) {
                assertEquals(1, call("InsertDistrict", id, warehouse, "name", "1st", "b", "town",
                        "NY", "12345", 0.125, 3001)[0].asScalarLong());
            }
        }
        refused(FAILED, "CONSTRAINT VIOLATION.*DISTRICT", "InsertDistrict", 10, 5, "again", "", "",
                "", "", "", 0.0, 1);
        assertEquals("7,3,name,1st,b,town,NY,12345,0.125,3001",
                rows(sql("SELECT * FROM district WHERE d_w_id = 3 AND d_id = 7")));
        assertEquals(50, number("SELECT COUNT(*) FROM district"));
        sql("DROP PROCEDURE InsertDistrict");
        sql("DROP TABLE district");
    }

    @ParameterizedTest
    @ValueSource(strings = {"Batches", "BatchesEverywhere"})
    void batchesRunInOrder(String procedure) throws Exception {
        assertEquals("1 | a,1 | 1 | a,11 | 1 | ", results(procedure, 1L, "order"));
        assertEquals("1 | spread,3", results(procedure, 2L, "spread"));
        assertEquals("1 | NULL,NULL", results(procedure, 3L, "nulls"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"Batches", "BatchesEverywhere"})
    void batchesOfEverySize(String procedure) throws Exception {
        assertEquals("0", shown(procedure, 1L, "empty"));
        assertEquals("450 | a,101475", results(procedure, 2L, "many"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"Batches", "BatchesEverywhere"})
    void finalBatches(String procedure) throws Exception {
        refused(UNEXPECTED, "Procedure " + procedure + " attempted to execute a batch after"
                + " claiming a previous batch was final", procedure, 1L, "final twice");
        assertEquals(0, number("SELECT COUNT(*) FROM item"));
        assertEquals("", results(procedure, 1L, "final nothing"));
        assertEquals(1, number("SELECT COUNT(*) FROM item"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"Batches", "BatchesEverywhere"})
    void whatIsNotExecutedIsDropped(String procedure) throws Exception {
        assertEquals(0, call(procedure, 1L, "dropped").length);
        assertEquals(0, number("SELECT COUNT(*) FROM item"));
    }

    @Test
    void severalRoundsOverAllPartitions() throws Exception {
        for (long key = 0; key < 20; key++) {
            assertEquals("1 | a,6 | ab,12", results("BatchesEverywhere", key, "rounds"));
        }
        assertEquals("20,120", rows(sql("SELECT COUNT(*), SUM(n) FROM item")));
    }

    @Test
    void aFailedBatchCanBeCaughtAtOnePartition() throws Exception {
        ClientResponse response = caller.call("Batches", 1L, "caught");
        assertEquals(OK, response.getStatus(), response.getStatusString());
        assertEquals("ConstraintFailureException", response.getAppStatusString());
        assertEquals("a,1", rows(response.getResults()[0]));
        assertEquals("1,a,1", rows(sql("SELECT * FROM item")));
    }

    @Test
    void aFailedBatchEndsATransactionOverPartitions() throws Exception {
        ClientResponse response = caller.call("BatchesEverywhere", 1L, "caught");
        assertTrue(response.getStatus() < 0, "accepted");
        assertTrue(response.getStatusString().contains("CONSTRAINT VIOLATION")
                || response.getStatusString().contains("after hitting EE exception"),
                response.getStatusString());
        assertEquals(0, number("SELECT COUNT(*) FROM item"));
    }

    @Test
    void aRefusedStatementLeavesTheBatch() throws Exception {
        ClientResponse response = caller.call("Batches", 1L, "emptied");
        assertEquals(OK, response.getStatus(), response.getStatusString());
        assertTrue(response.getAppStatusString().startsWith(
                "Number of arguments provided was 1 where 3"), response.getAppStatusString());
        // What was queued before it is still there.
        assertEquals("1 | a,6", tables(response));
    }

    private static String tables(ClientResponse response) {
        StringBuilder all = new StringBuilder();
        for (VoltTable table : response.getResults()) {
            all.append(all.length() == 0 ? "" : " | ").append(rows(table));
        }
        return all.toString();
    }

    @ParameterizedTest
    @ValueSource(strings = {"Batches", "BatchesEverywhere"})
    void wrongQueueing(String procedure) throws Exception {
        refused(ABORTED, "Number of arguments provided was 2 where 3 was expected for statement"
                + " INSERT INTO item", procedure, 1L, "too few");
        refused(UNEXPECTED, "IllegalArgumentException", procedure, 1L, "no statement");
        refused(UNEXPECTED, "IllegalArgumentException", procedure, 1L, "a stranger");
        refused(UNEXPECTED, "IllegalArgumentException", procedure, 1L, "a new one");
    }

    @Test
    void expectations() throws Exception {
        for (int id = 1; id <= 2; id++) {
            call("NOTE.insert", id, "text");
        }
        String[][] fine = {{"EMPTY", "0"}, {"ONE_ROW", "1"}, {"ZERO_OR_ONE_ROW", "0"},
            {"ZERO_OR_ONE_ROW", "1"}, {"NON_EMPTY", "1"}, {"NON_EMPTY", "2"}, {"SCALAR", "1"},
            {"SCALAR_LONG", "1"}, {"SCALAR_MATCH", "1"}};
        for (String[] one : fine) {
            call("Expecting", one[0], Integer.parseInt(one[1]));
        }
        sql("UPDATE note SET v = 'text'");
        String[][] wrong = {{"EMPTY", "1"}, {"ONE_ROW", "0"}, {"ONE_ROW", "2"},
            {"ZERO_OR_ONE_ROW", "2"}, {"NON_EMPTY", "0"}, {"SCALAR", "0"}, {"SCALAR", "2"},
            {"SCALAR_LONG", "0"}, {"SCALAR_LONG", "2"}, {"SCALAR_LONG of a text", "1"},
            {"SCALAR_MATCH", "0"}, {"SCALAR_MATCH", "2"}};
        for (String[] one : wrong) {
            refused(ABORTED, "Expectation failing in procedure: Expecting\n +Running SQL: SELECT"
                    + ".*\n +Error message: Expected ", "Expecting", one[0],
                    Integer.parseInt(one[1]));
        }
        refused(ABORTED, "Expected one row, but got 0", "Expecting", "ONE_ROW", 0);
        assertEquals(2, number("SELECT COUNT(*) FROM note WHERE v = 'text'"));
    }

    private VoltTable context(String procedure, Object... parameters) throws Exception {
        VoltTable table = call(procedure, parameters)[0];
        assertTrue(table.advanceRow());
        return table;
    }

    @Test
    void timeAndUniqueIds() throws Exception {
        Set<Long> seen = new HashSet<>();
        long before = 0;
        for (long key = 0; key < 50; key++) {
            VoltTable own = context("Context", key);
            VoltTable all = context("ContextEverywhere");
            for (VoltTable one : List.of(own, all)) {
                assertTrue(seen.add(one.getLong("UNIQUE_ID")), "twice");
                assertEquals(one.getLong("UNIQUE_ID"), one.getLong("TRANSACTION_ID"));
                long now = System.currentTimeMillis();
                long then = one.getTimestampAsLong("TIME") / 1000;
                assertTrue(Math.abs(now - then) < 60_000, now + " " + then);
            }
            assertTrue(all.getTimestampAsLong("TIME") >= before, "time went back");
            before = all.getTimestampAsLong("TIME");
        }
    }

    @Test
    void randomNumbersComeFromTheUniqueId() throws Exception {
        for (VoltTable one : List.of(context("Context", 7L), context("ContextEverywhere"))) {
            assertEquals(new Random(one.getLong("UNIQUE_ID")).nextLong(), one.getLong("RANDOM"));
            assertEquals(1, one.getLong("SAME"));
        }
    }

    @Test
    void partitionAndCluster() throws Exception {
        Set<Long> partitions = new HashSet<>();
        for (long key = 0; key < 60; key++) {
            VoltTable one = context("Context", key);
            partitions.add(one.getLong("PARTITION"));
            assertEquals(one.getLong("PARTITION"), context("Context", key).getLong("PARTITION"));
            assertEquals(0, one.getLong("CLUSTER"));
        }
        assertEquals(Target.sites(), partitions.size());
        assertTrue(partitions.stream().allMatch(id -> id >= 0 && id < Target.sites()));
        assertEquals(MULTI_PARTITION, context("ContextEverywhere").getLong("PARTITION"));
    }

    @Test
    void oneInstanceForEachSite() throws Exception {
        long own = context("Context", 1L).getLong("OWN");
        long shared = context("Context", 1L).getLong("SHARED");
        for (long key = 0; key < 20; key++) {
            assertEquals(++shared, context("Context", key).getLong("SHARED"));
        }
        long at1 = context("Context", 1L).getLong("OWN");
        assertTrue(at1 > own + 1 && at1 <= own + 22, own + " " + at1);
        assertEquals(at1 + 1, context("Context", 1L).getLong("OWN"));
        call("@UpdateClasses", jar(), null);
        VoltTable fresh = context("Context", 1L);
        assertEquals(1, fresh.getLong("OWN"));
        assertEquals(1, fresh.getLong("SHARED"));
    }

    @Test
    void statements() throws Exception {
        VoltTable one = context("Context", 1L);
        assertEquals("SELECT n  FROM item WHERE k = ?;truefalsenullSELECT 1;",
                one.getString("STATEMENTS"));
    }

    @Test
    void applicationStatus() throws Exception {
        ClientResponse none = caller.call("Ends", 1L, "no status");
        assertEquals(ClientResponse.UNINITIALIZED_APP_STATUS_CODE, none.getAppStatus());
        assertNull(none.getAppStatusString());
        ClientResponse well = caller.call("Ends", 2L, "well");
        assertEquals(OK, well.getStatus(), well.getStatusString());
        assertEquals(42, well.getAppStatus());
        assertEquals("ended: well", well.getAppStatusString());
        for (String how : List.of("abort", "constraint", "runtime")) {
            ClientResponse failed = caller.call("Ends", 3L, how);
            assertNotEquals(OK, failed.getStatus());
            assertEquals(42, failed.getAppStatus());
            assertEquals("ended: " + how, failed.getAppStatusString());
        }
    }

    @Test
    void aborts() throws Exception {
        refused(ABORTED, "VOLTDB ERROR: USER ABORT.*not today.*at procedures.Ends.run\\(Ends.java:",
                "Ends", 1L, "abort");
        refused(ABORTED, "No message specified.", "Ends", 1L, "abort without a word");
        refused(ABORTED, "the cause", "Ends", 1L, "abort for a cause");
        assertEquals(0, number("SELECT COUNT(*) FROM item"));
    }

    @Test
    void failures() throws Exception {
        refused(FAILED, "CONSTRAINT VIOLATION", "Ends", 1L, "constraint");
        refused(FAILED, "SQL ERROR.*divide 1 by 0", "Ends", 1L, "sql");
        refused(UNEXPECTED, "java.lang.NullPointerException.*\n +at procedures.Ends.run\\(Ends",
                "Ends", 1L, "runtime");
        refused(UNEXPECTED, "java.io.IOException: no such file\n +at procedures.Ends.run\\(Ends",
                "Ends", 1L, "checked");
        refused(UNEXPECTED, "java.lang.AssertionError: it was wrong", "Ends", 1L, "error");
        refused(UNEXPECTED, "NoClassDefFoundError: some.Class", "Ends", 1L, "linkage");
        refused(UNEXPECTED, "null", "Ends", 1L, "null table");
        refused(FAILED, "32767", "Ends", 1L, "too many tables");
        assertEquals(0, number("SELECT COUNT(*) FROM item"));
        assertEquals(0, call("Ends", 1L, "well").length);
    }

    @Test
    void directedProcedures() throws Exception {
        sql("DROP PROCEDURE DirectedCount IF EXISTS");
        sql("CREATE PROCEDURE DIRECTED FROM CLASS procedures.DirectedCount");
        for (long key = 0; key < 30; key++) {
            call("ITEM.insert", key, "v", 0);
        }
        long sum = 0;
        for (ClientResponseWithPartitionKey one
                : caller.callAllPartitions("DirectedCount", 5)) {
            VoltTable table = one.response.getResults()[0];
            assertTrue(table.advanceRow());
            sum += table.getLong(0);
        }
        assertEquals(25, sum);
        sql("DROP PROCEDURE DirectedCount");
    }

    /** The keys of partitions are integers, also where the column is of text. */
    @Test
    void allPartitionsOfATextColumn() throws Exception {
        sql("DROP PROCEDURE NamesHere IF EXISTS");
        sql("CREATE PROCEDURE PARTITION ON TABLE named COLUMN name WITH LOCAL DATA"
                + " FROM CLASS procedures.NamesHere");
        for (int row = 0; row < 40; row++) {
            call("NAMED.insert", "name " + row);
        }
        ClientResponseWithPartitionKey[] all = caller.callAllPartitions("NamesHere", "name 7");
        assertEquals(Target.sites(), all.length);
        long sum = 0;
        for (ClientResponseWithPartitionKey one : all) {
            assertEquals(OK, one.response.getStatus(), one.response.getStatusString());
            long here = one.response.getResults()[0].asScalarLong();
            assertTrue(here > 0, () -> "key " + one.partitionKey);
            sum += here;
        }
        assertEquals(39, sum);
        sql("DROP PROCEDURE NamesHere");
    }
}
