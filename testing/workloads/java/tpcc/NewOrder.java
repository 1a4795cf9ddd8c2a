package tpcc;

import java.util.Date;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltTable.ColumnInfo;
import org.voltdb.VoltType;

/**
 * New-Order [2.4]: orders 1 to 15 items. Answers with the customer, the order (taxes, number,
 * total) and its lines (name, stock left, brand, price, amount). An unknown item takes it back.
 */
public class NewOrder extends VoltProcedure {
    private static final String INVALID_ITEM = "Item number is not valid";
    private static final int MAX_LINES = 15;
    private static final int DISTRICTS = 10;
    /** Where the results of the first batch stand: three rows, then items, then stocks. */
    private static final int FIRST_ITEM = 3;

    private static final ColumnInfo[] ORDER = {
        new ColumnInfo("w_tax", VoltType.FLOAT),
        new ColumnInfo("d_tax", VoltType.FLOAT),
        new ColumnInfo("o_id", VoltType.BIGINT),
        new ColumnInfo("total", VoltType.FLOAT),
    };
    private static final ColumnInfo[] LINES = {
        new ColumnInfo("i_name", VoltType.STRING),
        new ColumnInfo("s_quantity", VoltType.BIGINT),
        new ColumnInfo("brand_generic", VoltType.STRING),
        new ColumnInfo("i_price", VoltType.FLOAT),
        new ColumnInfo("ol_amount", VoltType.FLOAT),
    };

    public final SQLStmt item = new SQLStmt(
            "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?;");
    public final SQLStmt warehouseTax = new SQLStmt(
            "SELECT w_tax FROM warehouse WHERE w_id = ?;");
    public final SQLStmt districtTax = new SQLStmt(
            "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?;");
    public final SQLStmt customerTerms = new SQLStmt(
            "SELECT c_discount, c_last, c_credit FROM customer"
            + " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;");
    public final SQLStmt stock1 = stock("s_dist_01");
    public final SQLStmt stock2 = stock("s_dist_02");
    public final SQLStmt stock3 = stock("s_dist_03");
    public final SQLStmt stock4 = stock("s_dist_04");
    public final SQLStmt stock5 = stock("s_dist_05");
    public final SQLStmt stock6 = stock("s_dist_06");
    public final SQLStmt stock7 = stock("s_dist_07");
    public final SQLStmt stock8 = stock("s_dist_08");
    public final SQLStmt stock9 = stock("s_dist_09");
    public final SQLStmt stock10 = stock("s_dist_10");
    public final SQLStmt nextOrder = new SQLStmt(
            "UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?;");
    public final SQLStmt insertOrder = new SQLStmt(
            "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt,"
            + " o_all_local) VALUES (?, ?, ?, ?, ?, NULL, ?, ?);");
    public final SQLStmt insertNewOrder = new SQLStmt(
            "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?);");
    public final SQLStmt updateStock = new SQLStmt(
            "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1,"
            + " s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?;");
    public final SQLStmt insertLine = new SQLStmt(
            "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id,"
            + " ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info)"
            + " VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?);");

    /** By the district's number, from 1. */
    private final SQLStmt[] stocks = {
        null, stock1, stock2, stock3, stock4, stock5, stock6, stock7, stock8, stock9, stock10
    };

    private static SQLStmt stock(String info) {
        return new SQLStmt("SELECT s_quantity, s_data, " + info
                + " FROM stock WHERE s_w_id = ? AND s_i_id = ?;");
    }

    /** What came of what is ordered, by the place of the line. */
    private static final class Lines {
        final Object[] amounts;
        final long[] left;
        final String[] infos;
        final VoltTable answer = new VoltTable(LINES);
        double total;

        Lines(int count) {
            amounts = new Object[count];
            left = new long[count];
            infos = new String[count];
        }
    }

    public VoltTable[] run(short warehouse, byte district, int customer, int[] items,
            int[] suppliers, int[] quantities) {
        check(warehouse, district, items, suppliers, quantities);
        // All that is read: an unknown item is found before anything is written.
        voltQueueSQL(warehouseTax, warehouse);
        voltQueueSQL(districtTax, warehouse, district);
        voltQueueSQL(customerTerms, warehouse, district, customer);
        for (int id : items) {
            voltQueueSQL(item, id);
        }
        SQLStmt stock = stocks[district];
        for (int i = 0; i < items.length; i++) {
            voltQueueSQL(stock, suppliers[i], items[i]);
        }
        VoltTable[] read = voltExecuteSQL();
        if (!(read[0].advanceRow() && read[1].advanceRow() && read[2].advanceRow())) {
            throw new VoltAbortException("there is no customer " + Values.text(customer) + " of "
                    + warehouse + ", " + district);
        }
        Lines lines = lines(read, quantities);
        double warehouseRate = Values.asDouble(Values.amount(read[0], 0));
        double districtRate = Values.asDouble(Values.amount(read[1], 0));
        double discount = Values.asDouble(Values.amount(read[2], 0));
        long order = read[1].getLong(1);
        voltQueueSQL(nextOrder, order + 1, warehouse, district);
        write(warehouse, district, customer, order, items, suppliers, quantities, lines);
        double total = lines.total * (1 - discount) * (1 + warehouseRate + districtRate);
        VoltTable terms = new VoltTable(ORDER);
        terms.addRow(warehouseRate, districtRate, order, total);
        return new VoltTable[] {read[2], terms, lines.answer};
    }

    private static void check(short warehouse, byte district, int[] items, int[] suppliers,
            int[] quantities) {
        if (warehouse == VoltType.NULL_SMALLINT || district == VoltType.NULL_TINYINT) {
            int place = warehouse == VoltType.NULL_SMALLINT ? 0 : 1;
            throw new VoltAbortException("parameter " + place + " is NULL");
        }
        int count = items.length;
        boolean alike = suppliers.length == count && quantities.length == count;
        if (count == 0 || count > MAX_LINES || !alike) {
            throw new VoltAbortException("[" + count + ", " + suppliers.length + ", "
                    + quantities.length + "] items, warehouses, quantities > 1 to " + MAX_LINES
                    + ", alike");
        }
        for (int i = 0; i < count; i++) {
            if (items[i] == VoltType.NULL_INTEGER || suppliers[i] == VoltType.NULL_INTEGER
                    || quantities[i] == VoltType.NULL_INTEGER) {
                throw new VoltAbortException("an item, warehouse or quantity is NULL");
            }
        }
        if (district < 1 || district > DISTRICTS) {
            throw new VoltAbortException("there is no district " + district);
        }
    }

    private static Lines lines(VoltTable[] read, int[] quantities) {
        int count = quantities.length;
        Lines lines = new Lines(count);
        for (int i = 0; i < count; i++) {
            VoltTable item = read[FIRST_ITEM + i];
            VoltTable stock = read[FIRST_ITEM + count + i];
            if (!item.advanceRow() || !stock.advanceRow()) {
                throw new VoltAbortException(INVALID_ITEM);
            }
            int ordered = quantities[i];
            Object price = Values.amount(item, 0);
            String name = item.getString(1);
            boolean isBrand = isOriginal(item.getString(2)) && isOriginal(stock.getString(1));
            long quantity = stock.getLong(0);
            lines.left[i] = quantity - ordered + (quantity >= ordered + 10 ? 0 : 91);
            lines.infos[i] = stock.getString(2);
            Object amount = Values.times(price, ordered);
            lines.amounts[i] = amount;
            double shown = Values.asDouble(amount);
            lines.total += shown;
            lines.answer.addRow(name, lines.left[i], isBrand ? "B" : "G", Values.asDouble(price),
                    shown);
        }
        return lines;
    }

    private static boolean isOriginal(String data) {
        return data != null && data.contains("ORIGINAL");
    }

    /** The second batch: all that is written, behind the district's next number. */
    private void write(short warehouse, byte district, int customer, long order, int[] items,
            int[] suppliers, int[] quantities, Lines lines) {
        int count = items.length;
        boolean isLocal = true;
        for (int supplier : suppliers) {
            isLocal &= supplier == warehouse;
        }
        Date entry = getTransactionTime();
        voltQueueSQL(insertOrder, order, district, warehouse, customer, entry, count,
                isLocal ? 1 : 0);
        voltQueueSQL(insertNewOrder, order, district, warehouse);
        for (int i = 0; i < count; i++) {
            voltQueueSQL(updateStock, lines.left[i], quantities[i],
                    suppliers[i] == warehouse ? 0 : 1, suppliers[i], items[i]);
        }
        for (int i = 0; i < count; i++) {
            voltQueueSQL(insertLine, order, district, warehouse, i + 1, items[i], suppliers[i],
                    quantities[i], lines.amounts[i], lines.infos[i]);
        }
        voltExecuteSQL(true);
    }
}
