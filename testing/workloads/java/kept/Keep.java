package kept;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** Counts the rows of a slot, adds one, and rolls back each ninth: one partition. */
public class Keep extends VoltProcedure {
    public final SQLStmt count = new SQLStmt("SELECT COUNT(*) FROM kept WHERE slot = ?;");
    public final SQLStmt insert = new SQLStmt("INSERT INTO kept VALUES (?, ?);");

    public long run(long slot, long n) {
        voltQueueSQL(count, slot);
        long before = voltExecuteSQL()[0].asScalarLong();
        voltQueueSQL(insert, slot, n);
        voltExecuteSQL();
        if (n % 9 == 0) {
            throw new VoltAbortException("each ninth is rolled back");
        }
        return before;
    }
}
