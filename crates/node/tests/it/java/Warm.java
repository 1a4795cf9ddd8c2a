import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Inserts a row, and then computes until its class has been there for some time. */
public class Warm extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO spread VALUES (?, ?)");
    private static final long BEGAN = System.nanoTime();

    public VoltTable[] run(long key, long milliseconds) {
        voltQueueSQL(insert, key, milliseconds);
        VoltTable[] done = voltExecuteSQL();
        while (System.nanoTime() - BEGAN < milliseconds * 1_000_000) {
            Thread.onSpinWait();
        }
        return done;
    }
}
