package tpcc;

import java.math.BigDecimal;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/**
 * Payment [2.5]: the customer is the one of the number or, where that is NULL, the middle one of
 * the name. Answers with the warehouse, the district and the customer as they were before.
 */
public class Payment extends VoltProcedure {
    /** Columns of the customer's row. */
    private static final int CREDIT = 11;
    private static final int DATA = 17;
    /** The most bytes of a customer's data, and of a payment's. */
    private static final int DATA_BYTES = 500;
    private static final int HISTORY_BYTES = 32;

    public final SQLStmt warehouseRow = new SQLStmt(
            "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse"
            + " WHERE w_id = ?;");
    public final SQLStmt districtRow = new SQLStmt(
            "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district"
            + " WHERE d_w_id = ? AND d_id = ?;");
    public final SQLStmt byName = new SQLStmt(
            "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ?"
            + " ORDER BY c_first, c_id;");
    public final SQLStmt payWarehouse = new SQLStmt(
            "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?;");
    public final SQLStmt payDistrict = new SQLStmt(
            "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?;");
    public final SQLStmt customerRow = new SQLStmt(
            "SELECT c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state,"
            + " c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance,"
            + " c_ytd_payment, c_payment_cnt, c_data FROM customer"
            + " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;");
    public final SQLStmt payGood = new SQLStmt(
            "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?,"
            + " c_payment_cnt = c_payment_cnt + 1"
            + " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;");
    public final SQLStmt payBad = new SQLStmt(
            "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?,"
            + " c_payment_cnt = c_payment_cnt + 1, c_data = ?"
            + " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;");
    public final SQLStmt history = new SQLStmt(
            "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date,"
            + " h_amount, h_data) VALUES (?, ?, ?, ?, ?, ?, ?, ?);");

    public VoltTable[] run(short warehouse, byte district, BigDecimal amount,
            short customerWarehouse, byte customerDistrict, int number, String last) {
        boolean named = number == VoltType.NULL_INTEGER;
        voltQueueSQL(warehouseRow, warehouse);
        voltQueueSQL(districtRow, warehouse, district);
        voltQueueSQL(payWarehouse, amount, warehouse);
        voltQueueSQL(payDistrict, amount, warehouse, district);
        if (named) {
            voltQueueSQL(byName, customerWarehouse, customerDistrict, last);
        } else {
            voltQueueSQL(customerRow, customerWarehouse, customerDistrict, number);
        }
        VoltTable[] first = voltExecuteSQL();
        boolean known = first[2].asScalarLong() == 1 && first[3].asScalarLong() == 1;
        if (!known || !first[0].advanceRow() || !first[1].advanceRow()) {
            throw new VoltAbortException("there is no district " + warehouse + ", " + district);
        }
        Integer customer = number;
        VoltTable row = first[4];
        if (named) {
            customer = Values.middle(first[4]);
            voltQueueSQL(customerRow, customerWarehouse, customerDistrict, customer);
            row = voltExecuteSQL()[0];
        }
        if (!row.advanceRow()) {
            throw new VoltAbortException("there is no customer " + Values.text(customer) + " of "
                    + customerWarehouse + ", " + customerDistrict);
        }
        if ("BC".equals(row.getString(CREDIT))) {
            // What is paid stands in front of what was there [2.5.2.2].
            String old = row.getString(DATA);
            String data = customer + " " + customerDistrict + " " + customerWarehouse + " "
                    + district + " " + warehouse + " " + Values.text(amount) + "|"
                    + (old == null ? "" : old);
            voltQueueSQL(payBad, amount, amount, Values.cut(data, DATA_BYTES), customerWarehouse,
                    customerDistrict, customer);
        } else {
            voltQueueSQL(payGood, amount, amount, customerWarehouse, customerDistrict, customer);
        }
        String text = text(first[0]) + "    " + text(first[1]);
        voltQueueSQL(history, customer, customerDistrict, customerWarehouse, district, warehouse,
                getTransactionTime(), amount, Values.cut(text, HISTORY_BYTES));
        voltExecuteSQL(true);
        return new VoltTable[] {first[0], first[1], row};
    }

    private static String text(VoltTable table) {
        String name = table.getString(0);
        return name == null ? "" : name;
    }
}
