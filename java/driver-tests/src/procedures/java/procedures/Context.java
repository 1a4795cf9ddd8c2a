package procedures;

import java.util.Random;
import org.voltdb.ProcInfo;
import org.voltdb.ProcStatsOption;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltTable.ColumnInfo;
import org.voltdb.VoltType;

/** What a call can know of itself. */
@ProcStatsOption(procSamplingInterval = 1, stmtSamplingInterval = 1)
@ProcInfo(partitionInfo = "item.k: 0", singlePartition = true)
public class Context extends VoltProcedure {
    /** Shared by the sites of a host. */
    private static final java.util.concurrent.atomic.AtomicLong CALLS =
            new java.util.concurrent.atomic.AtomicLong();

    public final SQLStmt read = new SQLStmt("SELECT n\n FROM item WHERE k = ?");
    final SQLStmt write = new SQLStmt("UPDATE item SET n = 1 WHERE k = ?;");
    /** Of this site's instance. */
    private long own;

    public VoltTable[] run(long key) {
        return context();
    }

    @SuppressWarnings("deprecation")
    final VoltTable[] context() {
        VoltTable table = new VoltTable(new ColumnInfo("UNIQUE_ID", VoltType.BIGINT),
                new ColumnInfo("TRANSACTION_ID", VoltType.BIGINT),
                new ColumnInfo("TIME", VoltType.TIMESTAMP),
                new ColumnInfo("PARTITION", VoltType.INTEGER),
                new ColumnInfo("CLUSTER", VoltType.INTEGER),
                new ColumnInfo("RANDOM", VoltType.BIGINT),
                new ColumnInfo("SAME", VoltType.BIGINT),
                new ColumnInfo("OWN", VoltType.BIGINT),
                new ColumnInfo("SHARED", VoltType.BIGINT),
                new ColumnInfo("STATEMENTS", VoltType.STRING));
        Random random = getSeededRandomNumberGenerator();
        long drawn = random.nextLong();
        table.addRow(getUniqueId(), getTransactionId(), getTransactionTime(), getPartitionId(),
                getClusterId(), drawn, random == getSeededRandomNumberGenerator() ? 1 : 0, ++own,
                CALLS.incrementAndGet(), read.getText() + read.isReadOnly() + write.isReadOnly()
                        + read.getJoinOrder() + SQLStmt.canonicalizeStmt(" SELECT\n1 "));
        return new VoltTable[] {table};
    }
}
