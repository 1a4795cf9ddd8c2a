// The JDBC driver that comes inside the client's jar.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class JdbcTest {
    private Connection connection;

    @BeforeAll
    void connect() throws Exception {
        Class.forName("org.voltdb.jdbc.Driver");
        connection = DriverManager.getConnection("jdbc:voltdb://" + Target.server());
        drop();
        run("CREATE TABLE jdbc_item (k BIGINT NOT NULL, name VARCHAR(20), price DECIMAL,"
                + " PRIMARY KEY (k))");
        run("PARTITION TABLE jdbc_item ON COLUMN k");
        run("CREATE INDEX jdbc_by_name ON jdbc_item (name)");
        run("CREATE PROCEDURE JdbcGet PARTITION ON TABLE jdbc_item COLUMN k AS"
                + " SELECT name, price FROM jdbc_item WHERE k = ?");
    }

    @AfterAll
    void disconnect() throws Exception {
        drop();
        connection.close();
    }

    private void drop() throws SQLException {
        run("DROP PROCEDURE JdbcGet IF EXISTS");
        run("DROP TABLE jdbc_item IF EXISTS");
    }

    private void run(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private static List<String> texts(ResultSet rows, String column) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) {
            found.add(rows.getString(column));
        }
        rows.close();
        return found;
    }

    @Test
    void statements() throws Exception {
        run("DELETE FROM jdbc_item");
        try (Statement statement = connection.createStatement()) {
            assertEquals(1, statement.executeUpdate(
                    "INSERT INTO jdbc_item VALUES (1, 'one', 1.5)"));
            assertEquals(1, statement.executeUpdate(
                    "INSERT INTO jdbc_item VALUES (2, NULL, NULL)"));
            ResultSet rows = statement.executeQuery("SELECT * FROM jdbc_item ORDER BY k");
            assertTrue(rows.next());
            assertEquals(1, rows.getLong(1));
            assertEquals("one", rows.getString("NAME"));
            assertEquals(new BigDecimal("1.500000000000"), rows.getBigDecimal(3));
            assertTrue(rows.next());
            assertEquals(null, rows.getString(2));
            assertTrue(rows.wasNull());
            assertFalse(rows.next());
            assertEquals(3, rows.getMetaData().getColumnCount());
            assertEquals(Types.BIGINT, rows.getMetaData().getColumnType(1));
        }
    }

    @Test
    void preparedStatements() throws Exception {
        run("DELETE FROM jdbc_item");
        String insert = "INSERT INTO jdbc_item (k, name) VALUES (?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (long key = 0; key < 10; key++) {
                statement.setLong(1, key);
                statement.setString(2, "n" + key);
                assertEquals(1, statement.executeUpdate());
            }
        }
        String query = "SELECT name FROM jdbc_item WHERE k >= ? ORDER BY k";
        try (PreparedStatement statement = connection.prepareStatement(query)) {
            statement.setLong(1, 8);
            assertEquals(List.of("n8", "n9"), texts(statement.executeQuery(), "NAME"));
        }
    }

    @Test
    void callableStatements() throws Exception {
        run("DELETE FROM jdbc_item");
        run("INSERT INTO jdbc_item VALUES (5, 'five', 5)");
        try (CallableStatement call = connection.prepareCall("{call JdbcGet(?)}")) {
            call.setLong(1, 5);
            assertEquals(List.of("five"), texts(call.executeQuery(), "NAME"));
        }
    }

    @Test
    void failures() throws Exception {
        run("DELETE FROM jdbc_item");
        run("INSERT INTO jdbc_item VALUES (7, 'x', 1)");
        assertThrows(SQLException.class, () -> run("INSERT INTO jdbc_item VALUES (7, 'y', 2)"));
        assertThrows(SQLException.class, () -> run("SELECT * FROM no_such_table"));
    }

    @Test
    void metadata() throws Exception {
        DatabaseMetaData metadata = connection.getMetaData();
        assertTrue(texts(metadata.getTables(null, null, "%", null), "TABLE_NAME")
                .contains("JDBC_ITEM"));
        assertEquals(List.of("K", "NAME", "PRICE"),
                texts(metadata.getColumns(null, null, "JDBC_ITEM", "%"), "COLUMN_NAME"));
        assertEquals(List.of("K"),
                texts(metadata.getPrimaryKeys(null, null, "JDBC_ITEM"), "COLUMN_NAME"));
        assertTrue(texts(metadata.getIndexInfo(null, null, "JDBC_ITEM", false, false),
                "INDEX_NAME").contains("JDBC_BY_NAME"));
        assertTrue(texts(metadata.getProcedures(null, null, "%"), "PROCEDURE_NAME")
                .contains("JdbcGet"));
        assertTrue(texts(metadata.getTypeInfo(), "TYPE_NAME").contains("BIGINT"));
        assertFalse(metadata.getDatabaseProductVersion().isEmpty());
    }
}
