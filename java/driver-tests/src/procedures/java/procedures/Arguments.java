package procedures;

import java.math.BigDecimal;
import java.util.Date;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.types.TimestampType;

/** What may be queued for statements' parameters of every type. */
public class Arguments extends VoltProcedure {
    public final SQLStmt insert =
            new SQLStmt("INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    public final SQLStmt read = new SQLStmt("SELECT * FROM kinds WHERE k = ?");
    public final SQLStmt among =
            new SQLStmt("SELECT COUNT(*) FROM kinds WHERE k = ? AND b IN ?");
    public final SQLStmt amongSmall =
            new SQLStmt("SELECT COUNT(*) FROM kinds WHERE k = ? AND ti IN ?");
    public final SQLStmt amongTexts =
            new SQLStmt("SELECT COUNT(*) FROM kinds WHERE k = ? AND s IN ?");

    public VoltTable[] run(long key, String how) {
        switch (how) {
            case "own types":
                voltQueueSQL(insert, key, (byte) 1, (short) 2, 3, 4L, 1.5,
                        new BigDecimal("2.5"), "text", new byte[] {10, 11},
                        new TimestampType(1_500_000));
                break;
            case "other types":
                voltQueueSQL(insert, key, 1L, 2, (short) 3, (byte) 4, 1, 2.5, 12L,
                        new byte[] {10, 11},
                        new Date(1500));
                break;
            case "fractions":
                voltQueueSQL(insert, key, 1.0, 2.0, 3.0, 4.0f, 1.5f, 2.5f, "text",
                        new byte[] {10, 11}, 1_500_000.75);
                break;
            case "decimals":
                voltQueueSQL(insert, key, BigDecimal.ONE, 2, 3, 4, 1.5, 2.5, "text",
                        new byte[] {10, 11}, new BigDecimal("1500000.75"));
                break;
            case "texts":
                voltQueueSQL(insert, key, "1", "2", "3", "4", "1.5", "2.5", "text",
                        new byte[] {10, 11},
                        "1970-01-01 00:00:01.5");
                break;
            case "nulls":
                voltQueueSQL(insert, key, null, null, null, null, null, null, null, null, null);
                break;
            case "null values":
                voltQueueSQL(insert, key, VoltType.NULL_TINYINT, VoltType.NULL_SMALLINT,
                        VoltType.NULL_INTEGER, VoltType.NULL_BIGINT, VoltType.NULL_FLOAT,
                        VoltType.NULL_DECIMAL, VoltType.NULL_STRING_OR_VARBINARY,
                        VoltType.NULL_STRING_OR_VARBINARY, VoltType.NULL_TIMESTAMP);
                break;
            case "arrays":
                return arrays(key);
            case "bytes for a number":
                voltQueueSQL(read, new byte[] {1});
                break;
            case "an array for a number":
                voltQueueSQL(read, new long[] {1});
                break;
            default:
                voltQueueSQL(read, new StringBuilder());
        }
        voltQueueSQL(read, key);
        return voltExecuteSQL(true);
    }

    private VoltTable[] arrays(long key) {
        voltQueueSQL(insert, key, 1, 2, 3, 4, 1.5, 2.5, "text", null, null);
        voltQueueSQL(among, key, new long[] {9, 4});
        voltQueueSQL(among, key, new int[] {4});
        voltQueueSQL(among, key, new short[] {4, 5});
        voltQueueSQL(among, key, new long[0]);
        voltQueueSQL(among, key, new byte[] {3, 4});
        voltQueueSQL(amongSmall, key, new long[] {1L << 40, 1});
        voltQueueSQL(amongTexts, key, new String[] {"a", "text"});
        return voltExecuteSQL();
    }
}
