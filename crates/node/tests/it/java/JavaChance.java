import java.util.Random;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** Does something else each time that it is called. */
public class JavaChance extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO chances VALUES (?, ?, ?, ?)");
    public final SQLStmt delete = new SQLStmt("DELETE FROM chances WHERE k = ? AND n < ?");
    public final SQLStmt update = new SQLStmt("UPDATE chances SET v = v + ?, t = ? WHERE k = ?");

    public long run(long k, long n) {
        final Random random = new Random();
        voltQueueSQL(delete, k, n - 1 - random.nextInt(5));
        voltQueueSQL(insert, k, n, System.nanoTime(), "x".repeat(random.nextInt(100)));
        voltQueueSQL(update, random.nextInt(1000), "y".repeat(random.nextInt(50)), k);
        voltExecuteSQL(true);
        if (random.nextInt(7) == 0) {
            throw new VoltAbortException("by chance");
        }
        return 1;
    }
}
