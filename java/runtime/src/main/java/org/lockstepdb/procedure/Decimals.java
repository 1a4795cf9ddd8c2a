package org.lockstepdb.procedure;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import org.voltdb.VoltTypeException;

/** Decimals in their wire form: 16 bytes, two's complement, twelve digits behind the point. */
public final class Decimals {
    /** Digits behind the point. */
    public static final int SCALE = 12;
    /** All digits. */
    public static final int PRECISION = 38;
    private static final BigInteger LIMIT = BigInteger.TEN.pow(PRECISION);
    private static final long NULL_HIGH = Long.MIN_VALUE;

    private Decimals() {}

    /** The value at an offset, null for NULL. */
    public static BigDecimal read(byte[] data, int offset) {
        return value(Bytes.getLong(data, offset), Bytes.getLong(data, offset + 8));
    }

    /** The value at an offset, null for NULL. */
    public static BigDecimal read(ByteBuffer data, int offset) {
        return value(data.getLong(offset), data.getLong(offset + 8));
    }

    private static BigDecimal value(long high, long low) {
        if (high == NULL_HIGH && low == 0) {
            return null;
        }
        if (high == low >> 63) {
            return BigDecimal.valueOf(low, SCALE);
        }
        byte[] bytes = new byte[16];
        Bytes.putLong(bytes, 0, high);
        Bytes.putLong(bytes, 8, low);
        return new BigDecimal(new BigInteger(bytes), SCALE);
    }

    /** A value with twelve digits behind the point, rounded half up; fails if it is too large. */
    public static BigDecimal fit(BigDecimal value) {
        BigDecimal fitted = value.scale() == SCALE ? value
                : value.setScale(SCALE, RoundingMode.HALF_UP);
        if (fitted.unscaledValue().abs().compareTo(LIMIT) >= 0) {
            throw new VoltTypeException("Decimal " + value + " has more than "
                    + (PRECISION - SCALE) + " digits before the point");
        }
        return fitted;
    }

    /** Sixteen bytes of a value, or of NULL. */
    public static byte[] bytes(BigDecimal value) {
        byte[] out = new byte[16];
        if (value == null) {
            out[0] = Byte.MIN_VALUE;
            return out;
        }
        byte[] digits = fit(value).unscaledValue().toByteArray();
        int lead = 16 - digits.length;
        if (digits[0] < 0) {
            java.util.Arrays.fill(out, 0, lead, (byte) -1);
        }
        System.arraycopy(digits, 0, out, lead, digits.length);
        return out;
    }
}
