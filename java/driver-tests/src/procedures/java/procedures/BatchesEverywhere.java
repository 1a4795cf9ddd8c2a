package procedures;

import org.voltdb.VoltTable;

/** The same over all partitions: it inherits the statements, and has a run of its own. */
public class BatchesEverywhere extends Batches {
    @Override
    public VoltTable[] run(long key, String how) {
        return batches(key, how);
    }
}
