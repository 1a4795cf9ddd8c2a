package tatp;

import org.voltdb.SQLStmt;
import org.voltdb.VoltTable;

/** The subscriber with a number, if the partition of the key has it. */
public class SubscriberAtPartition extends Subscribers {
    public final SQLStmt byNumber = new SQLStmt(BY_NUMBER);

    public VoltTable[] run(long keyOfPartition, String number) {
        voltQueueSQL(byNumber, number);
        return voltExecuteSQL(true);
    }
}
