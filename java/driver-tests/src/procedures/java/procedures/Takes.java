package procedures;

import java.math.BigDecimal;
import java.util.Date;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** Every type of parameter: the procedures return what they got, as text. */
public final class Takes {
    private Takes() {}

    public static class TakesNumbers extends VoltProcedure {
        public VoltTable run(byte a, short b, int c, long d, double e) {
            return Shown.all(a, b, c, d, e);
        }
    }

    public static class TakesBoxed extends VoltProcedure {
        public VoltTable run(Byte a, Short b, Integer c, Long d, Double e) {
            return Shown.all(a, b, c, d, e);
        }
    }

    public static class TakesTexts extends VoltProcedure {
        public VoltTable run(String a, byte[] b, Byte[] c, BigDecimal d) {
            return Shown.all(a, b, c, d);
        }
    }

    public static class TakesTimes extends VoltProcedure {
        public VoltTable run(TimestampType a, Date b, java.sql.Date c, java.sql.Timestamp d) {
            return Shown.all(a == null ? null : a.getTime(), b, c, d);
        }
    }

    public static class TakesPlaces extends VoltProcedure {
        public VoltTable run(GeographyPointValue a, GeographyValue b) {
            return Shown.all(a, b);
        }
    }

    public static class TakesTable extends VoltProcedure {
        public VoltTable[] run(VoltTable a, int row) {
            VoltTable copy = a.clone(0);
            copy.add(a.fetchRow(row));
            return new VoltTable[] {a, copy};
        }
    }

    public static class TakesTables extends VoltProcedure {
        public VoltTable[] run(VoltTable[] a) {
            return a;
        }
    }

    public static class TakesNumberArrays extends VoltProcedure {
        public VoltTable run(short[] a, int[] b, long[] c, double[] d) {
            return Shown.all(a, b, c, d);
        }
    }

    public static class TakesBoxedArrays extends VoltProcedure {
        public VoltTable run(Short[] a, Integer[] b, Long[] c, Double[] d) {
            return Shown.all(a, b, c, d);
        }
    }

    public static class TakesTextArrays extends VoltProcedure {
        public VoltTable run(String[] a, byte[][] b, BigDecimal[] c) {
            return Shown.all(a, b, c);
        }
    }

    public static class TakesOtherArrays extends VoltProcedure {
        public VoltTable run(TimestampType[] a, GeographyPointValue[] b, GeographyValue[] c) {
            for (int i = 0; i < a.length; i++) {
                a[i] = new TimestampType(a[i].getTime() + 1);
            }
            return Shown.all(a.length == 0 ? 0 : a[0].getTime(), b, c);
        }
    }

    public static class TakesNothing extends VoltProcedure {
        public long run() {
            return 0;
        }
    }
}
