package user;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** A vote, limited per phone number, in two batches. */
public class Vote extends VoltProcedure {
    private static final long SUCCESSFUL = 0;
    private static final long NO_SUCH_CONTESTANT = 1;
    private static final long OVER_LIMIT = 2;

    public final SQLStmt findContestant =
            new SQLStmt("SELECT contestant_number FROM contestants WHERE contestant_number = ?;");
    public final SQLStmt countVotes =
            new SQLStmt("SELECT num_votes FROM v_votes_by_phone_number WHERE phone_number = ?;");
    public final SQLStmt findState =
            new SQLStmt("SELECT state FROM area_code_state WHERE area_code = ?;");
    public final SQLStmt insertVote = new SQLStmt(
            "INSERT INTO votes (phone_number, state, contestant_number) VALUES (?, ?, ?);");

    public long run(long phoneNumber, int contestant, long maxVotes) {
        voltQueueSQL(findContestant, EXPECT_ZERO_OR_ONE_ROW, contestant);
        voltQueueSQL(countVotes, EXPECT_ZERO_OR_ONE_ROW, phoneNumber);
        voltQueueSQL(findState, EXPECT_ZERO_OR_ONE_ROW, (short) (phoneNumber / 10_000_000));
        VoltTable[] found = voltExecuteSQL();
        if (found[0].getRowCount() == 0) {
            return NO_SUCH_CONTESTANT;
        }
        if (found[1].getRowCount() == 1 && found[1].asScalarLong() >= maxVotes) {
            return OVER_LIMIT;
        }
        String state = found[2].advanceRow() ? found[2].getString(0) : "XX";
        voltQueueSQL(insertVote, EXPECT_SCALAR_MATCH(1), phoneNumber, state, contestant);
        voltExecuteSQL(true);
        return SUCCESSFUL;
    }
}
