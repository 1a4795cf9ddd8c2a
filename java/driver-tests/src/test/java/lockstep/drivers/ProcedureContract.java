// What the tests of Java procedures share: the loaded classes, their tables, and comparisons.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.voltdb.VoltTable;
import org.voltdb.client.ClientResponse;

/** Procedures in Java, called through the client; run.py compiles them. */
abstract class ProcedureContract extends Contract {
    static final byte OK = ClientResponse.SUCCESS;
    static final byte ABORTED = ClientResponse.USER_ABORT;
    static final byte FAILED = ClientResponse.GRACEFUL_FAILURE;
    static final byte UNEXPECTED = ClientResponse.UNEXPECTED_FAILURE;
    private static final List<String> TABLES = List.of("item", "note", "kinds", "place", "named");
    private static final String JAR = System.getProperty("lockstep.procedures", "");

    /** Classes of package {@code procedures} to call over all partitions. */
    abstract List<String> everywhere();

    /** Classes to call at the partition of their first parameter. */
    abstract List<String> partitioned();

    @Override
    Caller open() throws Exception {
        assumeTrue(!JAR.isEmpty(), "no jar of procedures: the server has no Java");
        return new ClientCaller(Target.server(), false);
    }

    static byte[] jar() throws Exception {
        return Files.readAllBytes(Path.of(JAR));
    }

    @Override
    List<String> schema() {
        return List.of(
                "CREATE TABLE item (k BIGINT NOT NULL PRIMARY KEY, v VARCHAR(20), n INTEGER)",
                "PARTITION TABLE item ON COLUMN k",
                "CREATE TABLE note (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(20))",
                "CREATE TABLE kinds (k BIGINT NOT NULL, ti TINYINT, si SMALLINT, i INTEGER,"
                        + " b BIGINT, f FLOAT, d DECIMAL, s VARCHAR(60), vb VARBINARY(60),"
                        + " t TIMESTAMP, PRIMARY KEY (k))",
                "PARTITION TABLE kinds ON COLUMN k",
                "CREATE TABLE place (id BIGINT NOT NULL PRIMARY KEY, p GEOGRAPHY_POINT,"
                        + " g GEOGRAPHY(400))",
                "PARTITION TABLE place ON COLUMN id",
                "CREATE TABLE named (name VARCHAR(20) NOT NULL, PRIMARY KEY (name))",
                "PARTITION TABLE named ON COLUMN name");
    }

    @Override
    List<String> cleanup() {
        List<String> statements = new ArrayList<>();
        List<String> all = new ArrayList<>(everywhere());
        all.addAll(partitioned());
        for (String className : all) {
            statements.add("DROP PROCEDURE " + className + " IF EXISTS");
        }
        for (String table : TABLES) {
            statements.add("DROP TABLE " + table + " IF EXISTS");
        }
        return statements;
    }

    @BeforeAll
    void load() throws Exception {
        call("@UpdateClasses", jar(), null);
        for (String className : everywhere()) {
            sql("CREATE PROCEDURE FROM CLASS procedures." + className);
        }
        for (String className : partitioned()) {
            sql("CREATE PROCEDURE PARTITION ON TABLE item COLUMN k FROM CLASS procedures."
                    + className);
        }
    }

    @AfterEach
    void empty() throws Exception {
        for (String table : TABLES) {
            sql("DELETE FROM " + table);
        }
    }

    @AfterAll
    void removeClasses() throws Exception {
        if (caller != null) {
            for (String statement : cleanup()) {
                sql(statement);
            }
            call("@UpdateClasses", null, "procedures.**");
        }
    }

    /** The text of a call whose result is one. */
    String shown(String procedure, Object... parameters) throws Exception {
        VoltTable[] tables = call(procedure, parameters);
        assertEquals(1, tables.length, procedure);
        return text(tables[0]);
    }

    static String text(VoltTable table) {
        assertTrue(table.advanceRow());
        return table.getString("SHOWN");
    }

    /** The rows of a table: values divided by commas, rows by semicolons. */
    static String rows(VoltTable table) {
        StringBuilder all = new StringBuilder();
        table.resetRowPosition();
        while (table.advanceRow()) {
            all.append(all.length() == 0 ? "" : "; ");
            for (int column = 0; column < table.getColumnCount(); column++) {
                Object value = table.get(column, table.getColumnType(column));
                String text = table.wasNull() ? "NULL" : value instanceof byte[]
                        ? java.util.Arrays.toString((byte[]) value) : String.valueOf(value);
                all.append(column == 0 ? "" : ",").append(text);
            }
        }
        return all.toString();
    }

    /** The rows of all tables of a call, divided by bars. */
    String results(String procedure, Object... parameters) throws Exception {
        StringBuilder all = new StringBuilder();
        for (VoltTable table : call(procedure, parameters)) {
            all.append(all.length() == 0 ? "" : " | ").append(rows(table));
        }
        return all.toString();
    }

    /** What a statement is refused with holds this. */
    void refusedSql(String part, String statement) throws Exception {
        ClientResponse response = caller.call("@AdHoc", statement);
        String text = String.valueOf(response.getStatusString());
        assertEquals(FAILED, response.getStatus(), statement + ": " + text);
        assertTrue(text.contains(part), statement + ": " + text);
    }
}
