package user;

import java.io.IOException;
import java.math.BigDecimal;
import java.util.Random;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.exceptions.ConstraintFailureException;
import org.voltdb.types.TimestampType;

/** Procedures that use the calls of the API. */
public final class Uses {
    private Uses() {}

    public static class Context extends VoltProcedure {
        public VoltTable[] run() {
            VoltTable table = new VoltTable(new VoltTable.ColumnInfo("UNIQUE", VoltType.BIGINT),
                    new VoltTable.ColumnInfo("MS", VoltType.BIGINT),
                    new VoltTable.ColumnInfo("PARTITION", VoltType.INTEGER),
                    new VoltTable.ColumnInfo("CLUSTER", VoltType.INTEGER),
                    new VoltTable.ColumnInfo("RANDOM", VoltType.BIGINT),
                    new VoltTable.ColumnInfo("SAME", VoltType.INTEGER));
            Random random = getSeededRandomNumberGenerator();
            table.addRow(getUniqueId(), getTransactionTime().getTime(), getPartitionId(),
                    getClusterId(), random.nextLong(),
                    random == getSeededRandomNumberGenerator() ? 1 : 0);
            setAppStatusCode((byte) 9);
            setAppStatusString("applied");
            return new VoltTable[] {table};
        }
    }

    /** Queues every kind of argument. */
    public static class Kinds extends VoltProcedure {
        public final SQLStmt many = new SQLStmt("INSERT INTO t VALUES (?...)");

        public VoltTable[] run() {
            voltQueueSQL(many, (byte) 1, (short) 2, 3, 4L, 5.5, 1.5f, "text", new byte[] {10, 11},
                    new BigDecimal("1.25"), new TimestampType(99), new java.util.Date(7), null,
                    VoltType.NULL_STRING_OR_VARBINARY, Long.MIN_VALUE, new long[] {1, 2},
                    new int[] {3}, new String[] {"a", null}, new Object[] {1, 2L},
                    new Object[] {"x"}, new byte[][] {{1}, null});
            return voltExecuteSQL(true);
        }
    }

    public static class Expecting extends VoltProcedure {
        public final SQLStmt one = new SQLStmt("SELECT 1 FROM t");

        public VoltTable[] run(int kind) {
            switch (kind) {
                case 0:
                    voltQueueSQL(one, EXPECT_EMPTY);
                    break;
                case 1:
                    voltQueueSQL(one, EXPECT_ONE_ROW);
                    break;
                case 2:
                    voltQueueSQL(one, EXPECT_ZERO_OR_ONE_ROW);
                    break;
                case 3:
                    voltQueueSQL(one, EXPECT_NON_EMPTY);
                    break;
                case 4:
                    voltQueueSQL(one, EXPECT_SCALAR);
                    break;
                case 5:
                    voltQueueSQL(one, EXPECT_SCALAR_LONG);
                    break;
                default:
                    voltQueueSQL(one, EXPECT_SCALAR_MATCH(7));
            }
            return voltExecuteSQL();
        }
    }

    /** Batches: empty, of two statements, final, and one too many. */
    public static class Batches extends VoltProcedure {
        public final SQLStmt a = new SQLStmt("SELECT a FROM t");
        public final SQLStmt b = new SQLStmt("SELECT b FROM t WHERE c = ?");

        public long run(int kind) {
            if (voltExecuteSQL().length != 0) {
                throw new VoltAbortException("an empty batch had results");
            }
            voltQueueSQL(a);
            voltQueueSQL(b, 5L);
            VoltTable[] first = voltExecuteSQL();
            voltQueueSQL(b, first[0].asScalarLong());
            VoltTable[] second = voltExecuteSQL(true);
            if (kind == 1) {
                voltQueueSQL(a);
                voltExecuteSQL();
            }
            voltQueueSQL(a);
            // What is not executed is dropped; earlier results are still what they were.
            return first[1].asScalarLong() * 1000 + second[0].asScalarLong();
        }
    }

    public static class WrongArguments extends VoltProcedure {
        static final SQLStmt ELSEWHERE = new SQLStmt("SELECT 1 FROM t");
        public final SQLStmt a = new SQLStmt("SELECT a FROM t WHERE b = ?");

        public long run(int kind) {
            switch (kind) {
                case 0:
                    voltQueueSQL(a);
                    break;
                case 1:
                    voltQueueSQL(a, new byte[] {1});
                    break;
                case 2:
                    voltQueueSQL(null, 1);
                    break;
                case 3:
                    voltQueueSQL(new SQLStmt("DELETE FROM t"));
                    break;
                case 4:
                    voltQueueSQL(a, new long[] {1});
                    break;
                case 5:
                    voltQueueSQL(a, (Object) null);
                    break;
                case 6:
                    voltQueueSQL(a, "12");
                    break;
                default:
                    voltQueueSQL(a, new StringBuilder());
            }
            voltExecuteSQL();
            return 0;
        }
    }

    public static class Failing extends VoltProcedure {
        public final SQLStmt insert = new SQLStmt("INSERT INTO t VALUES (?)");

        public long run(int kind) throws IOException {
            setAppStatusCode((byte) 4);
            switch (kind) {
                case 0:
                    throw new VoltAbortException("no more");
                case 1:
                    throw new VoltAbortException();
                case 2:
                    throw new IllegalStateException("broken", new RuntimeException("inside"));
                case 3:
                    throw new IOException("checked");
                case 4:
                    return helper(null);
                case 5:
                    voltQueueSQL(insert, 1);
                    voltExecuteSQL();
                    return 0;
                case 6:
                    voltQueueSQL(insert, 1);
                    try {
                        voltExecuteSQL();
                        return 0;
                    } catch (ConstraintFailureException e) {
                        voltQueueSQL(insert, 2);
                        return voltExecuteSQL()[0].asScalarLong();
                    }
                case 7:
                    voltQueueSQL(insert, 1);
                    try {
                        voltExecuteSQL();
                    } catch (RuntimeException e) {
                        throw new VoltAbortException(e);
                    }
                    return 0;
                default:
                    throw new Liar();
            }
        }

        private long helper(String text) {
            return text.length();
        }
    }

    /** An exception that fails itself. */
    static final class Liar extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new IllegalStateException("lied");
        }

        @Override
        public String toString() {
            throw new IllegalStateException("lied");
        }
    }

    /** Looks around: its own classes and files are there, the host's are not. */
    public static class Surroundings extends VoltProcedure {
        private static int calls;
        private int own;

        public VoltTable[] run(String className) throws IOException {
            calls++;
            own++;
            String found;
            try {
                Class<?> other = Class.forName(className);
                found = String.valueOf(other.getClassLoader() == getClass().getClassLoader());
            } catch (ClassNotFoundException e) {
                found = "none";
            }
            String settings = new String(getClass().getResourceAsStream("/settings.txt")
                    .readAllBytes());
            return Echo.text(found + " " + settings + " " + calls + " " + own);
        }
    }
}
