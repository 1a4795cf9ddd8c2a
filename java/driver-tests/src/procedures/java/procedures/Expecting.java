package procedures;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Every expectation, on results of some rows. */
public class Expecting extends VoltProcedure {
    public final SQLStmt numbers =
            new SQLStmt("SELECT id FROM note WHERE id <= ? ORDER BY id;");
    public final SQLStmt texts = new SQLStmt("SELECT v FROM note WHERE id <= ?");
    public final SQLStmt rename = new SQLStmt("UPDATE note SET v = ? WHERE id = 1");

    public VoltTable[] run(String expectation, int rows) {
        voltQueueSQL(rename, EXPECT_SCALAR_MATCH(1), "changed");
        voltExecuteSQL();
        switch (expectation) {
            case "EMPTY":
                voltQueueSQL(numbers, EXPECT_EMPTY, rows);
                break;
            case "ONE_ROW":
                voltQueueSQL(numbers, EXPECT_ONE_ROW, rows);
                break;
            case "ZERO_OR_ONE_ROW":
                voltQueueSQL(numbers, EXPECT_ZERO_OR_ONE_ROW, rows);
                break;
            case "NON_EMPTY":
                voltQueueSQL(numbers, EXPECT_NON_EMPTY, rows);
                break;
            case "SCALAR":
                voltQueueSQL(texts, EXPECT_SCALAR, rows);
                break;
            case "SCALAR_LONG":
                voltQueueSQL(numbers, EXPECT_SCALAR_LONG, rows);
                break;
            case "SCALAR_LONG of a text":
                voltQueueSQL(texts, EXPECT_SCALAR_LONG, rows);
                break;
            default:
                voltQueueSQL(numbers, EXPECT_SCALAR_MATCH(1), rows);
        }
        return voltExecuteSQL();
    }
}
