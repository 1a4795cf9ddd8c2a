package user;

import java.io.Serializable;
import java.math.BigDecimal;
import org.voltdb.VoltProcedure.VoltAbortException;
import org.voltdb.VoltUDAggregate;

/** Functions for SQL. */
public class Functions {
    public long add(long a, int b) {
        return a == Long.MIN_VALUE ? a : a + b;
    }

    public String join(String a, Integer b, byte[] c, BigDecimal d, Double e) {
        return a == null ? null : a + b + (c == null ? null : c.length) + d + e;
    }

    public Byte[] bytes(Byte[] a) {
        return a;
    }

    /** Whether the bytes are the same objects, as boxing in Java code makes them. */
    public long same(Byte[] a, Byte[] b) {
        for (int i = 0; i < a.length; i++) {
            if (a[i] != b[i]) {
                return 0;
            }
        }
        return 1;
    }

    public long fail(int kind) {
        if (kind == 0) {
            throw new VoltAbortException("stop here");
        }
        while (kind == 1) {
            Thread.onSpinWait();
        }
        throw new IllegalStateException("broken");
    }

    public long twice(long a) {
        return 2 * a;
    }

    public long twice(int a) {
        return 2 * a;
    }

    public static long fixed(long a) {
        return a;
    }

    public void nothing(long a) {}

    public long wrong(Object a) {
        return 0;
    }

    /** The longest of strings. */
    public static class Longest implements Serializable, VoltUDAggregate<String, Longest> {
        private static final long serialVersionUID = 1L;
        private String longest;

        @Override
        public void start() {
            longest = null;
        }

        @Override
        public void assemble(String value) {
            if (value != null && (longest == null || value.length() > longest.length())) {
                longest = value;
            }
        }

        @Override
        public void combine(Longest other) {
            assemble(other.longest);
        }

        @Override
        public Integer end() {
            return longest == null ? null : longest.length();
        }
    }
}
