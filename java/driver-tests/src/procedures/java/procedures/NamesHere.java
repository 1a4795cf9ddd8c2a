package procedures;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Counts the rows of its partition; the key that clients call it with is a text. */
public class NamesHere extends VoltProcedure {
    public final SQLStmt count = new SQLStmt("SELECT COUNT(*) FROM named WHERE name <> ?");

    public VoltTable[] run(String key, String without) {
        if (key == null || key.isEmpty()) {
            throw new VoltAbortException("no key");
        }
        voltQueueSQL(count, without);
        return voltExecuteSQL(true);
    }
}
