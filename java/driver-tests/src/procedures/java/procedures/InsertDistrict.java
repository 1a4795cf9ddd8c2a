package procedures;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** One statement and ten parameters: what papers about this kind of system show first. */
public class InsertDistrict extends VoltProcedure {
    public final SQLStmt insert =
            new SQLStmt("INSERT INTO district VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");

    public VoltTable[] run(short id, short warehouse, String name, String street1, String street2,
            String city, String state, String zip, double tax, int nextOrder)
            throws VoltAbortException {
        voltQueueSQL(insert, id, warehouse, name, street1, street2, city, state, zip, tax,
                nextOrder);
        return voltExecuteSQL();
    }
}
