package voter;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Batches of one point read each, their values read: nanoseconds for all of them. */
public class Reads extends VoltProcedure {
    public final SQLStmt read = new SQLStmt(
            "SELECT contestant_number FROM contestants WHERE contestant_number = ?;");

    public long run(long phoneNumber, int batches) {
        long began = System.nanoTime();
        long sum = 0;
        for (int batch = 0; batch < batches; batch++) {
            voltQueueSQL(read, 1 + (batch & 3));
            VoltTable table = voltExecuteSQL()[0];
            table.advanceRow();
            sum += table.getLong(0);
        }
        long took = System.nanoTime() - began;
        return sum > 0 ? took : -1;
    }
}
