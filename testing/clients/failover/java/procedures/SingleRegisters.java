package failover;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Steps on the registers of a group that are of the partition of `part`. */
public class SingleRegisters extends VoltProcedure {
    public final SQLStmt read = new SQLStmt("SELECT v FROM multi_register WHERE p = ? AND r = ?");
    public final SQLStmt write = new SQLStmt(
            "UPDATE multi_register SET v = ? WHERE p = ? AND r = ?");

    public VoltTable[] run(long part, long group, String steps) {
        return Steps.run(this, read, write, group, steps);
    }
}
