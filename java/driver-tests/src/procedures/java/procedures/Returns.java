package procedures;

import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Every type of result. */
public final class Returns {
    private Returns() {}

    public static class ReturnsLong extends VoltProcedure {
        public long run(long value) {
            return value;
        }
    }

    public static class ReturnsBoxed extends VoltProcedure {
        public Long run(Long value) {
            return value;
        }
    }

    public static class ReturnsTable extends VoltProcedure {
        public VoltTable run(int rows) {
            if (rows < 0) {
                return null;
            }
            VoltTable table = Shown.of(0);
            for (int i = 1; i < rows; i++) {
                table.addRow("row " + i);
            }
            return table;
        }
    }

    public static class ReturnsTables extends VoltProcedure {
        public VoltTable[] run(int tables) {
            VoltTable[] all = new VoltTable[tables];
            for (int i = 0; i < tables; i++) {
                all[i] = Shown.of(i);
            }
            return all;
        }
    }
}
