// What all contracts share: a caller, a schema, and short ways to call and to compare.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.client.ClientResponse;

/** A set of tests that must hold through every caller. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class Contract {
    Caller caller;

    /** Connects the caller that the tests of this class use. */
    abstract Caller open() throws Exception;

    /** The statements that make the schema. */
    abstract List<String> schema();

    /** The statements that remove it; they must also work when it is not there. */
    abstract List<String> cleanup();

    @BeforeAll
    void connect() throws Exception {
        caller = open();
        for (String statement : cleanup()) {
            sql(statement);
        }
        for (String statement : schema()) {
            sql(statement);
        }
    }

    @AfterAll
    void disconnect() throws Exception {
        if (caller != null) {
            for (String statement : cleanup()) {
                sql(statement);
            }
            caller.close();
        }
    }

    /** A call that must succeed; its tables. */
    VoltTable[] call(String procedure, Object... parameters) throws Exception {
        ClientResponse response = caller.call(procedure, parameters);
        assertEquals(ClientResponse.SUCCESS, response.getStatus(),
                procedure + ": " + response.getStatusString());
        return response.getResults();
    }

    /** An ad hoc statement that must succeed; its first table. */
    VoltTable sql(String text) throws Exception {
        return call("@AdHoc", text)[0];
    }

    /** The one number of a query. */
    long number(String query) throws Exception {
        return sql(query).asScalarLong();
    }

    /** A call that must fail with a status and a text that holds a pattern. */
    ClientResponse refused(byte status, String pattern, String procedure, Object... parameters)
            throws Exception {
        ClientResponse response = caller.call(procedure, parameters);
        String text = String.valueOf(response.getStatusString());
        assertEquals(status, response.getStatus(), text);
        assertTrue(Pattern.compile(pattern, Pattern.DOTALL).matcher(text).find(), text);
        return response;
    }

    /** Names and types of a table as `NAME:TYPE NAME:TYPE`. */
    static String columns(VoltTable table) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < table.getColumnCount(); i++) {
            VoltType type = table.getColumnType(i);
            text.append(i == 0 ? "" : " ").append(table.getColumnName(i));
            text.append(':').append(type.name());
        }
        return text.toString();
    }
}
