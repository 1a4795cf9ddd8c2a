package procedures;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;

/** Stores geographic values, and gives back all rows as a result and as what it reads of them. */
public class Places extends VoltProcedure {
    public final SQLStmt put = new SQLStmt("INSERT INTO place VALUES (?, ?, ?)");
    public final SQLStmt read = new SQLStmt(
            "SELECT id, p, g, LATITUDE(p), NUMPOINTS(g) FROM place ORDER BY id");
    public final SQLStmt within = new SQLStmt("SELECT COUNT(*) FROM place WHERE CONTAINS(g, ?)");
    public final SQLStmt same = new SQLStmt("SELECT COUNT(*) FROM place WHERE p = ? AND g = ?");

    public VoltTable[] run(long id, GeographyPointValue point, GeographyValue polygon) {
        voltQueueSQL(put, id, point, polygon);
        voltQueueSQL(read);
        voltQueueSQL(within, point);
        voltQueueSQL(same, point, polygon);
        VoltTable[] results = voltExecuteSQL(true);
        StringBuilder seen = new StringBuilder();
        while (results[1].advanceRow()) {
            seen.append(results[1].getGeographyPointValue(1));
            seen.append(results[1].wasNull() ? " null, " : ", ");
            GeographyValue stored = results[1].getGeographyValue("G");
            seen.append(stored == null ? "none" : stored.getRings().size()).append("; ");
        }
        results[1].resetRowPosition();
        return new VoltTable[] {results[1], results[2], results[3], Shown.of(seen)};
    }
}
