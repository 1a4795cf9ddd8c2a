import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** A vote: three reads, then an insert. */
public class Vote extends VoltProcedure {
    public final SQLStmt contestant =
            new SQLStmt("SELECT number FROM contestants WHERE number = ?;");
    public final SQLStmt votes =
            new SQLStmt("SELECT num_votes FROM votes_by_phone WHERE phone = ?;");
    public final SQLStmt state = new SQLStmt("SELECT state FROM area_codes WHERE area_code = ?;");
    public final SQLStmt insert =
            new SQLStmt("INSERT INTO votes (phone, state, contestant) VALUES (?, ?, ?);");

    public long run(long phone, int number, long most) {
        voltQueueSQL(contestant, EXPECT_ZERO_OR_ONE_ROW, number);
        voltQueueSQL(votes, EXPECT_ZERO_OR_ONE_ROW, phone);
        voltQueueSQL(state, EXPECT_ZERO_OR_ONE_ROW, (short) (phone / 10_000_000L));
        VoltTable[] found = voltExecuteSQL();
        if (found[0].getRowCount() == 0) {
            return 1;
        }
        if (found[1].getRowCount() == 1 && found[1].asScalarLong() >= most) {
            return 2;
        }
        String from = found[2].getRowCount() > 0 ? found[2].fetchRow(0).getString(0) : "XX";
        voltQueueSQL(insert, EXPECT_SCALAR_MATCH(1), phone, from, number);
        voltExecuteSQL(true);
        return 0;
    }
}
