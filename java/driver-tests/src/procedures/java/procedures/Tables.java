package procedures;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.List;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltTable.ColumnInfo;
import org.voltdb.VoltTableRow;
import org.voltdb.VoltType;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** Reads the engine's tables with every reader, and builds tables with every builder. */
public class Tables extends VoltProcedure {
    public final SQLStmt read = new SQLStmt("SELECT ti, si, i, b, f, d, s, vb, t"
            + " FROM kinds WHERE k >= ? ORDER BY k");
    private static final String TRIANGLE = "POLYGON((0 0,1 0,0 1,0 0))";

    public VoltTable[] run(long key, String how) throws Exception {
        voltQueueSQL(read, key);
        VoltTable found = voltExecuteSQL()[0];
        switch (how) {
            case "by number":
                return new VoltTable[] {byNumber(found)};
            case "by name":
                return new VoltTable[] {byName(found)};
            case "places":
                return new VoltTable[] {places(built())};
            case "objects":
                return new VoltTable[] {objects(found)};
            case "cursors":
                return new VoltTable[] {cursors(found)};
            case "schema":
                return new VoltTable[] {schema(found)};
            case "misuse":
                return new VoltTable[] {misuse(found)};
            case "built":
                return new VoltTable[] {built(), new VoltTable(found.getTableSchema())};
            case "joined":
                return joined(found);
            case "texts":
                return new VoltTable[] {texts(found)};
            default:
                return new VoltTable[] {limits()};
        }
    }

    private static VoltTable byNumber(VoltTable t) {
        StringBuilder all = new StringBuilder();
        while (t.advanceRow()) {
            for (int column = 0; column < 4; column++) {
                all.append(t.getLong(column)).append(t.wasNull() ? " null, " : ", ");
            }
            all.append(t.getDouble(4)).append(t.wasNull() ? " null, " : ", ");
            all.append(t.getDecimalAsBigDecimal(5)).append(", ").append(t.getString(6));
            all.append(", ").append(Shown.text(t.getStringAsBytes(6)));
            all.append(", ").append(Shown.text(t.getVarbinary(7))).append(", ");
            all.append(t.getVarbinaryLen(7)).append(", ").append(t.getTimestampAsLong(8));
            TimestampType time = t.getTimestampAsTimestamp(8);
            all.append(", ").append(time == null ? null : time.getTime()).append(", ");
            all.append(Shown.text(t.getTimestampAsSqlTimestamp(8))).append(t.wasNull()
                    ? " null; " : "; ");
        }
        return Shown.of(all);
    }

    private static VoltTable byName(VoltTable t) {
        t.advanceRow();
        return Shown.all(t.getLong("ti"), t.getLong("SI"), t.getLong("I"), t.getLong("b"),
                t.getDouble("F"), t.getDecimalAsBigDecimal("D"), t.getString("S"),
                t.getStringAsBytes("s"), t.getVarbinary("VB"), t.getTimestampAsLong("T"),
                t.getTimestampAsTimestamp("T").getTime(), t.getTimestampAsSqlTimestamp("t"));
    }

    /** What was built, read again. */
    private static VoltTable places(VoltTable t) {
        StringBuilder all = new StringBuilder();
        while (t.advanceRow()) {
            all.append(t.getGeographyPointValue(9)).append(", ");
            all.append(t.getGeographyPointValue("P")).append(", ");
            all.append(t.getGeographyValue(10)).append(t.wasNull() ? " null, " : ", ");
            all.append(t.getGeographyValue("g")).append("; ");
        }
        return Shown.of(all);
    }

    private static VoltTable objects(VoltTable t) {
        t.advanceRow();
        Object[] row = t.getRowObjects();
        StringBuilder classes = new StringBuilder();
        for (Object value : row) {
            classes.append(value.getClass().getSimpleName()).append(' ');
        }
        return Shown.all(classes, t.get(0), t.get(3, VoltType.BIGINT), t.get("F", VoltType.FLOAT),
                t.get(4), t.get(6), t.get("D", VoltType.DECIMAL), row[1]);
    }

    private static VoltTable cursors(VoltTable t) {
        int before = t.getActiveRowIndex();
        boolean second = t.advanceToRow(1);
        int there = t.getActiveRowIndex();
        boolean beyond = t.advanceRow();
        t.resetRowPosition();
        t.advanceRow();
        VoltTableRow row = t.fetchRow(0);
        VoltTableRow copy = row.cloneRow();
        boolean moved = row.advanceRow();
        return Shown.all(before, second, there, beyond, t.getLong(0), moved, copy.getLong(0),
                row.getActiveRowIndex(), t.getActiveRowIndex(), copy.getRawRow().remaining() > 0,
                copy.getRow().startsWith("1,2,3,4,"));
    }

    private static VoltTable schema(VoltTable t) {
        ColumnInfo[] columns = t.getTableSchema();
        StringBuilder all = new StringBuilder();
        for (int i = 0; i < t.getColumnCount(); i++) {
            all.append(t.getColumnName(i)).append(' ').append(t.getColumnType(i).getName())
                    .append(' ').append(t.getColumnIndex(t.getColumnName(i).toLowerCase()))
                    .append(' ');
        }
        return Shown.all(all, columns.length, t.getRowCount(), t.getStatusCode());
    }

    private interface Step {
        Object run();
    }

    private static String thrown(Step step) {
        try {
            return "nothing, but " + step.run();
        } catch (RuntimeException e) {
            String message = String.valueOf(e.getMessage());
            return e.getClass().getSimpleName() + ' '
                    + message.substring(0, Math.min(60, message.length()));
        }
    }

    private static VoltTable misuse(VoltTable t) {
        String early = thrown(() -> t.getLong(0));
        t.advanceRow();
        return Shown.all(early, thrown(() -> t.getLong(99)), thrown(() -> t.getLong(6)),
                thrown(() -> t.getString(0)), thrown(() -> t.getDouble(0)),
                thrown(() -> t.getLong("zz")), thrown(() -> t.fetchRow(99)),
                thrown(() -> {
                    t.addRow(1);
                    return 0;
                }));
    }

    private static VoltTable built() {
        VoltTable all = new VoltTable(new ColumnInfo("TI", VoltType.TINYINT),
                new ColumnInfo("SI", VoltType.SMALLINT), new ColumnInfo("I", VoltType.INTEGER),
                new ColumnInfo("B", VoltType.BIGINT), new ColumnInfo("F", VoltType.FLOAT),
                new ColumnInfo("D", VoltType.DECIMAL), new ColumnInfo("S", VoltType.STRING),
                new ColumnInfo("VB", VoltType.VARBINARY), new ColumnInfo("T", VoltType.TIMESTAMP),
                new ColumnInfo("P", VoltType.GEOGRAPHY_POINT),
                new ColumnInfo("G", VoltType.GEOGRAPHY));
        all.addRow(1, 2, 3, 4, 1.5, new BigDecimal("2.5"), "text", new byte[] {10, 11},
                new TimestampType(1_500_000), new GeographyPointValue(1, 2),
                new GeographyValue(TRIANGLE));
        all.addRow(null, null, null, null, null, null, null, null, null, null, null);
        all.addRow((byte) 1, (byte) 2, (short) 3, 4L, 2, new BigDecimal(7), "té", "0aFF",
                2_000_000L, VoltType.NULL_POINT, VoltType.NULL_GEOGRAPHY);
        return all;
    }

    private static VoltTable[] joined(VoltTable found) {
        VoltTable all = found.clone(100);
        all.add(found.fetchRow(1));
        all.addTable(found);
        all.addTables(List.of(found, found));
        boolean same = found.hasSameContents(found) && !found.hasSameContents(all)
                && found.equals(found);
        VoltTable turned = found.clone(0);
        turned.add(found.fetchRow(1));
        turned.add(found.fetchRow(0));
        boolean order = !turned.hasSameContents(found) && turned.hasSameContents(found, true)
                && turned.getTableCheckSum(true) == found.getTableCheckSum(true);
        turned.clearRowData();
        all.setStatusCode((byte) 9);
        return new VoltTable[] {all, turned, Shown.all(same, order)};
    }

    private static VoltTable texts(VoltTable found) throws Exception {
        VoltTable small = new VoltTable(new ColumnInfo[] {new ColumnInfo("A", VoltType.TINYINT),
            new ColumnInfo("B", VoltType.STRING)}, 2);
        small.addRow(5, "x");
        ByteBuffer bytes = ByteBuffer.allocate(small.getSerializedSize());
        small.flattenToBuffer(bytes);
        VoltTable number = new VoltTable(new ColumnInfo("", VoltType.BIGINT));
        number.addRow(7);
        return Shown.all(small.toFormattedString(), small.toFormattedString(false),
                small.toJSONString(), small.toString().trim(), bytes.remaining(),
                VoltTable.fromJSONString(found.toJSONString()).hasSameContents(found),
                number.asScalarLong(), thrown(found::asScalarLong),
                VoltTable.varbinaryToPrintableString(new byte[] {10}));
    }

    private static VoltTable limits() {
        VoltTable t = new VoltTable(new ColumnInfo("A", VoltType.TINYINT),
                new ColumnInfo("B", VoltType.STRING), new ColumnInfo("C", VoltType.STRING));
        String large = "x".repeat(1 << 20);
        StringBuilder all = new StringBuilder();
        for (Object[] row : new Object[][] {{1, "a"}, {128, "a", "b"}, {-128, "a", "b"},
            {new BigDecimal(1), "a", "b"}, {1, large + "x", "b"}, {1, large, large}}) {
            all.append(thrown(() -> {
                t.addRow(row);
                return 0;
            })).append(" | ");
        }
        return Shown.of(all.append(t.getRowCount()));
    }
}
