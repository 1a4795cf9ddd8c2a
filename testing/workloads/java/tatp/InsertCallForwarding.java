package tatp;

import org.voltdb.SQLStmt;
import org.voltdb.VoltTable;

/**
 * Adds a forwarding if the subscriber has the facility. One that is there already violates the
 * key.
 */
public class InsertCallForwarding extends Subscribers {
    public final SQLStmt facilities = new SQLStmt(
            "SELECT sf_type FROM special_facility WHERE s_id = ?;");
    public final SQLStmt insert = new SQLStmt(
            "INSERT INTO call_forwarding (s_id, sf_type, start_time, end_time, numberx)"
            + " VALUES (?, ?, ?, ?, ?);");

    public VoltTable[] run(long id, byte facility, byte start, byte end, String target) {
        voltQueueSQL(facilities, id);
        VoltTable held = voltExecuteSQL()[0];
        boolean isThere = false;
        while (held.advanceRow()) {
            isThere |= held.getLong(0) == facility;
        }
        if (!isThere) {
            throw nothingThere();
        }
        voltQueueSQL(insert, id, facility, start, end, target);
        return voltExecuteSQL(true);
    }
}
