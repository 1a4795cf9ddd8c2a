import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Passes bytes to statements that take texts, in each form that they come in. */
public class TextBytes extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO texts VALUES (?, ?)");
    public final SQLStmt find = new SQLStmt("SELECT s FROM texts WHERE k = ? AND s = ?");
    public final SQLStmt among = new SQLStmt("SELECT s FROM texts WHERE k = ? AND s IN ?");
    public final SQLStmt like = new SQLStmt("SELECT s FROM texts WHERE k = ? AND s LIKE ?");
    public final SQLStmt change = new SQLStmt("UPDATE texts SET s = ? WHERE k = ?");
    public final SQLStmt read = new SQLStmt("SELECT s, UPPER(?) FROM texts WHERE k = ?");

    public VoltTable[] run(long key, String how, byte[] value) {
        voltQueueSQL(insert, key, value);
        voltExecuteSQL();
        switch (how) {
            case "find":
                voltQueueSQL(find, key, value);
                break;
            case "among":
                voltQueueSQL(among, key, new byte[][] {bytes("none"), value});
                break;
            case "like":
                voltQueueSQL(like, key, value);
                break;
            case "change":
                Byte[] boxed = {'b', (byte) 0xc3, (byte) 0xa9};
                voltQueueSQL(change, boxed, key);
                voltQueueSQL(read, value, key);
                break;
            case "buffer":
                voltQueueSQL(change, ByteBuffer.wrap(bytes("[from]")).position(1).limit(5), key);
                voltQueueSQL(read, value, key);
                break;
            default:
                voltQueueSQL(change, new byte[] {(byte) 0xff}, key);
        }
        return voltExecuteSQL();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Takes what a client sends as bytes in a buffer. */
    public static class Buffers extends VoltProcedure {
        public final SQLStmt insert = new SQLStmt("INSERT INTO texts VALUES (?, ?)");

        public long run(long key, ByteBuffer value) {
            voltQueueSQL(insert, key, value);
            voltExecuteSQL();
            return value == null ? -1 : value.remaining();
        }
    }

    /** Queues texts of a size, as many as told, in one batch. */
    public static class Large extends VoltProcedure {
        public final SQLStmt insert = new SQLStmt("INSERT INTO large VALUES (?, ?, ?)");
        public final SQLStmt find = new SQLStmt("SELECT COUNT(*) FROM large WHERE k = ? AND s = ?");

        public long run(long key, int count, int size, String how) {
            byte[] text = new byte[size];
            java.util.Arrays.fill(text, (byte) 'x');
            String same = new String(text, StandardCharsets.UTF_8);
            for (int i = 0; i < count; i++) {
                if (how.equals("find")) {
                    voltQueueSQL(find, key, same);
                } else if (how.equals("bytes")) {
                    voltQueueSQL(insert, key, i, text);
                } else {
                    voltQueueSQL(insert, key, i, same);
                }
            }
            try {
                return voltExecuteSQL().length;
            } catch (org.voltdb.exceptions.SQLException e) {
                throw new VoltAbortException("caught: " + e.getMessage());
            }
        }
    }
}
