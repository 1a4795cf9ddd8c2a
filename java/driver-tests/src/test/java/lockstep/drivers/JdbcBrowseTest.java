// The JDBC driver as database tools use it: browsing a schema through the metadata calls.
package lockstep.drivers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
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
class JdbcBrowseTest {
    /** What the driver gives for an integer that is NULL in the listing. */
    private static final String NO_INTEGER = String.valueOf(Integer.MIN_VALUE);
    private static final String NO_SHORT = String.valueOf(Short.MIN_VALUE);

    private Connection connection;
    private DatabaseMetaData metadata;

    @BeforeAll
    void connect() throws Exception {
        Class.forName("org.voltdb.jdbc.Driver");
        connection = DriverManager.getConnection("jdbc:voltdb://" + Target.server());
        drop();
        run("CREATE TABLE browse_item (id BIGINT NOT NULL, tiny TINYINT, small SMALLINT DEFAULT 5,"
                + " kind INTEGER DEFAULT 7 NOT NULL, ratio FLOAT DEFAULT 1.5,"
                + " amount DECIMAL DEFAULT 2.25, name VARCHAR(32) DEFAULT 'none' NOT NULL,"
                + " note VARCHAR(100 BYTES), raw VARBINARY(16), made TIMESTAMP DEFAULT NOW,"
                + " CONSTRAINT browse_item_pk PRIMARY KEY (id))");
        run("PARTITION TABLE browse_item ON COLUMN id");
        run("CREATE TABLE browse_kind (code VARCHAR(8) NOT NULL, part SMALLINT NOT NULL,"
                + " title VARCHAR(64), PRIMARY KEY (code, part))");
        run("CREATE INDEX browse_by_name ON browse_item (name, kind)");
        run("CREATE UNIQUE INDEX browse_by_kind_id ON browse_item (kind, id)");
        run("CREATE INDEX browse_by_abs ON browse_item (ABS(kind))");
        run("CREATE VIEW browse_sums (kind, n, total) AS"
                + " SELECT kind, COUNT(*), SUM(amount) FROM browse_item GROUP BY kind");
        run("CREATE PROCEDURE BrowseGet PARTITION ON TABLE browse_item COLUMN id AS"
                + " SELECT name, amount FROM browse_item WHERE id = ? AND kind = ?");
        run("CREATE PROCEDURE BrowseCount AS SELECT COUNT(*) FROM browse_item WHERE name LIKE ?");
        metadata = connection.getMetaData();
    }

    @AfterAll
    void disconnect() throws Exception {
        drop();
        connection.close();
    }

    private void drop() throws SQLException {
        run("DROP PROCEDURE BrowseGet IF EXISTS");
        run("DROP PROCEDURE BrowseCount IF EXISTS");
        run("DROP VIEW browse_sums IF EXISTS");
        run("DROP TABLE browse_item IF EXISTS");
        run("DROP TABLE browse_kind IF EXISTS");
    }

    private void run(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    /** Some columns of every row, with spaces between them. */
    private static List<String> rows(ResultSet rows, String... columns) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) {
            List<String> cells = new ArrayList<>();
            for (String column : columns) {
                cells.add(String.valueOf(rows.getObject(column)));
            }
            found.add(String.join(" ", cells));
        }
        rows.close();
        return found;
    }

    private static List<String> names(ResultSet rows) throws SQLException {
        List<String> found = new ArrayList<>();
        ResultSetMetaData columns = rows.getMetaData();
        for (int i = 1; i <= columns.getColumnCount(); i++) {
            found.add(columns.getColumnName(i));
        }
        return found;
    }

    @Test
    void tablesByPatternAndType() throws Exception {
        ResultSet all = metadata.getTables(null, null, "BROWSE%", null);
        assertEquals(List.of("TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE", "REMARKS",
                "TYPE_CAT", "TYPE_SCHEM", "TYPE_NAME", "SELF_REFERENCING_COL_NAME",
                "REF_GENERATION"), names(all));
        assertEquals(List.of("BROWSE_ITEM TABLE {\"partitionColumn\":\"ID\"}",
                "BROWSE_KIND TABLE null",
                "BROWSE_SUMS VIEW {\"sourceTable\":\"BROWSE_ITEM\"}"),
                rows(all, "TABLE_NAME", "TABLE_TYPE", "REMARKS"));
        assertEquals(List.of("BROWSE_ITEM", "BROWSE_KIND"),
                rows(metadata.getTables(null, null, "BROWSE%", new String[] {"TABLE"}),
                        "TABLE_NAME"));
        assertEquals(List.of("BROWSE_SUMS"),
                rows(metadata.getTables(null, null, "BROWSE%", new String[] {"VIEW"}),
                        "TABLE_NAME"));
        assertEquals(List.of("BROWSE_ITEM", "BROWSE_SUMS"),
                rows(metadata.getTables(null, null, "BROWSE%M%", new String[] {"TABLE", "VIEW"}),
                        "TABLE_NAME"));
        assertEquals(List.of("BROWSE_KIND"),
                rows(metadata.getTables(null, null, "BROWSE_KIN_", null), "TABLE_NAME"));
        assertEquals(List.of(),
                rows(metadata.getTables(null, null, "NO_SUCH%", null), "TABLE_NAME"));
    }

    @Test
    void columns() throws Exception {
        ResultSet columns = metadata.getColumns(null, null, "BROWSE_ITEM", "%");
        assertEquals(23, names(columns).size());
        assertEquals(List.of(
                "1 ID " + Types.BIGINT + " BIGINT 63 2 0 NO null PARTITION_COLUMN",
                "2 TINY " + Types.TINYINT + " TINYINT 7 2 1 YES null null",
                "3 SMALL " + Types.SMALLINT + " SMALLINT 15 2 1 YES 5 null",
                "4 KIND " + Types.INTEGER + " INTEGER 31 2 0 NO 7 null",
                "5 RATIO " + Types.FLOAT + " FLOAT 53 2 1 YES 1.5E0 null",
                "6 AMOUNT " + Types.DECIMAL + " DECIMAL 38 10 1 YES 2.25 null",
                "7 NAME " + Types.VARCHAR + " VARCHAR 32 " + NO_INTEGER + " 0 NO 'none' null",
                "8 NOTE " + Types.VARCHAR + " VARCHAR 100 " + NO_INTEGER + " 1 YES null null",
                "9 RAW " + Types.VARBINARY + " VARBINARY 16 " + NO_INTEGER + " 1 YES null null",
                "10 MADE " + Types.TIMESTAMP + " TIMESTAMP 63 2 1 YES CURRENT_TIMESTAMP null"),
                rows(columns, "ORDINAL_POSITION", "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME",
                        "COLUMN_SIZE", "NUM_PREC_RADIX", "NULLABLE", "IS_NULLABLE", "COLUMN_DEF",
                        "REMARKS"));
        assertEquals(List.of("BROWSE_SUMS TOTAL 12"),
                rows(metadata.getColumns(null, null, "BROWSE_SUMS", "T%"), "TABLE_NAME",
                        "COLUMN_NAME", "DECIMAL_DIGITS"));
        assertEquals(List.of("BROWSE_ITEM KIND", "BROWSE_SUMS KIND"),
                rows(metadata.getColumns(null, null, "BROWSE%", "K_ND"), "TABLE_NAME",
                        "COLUMN_NAME"));
    }

    @Test
    void keysAndIndexes() throws Exception {
        assertEquals(List.of("ID 1 BROWSE_ITEM_PK"),
                rows(metadata.getPrimaryKeys(null, null, "BROWSE_ITEM"), "COLUMN_NAME", "KEY_SEQ",
                        "PK_NAME"));
        assertEquals(List.of("CODE 1", "PART 2"),
                rows(metadata.getPrimaryKeys(null, null, "BROWSE_KIND"), "COLUMN_NAME",
                        "KEY_SEQ"));
        List<String> unique = List.of("0 BROWSE_BY_KIND_ID 1 ID A", "0 BROWSE_BY_KIND_ID 2 KIND A",
                "0 VOLTDB_AUTOGEN_CONSTRAINT_IDX_BROWSE_ITEM_PK 1 ID A");
        String[] shown = {"NON_UNIQUE", "INDEX_NAME", "ORDINAL_POSITION", "COLUMN_NAME",
            "ASC_OR_DESC"};
        assertEquals(unique,
                rows(metadata.getIndexInfo(null, null, "BROWSE_ITEM", true, true), shown));
        List<String> all =
                rows(metadata.getIndexInfo(null, null, "BROWSE_ITEM", false, false), shown);
        assertTrue(all.containsAll(unique));
        assertTrue(all.containsAll(List.of("1 BROWSE_BY_ABS 1 KIND A",
                "1 BROWSE_BY_NAME 1 KIND A", "1 BROWSE_BY_NAME 2 NAME A")));
        assertEquals(6, all.size());
        // There are no foreign keys and no privileges of single tables.
        assertFalse(metadata.getImportedKeys(null, null, "BROWSE_ITEM").next());
        assertFalse(metadata.getExportedKeys(null, null, "BROWSE_ITEM").next());
        assertFalse(metadata.getTablePrivileges(null, null, "BROWSE%").next());
    }

    @Test
    void procedures() throws Exception {
        List<String> procedures =
                rows(metadata.getProcedures(null, null, "%"), "PROCEDURE_NAME", "REMARKS");
        assertTrue(procedures.contains("BrowseGet {\"readOnly\":true,\"singlePartition\":true,"
                + "\"partitionParameter\":0,\"partitionParameterType\":6,\"compound\":false}"));
        assertTrue(procedures.contains("BrowseCount {\"readOnly\":true,"
                + "\"singlePartition\":false,\"compound\":false}"));
        assertTrue(procedures.stream().anyMatch(row -> row.startsWith("BROWSE_ITEM.upsert ")));
        assertEquals(List.of("param0 " + Types.BIGINT + " BIGINT 1 PARTITION_PARAMETER",
                "param1 " + Types.INTEGER + " INTEGER 2 null"),
                rows(metadata.getProcedureColumns(null, null, "BrowseGet", "%"), "COLUMN_NAME",
                        "DATA_TYPE", "TYPE_NAME", "ORDINAL_POSITION", "REMARKS"));
        List<String> insert = rows(metadata.getProcedureColumns(null, null, "BROWSE_ITEM.insert",
                null), "TYPE_NAME");
        assertEquals(10, insert.size());
        assertThrows(SQLException.class, () -> metadata.getProcedures(null, null, "Browse%"),
                "the driver says itself that it cannot");
    }

    @Test
    void typesAndNames() throws Exception {
        List<String> types = rows(metadata.getTypeInfo(), "TYPE_NAME", "DATA_TYPE", "PRECISION",
                "MAXIMUM_SCALE");
        for (String row : List.of("TINYINT -6 7 0", "SMALLINT 5 15 0", "INTEGER 4 31 0",
                "BIGINT -5 63 0", "FLOAT 6 53 " + NO_SHORT, "DECIMAL 3 38 12",
                "VARCHAR 12 1048576 " + NO_SHORT, "TIMESTAMP 93 63 " + NO_SHORT,
                "VARBINARY -3 1048576 " + NO_SHORT)) {
            assertTrue(types.contains(row), row + " in " + types);
        }
        assertEquals(List.of("TABLE", "VIEW"), rows(metadata.getTableTypes(), "TABLE_TYPE"));
        assertFalse(metadata.getSchemas().next());
        assertEquals(1, rows(metadata.getCatalogs(), "TABLE_CAT").size());
        assertEquals("VoltDB", metadata.getDatabaseProductName());
        assertTrue(metadata.getDatabaseProductVersion().startsWith("voltdb-11.4 "));
        assertTrue(metadata.getDatabaseProductVersion().contains("lockstepdb"));
        assertEquals("voltdb", metadata.getDriverName());
        assertEquals("\"", metadata.getIdentifierQuoteString().replace("\\", ""));
    }

    /** The driver names functions; each that it names is there. */
    @Test
    void functionsThatTheDriverNames() throws Exception {
        List<String> calls = List.of("ABS(-1)", "BITAND(3, 1)", "BITNOT(1)", "BITOR(1, 2)",
                "BIT_SHIFT_LEFT(1, 2)", "BIT_SHIFT_RIGHT(4, 1)", "BITXOR(3, 1)", "CEILING(1.5)",
                "COS(0)", "COT(1)", "CSC(1)", "DEGREES(1)", "EXP(0)", "FLOOR(1.5)", "LN(1)",
                "LOG(1)", "LOG10(10)", "PI()", "POWER(2, 3)", "RADIANS(1)", "ROUND(1.5, 0)",
                "SEC(1)", "SIN(0)", "SQRT(4)", "TAN(0)", "BIN(5)", "COALESCE(NULL, 'a')",
                "CHAR(65)", "CHAR_LENGTH('abc')", "CONCAT('a', 'b')", "FORMAT_CURRENCY(1.5, 1)",
                "HEX(255)", "STR(1.5)", "INSERT('abc', 1, 1, 'x')", "LCASE('A')", "LEFT('abc', 1)",
                "LOWER('A')", "LTRIM(' a')", "OCTET_LENGTH('abc')",
                "OVERLAY('abc' PLACING 'x' FROM 1 FOR 1)", "POSITION('b' IN 'abc')",
                "REGEXP_POSITION('abc', 'b')", "REPEAT('a', 2)", "REPLACE('aba', 'b', 'c')",
                "RIGHT('abc', 1)", "RTRIM('a ')", "SPACE(2)", "SUBSTRING('abc' FROM 2)",
                "SUBSTR('abc', 2)", "TRIM(' a ')", "UCASE('a')", "UPPER('a')",
                "CURRENT_TIMESTAMP", "DATEADD(DAY, 1, NOW)", "DAY(NOW)", "DAYOFMONTH(NOW)",
                "DAYOFWEEK(NOW)", "DAYOFYEAR(NOW)", "EXTRACT(YEAR FROM NOW)", "FROM_UNIXTIME(1)",
                "HOUR(NOW)", "IS_VALID_TIMESTAMP(NOW)", "MAX_VALID_TIMESTAMP()",
                "MIN_VALID_TIMESTAMP()", "MINUTE(NOW)", "MONTH(NOW)", "NOW", "QUARTER(NOW)",
                "SECOND(NOW)", "SINCE_EPOCH(SECOND, NOW)", "TO_TIMESTAMP(SECOND, 1)",
                "TRUNCATE(DAY, NOW)", "WEEK(NOW)", "WEEKOFYEAR(NOW)", "WEEKDAY(NOW)",
                "YEAR(NOW)");
        String named = String.join(",", metadata.getNumericFunctions(),
                metadata.getStringFunctions(), metadata.getTimeDateFunctions());
        run("INSERT INTO browse_kind VALUES ('f', 1, 'functions')");
        for (String name : named.split(",")) {
            String call = calls.stream().filter(text -> text.split("\\(")[0].equals(name))
                    .findFirst().orElseThrow(() -> new AssertionError("no call of " + name));
            try (Statement statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery(
                            "SELECT " + shown(call) + " FROM browse_kind WHERE code = 'f'")) {
                assertTrue(rows.next(), call);
            }
        }
        run("DELETE FROM browse_kind");
    }

    /** A condition may not stand among the columns of a result. */
    private static String shown(String call) {
        return call.startsWith("IS_") ? "CASE WHEN " + call + " THEN 1 END" : call;
    }

    @Test
    void columnsOfAResult() throws Exception {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT * FROM browse_item")) {
            ResultSetMetaData columns = rows.getMetaData();
            List<String> found = new ArrayList<>();
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                found.add(columns.getColumnLabel(i) + " " + columns.getColumnTypeName(i) + " "
                        + columns.getColumnClassName(i) + " " + columns.getScale(i));
            }
            assertEquals(List.of("ID BIGINT java.lang.Long 0", "TINY TINYINT java.lang.Byte 0",
                    "SMALL SMALLINT java.lang.Short 0", "KIND INTEGER java.lang.Integer 0",
                    "RATIO FLOAT java.lang.Double 0",
                    "AMOUNT DECIMAL java.math.BigDecimal 12", "NAME VARCHAR java.lang.String 0",
                    "NOTE VARCHAR java.lang.String 0", "RAW VARBINARY java.lang.Byte[] 0",
                    "MADE TIMESTAMP java.sql.Timestamp 0"), found);
            assertTrue(columns.isCaseSensitive(7));
            assertTrue(columns.isSigned(1));
        }
    }
}
