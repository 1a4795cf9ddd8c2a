package tpcc;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** What the procedures share: amounts that are FLOAT or DECIMAL, places in results, short texts. */
final class Values {
    /** Digits behind the point of a DECIMAL. */
    private static final int SCALE = 12;
    private static final BigInteger ONE = BigInteger.TEN.pow(SCALE);

    private Values() {}

    /** An amount of the active row as it is, a Double or a BigDecimal; null for NULL. */
    static Object amount(VoltTable table, int column) {
        if (table.getColumnType(column) == VoltType.DECIMAL) {
            return table.getDecimalAsBigDecimal(column);
        }
        double value = table.getDouble(column);
        return table.wasNull() ? null : (Object) value;
    }

    /** An amount or a rate as a double; 0 for NULL. */
    static double asDouble(Object amount) {
        if (amount instanceof Double) {
            return (Double) amount;
        }
        if (amount == null) {
            return 0;
        }
        BigInteger units = ((BigDecimal) amount).setScale(SCALE).unscaledValue();
        BigInteger[] parts = units.divideAndRemainder(ONE);
        return parts[0].doubleValue() + parts[1].doubleValue() / ONE.doubleValue();
    }

    /** A price taken so many times. */
    static Object times(Object price, int count) {
        if (price instanceof Double) {
            return (Double) price * count;
        }
        if (price == null) {
            throw new IllegalStateException("an item has no price");
        }
        return ((BigDecimal) price).multiply(BigDecimal.valueOf(count));
    }

    /** A DECIMAL with all its digits, as SQL prints it. */
    static String text(BigDecimal amount) {
        return amount == null ? "NULL" : amount.setScale(SCALE).toPlainString();
    }

    /** A number as SQL prints it. */
    static String text(Integer number) {
        return number == null || number == VoltType.NULL_INTEGER ? "NULL" : number.toString();
    }

    /** The first integer of a table; null if it has no row, or NULL there. */
    static Integer firstInteger(VoltTable table) {
        if (!table.advanceRow()) {
            return null;
        }
        long value = table.getLong(0);
        return table.wasNull() ? null : (Integer) (int) value;
    }

    /**
     * Of customers with the same last name, ordered by first name, the number of the middle one,
     * rounded up [2.5.2.2]; null if there is none.
     */
    static Integer middle(VoltTable customers) {
        int count = customers.getRowCount();
        if (count == 0) {
            return null;
        }
        customers.advanceToRow((count - 1) / 2);
        return (int) customers.getLong(0);
    }

    /** As much of a text as has so many bytes. */
    static String cut(String text, int bytes) {
        if (text.length() * 3 <= bytes) {
            return text;
        }
        byte[] all = text.getBytes(StandardCharsets.UTF_8);
        if (all.length <= bytes) {
            return text;
        }
        int end = bytes;
        // Not within a character.
        while ((all[end] & 0xC0) == 0x80) {
            end--;
        }
        return new String(all, 0, end, StandardCharsets.UTF_8);
    }
}
