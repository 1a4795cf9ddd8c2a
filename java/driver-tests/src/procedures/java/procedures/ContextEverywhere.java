package procedures;

import org.voltdb.VoltTable;

/** The same in a procedure over all partitions. */
public class ContextEverywhere extends Context {
    public VoltTable[] run() {
        return context();
    }
}
