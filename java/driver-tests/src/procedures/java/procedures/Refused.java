package procedures;

import java.util.List;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** Classes that CREATE PROCEDURE refuses. */
public final class Refused {
    private Refused() {}

    public static class NotFinal extends VoltProcedure {
        public SQLStmt read = new SQLStmt("SELECT n FROM item WHERE k = ?");

        public long run(long key) {
            return 0;
        }
    }

    public static class TwoRuns extends VoltProcedure {
        public long run() {
            return 0;
        }

        public long run(long key) {
            return key;
        }
    }

    public static class NoRun extends VoltProcedure {
        public long walk(long key) {
            return key;
        }
    }

    public static class HiddenRun extends VoltProcedure {
        long run(long key) {
            return key;
        }
    }

    public static class WrongReturn extends VoltProcedure {
        public int run(long key) {
            return 0;
        }
    }

    public static class WithFloat extends VoltProcedure {
        public long run(float value) {
            return 0;
        }
    }

    public static class WithList extends VoltProcedure {
        public long run(List<Long> values) {
            return 0;
        }
    }

    public static class WithChar extends VoltProcedure {
        public long run(char value) {
            return 0;
        }
    }

    public static class NoProcedure {
        public long run(long key) {
            return key;
        }
    }

    public abstract static class Abstract extends VoltProcedure {
        public long run(long key) {
            return key;
        }
    }

    public static class HiddenConstructor extends VoltProcedure {
        HiddenConstructor() {}

        public long run(long key) {
            return key;
        }
    }

    public static class FailingConstructor extends VoltProcedure {
        public FailingConstructor() {
            throw new IllegalStateException("not today");
        }

        public long run(long key) {
            return key;
        }
    }

    public static class BadSql extends VoltProcedure {
        public final SQLStmt read = new SQLStmt("SELECT nothing FROM nowhere");

        public long run(long key) {
            return key;
        }
    }

    /** Refused where it is partitioned. */
    public static class Truncates extends VoltProcedure {
        public final SQLStmt all = new SQLStmt("TRUNCATE TABLE item");

        public long run(long key) {
            return key;
        }
    }

    /** Refused where its second parameter is to be the partition's. */
    public static class OtherKeys extends VoltProcedure {
        public final SQLStmt read = new SQLStmt("SELECT v FROM item WHERE k = ?");

        public long run(long key, double value) {
            return key;
        }
    }
}
