package failover;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Steps on any registers of a group, over all partitions. */
public class MultiRegisters extends VoltProcedure {
    public final SQLStmt read = new SQLStmt("SELECT v FROM multi_register WHERE p = ? AND r = ?");
    public final SQLStmt write = new SQLStmt(
            "UPDATE multi_register SET v = ? WHERE p = ? AND r = ?");

    public VoltTable[] run(long group, String steps) {
        return Steps.run(this, read, write, group, steps);
    }
}
