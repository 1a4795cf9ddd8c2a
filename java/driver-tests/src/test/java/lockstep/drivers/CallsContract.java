// Calls: results, failures, partitions, system procedures.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.voltdb.VoltTable;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/** What an application does all day, and what goes wrong with it. */
abstract class CallsContract extends Contract {
    private static final int ROWS = 60;

    @Override
    List<String> schema() {
        return List.of(
                "CREATE TABLE jitem (k BIGINT NOT NULL, grp INTEGER NOT NULL, v VARCHAR(6),"
                        + " PRIMARY KEY (k))",
                "PARTITION TABLE jitem ON COLUMN k",
                "CREATE TABLE jrepl (k BIGINT NOT NULL PRIMARY KEY, v VARCHAR(6) NOT NULL)",
                "CREATE INDEX jitem_by_grp ON jitem (grp)",
                "CREATE PROCEDURE JGet PARTITION ON TABLE jitem COLUMN k AS"
                        + " SELECT * FROM jitem WHERE k = ?",
                "CREATE PROCEDURE JThree AS BEGIN SELECT COUNT(*) FROM jitem;"
                        + " SELECT k FROM jitem WHERE grp = ? ORDER BY k;"
                        + " SELECT COUNT(*) FROM jrepl; END",
                "CREATE PROCEDURE JTwo AS BEGIN INSERT INTO jrepl VALUES (?, ?);"
                        + " INSERT INTO jrepl VALUES (?, ?); END",
                "CREATE PROCEDURE JHere DIRECTED AS SELECT COUNT(*) FROM jitem",
                "CREATE TABLE probe (k BIGINT NOT NULL PRIMARY KEY)",
                "PARTITION TABLE probe ON COLUMN k",
                "CREATE PROCEDURE PARTITION ON TABLE probe COLUMN k FROM NATIVE Probe",
                "CREATE TABLE jname (name VARCHAR(20) NOT NULL PRIMARY KEY, v INTEGER)",
                "PARTITION TABLE jname ON COLUMN name",
                "CREATE PROCEDURE JNames PARTITION ON TABLE jname COLUMN name WITH LOCAL DATA AS"
                        + " SELECT COUNT(*) FROM jname WHERE name <> ?",
                "CREATE TABLE jled (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9) NOT NULL,"
                        + " v INTEGER)",
                "PARTITION TABLE jled ON COLUMN id",
                "CREATE GLOBAL UNIQUE INDEX jled_name ON jled (name)",
                "CREATE PROCEDURE JLedGet PARTITION ON TABLE jled COLUMN id"
                        + " VIA GLOBAL INDEX jled_name PARAMETER 0 AS"
                        + " SELECT id, v FROM jled WHERE name = ?",
                "CREATE PROCEDURE JLedSet PARTITION ON TABLE jled COLUMN id"
                        + " VIA GLOBAL INDEX jled_name PARAMETER 1 AS"
                        + " UPDATE jled SET v = ? WHERE name = ?",
                "CREATE PROCEDURE JLedMove AS BEGIN DELETE FROM jled WHERE id = ?;"
                        + " INSERT INTO jled VALUES (?, ?, ?); END");
    }

    @Override
    List<String> cleanup() {
        return List.of("DROP PROCEDURE JGet IF EXISTS", "DROP PROCEDURE JThree IF EXISTS",
                "DROP PROCEDURE JTwo IF EXISTS", "DROP PROCEDURE JHere IF EXISTS",
                "DROP PROCEDURE JNames IF EXISTS", "DROP TABLE jname IF EXISTS",
                "DROP PROCEDURE Probe IF EXISTS", "DROP PROCEDURE JLedGet IF EXISTS",
                "DROP PROCEDURE JLedSet IF EXISTS", "DROP PROCEDURE JLedMove IF EXISTS",
                "DROP TABLE jitem IF EXISTS", "DROP TABLE jrepl IF EXISTS",
                "DROP TABLE probe IF EXISTS", "DROP TABLE jled IF EXISTS");
    }

    @BeforeEach
    void fill() throws Exception {
        for (long key = 0; key < ROWS; key++) {
            call("JITEM.insert", key, (int) (key % 4), "v" + key);
        }
    }

    @AfterEach
    void empty() throws Exception {
        sql("DELETE FROM jitem");
        sql("DELETE FROM jrepl");
        sql("DELETE FROM probe");
        sql("DELETE FROM jname");
        sql("DELETE FROM jled");
    }

    @Test
    void generatedProcedures() throws Exception {
        assertEquals(1, call("JITEM.upsert", 1L, 9, "new")[0].asScalarLong());
        assertEquals(1, call("JITEM.update", 2L, 8, "upd", 2L)[0].asScalarLong());
        assertEquals(0, call("JITEM.update", 777L, 8, "upd", 777L)[0].asScalarLong());
        assertEquals(1, call("JITEM.delete", 3L)[0].asScalarLong());
        assertEquals(0, call("JITEM.delete", 3L)[0].asScalarLong());
        VoltTable row = call("JITEM.select", 2L)[0];
        assertTrue(row.advanceRow());
        assertEquals("upd", row.getString("V"));
        assertEquals("modified_tuples:BIGINT", columns(call("JITEM.delete", 3L)[0]));
        assertEquals(ROWS - 1, number("SELECT COUNT(*) FROM jitem"));
    }

    @Test
    void severalTables() throws Exception {
        VoltTable[] tables = call("JThree", 1);
        assertEquals(3, tables.length);
        assertEquals(ROWS, tables[0].asScalarLong());
        assertEquals(ROWS / 4, tables[1].getRowCount());
        long previous = -1;
        while (tables[1].advanceRow()) {
            assertTrue(tables[1].getLong(0) > previous);
            previous = tables[1].getLong(0);
        }
    }

    @Test
    void noApplicationStatusUnlessSet() throws Exception {
        ClientResponse response = caller.call("JGet", 1L);
        assertEquals(ClientResponse.UNINITIALIZED_APP_STATUS_CODE, response.getAppStatus());
        assertNull(response.getAppStatusString());
        assertTrue(response.getClusterRoundtrip() >= 0);
    }

    @Test
    void applicationStatus() throws Exception {
        ClientResponse response = caller.call("Probe", 1L, 5, "fünf", null);
        assertEquals(ClientResponse.SUCCESS, response.getStatus(), response.getStatusString());
        assertEquals(5, response.getAppStatus());
        assertEquals("fünf", response.getAppStatusString());
        assertEquals(1, response.getResults()[0].asScalarLong());
        assertEquals(1, response.getResults()[1].asScalarLong());
    }

    @Test
    void aborts() throws Exception {
        ClientResponse response = refused(ClientResponse.USER_ABORT,
                "VOLTDB ERROR: USER ABORT.*not today", "Probe", 2L, 6, "six", "not today");
        assertEquals(6, response.getAppStatus());
        assertEquals("six", response.getAppStatusString());
        assertEquals(0, number("SELECT COUNT(*) FROM probe"));
    }

    @Test
    void unknownProcedure() throws Exception {
        refused(ClientResponse.UNEXPECTED_FAILURE, "Procedure NoSuch was not found", "NoSuch", 1);
    }

    @Test
    void wrongParameters() throws Exception {
        refused(ClientResponse.GRACEFUL_FAILURE,
                "PROCEDURE JThree EXPECTS 1 PARAMS, BUT RECEIVED 2", "JThree", 1, 2);
        refused(ClientResponse.GRACEFUL_FAILURE, "PROCEDURE JThree TYPE ERROR FOR PARAMETER 0",
                "JThree", "abc");
        refused(ClientResponse.GRACEFUL_FAILURE, "TYPE ERROR FOR PARAMETER 1", "JITEM.insert", 1L,
                new int[] {1, 2}, "x");
    }

    @Test
    void violations() throws Exception {
        refused(ClientResponse.GRACEFUL_FAILURE, "CONSTRAINT VIOLATION.*Constraint Type UNIQUE,"
                + " Table CatalogId JITEM.*Relevant Tuples:", "JITEM.insert", 1L, 1, "dup");
        refused(ClientResponse.GRACEFUL_FAILURE, "Constraint Type NOT_NULL", "JREPL.insert", 1L,
                null);
        refused(ClientResponse.GRACEFUL_FAILURE, "CONSTRAINT VIOLATION", "JTwo", 5L, "a", 5L, "b");
        assertEquals(0, number("SELECT COUNT(*) FROM jrepl"));
        call("JTwo", 5L, "a", 6L, "b");
        assertEquals(2, number("SELECT COUNT(*) FROM jrepl"));
    }

    @Test
    void badSql() throws Exception {
        refused(ClientResponse.GRACEFUL_FAILURE, "", "@AdHoc", "SELEC");
        refused(ClientResponse.GRACEFUL_FAILURE, "(?i)nosuch", "@AdHoc", "SELECT * FROM nosuch");
    }

    @Test
    void allPartitions() throws Exception {
        ClientResponseWithPartitionKey[] responses = caller.callAllPartitions("JGet");
        assertEquals(Target.sites(), responses.length);
        for (ClientResponseWithPartitionKey one : responses) {
            assertEquals(ClientResponse.SUCCESS, one.response.getStatus(),
                    one.response.getStatusString());
        }
    }

    /** The keys of partitions are integers, also where the column is of text. */
    @Test
    void allPartitionsOfATextColumn() throws Exception {
        for (int row = 0; row < ROWS; row++) {
            call("JNAME.insert", "name " + row, row);
        }
        ClientResponseWithPartitionKey[] all = caller.callAllPartitions("JNames");
        assertEquals(Target.sites(), all.length);
        long sum = 0;
        for (ClientResponseWithPartitionKey one : all) {
            assertEquals(ClientResponse.SUCCESS, one.response.getStatus(),
                    one.response.getStatusString());
            sum += one.response.getResults()[0].asScalarLong();
        }
        assertEquals(ROWS, sum);
    }

    @Test
    void directedProceduresSeeEachPartitionOnce() throws Exception {
        long sum = 0;
        for (ClientResponseWithPartitionKey one : caller.callAllPartitions("JHere")) {
            assertEquals(ClientResponse.SUCCESS, one.response.getStatus(),
                    one.response.getStatusString());
            sum += one.response.getResults()[0].asScalarLong();
        }
        assertEquals(ROWS, sum);
        refused(ClientResponse.GRACEFUL_FAILURE, "callAllPartitionProcedure", "JHere");
    }

    /** Procedures that a global index leads to the partition of their row. */
    @Test
    void ledByAGlobalIndex() throws Exception {
        for (long id = 0; id < ROWS; id++) {
            call("JLED.insert", id, "n" + id, 0);
        }
        for (long id = 0; id < ROWS; id++) {
            assertEquals(1, call("JLedSet", (int) id + 7, "n" + id)[0].asScalarLong());
            assertEquals(List.of(id, id + 7), led("n" + id));
        }
        assertEquals(List.of(), led("nobody"));
        assertEquals(0, call("JLedSet", 1, "nobody")[0].asScalarLong());
        refused(ClientResponse.GRACEFUL_FAILURE, "CONSTRAINT VIOLATION.*JLED_NAME", "JLED.insert",
                777L, "n1", 0);
    }

    /** The row goes to other values of its partitioning column, in a transaction each. */
    @Test
    void ledBehindARowThatMoves() throws Exception {
        call("JLED.insert", 0L, "n", 0);
        for (long id = 0; id < ROWS; id++) {
            assertEquals(2, call("JLedMove", id, id + 1, "n", 5).length);
            assertEquals(List.of(id + 1, 5L), led("n"));
            assertEquals(1, call("JLedSet", 6, "n")[0].asScalarLong());
            assertEquals(List.of(id + 1, 6L), led("n"));
        }
    }

    private List<Long> led(String name) throws Exception {
        VoltTable table = call("JLedGet", name)[0];
        if (table.getRowCount() == 0) {
            return List.of();
        }
        assertEquals(1, table.getRowCount());
        assertTrue(table.advanceRow());
        return List.of(table.getLong(0), table.getLong(1));
    }

    @Test
    void statistics() throws Exception {
        VoltTable table = call("@Statistics", "TABLE", 0)[0];
        assertTrue(columns(table).startsWith("TIMESTAMP:BIGINT HOST_ID:INTEGER HOSTNAME:STRING"
                + " SITE_ID:INTEGER PARTITION_ID:BIGINT TABLE_NAME:STRING"), columns(table));
        long rows = 0;
        while (table.advanceRow()) {
            boolean mine = table.getString("TABLE_NAME").equals("JITEM");
            rows += mine ? table.getLong("TUPLE_COUNT") : 0;
        }
        assertEquals(ROWS, rows);
        VoltTable[] topology = call("@Statistics", "TOPO", 0);
        assertEquals(2, topology.length);
        assertEquals(Target.sites() + 1, topology[0].getRowCount());
        assertEquals("ELASTIC", topology[1].fetchRow(0).getString("HASHTYPE"));
        for (String selector : List.of("INDEX", "PROCEDURE", "PROCEDUREPROFILE", "PROCEDUREINPUT",
                "PROCEDUREOUTPUT", "PROCEDUREDETAIL", "MEMORY", "LATENCY", "INITIATOR")) {
            assertTrue(call("@Statistics", selector, 0)[0].getRowCount() > 0, selector);
        }
        refused(ClientResponse.GRACEFUL_FAILURE, "must be a valid STRING selector", "@Statistics",
                "NOSUCH", 0);
    }

    @Test
    void systemInformation() throws Exception {
        VoltTable table = call("@SystemInformation", "OVERVIEW")[0];
        Map<String, String> found = new HashMap<>();
        while (table.advanceRow()) {
            found.put(table.getString("KEY"), table.getString("VALUE"));
        }
        assertEquals(Target.port(Target.server()), Integer.parseInt(found.get("CLIENTPORT")));
        assertEquals(Target.port(Target.admin()), Integer.parseInt(found.get("ADMINPORT")));
        assertTrue(found.get("VERSION").startsWith("11."), found.get("VERSION"));
        assertFalse(found.get("LOCKSTEPVERSION").isEmpty());
        assertEquals("RUNNING", found.get("CLUSTERSTATE"));
    }

    @Test
    void catalogAndPlans() throws Exception {
        VoltTable table = call("@SystemCatalog", "PROCEDURES")[0];
        String remarks = "";
        while (table.advanceRow()) {
            remarks = table.getString(2).equals("JGet") ? table.getString(6) : remarks;
        }
        assertTrue(remarks.contains("partitionParameter"), remarks);
        assertFalse(call("@Explain", "SELECT * FROM jitem WHERE k = 1")[0].fetchRow(0).getString(0)
                .isBlank());
        assertEquals(3, call("@ExplainProc", "JThree")[0].getRowCount());
    }

    @Test
    void pingAndPartitionKeys() throws Exception {
        assertEquals(0, call("@Ping")[0].asScalarLong());
        assertEquals(Target.sites(), call("@GetPartitionKeys", "INTEGER")[0].getRowCount());
        assertEquals(Target.sites(), call("@GetPartitionKeys", "STRING")[0].getRowCount());
        assertEquals(Target.sites(), call("@GetPartitionKeys", "VARBINARY")[0].getRowCount());
    }
}
