import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltTable.ColumnInfo;
import org.voltdb.VoltTableRow;
import org.voltdb.VoltType;
import org.voltdb.types.TimestampType;

/** TPC-C's Payment by the customer's name, which comes as bytes. */
public class Payment extends VoltProcedure {
    private static final byte[] BAD = "BC".getBytes(StandardCharsets.UTF_8);
    private static final int MAX_DATA = 60;

    public final SQLStmt byName = new SQLStmt("SELECT c_id, c_first, c_last, c_credit, c_balance,"
            + " c_data FROM customer WHERE c_last = ? AND c_d_id = ? AND c_w_id = ?"
            + " ORDER BY c_first");
    public final SQLStmt payBad = new SQLStmt("UPDATE customer SET c_balance = ?, c_data = ?"
            + " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?");
    public final SQLStmt pay = new SQLStmt("UPDATE customer SET c_balance = ?"
            + " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?");
    public final SQLStmt names = new SQLStmt("SELECT w_name, d_name FROM warehouse, district"
            + " WHERE w_id = ? AND d_w_id = w_id AND d_id = ?");
    public final SQLStmt history = new SQLStmt("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)");

    public VoltTable[] run(short warehouseId, byte districtId, double amount, byte[] last,
            TimestampType time) {
        voltQueueSQL(byName, last, districtId, warehouseId);
        voltQueueSQL(names, warehouseId, districtId);
        VoltTable[] found = voltExecuteSQL();
        int count = found[0].getRowCount();
        if (count == 0) {
            throw new VoltAbortException("nobody is called "
                    + new String(last, StandardCharsets.UTF_8));
        }
        VoltTableRow customer = found[0].fetchRow((count - 1) / 2);
        int id = (int) customer.getLong(0);
        byte[] credit = customer.getStringAsBytes(3);
        double balance = customer.getDouble(4) - amount;
        byte[] data = new byte[0];
        if (Arrays.equals(credit, BAD)) {
            data = joined((id + " " + amount + "|").getBytes(StandardCharsets.UTF_8),
                    customer.getStringAsBytes(5), MAX_DATA);
            voltQueueSQL(payBad, balance, data, warehouseId, districtId, id);
        } else {
            voltQueueSQL(pay, balance, warehouseId, districtId, id);
        }
        VoltTableRow places = found[1].fetchRow(0);
        byte[] note = joined(places.getStringAsBytes(0), places.getStringAsBytes(1), MAX_DATA);
        voltQueueSQL(history, id, districtId, warehouseId, time, amount, note);
        voltExecuteSQL(true);
        VoltTable result = new VoltTable(new ColumnInfo("c_id", VoltType.INTEGER),
                new ColumnInfo("c_first", VoltType.STRING),
                new ColumnInfo("c_last", VoltType.STRING),
                new ColumnInfo("c_credit", VoltType.STRING),
                new ColumnInfo("c_balance", VoltType.FLOAT),
                new ColumnInfo("c_data", VoltType.STRING));
        result.addRow(id, customer.getStringAsBytes(1), customer.getStringAsBytes(2), credit,
                balance, data);
        return new VoltTable[] {result};
    }

    private static byte[] joined(byte[] first, byte[] second, int limit) {
        byte[] all = Arrays.copyOf(first, Math.min(limit, first.length + second.length));
        System.arraycopy(second, 0, all, first.length, all.length - first.length);
        return all;
    }
}
