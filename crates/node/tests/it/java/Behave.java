import java.util.ArrayList;
import java.util.List;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Writes a row, and then does what it is told. */
public class Behave extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO t VALUES (?, ?)");
    public final SQLStmt read = new SQLStmt("SELECT v FROM t WHERE k = ?");
    private static volatile long sink;

    public VoltTable[] run(long key, String how) throws Exception {
        voltQueueSQL(insert, key, 1);
        voltExecuteSQL();
        setAppStatusCode((byte) 7);
        setAppStatusString(how);
        switch (how) {
            case "abort":
                throw new VoltAbortException("as it was told");
            case "throw":
                throw new IllegalArgumentException("a broken promise");
            case "checked":
                throw new java.io.IOException("no file");
            case "twice":
                voltQueueSQL(insert, key, 2);
                voltExecuteSQL();
                break;
            case "caught":
                try {
                    voltQueueSQL(insert, key + 1_000_000, 2);
                    voltQueueSQL(insert, key, 2);
                    voltExecuteSQL();
                } catch (RuntimeException expected) {
                    setAppStatusString("caught");
                }
                break;
            case "caught at the end":
                try {
                    voltQueueSQL(insert, key + 1_000_000, 2);
                    voltQueueSQL(insert, key, 2);
                    voltExecuteSQL();
                } catch (RuntimeException expected) {
                    return new VoltTable[0];
                }
                break;
            case "loop":
                while (true) {
                    sink++;
                }
            case "swallow":
                while (true) {
                    try {
                        while (true) {
                            sink++;
                        }
                    } catch (Throwable swallowed) {
                        sink++;
                    }
                }
            case "sleep":
                Thread.sleep(1_000_000);
                break;
            case "exit":
                System.exit(3);
                break;
            case "deep":
                sink = deep(1);
                break;
            case "memory":
                List<long[]> kept = new ArrayList<>();
                while (true) {
                    kept.add(new long[4 << 20]);
                }
            case "thread":
                new Thread(() -> sink++).start();
                break;
            default:
                break;
        }
        voltQueueSQL(read, key);
        return voltExecuteSQL(true);
    }

    private static long deep(long n) {
        return deep(n + 1) + 1;
    }
}
