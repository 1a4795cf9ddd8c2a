import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** One statement, ten parameters. */
public class InsertDistrict extends VoltProcedure {
    public final SQLStmt insert =
            new SQLStmt("INSERT INTO district VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");

    public VoltTable[] run(
            int id, int warehouse, String name, String street1, String street2, String city,
            String state, String zip, double tax, double total) {
        final long next = 1;
        voltQueueSQL(
                insert, id, warehouse, name, street1, street2, city, state, zip, tax, total, next);
        return voltExecuteSQL();
    }
}
