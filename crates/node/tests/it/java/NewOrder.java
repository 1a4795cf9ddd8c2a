import java.nio.charset.StandardCharsets;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltTable.ColumnInfo;
import org.voltdb.VoltTableRow;
import org.voltdb.VoltType;
import org.voltdb.types.TimestampType;

/**
 * TPC-C's New-Order as applications for VoltDB write it: texts are read as bytes, and go on as
 * bytes into statements and result tables.
 */
public class NewOrder extends VoltProcedure {
    private static final byte[] ORIGINAL = "ORIGINAL".getBytes(StandardCharsets.UTF_8);

    public final SQLStmt item = new SQLStmt("SELECT i_price, i_name, i_data FROM item"
            + " WHERE i_id = ?");
    public final SQLStmt warehouse = new SQLStmt("SELECT w_tax FROM warehouse WHERE w_id = ?");
    public final SQLStmt district = new SQLStmt("SELECT d_tax, d_next_o_id FROM district"
            + " WHERE d_id = ? AND d_w_id = ?");
    public final SQLStmt customer = new SQLStmt("SELECT c_discount, c_last, c_credit"
            + " FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?");
    public final SQLStmt nextOrder = new SQLStmt("UPDATE district SET d_next_o_id = ?"
            + " WHERE d_id = ? AND d_w_id = ?");
    public final SQLStmt order = new SQLStmt("INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id,"
            + " o_entry_d, o_ol_cnt) VALUES (?, ?, ?, ?, ?, ?)");
    public final SQLStmt stock = new SQLStmt("SELECT s_quantity, s_data, s_dist FROM stock"
            + " WHERE s_i_id = ? AND s_w_id = ?");
    public final SQLStmt takeStock = new SQLStmt("UPDATE stock SET s_quantity = ?"
            + " WHERE s_i_id = ? AND s_w_id = ?");
    public final SQLStmt line = new SQLStmt("INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, ?,"
            + " ?, ?)");

    private final VoltTable lines = new VoltTable(new ColumnInfo("i_name", VoltType.STRING),
            new ColumnInfo("quantity", VoltType.INTEGER), new ColumnInfo("kind", VoltType.STRING),
            new ColumnInfo("amount", VoltType.FLOAT));

    public VoltTable[] run(short warehouseId, byte districtId, int customerId, TimestampType time,
            int[] items, int[] quantities) {
        for (int id : items) {
            voltQueueSQL(item, id);
        }
        voltQueueSQL(warehouse, warehouseId);
        voltQueueSQL(district, districtId, warehouseId);
        voltQueueSQL(customer, warehouseId, districtId, customerId);
        VoltTable[] found = voltExecuteSQL();
        for (int i = 0; i < items.length; i++) {
            if (found[i].getRowCount() == 0) {
                throw new VoltAbortException("there is no item " + items[i]);
            }
        }
        long orderId = found[items.length + 1].fetchRow(0).getLong(1);
        voltQueueSQL(nextOrder, orderId + 1, districtId, warehouseId);
        voltQueueSQL(order, orderId, districtId, warehouseId, customerId, time, items.length);
        for (int id : items) {
            voltQueueSQL(stock, id, warehouseId);
        }
        VoltTable[] stocks = voltExecuteSQL();
        VoltTable result = lines.clone(1024);
        for (int i = 0; i < items.length; i++) {
            VoltTableRow it = found[i].fetchRow(0);
            VoltTableRow have = stocks[2 + i].fetchRow(0);
            long left = have.getLong(0) - quantities[i];
            byte[] distribution = have.getStringAsBytes(2);
            double amount = it.getDouble(0) * quantities[i];
            voltQueueSQL(takeStock, left, items[i], warehouseId);
            voltQueueSQL(line, orderId, districtId, warehouseId, i + 1, items[i], time,
                    quantities[i], amount, distribution);
            boolean brand = holds(it.getStringAsBytes(2), ORIGINAL)
                    && holds(have.getStringAsBytes(1), ORIGINAL);
            result.addRow(it.getStringAsBytes(1), left, new byte[] {(byte) (brand ? 'B' : 'G')},
                    amount);
        }
        voltExecuteSQL(true);
        return new VoltTable[] {found[items.length + 2], result};
    }

    private static boolean holds(byte[] text, byte[] part) {
        return new String(text, StandardCharsets.UTF_8)
                .contains(new String(part, StandardCharsets.UTF_8));
    }
}
