package keyvalue;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** The content of a row. */
public class KeyValueRead extends VoltProcedure {
    public final SQLStmt read = new SQLStmt("SELECT content FROM key_value WHERE id = ?;");

    public VoltTable[] run(long id) {
        voltQueueSQL(read, id);
        return voltExecuteSQL(true);
    }
}
