package tatp;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** What procedures share that look for a subscriber or for one of its rows. */
abstract class Subscribers extends VoltProcedure {
    static final String BY_NUMBER = "SELECT s_id FROM subscriber WHERE sub_nbr = ?;";

    /** Takes a transaction back that finds nothing to do. */
    static VoltAbortException nothingThere() {
        return new VoltAbortException("there is no such row");
    }

    /** The id of the subscriber with a number; the statement is {@link #BY_NUMBER}. */
    long idOf(SQLStmt byNumber, String number) {
        voltQueueSQL(byNumber, number);
        VoltTable found = voltExecuteSQL()[0];
        if (!found.advanceRow()) {
            throw nothingThere();
        }
        return found.getLong(0);
    }
}
