package voter;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Voter's procedure: what the native one does, with the same statements in the same batches. */
public class Vote extends VoltProcedure {
    static final long ACCEPTED = 0;
    static final long UNKNOWN_CONTESTANT = 1;
    static final long OVER_LIMIT = 2;

    public final SQLStmt checkContestant = new SQLStmt(
            "SELECT contestant_number FROM contestants WHERE contestant_number = ?;");
    public final SQLStmt checkVoter = new SQLStmt(
            "SELECT num_votes FROM v_votes_by_phone_number WHERE phone_number = ?;");
    public final SQLStmt checkState = new SQLStmt(
            "SELECT state FROM area_code_state WHERE area_code = ?;");
    public final SQLStmt insertVote = new SQLStmt(
            "INSERT INTO votes (phone_number, state, contestant_number) VALUES (?, ?, ?);");

    public long run(long phoneNumber, int contestant, long mostVotes) {
        voltQueueSQL(checkContestant, contestant);
        voltQueueSQL(checkVoter, phoneNumber);
        voltQueueSQL(checkState, (short) (phoneNumber / 10_000_000L));
        VoltTable[] found = voltExecuteSQL();
        if (found[0].getRowCount() == 0) {
            return UNKNOWN_CONTESTANT;
        }
        if (found[1].getRowCount() == 1 && found[1].asScalarLong() >= mostVotes) {
            return OVER_LIMIT;
        }
        String state = found[2].getRowCount() > 0 ? found[2].fetchRow(0).getString(0) : "XX";
        voltQueueSQL(insertVote, phoneNumber, state, contestant);
        voltExecuteSQL(true);
        return ACCEPTED;
    }
}
