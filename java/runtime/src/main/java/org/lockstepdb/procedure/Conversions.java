package org.lockstepdb.procedure;

import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import org.voltdb.VoltType;
import org.voltdb.VoltTypeException;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** Makes what a client sent into what a procedure declares. */
final class Conversions {
    /** How clients that load text files write NULL. */
    static final String TEXT_NULL = "\\N";

    private Conversions() {}

    /**
     * @param value null for NULL
     * @return an object of the class, boxed for primitives; null only if the class has nulls
     */
    static Object convert(Object value, Class<?> wanted) {
        if (value == null) {
            return nullOf(wanted);
        }
        if (wanted.isInstance(value)) {
            return TEXT_NULL.equals(value) ? null : value;
        }
        boolean bytes = wanted == byte[].class || wanted == Byte[].class
                || wanted == ByteBuffer.class;
        boolean binary = value instanceof byte[] && (bytes || !wanted.isArray());
        if (value.getClass().isArray() && !binary) {
            return convertArray(value, wanted);
        }
        if (wanted.isArray() && !bytes) {
            throw mismatch(value.getClass(), wanted);
        }
        if (wanted == Byte[].class || wanted == ByteBuffer.class) {
            byte[] converted = (byte[]) convert(value, byte[].class);
            if (converted == null) {
                return null;
            }
            return wanted == Byte[].class ? boxed(converted) : ByteBuffer.wrap(converted);
        }
        Object converted = convertScalar(value, wanted);
        if (converted == NOT_CONVERTED) {
            throw unable(value, wanted);
        }
        return converted;
    }

    private static final Object NOT_CONVERTED = new Object();

    private static Object nullOf(Class<?> wanted) {
        if (!wanted.isPrimitive()) {
            return null;
        }
        return VoltType.typeFromClass(wanted).getNullValue();
    }

    private static VoltTypeException mismatch(Class<?> from, Class<?> to) {
        return new VoltTypeException("Array / Scalar parameter mismatch (" + from.getName()
                + " to " + to.getName() + ")");
    }

    private static VoltTypeException unable(Object value, Class<?> wanted) {
        return new VoltTypeException("tryToMakeCompatible: The provided value: (" + value
                + ") of type: " + value.getClass().getName()
                + " is not a match or is out of range for the target parameter type: "
                + wanted.getName());
    }

    private static Object convertArray(Object value, Class<?> wanted) {
        if (!wanted.isArray()) {
            throw mismatch(value.getClass(), wanted);
        }
        int length = Array.getLength(value);
        Class<?> element = wanted.getComponentType();
        Class<?> given = value.getClass().getComponentType();
        if (length == 0) {
            return Array.newInstance(element, 0);
        }
        boolean boxes = Parameters.isBoxed(element) && sameNumber(given, element);
        boolean dates = given == TimestampType.class
                && java.util.Date.class.isAssignableFrom(element);
        boolean texts = given == String.class && element == byte[].class
                || given == byte[].class && element == String.class;
        if (!boxes && !dates && !texts) {
            throw unable(value, wanted);
        }
        Object converted = Array.newInstance(element, length);
        for (int i = 0; i < length; i++) {
            Object one = Array.get(value, i);
            boolean isNull = VoltType.isVoltNullValue(one);
            Array.set(converted, i, isNull ? null : convert(boxes ? shared(one) : one, element));
        }
        return converted;
    }

    /**
     * The object that boxing in Java code gives for a number: reflection makes a new one, and
     * procedures compare small numbers with {@code ==}.
     */
    private static Object shared(Object number) {
        if (number instanceof Long) {
            return Long.valueOf((Long) number);
        } else if (number instanceof Integer) {
            return Integer.valueOf((Integer) number);
        } else if (number instanceof Short) {
            return Short.valueOf((Short) number);
        }
        return number;
    }

    private static boolean sameNumber(Class<?> primitive, Class<?> boxed) {
        return VoltType.typeFromClass(primitive) == VoltType.typeFromClass(boxed);
    }

    private static Byte[] boxed(byte[] bytes) {
        Byte[] boxed = new Byte[bytes.length];
        for (int i = 0; i < bytes.length; i++) {
            boxed[i] = bytes[i];
        }
        return boxed;
    }

    private static Object convertScalar(Object value, Class<?> wanted) {
        if (value instanceof String && ((String) value).trim().equals(TEXT_NULL)
                && wanted != byte[].class) {
            return nullOf(wanted);
        }
        if (wanted == String.class) {
            return value instanceof byte[] ? text((byte[]) value) : String.valueOf(value);
        }
        if (wanted == byte[].class) {
            return value instanceof String ? fromHex((String) value) : NOT_CONVERTED;
        }
        VoltType type = VoltType.typeFromClass(wanted);
        if (type.isAnyIntegerType()) {
            return integer(value, type, wanted);
        }
        switch (type) {
            case FLOAT:
                return floating(value);
            case DECIMAL:
                return decimal(value);
            case TIMESTAMP:
                return timestamp(value, wanted);
            case GEOGRAPHY_POINT:
                return value instanceof String ? GeographyPointValue.fromWKT((String) value)
                        : NOT_CONVERTED;
            case GEOGRAPHY:
                return value instanceof String ? GeographyValue.fromWKT((String) value)
                        : NOT_CONVERTED;
            default:
                return NOT_CONVERTED;
        }
    }

    private static String text(byte[] bytes) {
        String text = new String(bytes, StandardCharsets.UTF_8);
        return text.equals(TEXT_NULL) ? null : text;
    }

    private static byte[] fromHex(String value) {
        String digits = quotedHex(value);
        return Bytes.unhex(digits == null ? value : digits);
    }

    /** What stands between the quotation marks of {@code X'...'}, or null. */
    private static String quotedHex(String value) {
        String text = value.trim();
        boolean quoted = text.length() >= 3 && text.endsWith("'")
                && text.regionMatches(true, 0, "x'", 0, 2);
        return quoted ? text.substring(2, text.length() - 1) : null;
    }

    private static Object integer(Object value, VoltType type, Class<?> wanted) {
        long number;
        if (value instanceof String) {
            number = integerOf((String) value, wanted);
        } else if (value instanceof BigDecimal) {
            try {
                number = ((BigDecimal) value).longValueExact();
            } catch (ArithmeticException e) {
                return NOT_CONVERTED;
            }
        } else if (value instanceof Double) {
            return NOT_CONVERTED;
        } else if (value instanceof Number) {
            number = ((Number) value).longValue();
        } else if (value instanceof TimestampType && type == VoltType.BIGINT) {
            number = ((TimestampType) value).getTime();
        } else {
            return NOT_CONVERTED;
        }
        return fit(number, type, value, wanted);
    }

    private static Object fit(long number, VoltType type, Object value, Class<?> wanted) {
        int bits = 8 * type.getLengthInBytesForFixedTypes();
        long least = -1L << (bits - 1);
        if (number == least) {
            throw new VoltTypeException("The provided value: (" + value + ") of type: "
                    + value.getClass().getName() + " might be interpreted as integer null for the"
                    + " target parameter type: " + wanted.getName());
        }
        if (number < least || number > ~least) {
            throw unable(value, wanted);
        }
        switch (type) {
            case TINYINT:
                return (byte) number;
            case SMALLINT:
                return (short) number;
            case INTEGER:
                return (int) number;
            default:
                return number;
        }
    }

    private static long integerOf(String value, Class<?> wanted) {
        String digits = quotedHex(value);
        try {
            if (digits != null && digits.length() <= 16) {
                return Long.parseUnsignedLong(digits, 16);
            }
            return Long.parseLong(plain(value));
        } catch (NumberFormatException e) {
            throw unable(value, wanted);
        }
    }

    /** Numbers may have commas between groups of digits. */
    private static String plain(String value) {
        return value.trim().replace(",", "");
    }

    private static Object floating(Object value) {
        if (value instanceof Number) {
            return ((Number) value).doubleValue();
        }
        if (value instanceof String) {
            try {
                return Double.valueOf(plain((String) value));
            } catch (NumberFormatException e) {
                throw unable(value, double.class);
            }
        }
        return NOT_CONVERTED;
    }

    private static Object decimal(Object value) {
        BigDecimal number;
        try {
            if (value instanceof Double) {
                number = new BigDecimal(String.format(Locale.ROOT, "%.12f", value));
            } else if (value instanceof Number) {
                number = BigDecimal.valueOf(((Number) value).longValue());
            } else if (value instanceof String) {
                number = new BigDecimal(plain((String) value));
            } else {
                return NOT_CONVERTED;
            }
        } catch (NumberFormatException e) {
            throw unable(value, BigDecimal.class);
        }
        return Decimals.fit(number.setScale(Decimals.SCALE, RoundingMode.HALF_UP));
    }

    private static Object timestamp(Object value, Class<?> wanted) {
        TimestampType time;
        if (value instanceof TimestampType) {
            time = (TimestampType) value;
        } else if (value instanceof String) {
            time = timestampOf((String) value);
        } else if (value instanceof Number && wanted == TimestampType.class
                && !(value instanceof BigDecimal) && !(value instanceof Double)) {
            time = new TimestampType(((Number) value).longValue());
        } else {
            return NOT_CONVERTED;
        }
        try {
            if (wanted == java.util.Date.class) {
                return time.asExactJavaDate();
            }
            if (wanted == java.sql.Date.class) {
                return time.asExactJavaSqlDate();
            }
        } catch (RuntimeException e) {
            throw new VoltTypeException(e.getMessage(), e);
        }
        return wanted == java.sql.Timestamp.class ? time.asJavaTimestamp() : time;
    }

    private static TimestampType timestampOf(String value) {
        String text = value.trim();
        try {
            return new TimestampType(Long.parseLong(text));
        } catch (NumberFormatException notMicros) {
            try {
                return new TimestampType(text);
            } catch (IllegalArgumentException e) {
                throw new VoltTypeException(e.getMessage(), e);
            }
        }
    }
}
