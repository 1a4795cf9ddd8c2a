package user;

import java.math.BigDecimal;
import java.util.Arrays;
import java.util.Date;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** One procedure for each type of parameter: it returns what it got, as text. */
public final class Echo {
    private Echo() {}

    static VoltTable[] text(Object value) {
        String text;
        if (value != null && value.getClass().isArray()) {
            text = Arrays.deepToString(new Object[] {value});
        } else if (value instanceof Date) {
            text = "date " + ((Date) value).getTime();
        } else {
            text = String.valueOf(value);
        }
        VoltTable table = new VoltTable(new VoltTable.ColumnInfo("TEXT", VoltType.STRING));
        table.addRow(text);
        return new VoltTable[] {table};
    }

    public static class OfByte extends VoltProcedure {
        public VoltTable[] run(byte value) {
            return text(value);
        }
    }

    public static class OfShort extends VoltProcedure {
        public VoltTable[] run(short value) {
            return text(value);
        }
    }

    public static class OfInt extends VoltProcedure {
        public VoltTable[] run(int value) {
            return text(value);
        }
    }

    public static class OfLong extends VoltProcedure {
        public VoltTable[] run(long value) {
            return text(value);
        }
    }

    public static class OfDouble extends VoltProcedure {
        public VoltTable[] run(double value) {
            return text(value);
        }
    }

    public static class OfBoxed extends VoltProcedure {
        public VoltTable[] run(Byte a, Short b, Integer c, Long d, Double e) {
            return text(new Object[] {a, b, c, d, e});
        }
    }

    public static class OfString extends VoltProcedure {
        public VoltTable[] run(String value) {
            return text(value);
        }
    }

    public static class OfBytes extends VoltProcedure {
        public VoltTable[] run(byte[] value) {
            return text(value);
        }
    }

    public static class OfBoxedBytes extends VoltProcedure {
        public VoltTable[] run(Byte[] value) {
            return text(value);
        }
    }

    public static class OfDecimal extends VoltProcedure {
        public VoltTable[] run(BigDecimal value) {
            return text(value);
        }
    }

    public static class OfTimestamp extends VoltProcedure {
        public VoltTable[] run(TimestampType value) {
            return text(value);
        }
    }

    public static class OfDates extends VoltProcedure {
        public VoltTable[] run(Date a, java.sql.Date b, java.sql.Timestamp c) {
            return text(new Object[] {text(a)[0].fetchRow(0).getString(0),
                text(b)[0].fetchRow(0).getString(0), c});
        }
    }

    public static class OfGeography extends VoltProcedure {
        public VoltTable[] run(GeographyPointValue point, GeographyValue polygon) {
            return text(point + " " + polygon);
        }
    }

    public static class OfTable extends VoltProcedure {
        public VoltTable run(VoltTable value) {
            return value;
        }
    }

    public static class OfLongs extends VoltProcedure {
        public VoltTable[] run(long[] value) {
            return text(value);
        }
    }

    public static class OfArrays extends VoltProcedure {
        public VoltTable[] run(int[] a, short[] b, double[] c, String[] d, byte[][] e,
                BigDecimal[] f, TimestampType[] g) {
            return text(new Object[] {a, b, c, d, e, f, g});
        }
    }

    public static class OfBoxedArrays extends VoltProcedure {
        public VoltTable[] run(Long[] a, Integer[] b, Double[] c) {
            return text(new Object[] {a, b, c});
        }
    }

    public static class OfTables extends VoltProcedure {
        public VoltTable[] run(VoltTable[] value) {
            return value;
        }
    }
}
