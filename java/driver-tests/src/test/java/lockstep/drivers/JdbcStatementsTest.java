// Fifty statements through the JDBC driver, each with its result checked.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class JdbcStatementsTest {
    private static final int WANTED = 50;

    private Connection connection;
    private final Set<String> seen = new TreeSet<>();

    @BeforeAll
    void connect() throws Exception {
        Class.forName("org.voltdb.jdbc.Driver");
        connection = DriverManager.getConnection("jdbc:voltdb://" + Target.server());
        drop();
    }

    @AfterAll
    void disconnect() throws Exception {
        drop();
        connection.close();
    }

    private void drop() throws SQLException {
        for (String text : List.of("DROP PROCEDURE FiftyGet IF EXISTS",
                "DROP PROCEDURE FiftyTwo IF EXISTS", "DROP PROCEDURE FiftyAdd IF EXISTS",
                "DROP VIEW fifty_sums IF EXISTS", "DROP TABLE fifty_line IF EXISTS",
                "DROP TABLE fifty_order IF EXISTS", "DROP TABLE fifty_types IF EXISTS")) {
            try (Statement statement = connection.createStatement()) {
                statement.execute(text);
            }
        }
    }

    private void run(String sql) throws SQLException {
        seen.add(sql);
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private void changes(int count, String sql) throws SQLException {
        seen.add(sql);
        try (Statement statement = connection.createStatement()) {
            assertEquals(count, statement.executeUpdate(sql), sql);
        }
    }

    private void refused(String part, String sql) {
        seen.add(sql);
        SQLException error = assertThrows(SQLException.class, () -> {
            try (Statement statement = connection.createStatement()) {
                statement.execute(sql);
            }
        }, sql);
        assertTrue(error.getMessage().contains(part), error.getMessage());
    }

    /** The rows, each as its values' texts with spaces between them. */
    private static List<String> texts(ResultSet rows) throws SQLException {
        List<String> found = new ArrayList<>();
        int count = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            List<String> cells = new ArrayList<>();
            for (int i = 1; i <= count; i++) {
                Object value = rows.getObject(i);
                boolean decimal = value instanceof BigDecimal;
                cells.add(rows.wasNull() ? "null"
                        : decimal ? ((BigDecimal) value).stripTrailingZeros().toPlainString()
                        : String.valueOf(value));
            }
            found.add(String.join(" ", cells));
        }
        rows.close();
        return found;
    }

    private void gives(String sql, String... rows) throws SQLException {
        seen.add(sql);
        try (Statement statement = connection.createStatement()) {
            assertEquals(List.of(rows), texts(statement.executeQuery(sql)), sql);
        }
    }

    private PreparedStatement prepare(String sql) throws SQLException {
        seen.add(sql);
        return connection.prepareStatement(sql);
    }

    @Test
    void fiftyStatements() throws Exception {
        definitions();
        inserts();
        everyType();
        queries();
        joinsAndSubqueries();
        prepared();
        changesOfRows();
        batches();
        procedures();
        refusals();
        definitionsOverData();
        assertTrue(seen.size() >= WANTED, seen.size() + " different statements");
    }

    private void definitions() throws SQLException {
        run("CREATE TABLE fifty_order (id BIGINT NOT NULL, customer VARCHAR(16),"
                + " placed TIMESTAMP, PRIMARY KEY (id))");
        run("PARTITION TABLE fifty_order ON COLUMN id");
        run("CREATE TABLE fifty_line (order_id BIGINT NOT NULL, line INTEGER NOT NULL,"
                + " price DECIMAL, PRIMARY KEY (order_id, line))");
        run("PARTITION TABLE fifty_line ON COLUMN order_id");
        run("CREATE TABLE fifty_types (k INTEGER NOT NULL, t TINYINT, s SMALLINT, i INTEGER,"
                + " b BIGINT, f FLOAT, d DECIMAL, v VARCHAR(50), x VARBINARY(10), made TIMESTAMP,"
                + " PRIMARY KEY (k))");
        run("CREATE INDEX fifty_by_price ON fifty_line (price)");
        run("CREATE VIEW fifty_sums (order_id, n, total, dearest) AS SELECT order_id, COUNT(*),"
                + " SUM(price), MAX(price) FROM fifty_line GROUP BY order_id");
        run("CREATE PROCEDURE FiftyGet PARTITION ON TABLE fifty_order COLUMN id AS"
                + " SELECT customer FROM fifty_order WHERE id = ?");
        run("CREATE PROCEDURE FiftyAdd PARTITION ON TABLE fifty_line COLUMN order_id AS"
                + " INSERT INTO fifty_line VALUES (?, ?, ?)");
        run("CREATE PROCEDURE FiftyTwo AS BEGIN SELECT COUNT(*) FROM fifty_order;"
                + " SELECT MAX(price) FROM fifty_line WHERE order_id > ?; END");
    }

    private void inserts() throws SQLException {
        changes(1, "INSERT INTO fifty_order VALUES (1, 'ann', '2024-02-29 12:30:15.123456')");
        changes(1, "INSERT INTO fifty_order (id, customer) VALUES (2, 'bob')");
        changes(1, "INSERT INTO fifty_order VALUES (3, NULL, NULL)");
        changes(1, "UPSERT INTO fifty_order VALUES (3, 'cy', '2024-03-01')");
        changes(1, "INSERT INTO fifty_line VALUES (1, 1, 10.5)");
        changes(1, "INSERT INTO fifty_line VALUES (1, 2, 4.25)");
        changes(1, "INSERT INTO fifty_line VALUES (2, 1, 100)");
        changes(3, "INSERT INTO fifty_line SELECT id, 9, 1 FROM fifty_order");
    }

    private void everyType() throws SQLException {
        String insert = "INSERT INTO fifty_types VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        Timestamp at = Timestamp.valueOf("2024-02-29 12:30:15.123456");
        try (PreparedStatement statement = prepare(insert)) {
            statement.setInt(1, 1);
            statement.setByte(2, (byte) -7);
            statement.setShort(3, (short) 300);
            statement.setInt(4, -70000);
            statement.setLong(5, Long.MAX_VALUE);
            statement.setDouble(6, 0.1);
            statement.setBigDecimal(7, new BigDecimal("12345678901234567890.123456789012"));
            statement.setString(8, "h\u00e9llo \u4e16");
            statement.setBytes(9, new byte[] {0, 1, -1});
            statement.setTimestamp(10, at);
            assertEquals(1, statement.executeUpdate());
            int[] types = {Types.TINYINT, Types.SMALLINT, Types.INTEGER, Types.BIGINT, Types.DOUBLE,
                Types.DECIMAL, Types.VARCHAR, Types.VARBINARY, Types.TIMESTAMP};
            statement.setInt(1, 2);
            for (int i = 0; i < types.length; i++) {
                statement.setNull(i + 2, types[i]);
            }
            assertEquals(1, statement.executeUpdate());
        }
        try (PreparedStatement statement = prepare("SELECT * FROM fifty_types WHERE k = ?")) {
            statement.setInt(1, 1);
            ResultSet rows = statement.executeQuery();
            assertTrue(rows.next());
            assertEquals(-7, rows.getByte("T"));
            assertEquals(300, rows.getShort("S"));
            assertEquals(-70000, rows.getInt("I"));
            assertEquals(Long.MAX_VALUE, rows.getLong("B"));
            assertEquals(0.1, rows.getDouble("F"));
            assertEquals(new BigDecimal("12345678901234567890.123456789012"),
                    rows.getBigDecimal("D"));
            assertEquals("h\u00e9llo \u4e16", rows.getString("V"));
            assertArrayEquals(new byte[] {0, 1, -1}, rows.getBytes("X"));
            assertEquals(at, rows.getTimestamp("MADE"));
            assertFalse(rows.next());
            statement.setInt(1, 2);
            rows = statement.executeQuery();
            assertTrue(rows.next());
            for (int i = 2; i <= 10; i++) {
                rows.getObject(i);
                assertTrue(rows.wasNull(), "column " + i);
            }
        }
        gives("SELECT CAST(f AS DECIMAL), CAST(i AS VARCHAR), HEX(b) FROM fifty_types WHERE k = 1",
                "0.1 -70000 7FFFFFFFFFFFFFFF");
    }

    private void queries() throws SQLException {
        gives("SELECT id, customer FROM fifty_order ORDER BY id", "1 ann", "2 bob", "3 cy");
        gives("SELECT COUNT(*), SUM(price), MIN(price), MAX(price) FROM fifty_line",
                "6 117.75 1 100");
        gives("SELECT order_id, COUNT(*) AS n FROM fifty_line GROUP BY order_id"
                + " HAVING COUNT(*) > 1 ORDER BY order_id", "1 3", "2 2");
        gives("SELECT DISTINCT line FROM fifty_line ORDER BY line DESC LIMIT 2", "9", "2");
        gives("SELECT customer FROM fifty_order WHERE customer LIKE 'b%'", "bob");
        gives("SELECT id FROM fifty_order WHERE id BETWEEN 2 AND 3 ORDER BY id DESC", "3", "2");
        gives("SELECT id FROM fifty_order WHERE placed IS NULL", "2");
        gives("SELECT CASE WHEN price > 5 THEN 'dear' ELSE 'cheap' END, line FROM fifty_line"
                + " WHERE order_id = 1 ORDER BY line", "dear 1", "cheap 2", "cheap 9");
        gives("SELECT EXTRACT(YEAR FROM placed), TRUNCATE(DAY, placed) FROM fifty_order"
                + " WHERE id = 1", "2024 2024-02-29 00:00:00.0");
        gives("SELECT n, total, dearest FROM fifty_sums WHERE order_id = 1", "3 15.75 10.5");
        gives("SELECT line FROM fifty_line WHERE order_id = 1 UNION SELECT 7 FROM fifty_line"
                + " WHERE order_id = 2 AND line = 1 ORDER BY 1", "1", "2", "7", "9");
        gives("SELECT line, RANK() OVER (PARTITION BY order_id ORDER BY price) FROM fifty_line"
                + " WHERE order_id = 1 ORDER BY line", "1 3", "2 2", "9 1");
    }

    private void joinsAndSubqueries() throws SQLException {
        gives("SELECT o.customer, l.price FROM fifty_order o JOIN fifty_line l"
                + " ON l.order_id = o.id WHERE l.line = 1 ORDER BY o.id", "ann 10.5", "bob 100");
        gives("SELECT o.id, l.line FROM fifty_order o LEFT JOIN fifty_line l"
                + " ON l.order_id = o.id AND l.line = 2 ORDER BY o.id", "1 2", "2 null", "3 null");
        gives("SELECT t.k, o.id FROM fifty_types t, fifty_order o WHERE t.k = o.id ORDER BY o.id",
                "1 1", "2 2");
        gives("SELECT id FROM fifty_order WHERE id IN (SELECT k FROM fifty_types) ORDER BY id",
                "1", "2");
        gives("SELECT MAX(n) FROM (SELECT order_id, COUNT(*) AS n FROM fifty_line"
                + " GROUP BY order_id) AS counts", "3");
        // The driver takes what does not begin with SELECT for a change; a call it passes on.
        String with = "WITH dear AS (SELECT order_id FROM fifty_line WHERE price > 50)"
                + " SELECT order_id FROM dear";
        seen.add(with);
        try (CallableStatement call = connection.prepareCall("{call @AdHoc(?)}")) {
            call.setString(1, with);
            assertEquals(List.of("2"), texts(call.executeQuery()));
        }
    }

    private void prepared() throws SQLException {
        String query = "SELECT id FROM fifty_order WHERE customer = ? OR id > ? ORDER BY id";
        try (PreparedStatement statement = prepare(query)) {
            statement.setString(1, "ann");
            statement.setLong(2, 2);
            assertEquals(List.of("1", "3"), texts(statement.executeQuery()));
            statement.clearParameters();
            statement.setString(1, "nobody");
            statement.setLong(2, 5);
            assertEquals(List.of(), texts(statement.executeQuery()));
        }
        try (PreparedStatement statement =
                prepare("UPDATE fifty_order SET placed = ? WHERE id = ?")) {
            statement.setTimestamp(1, Timestamp.valueOf("1999-12-31 23:59:59"));
            statement.setLong(2, 2);
            assertEquals(1, statement.executeUpdate());
        }
        gives("SELECT placed FROM fifty_order WHERE id = 2", "1999-12-31 23:59:59.0");
    }

    private void changesOfRows() throws SQLException {
        changes(3, "UPDATE fifty_line SET price = price + 1 WHERE line = 9");
        gives("SELECT SUM(price) FROM fifty_line WHERE line = 9", "6");
        changes(1, "DELETE FROM fifty_line WHERE order_id = 1 AND line = 1");
        gives("SELECT n, dearest FROM fifty_sums WHERE order_id = 1", "2 4.25");
        changes(0, "DELETE FROM fifty_line WHERE price > 1000");
    }

    private void batches() throws SQLException {
        try (PreparedStatement statement =
                prepare("INSERT INTO fifty_order (id, customer) VALUES (?, 'batch')")) {
            for (long id = 100; id < 110; id++) {
                statement.setLong(1, id);
                statement.addBatch();
            }
            int[] counts = statement.executeBatch();
            assertEquals(10, counts.length);
            for (int count : counts) {
                assertEquals(1, count);
            }
        }
        gives("SELECT COUNT(*), MIN(id), MAX(id) FROM fifty_order WHERE customer = 'batch'",
                "10 100 109");
        try (Statement statement = connection.createStatement()) {
            for (String text : List.of("UPDATE fifty_order SET customer = 'b0' WHERE id = 100",
                    "DELETE FROM fifty_order WHERE id > 104")) {
                seen.add(text);
                statement.addBatch(text);
            }
            assertArrayEquals(new int[] {1, 5}, statement.executeBatch());
        }
    }

    private void procedures() throws SQLException {
        seen.add("{call FiftyGet(?)}");
        try (CallableStatement call = connection.prepareCall("{call FiftyGet(?)}")) {
            call.setLong(1, 1);
            assertEquals(List.of("ann"), texts(call.executeQuery()));
            call.setLong(1, 77);
            assertEquals(List.of(), texts(call.executeQuery()));
        }
        seen.add("{call FiftyAdd(?,?,?)}");
        try (CallableStatement call = connection.prepareCall("{call FiftyAdd(?,?,?)}")) {
            call.setLong(1, 5);
            call.setInt(2, 1);
            call.setBigDecimal(3, new BigDecimal("7.5"));
            assertEquals(1, call.executeUpdate());
            assertThrows(SQLException.class, call::executeUpdate, "the key is there already");
        }
        seen.add("{call FiftyTwo(?)}");
        try (CallableStatement call = connection.prepareCall("{call FiftyTwo(?)}")) {
            call.setLong(1, 1);
            assertTrue(call.execute());
            assertEquals(List.of("8"), texts(call.getResultSet()));
            assertTrue(call.getMoreResults());
            assertEquals(List.of("100"), texts(call.getResultSet()));
            assertFalse(call.getMoreResults());
        }
        seen.add("{call @SystemCatalog(?)}");
        try (CallableStatement call = connection.prepareCall("{call @SystemCatalog(?)}")) {
            call.setString(1, "TABLES");
            assertTrue(texts(call.executeQuery()).stream()
                    .anyMatch(row -> row.contains("FIFTY_ORDER")));
        }
    }

    private void refusals() {
        refused("FIFTY_ORDER", "INSERT INTO fifty_order VALUES (1, 'again', NULL)");
        refused("nowhere".toUpperCase(), "SELECT * FROM nowhere");
        refused("SELEC", "SELEC 1");
        refused("divide 1 by 0", "SELECT 1 / (id - 1) FROM fifty_order WHERE id = 1");
        refused("fifty_order".toUpperCase(), "CREATE TABLE fifty_order (a INTEGER)");
    }

    private void definitionsOverData() throws SQLException {
        run("ALTER TABLE fifty_order ADD COLUMN state INTEGER DEFAULT 4");
        gives("SELECT state, customer FROM fifty_order WHERE id = 1", "4 ann");
        run("ALTER TABLE fifty_order DROP COLUMN state");
        run("DROP INDEX fifty_by_price");
        run("TRUNCATE TABLE fifty_line");
        gives("SELECT COUNT(*) FROM fifty_sums", "0");
    }
}
