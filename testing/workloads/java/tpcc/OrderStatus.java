package tpcc;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/**
 * Order-Status [2.6]: the customer, its last order and its lines. Where the number is NULL it is
 * the middle customer of the name.
 */
public class OrderStatus extends VoltProcedure {
    public final SQLStmt customerRow = new SQLStmt(
            "SELECT c_id, c_first, c_middle, c_last, c_balance FROM customer"
            + " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;");
    public final SQLStmt byName = new SQLStmt(
            "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ?"
            + " ORDER BY c_first, c_id;");
    public final SQLStmt lastOrder = new SQLStmt(
            "SELECT o_id, o_carrier_id, o_entry_d FROM orders"
            + " WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1;");
    public final SQLStmt lines = new SQLStmt(
            "SELECT ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d"
            + " FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?;");

    public VoltTable[] run(short warehouse, byte district, int number, String last) {
        Integer customer = number;
        if (number == VoltType.NULL_INTEGER) {
            voltQueueSQL(byName, warehouse, district, last);
            customer = Values.middle(voltExecuteSQL()[0]);
        }
        voltQueueSQL(customerRow, warehouse, district, customer);
        voltQueueSQL(lastOrder, warehouse, district, customer);
        VoltTable[] found = voltExecuteSQL();
        if (found[0].getRowCount() == 0) {
            throw new VoltAbortException("there is no customer " + Values.text(customer) + " of "
                    + warehouse + ", " + district);
        }
        voltQueueSQL(lines, warehouse, district, Values.firstInteger(found[1]));
        return new VoltTable[] {found[0], found[1], voltExecuteSQL(true)[0]};
    }
}
