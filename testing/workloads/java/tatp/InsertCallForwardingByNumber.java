package tatp;

import org.voltdb.SQLStmt;
import org.voltdb.VoltTable;

/** Adds a forwarding of the subscriber with a number. */
public class InsertCallForwardingByNumber extends InsertCallForwarding {
    public final SQLStmt byNumber = new SQLStmt(BY_NUMBER);

    public VoltTable[] run(String number, byte facility, byte start, byte end, String target) {
        return super.run(idOf(byNumber, number), facility, start, end, target);
    }
}
