package keyvalue;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Gives a row another content, and counts that. */
public class KeyValueUpdate extends VoltProcedure {
    public final SQLStmt update = new SQLStmt(
            "UPDATE key_value SET content = ?, changes = changes + 1 WHERE id = ?;");

    public VoltTable[] run(String content, long id) {
        voltQueueSQL(update, content, id);
        return voltExecuteSQL(true);
    }
}
