package tatp;

import org.voltdb.SQLStmt;
import org.voltdb.VoltTable;

/** Changes a bit of the subscriber and the data of a facility, both or none. */
public class UpdateSubscriberData extends Subscribers {
    public final SQLStmt bit = new SQLStmt("UPDATE subscriber SET bit_1 = ? WHERE s_id = ?;");
    public final SQLStmt data = new SQLStmt(
            "UPDATE special_facility SET data_a = ? WHERE s_id = ? AND sf_type = ?;");

    public VoltTable run(long id, byte newBit, byte facility, short newData) {
        voltQueueSQL(bit, newBit, id);
        voltQueueSQL(data, newData, id, facility);
        VoltTable[] changed = voltExecuteSQL(true);
        if (changed[1].asScalarLong() != 1) {
            throw nothingThere();
        }
        return changed[0];
    }
}
