import java.io.Serializable;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import org.voltdb.VoltProcedure.VoltAbortException;
import org.voltdb.VoltUDAggregate;
import org.voltdb.types.TimestampType;

/** Functions for SQL: one of each type, and some that fail. */
public class Functions {
    private static volatile long sink;
    private long calls;

    public long plus(long a, long b) {
        return a == Long.MIN_VALUE || b == Long.MIN_VALUE ? Long.MIN_VALUE : a + b;
    }

    public int narrow(int value) {
        return value == Integer.MIN_VALUE ? 0 : -value;
    }

    public short small(short value) {
        return value;
    }

    public byte tiny(byte value) {
        return value;
    }

    public double half(double value) {
        return value <= -1.7E308 ? value : value / 2;
    }

    /** One more; without a look for NULL, which is the least number. */
    public Long boxed(Long value) {
        return value == 0 ? null : value + 1;
    }

    public Integer boxedInt(Integer value) {
        return value + 1;
    }

    public Short boxedShort(Short value) {
        return (short) (value + 1);
    }

    public Byte boxedByte(Byte value) {
        return (byte) (value + 1);
    }

    public Double boxedDouble(Double value) {
        return value <= -1.7E308 ? 1.5 : value * 2;
    }

    public String greet(String name) {
        return name == null ? "nobody" : "hello " + name;
    }

    public BigDecimal twice(BigDecimal value) {
        return value == null ? null : value.add(value);
    }

    public TimestampType later(TimestampType time) {
        return time == null ? null : new TimestampType(time.getTime() + 1_000_000);
    }

    public byte[] mirror(byte[] value) {
        byte[] turned = new byte[value.length];
        for (int i = 0; i < value.length; i++) {
            turned[i] = value[value.length - 1 - i];
        }
        return turned;
    }

    public Byte[] mirrorBoxed(Byte[] value) {
        return value;
    }

    public int nothing() {
        return Integer.MIN_VALUE;
    }

    public double notANumber(long value) {
        return Double.NaN;
    }

    public Double infinite(long value) {
        return value / 0.0;
    }

    /** The bytes of one value without those that the other has, compared as objects. */
    public Byte[] without(Byte[] value, Byte[] others) {
        List<Byte> left = new ArrayList<>();
        for (Byte one : value) {
            boolean found = false;
            for (Byte other : others) {
                found |= one == other;
            }
            if (!found) {
                left.add(one);
            }
        }
        return left.toArray(new Byte[0]);
    }

    public String ten(long a, long b, long c, long d, long e, long f, long g, long h, long i,
            String j) {
        return a + b + c + d + e + f + g + h + i + j;
    }

    public long fail(long how) throws Exception {
        if (how == 1) {
            throw new VoltAbortException("as it was told");
        }
        if (how == 2) {
            throw new IllegalArgumentException("a broken promise");
        }
        if (how == 3) {
            while (true) {
                sink++;
            }
        }
        if (how == 4) {
            System.exit(4);
        }
        if (how == 5) {
            return deep(1);
        }
        if (how == 6) {
            Thread.sleep(1_000_000);
        }
        return how;
    }

    private static long deep(long n) {
        return deep(n + 1) + 1;
    }

    /** Counts its calls at its site. */
    public long counted(long value) {
        return ++calls;
    }

    public long many(long a) {
        return a;
    }

    public long many(int a) {
        return a;
    }

    public long list(List<Long> a) {
        return 0;
    }

    public static long fixed(long a) {
        return a;
    }

    /** The middle of a group's values; NULLs count as 0. */
    public static class Median implements Serializable, VoltUDAggregate<Long, Median> {
        private static final long serialVersionUID = 1L;
        private List<Long> values;

        @Override
        public void start() {
            values = new ArrayList<>();
        }

        @Override
        public void assemble(Long value) {
            if (value == -13) {
                throw new IllegalStateException("an unlucky number");
            }
            values.add(value == Long.MIN_VALUE ? 0 : value);
        }

        @Override
        public void combine(Median other) {
            values.addAll(other.values);
        }

        @Override
        public Double end() {
            if (values.isEmpty()) {
                return null;
            }
            values.sort(null);
            int middle = values.size() / 2;
            return values.size() % 2 == 1 ? values.get(middle)
                    : (values.get(middle - 1) + values.get(middle)) / 2.0;
        }
    }

    /** The longest of a group's texts. */
    public static class Longest implements Serializable, VoltUDAggregate<String, Longest> {
        private static final long serialVersionUID = 1L;
        private String best;

        @Override
        public void start() {
            best = null;
        }

        @Override
        public void assemble(String value) {
            if (value != null && (best == null || value.length() > best.length()
                    || value.length() == best.length() && value.compareTo(best) < 0)) {
                best = value;
            }
        }

        @Override
        public void combine(Longest other) {
            assemble(other.best);
        }

        @Override
        public String end() {
            return best;
        }
    }
}
