package procedures;

import java.io.IOException;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Writes a row, sets the application's status, and ends in every way. */
public class Ends extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO item VALUES (?, 'end', 0)");
    public final SQLStmt divide = new SQLStmt("SELECT 1 / (n - n) FROM item WHERE k = ?");

    public VoltTable[] run(long key, String how) throws IOException {
        voltQueueSQL(insert, key);
        voltExecuteSQL();
        if (how.equals("no status")) {
            return null;
        }
        setAppStatusCode((byte) 42);
        setAppStatusString("ended: " + how);
        switch (how) {
            case "abort":
                throw new VoltAbortException("not today");
            case "abort without a word":
                throw new VoltAbortException();
            case "abort for a cause":
                throw new VoltAbortException(new IllegalStateException("the cause"));
            case "constraint":
                voltQueueSQL(insert, key);
                return voltExecuteSQL();
            case "sql":
                voltQueueSQL(divide, key);
                return voltExecuteSQL();
            case "runtime":
                return new VoltTable[] {Shown.of(((String) null).length())};
            case "checked":
                throw new IOException("no such file");
            case "error":
                throw new AssertionError("it was wrong");
            case "linkage":
                throw new NoClassDefFoundError("some.Class");
            case "null table":
                return new VoltTable[] {null};
            case "too many tables":
                return new VoltTable[40_000];
            default:
                return null;
        }
    }
}
