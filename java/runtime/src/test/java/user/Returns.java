package user;

import java.util.List;
import org.voltdb.ProcInfo;
import org.voltdb.ProcStatsOption;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** Procedures that return in every allowed way, and some that may not be. */
public final class Returns {
    private Returns() {}

    public static class ALong extends VoltProcedure {
        public long run() {
            return 42;
        }
    }

    public static class ABoxedLong extends VoltProcedure {
        public Long run() {
            return 43L;
        }
    }

    public static class Nothing extends VoltProcedure {
        public VoltTable[] run() {
            return null;
        }
    }

    public static class ATable extends VoltProcedure {
        public VoltTable run() {
            VoltTable table = new VoltTable(new VoltTable.ColumnInfo("A", VoltType.INTEGER));
            table.addRow(7);
            return table;
        }
    }

    public static class NullTable extends VoltProcedure {
        public VoltTable[] run() {
            return new VoltTable[] {null};
        }
    }

    @ProcStatsOption(procSamplingInterval = 2)
    @ProcInfo(partitionInfo = "T.ID: 0", singlePartition = true)
    public static class WithOptions extends VoltProcedure {
        static final SQLStmt FIXED = new SQLStmt("SELECT 1\n FROM t", "t");
        private final SQLStmt own = new SQLStmt("DELETE FROM t WHERE id IN ?;");

        public long run(long id, String[] names, VoltTable[] tables, Double d) {
            return own.getText().length();
        }
    }

    /** Statements of a class above, one of them hidden. */
    public abstract static class Base extends VoltProcedure {
        protected final SQLStmt inherited = new SQLStmt("SELECT 2 FROM t");
        private final SQLStmt hidden = new SQLStmt("SELECT 3 FROM t");

        String hidden() {
            return hidden.getText();
        }
    }

    public static class Inheriting extends Base {
        public VoltTable[] run() {
            voltQueueSQL(inherited);
            return voltExecuteSQL();
        }
    }

    public static class NotFinal extends VoltProcedure {
        SQLStmt statement = new SQLStmt("SELECT 1 FROM t");

        public long run() {
            return 0;
        }
    }

    public static class TwoRuns extends VoltProcedure {
        public long run() {
            return 0;
        }

        public long run(long a) {
            return a;
        }
    }

    public static class NoRun extends VoltProcedure {
        public long walk() {
            return 0;
        }
    }

    public static class HiddenRun extends VoltProcedure {
        long run() {
            return 0;
        }
    }

    public static class WrongReturn extends VoltProcedure {
        public int run() {
            return 0;
        }
    }

    public static class WithFloat extends VoltProcedure {
        public long run(float a) {
            return 0;
        }
    }

    public static class WithList extends VoltProcedure {
        public long run(List<Long> a) {
            return 0;
        }
    }

    public static class WithChar extends VoltProcedure {
        public long run(char a) {
            return 0;
        }
    }

    public static class WithBoolean extends VoltProcedure {
        public long run(boolean a) {
            return 0;
        }
    }

    public static class HiddenConstructor extends VoltProcedure {
        HiddenConstructor() {}

        public long run() {
            return 0;
        }
    }

    public static class FailingConstructor extends VoltProcedure {
        public FailingConstructor() {
            throw new IllegalStateException("not today");
        }

        public long run() {
            return 0;
        }
    }

    public static class LoopingConstructor extends VoltProcedure {
        public LoopingConstructor() {
            while (true) {
                Thread.onSpinWait();
            }
        }

        public long run() {
            return 0;
        }
    }

    /** Nested and not public: callers go through a class beside it. */
    static class Secluded extends VoltProcedure {
        public Secluded() {}

        public long run() {
            return 5;
        }
    }
}
