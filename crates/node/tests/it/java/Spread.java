import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Over all partitions, in three rounds: reads, writes what follows from that, and reads again. */
public class Spread extends VoltProcedure {
    public final SQLStmt count = new SQLStmt("SELECT COUNT(*) FROM t");
    public final SQLStmt insert = new SQLStmt("INSERT INTO t VALUES (?, ?)");
    public final SQLStmt all = new SQLStmt(
            "SELECT a.k, a.v FROM t a, t b WHERE a.k = b.k ORDER BY a.k", "b,a");
    private static int begun;

    public VoltTable[] run(long first, int rows, String how) {
        begun++;
        voltQueueSQL(count);
        long before = voltExecuteSQL()[0].asScalarLong();
        for (int row = 0; row < rows; row++) {
            voltQueueSQL(insert, first + row, before);
        }
        voltExecuteSQL();
        if (how.equals("abort")) {
            throw new VoltAbortException("told to, after " + before + " rows");
        }
        if (how.equals("swallow")) {
            try {
                voltQueueSQL(insert, first, 0);
                voltExecuteSQL();
            } catch (RuntimeException swallowed) {
                setAppStatusString("swallowed");
                return new VoltTable[0];
            }
        }
        setAppStatusString("begun " + begun);
        voltQueueSQL(all);
        return voltExecuteSQL(true);
    }
}
