package user;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** One statement with ten parameters: what papers about this kind of system show first. */
public class InsertDistrict extends VoltProcedure {
    public final SQLStmt insert =
            new SQLStmt("INSERT INTO DISTRICT VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");

    public VoltTable[] run(int id, int warehouse, String name, String street1, String street2,
            String city, String state, String zip, double tax, double yearToDate) {
        voltQueueSQL(insert, id, warehouse, name, street1, street2, city, state, zip, tax,
                yearToDate);
        return voltExecuteSQL(true);
    }
}
