package tpcc;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/**
 * Stock-Level [2.8]: of the items of the district's last 20 orders, how many have less in stock
 * than a threshold.
 */
public class StockLevel extends VoltProcedure {
    private static final int ORDERS = 20;

    public final SQLStmt nextOrder = new SQLStmt(
            "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?;");
    public final SQLStmt low = new SQLStmt(
            "SELECT COUNT(DISTINCT ol_i_id) FROM order_line, stock"
            + " WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id < ? AND ol_o_id >= ?"
            + " AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?;");

    public VoltTable run(short warehouse, byte district, int threshold) {
        voltQueueSQL(nextOrder, warehouse, district);
        Integer next = Values.firstInteger(voltExecuteSQL()[0]);
        if (next == null) {
            throw new VoltAbortException("there is no district " + warehouse + ", " + district);
        }
        voltQueueSQL(low, warehouse, district, next, next - ORDERS, warehouse, threshold);
        return voltExecuteSQL(true)[0];
    }
}
