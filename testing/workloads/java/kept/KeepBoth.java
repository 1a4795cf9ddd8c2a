package kept;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** Counts all rows, adds one to each of two slots, and rolls back each ninth: two partitions. */
public class KeepBoth extends VoltProcedure {
    public final SQLStmt count = new SQLStmt("SELECT COUNT(*) FROM kept_both;");
    public final SQLStmt insert = new SQLStmt("INSERT INTO kept_both VALUES (?, ?);");

    public long run(long first, long second, long n) {
        voltQueueSQL(count);
        long before = voltExecuteSQL()[0].asScalarLong();
        voltQueueSQL(insert, first, n);
        voltExecuteSQL();
        voltQueueSQL(insert, second, n);
        voltExecuteSQL();
        if (n % 9 == 0) {
            throw new VoltAbortException("each ninth is rolled back");
        }
        return before;
    }
}
