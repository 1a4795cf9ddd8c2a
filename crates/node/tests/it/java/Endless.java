import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** Its static initializer does not end. */
public class Endless extends VoltProcedure {
    static final long NEVER = never();
    public final SQLStmt read = new SQLStmt("SELECT v FROM t WHERE k = ?");

    private static long never() {
        long n = 0;
        while (true) {
            n++;
        }
    }

    public long run(long key) {
        return NEVER;
    }

    /** The same in code of the JDK, which takes no notice of being interrupted. */
    public static class Stuck extends VoltProcedure {
        static final Object NEVER = new java.util.concurrent.CompletableFuture<Object>().join();

        public long run(long key) {
            return 0;
        }
    }

    /** The first object, which CREATE PROCEDURE makes, is made at once; no other is. */
    public static class Constructor extends VoltProcedure {
        private static int made;
        public final SQLStmt read = new SQLStmt("SELECT v FROM t WHERE k = ?");

        public Constructor() {
            while (made > 0) {
                Thread.onSpinWait();
            }
            made++;
        }

        public long run(long key) {
            return made;
        }
    }
}
