package procedures;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Queueing and executing in every way. Which one is a parameter. */
public class Batches extends VoltProcedure {
    /** Statements that a class below has as well. */
    protected final SQLStmt insert = new SQLStmt("INSERT INTO item VALUES (?, ?, ?)");
    public static final SQLStmt READ = new SQLStmt("SELECT v, n FROM item WHERE k = ?");
    protected final SQLStmt add = new SQLStmt("UPDATE item SET n = n + ? WHERE k = ?");
    protected final SQLStmt remove = new SQLStmt("DELETE FROM item WHERE k = ?");
    /** No field: never planned. */
    private static final Object[] STRANGER = {new SQLStmt("DELETE FROM item")};

    public VoltTable[] run(long key, String how) {
        return batches(key, how);
    }

    final VoltTable[] batches(long key, String how) {
        switch (how) {
            case "empty":
                return new VoltTable[] {Shown.of(voltExecuteSQL().length)};
            case "many":
                return many(key);
            case "final twice":
                voltQueueSQL(insert, key, "a", 1);
                voltExecuteSQL(true);
                voltQueueSQL(READ, key);
                return voltExecuteSQL();
            case "final nothing":
                voltQueueSQL(insert, key, "a", 1);
                voltExecuteSQL();
                return voltExecuteSQL(true);
            case "dropped":
                voltQueueSQL(insert, key, "a", 1);
                return null;
            case "rounds":
                return rounds(key);
            case "caught":
                return caught(key);
            case "emptied":
                return emptied(key);
            default:
                return queued(key, how);
        }
    }

    private VoltTable[] queued(long key, String how) {
        switch (how) {
            case "order":
                voltQueueSQL(insert, key, "a", 1);
                voltQueueSQL(READ, key);
                voltQueueSQL(add, 10, key);
                voltQueueSQL(READ, key);
                voltQueueSQL(remove, key);
                voltQueueSQL(READ, key);
                break;
            case "spread":
                Object[] all = {key, "spread", 3};
                voltQueueSQL(insert, all);
                voltQueueSQL(READ, key);
                break;
            case "too few":
                voltQueueSQL(insert, key, "a");
                break;
            case "no statement":
                voltQueueSQL(null, key);
                break;
            case "a stranger":
                voltQueueSQL((SQLStmt) STRANGER[0]);
                break;
            case "a new one":
                voltQueueSQL(new SQLStmt("DELETE FROM item WHERE k = ?"), key);
                break;
            case "nulls":
                voltQueueSQL(insert, key, null, null);
                voltQueueSQL(READ, key);
                break;
            default:
                throw new VoltAbortException("unknown: " + how);
        }
        return voltExecuteSQL();
    }

    /** More statements than go together. */
    private VoltTable[] many(long key) {
        voltQueueSQL(insert, key, "a", 0);
        voltExecuteSQL();
        for (int i = 1; i <= 450; i++) {
            voltQueueSQL(add, i, key);
        }
        int tables = voltExecuteSQL().length;
        voltQueueSQL(READ, key);
        return new VoltTable[] {Shown.of(tables), voltExecuteSQL(true)[0]};
    }

    /** Each batch uses the results of the one before; earlier results stay what they are. */
    private VoltTable[] rounds(long key) {
        voltQueueSQL(insert, key, "a", 1);
        VoltTable[] first = voltExecuteSQL();
        voltQueueSQL(add, first[0].asScalarLong() + 4, key);
        voltQueueSQL(READ, key);
        VoltTable second = voltExecuteSQL()[1];
        second.advanceRow();
        voltQueueSQL(insert, key + 1000, second.getString("V") + "b", second.getLong("N") * 2);
        voltExecuteSQL();
        voltQueueSQL(READ, key + 1000);
        voltQueueSQL(remove, key + 1000);
        VoltTable third = voltExecuteSQL(true)[0];
        second.resetRowPosition();
        return new VoltTable[] {first[0], second, third};
    }

    /** The second batch fails in its second statement and is caught. */
    private VoltTable[] caught(long key) {
        voltQueueSQL(insert, key, "a", 1);
        voltExecuteSQL();
        String failed = "nothing";
        try {
            voltQueueSQL(add, 5, key);
            voltQueueSQL(insert, key, "b", 2);
            voltExecuteSQL();
        } catch (RuntimeException e) {
            failed = e.getClass().getSimpleName();
        }
        setAppStatusString(failed);
        voltQueueSQL(READ, key);
        return voltExecuteSQL();
    }

    /** A batch that failed is not in the next one. */
    private VoltTable[] emptied(long key) {
        voltQueueSQL(insert, key, "a", 1);
        voltExecuteSQL();
        try {
            voltQueueSQL(add, 5, key);
            voltQueueSQL(insert, key);
        } catch (VoltAbortException e) {
            setAppStatusString(e.getMessage());
        }
        voltQueueSQL(READ, key);
        return voltExecuteSQL();
    }
}
