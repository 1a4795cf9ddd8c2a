package tatp;

import org.voltdb.SQLStmt;
import org.voltdb.VoltTable;

/** Takes a forwarding of the subscriber with a number away. */
public class DeleteCallForwardingByNumber extends Subscribers {
    public final SQLStmt byNumber = new SQLStmt(BY_NUMBER);
    public final SQLStmt delete = new SQLStmt(
            "DELETE FROM call_forwarding WHERE s_id = ? AND sf_type = ? AND start_time = ?;");

    public VoltTable[] run(String number, byte facility, byte start) {
        long id = idOf(byNumber, number);
        voltQueueSQL(delete, id, facility, start);
        return voltExecuteSQL(true);
    }
}
