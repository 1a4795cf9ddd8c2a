package tpcc;

import java.util.Date;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltTable.ColumnInfo;
import org.voltdb.VoltType;

/** Delivery [2.7]: delivers the oldest order of each of ten districts. Answers with the orders. */
public class Delivery extends VoltProcedure {
    private static final int DISTRICTS = 10;
    private static final ColumnInfo[] ORDERS = {
        new ColumnInfo("d_id", VoltType.BIGINT),
        new ColumnInfo("o_id", VoltType.BIGINT),
    };

    public final SQLStmt oldest = new SQLStmt(
            "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ?"
            + " ORDER BY no_o_id LIMIT 1;");
    public final SQLStmt customerOfOrder = new SQLStmt(
            "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?;");
    public final SQLStmt amountOfOrder = new SQLStmt(
            "SELECT SUM(ol_amount) FROM order_line"
            + " WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?;");
    public final SQLStmt delete = new SQLStmt(
            "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?;");
    public final SQLStmt setCarrier = new SQLStmt(
            "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?;");
    public final SQLStmt setDate = new SQLStmt(
            "UPDATE order_line SET ol_delivery_d = ?"
            + " WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?;");
    public final SQLStmt addToBalance = new SQLStmt(
            "UPDATE customer SET c_balance = c_balance + ?,"
            + " c_delivery_cnt = c_delivery_cnt + 1"
            + " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;");

    public VoltTable run(short warehouse, int carrier) {
        return deliver(warehouse, 1, DISTRICTS, carrier);
    }

    /** The oldest order of each district from one to another. */
    final VoltTable deliver(short warehouse, int first, int last, int carrier) {
        for (int district = first; district <= last; district++) {
            voltQueueSQL(oldest, warehouse, district);
        }
        VoltTable[] waiting = voltExecuteSQL();
        int[] districts = new int[waiting.length];
        int[] orders = new int[waiting.length];
        int count = 0;
        for (int i = 0; i < waiting.length; i++) {
            // A district without an order that waits is skipped.
            Integer order = Values.firstInteger(waiting[i]);
            if (order != null) {
                districts[count] = first + i;
                orders[count++] = order;
            }
        }
        for (int i = 0; i < count; i++) {
            voltQueueSQL(customerOfOrder, warehouse, districts[i], orders[i]);
            voltQueueSQL(amountOfOrder, warehouse, districts[i], orders[i]);
        }
        VoltTable[] found = voltExecuteSQL();
        Date date = getTransactionTime();
        VoltTable delivered = new VoltTable(ORDERS);
        for (int i = 0; i < count; i++) {
            Integer customer = Values.firstInteger(found[2 * i]);
            VoltTable sum = found[2 * i + 1];
            Object amount = sum.advanceRow() ? Values.amount(sum, 0) : null;
            if (customer == null || amount == null) {
                throw new VoltAbortException("an order of warehouse " + warehouse
                        + " has no lines");
            }
            voltQueueSQL(delete, warehouse, districts[i], orders[i]);
            voltQueueSQL(setCarrier, carrier, warehouse, districts[i], orders[i]);
            voltQueueSQL(setDate, date, warehouse, districts[i], orders[i]);
            voltQueueSQL(addToBalance, amount, warehouse, districts[i], customer);
            delivered.addRow((long) districts[i], (long) orders[i]);
        }
        voltExecuteSQL(true);
        return delivered;
    }
}
