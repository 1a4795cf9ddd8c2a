import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** Code that runs when a class is loaded, and does not end. */
public class Endless {
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
