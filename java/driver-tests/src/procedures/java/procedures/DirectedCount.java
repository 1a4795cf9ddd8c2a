package procedures;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Without a partitioning parameter, and yet at one partition: clients call it at each. */
public class DirectedCount extends VoltProcedure {
    public final SQLStmt count = new SQLStmt("SELECT COUNT(*) FROM item WHERE k >= ?");

    public VoltTable[] run(int given) {
        voltQueueSQL(count, given);
        return voltExecuteSQL(true);
    }
}
