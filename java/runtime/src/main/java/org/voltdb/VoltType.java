package org.voltdb;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.sql.Types;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** The types of columns and parameters, with their codes on the wire and their null values. */
public enum VoltType {
    INVALID(0, null, -1, Types.OTHER),
    NULL(1, null, -1, Types.OTHER),
    NUMERIC(2, null, -1, Types.OTHER),
    TINYINT(3, "tinyint", 1, Types.TINYINT, byte.class, Byte.class),
    SMALLINT(4, "smallint", 2, Types.SMALLINT, short.class, Short.class),
    INTEGER(5, "integer", 4, Types.INTEGER, int.class, Integer.class, AtomicInteger.class),
    BIGINT(6, "bigint", 8, Types.BIGINT, long.class, Long.class, AtomicLong.class),
    INLIST_OF_BIGINT(7, "INLIST OF BIGINT", -1, Types.OTHER, long[].class),
    FLOAT(8, "float", 8, Types.FLOAT, double.class, Double.class, float.class, Float.class),
    STRING(9, "varchar", -1, Types.VARCHAR, String.class),
    INLIST_OF_STRING(10, "INLIST OF STRING", -1, Types.OTHER, String[].class),
    TIMESTAMP(11, "timestamp", 8, Types.TIMESTAMP, TimestampType.class, java.util.Date.class,
            java.sql.Date.class, java.sql.Timestamp.class),
    VOLTTABLE(21, null, -1, Types.OTHER, VoltTable.class),
    DECIMAL(22, "decimal", 16, Types.DECIMAL, BigDecimal.class),
    BOOLEAN(23, "boolean", 1, Types.BOOLEAN, boolean.class, Boolean.class),
    VARBINARY(25, "varbinary", -1, Types.VARBINARY, byte[].class, Byte[].class, ByteBuffer.class),
    GEOGRAPHY_POINT(26, "GEOGRAPHY_POINT", 16, Types.OTHER, GeographyPointValue.class),
    GEOGRAPHY(27, "GEOGRAPHY", -1, Types.OTHER, GeographyValue.class);

    /** Largest string or binary value, in bytes. */
    public static final int MAX_VALUE_LENGTH = 1 << 20;
    /** Largest string declared in characters, of up to four bytes each. */
    public static final int MAX_VALUE_LENGTH_IN_CHARACTERS = MAX_VALUE_LENGTH / 4;
    public static final int NULL_STRING_LENGTH = -1;
    public static final byte NULL_TINYINT = Byte.MIN_VALUE;
    public static final short NULL_SMALLINT = Short.MIN_VALUE;
    public static final int NULL_INTEGER = Integer.MIN_VALUE;
    public static final long NULL_BIGINT = Long.MIN_VALUE;
    /** Values that are not above this one are NULL as well. */
    public static final double NULL_FLOAT = -1.7E308;
    public static final NullTimestampSigil NULL_TIMESTAMP = new NullTimestampSigil();
    public static final NullStringOrVarbinarySigil NULL_STRING_OR_VARBINARY =
            new NullStringOrVarbinarySigil();
    public static final NullDecimalSigil NULL_DECIMAL = new NullDecimalSigil();
    public static final NullPointSigil NULL_POINT = new NullPointSigil();
    public static final NullGeographySigil NULL_GEOGRAPHY = new NullGeographySigil();

    /** Stands for a timestamp that is NULL. */
    public static final class NullTimestampSigil {
        private NullTimestampSigil() {}
    }

    /** Stands for a string or binary value that is NULL. */
    public static final class NullStringOrVarbinarySigil {
        private NullStringOrVarbinarySigil() {}
    }

    /** Stands for a decimal that is NULL. */
    public static final class NullDecimalSigil {
        private NullDecimalSigil() {}
    }

    /** Stands for a point that is NULL. */
    public static final class NullPointSigil {
        private NullPointSigil() {}
    }

    /** Stands for a polygon that is NULL. */
    public static final class NullGeographySigil {
        private NullGeographySigil() {}
    }

    private static final VoltType[] BY_CODE = new VoltType[28];
    private static final Map<Class<?>, VoltType> BY_CLASS = new ConcurrentHashMap<>();

    static {
        for (VoltType type : values()) {
            BY_CODE[type.code] = type;
            if (type != INLIST_OF_BIGINT && type != INLIST_OF_STRING) {
                for (Class<?> javaClass : type.classes) {
                    BY_CLASS.put(javaClass, type);
                }
            }
        }
        BY_CLASS.put(NullTimestampSigil.class, TIMESTAMP);
        BY_CLASS.put(NullStringOrVarbinarySigil.class, STRING);
        BY_CLASS.put(NullDecimalSigil.class, DECIMAL);
        BY_CLASS.put(NullPointSigil.class, GEOGRAPHY_POINT);
        BY_CLASS.put(NullGeographySigil.class, GEOGRAPHY);
    }

    private final byte code;
    private final String sqlName;
    private final int fixedBytes;
    private final int jdbcType;
    private final Class<?>[] classes;

    VoltType(int code, String sqlName, int fixedBytes, int jdbcType, Class<?>... classes) {
        this.code = (byte) code;
        this.sqlName = sqlName;
        this.fixedBytes = fixedBytes;
        this.jdbcType = jdbcType;
        this.classes = classes;
    }

    /** The code on the wire. */
    public byte getValue() {
        return code;
    }

    /** The type of a code. */
    public static VoltType get(byte code) {
        VoltType type = code >= 0 && code < BY_CODE.length ? BY_CODE[code] : null;
        if (type == null) {
            throw new AssertionError("Unknown type: " + code);
        }
        return type;
    }

    /** The class of values that readers give; null if there is none. */
    public Class<?> classFromType() {
        if (classes.length == 0) {
            throw new RuntimeException("Unsupported type " + this);
        }
        return classes[0];
    }

    /** See {@link #classFromType}. */
    public static Class<?> classFromByteValue(byte code) {
        return get(code).classFromType();
    }

    /** The class of arrays of the values. */
    public Class<?> vectorClassFromType() {
        return this == VARBINARY ? byte[][].class : classFromType().arrayType();
    }

    /** The type of a name, as {@code toString} and SQL write it, in any case. */
    public static VoltType typeFromString(String name) {
        if (name == null) {
            return null;
        }
        String wanted = name.trim();
        if (wanted.startsWith("VoltType.")) {
            wanted = wanted.substring("VoltType.".length());
        }
        for (VoltType type : values()) {
            if (type.name().equalsIgnoreCase(wanted)) {
                return type;
            }
        }
        for (VoltType type : values()) {
            if (wanted.equalsIgnoreCase(type.sqlName)) {
                return type;
            }
        }
        throw new RuntimeException("Can't find type: " + name);
    }

    /** The type that holds a value. */
    public static VoltType typeFromObject(Object value) {
        if (value == null) {
            return NULL;
        }
        return typeFromClass(value.getClass());
    }

    /** The type that holds values of a class. */
    public static VoltType typeFromClass(Class<?> javaClass) {
        VoltType type = BY_CLASS.get(javaClass);
        if (type != null) {
            return type;
        }
        if (ByteBuffer.class.isAssignableFrom(javaClass)) {
            return VARBINARY;
        }
        throw new VoltTypeException("Unimplemented Object Type: " + javaClass);
    }

    @Override
    public String toString() {
        return "VoltType." + name();
    }

    /** The name without a prefix. */
    public String getName() {
        return name();
    }

    /** The name in SQL. */
    public String toSQLString() {
        return sqlName;
    }

    /** True for types whose values differ in length. */
    public boolean isVariableLength() {
        return this == STRING || this == VARBINARY || this == GEOGRAPHY;
    }

    /** Length of a value in bytes, for types of one length. */
    public int getLengthInBytesForFixedTypes() {
        if (fixedBytes < 0) {
            throw new RuntimeException("Asked for fixed size for non-fixed or unknown type.");
        }
        return fixedBytes;
    }

    /** Length of a value in bytes, -1 where lengths differ. */
    public int getLengthInBytesForFixedTypesWithoutCheck() {
        return fixedBytes;
    }

    /** Shortest value in bytes. */
    public int getMinLengthInBytes() {
        return this == GEOGRAPHY ? GeographyValue.MIN_SERIALIZED_LENGTH
                : isVariableLength() ? 1 : fixedBytes;
    }

    /** Longest value in bytes. */
    public int getMaxLengthInBytes() {
        return isVariableLength() ? MAX_VALUE_LENGTH : fixedBytes;
    }

    /** Length of a column that is declared without one. */
    public int defaultLengthForVariableLengthType() {
        if (this == GEOGRAPHY) {
            return GeographyValue.DEFAULT_LENGTH;
        }
        return isVariableLength() ? MAX_VALUE_LENGTH : 0;
    }

    /** The code in {@link java.sql.Types}. */
    public int getJdbcSqlType() {
        return jdbcType;
    }

    /** Whether SQL knows it. */
    public boolean isJdbcVisible() {
        return sqlName != null;
    }

    /** Whether an array of this class is a list of values of this type. */
    public boolean acceptsArray(Class<?> arrayClass) {
        if (this == VARBINARY) {
            return arrayClass == byte[][].class;
        }
        if (!arrayClass.isArray()) {
            return false;
        }
        for (Class<?> javaClass : classes) {
            if (arrayClass.getComponentType() == javaClass) {
                return true;
            }
        }
        return false;
    }

    /** True for integers and decimals. */
    public boolean isExactNumeric() {
        return isAnyIntegerType() || this == DECIMAL;
    }

    /** True for the types that are stored as integers. */
    public boolean isBackendIntegerType() {
        return isAnyIntegerType() || this == TIMESTAMP;
    }

    /** True for the four integer types. */
    public boolean isAnyIntegerType() {
        return this == TINYINT || this == SMALLINT || this == INTEGER || this == BIGINT;
    }

    /** True for all numbers. */
    public boolean isNumber() {
        return isAnyIntegerType() || this == FLOAT || this == DECIMAL;
    }

    /** True for types that an index can hold. */
    public boolean isIndexable() {
        return isNumber() || this == STRING || this == VARBINARY || this == TIMESTAMP
                || this == GEOGRAPHY;
    }

    /** True for types that a unique index can hold. */
    public boolean isUniqueIndexable() {
        return isIndexable() && this != GEOGRAPHY;
    }

    /** Whether every value of another type is one of this. */
    public boolean canExactlyRepresentAnyValueOf(VoltType other) {
        if (this == other) {
            return true;
        }
        if (other.isAnyIntegerType()) {
            return this == DECIMAL || this == STRING
                    || (isAnyIntegerType() && fixedBytes > other.fixedBytes);
        }
        return this == STRING && other != VARBINARY;
    }

    /** What stands for NULL in a value of this type. */
    public Object getNullValue() {
        switch (this) {
            case TINYINT:
                return NULL_TINYINT;
            case SMALLINT:
                return NULL_SMALLINT;
            case INTEGER:
                return NULL_INTEGER;
            case BIGINT:
                return NULL_BIGINT;
            case FLOAT:
                return NULL_FLOAT;
            case STRING:
            case VARBINARY:
                return NULL_STRING_OR_VARBINARY;
            case TIMESTAMP:
                return NULL_TIMESTAMP;
            case DECIMAL:
                return NULL_DECIMAL;
            case GEOGRAPHY_POINT:
                return NULL_POINT;
            case GEOGRAPHY:
                return NULL_GEOGRAPHY;
            default:
                throw new VoltTypeException("No NULL value for " + this);
        }
    }

    /** Whether a value stands for NULL. */
    public static boolean isVoltNullValue(Object value) {
        if (value == null) {
            return true;
        }
        if (value instanceof Number) {
            if (value instanceof Long) {
                return (Long) value == NULL_BIGINT;
            } else if (value instanceof Integer) {
                return (Integer) value == NULL_INTEGER;
            } else if (value instanceof Double) {
                return (Double) value <= NULL_FLOAT;
            } else if (value instanceof Short) {
                return (Short) value == NULL_SMALLINT;
            } else if (value instanceof Byte) {
                return (Byte) value == NULL_TINYINT;
            }
            return false;
        }
        if (value instanceof TimestampType) {
            return ((TimestampType) value).getTime() == NULL_BIGINT;
        }
        return value == NULL_TIMESTAMP || value == NULL_STRING_OR_VARBINARY
                || value == NULL_DECIMAL || value == NULL_POINT || value == NULL_GEOGRAPHY;
    }

    /** The bytes by which a value is hashed: integers little-endian, strings as UTF-8. */
    public static byte[] valueToBytes(Object value) {
        if (isVoltNullValue(value)) {
            return null;
        }
        if (value instanceof byte[]) {
            return (byte[]) value;
        }
        if (value instanceof String) {
            return ((String) value).getBytes(StandardCharsets.UTF_8);
        }
        long number;
        if (value instanceof Long || value instanceof Integer || value instanceof Short
                || value instanceof Byte) {
            number = ((Number) value).longValue();
        } else {
            number = 0;
        }
        byte[] bytes = new byte[8];
        for (int i = 0; i < 8; i++) {
            bytes[i] = (byte) (number >>> (8 * i));
        }
        return bytes;
    }

    /** The value that {@link #valueToBytes} made these bytes of. */
    public Object bytesToValue(byte[] bytes) {
        if (bytes == null) {
            return getNullValue();
        }
        if (this == STRING) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
        if (this == VARBINARY) {
            return bytes;
        }
        long number = 0;
        for (int i = Math.min(8, bytes.length) - 1; i >= 0; i--) {
            number = (number << 8) | (bytes[i] & 0xff);
        }
        switch (this) {
            case TINYINT:
                return (byte) number;
            case SMALLINT:
                return (short) number;
            case INTEGER:
                return (int) number;
            case BIGINT:
                return number;
            default:
                throw new VoltTypeException("No value of " + this + " from bytes");
        }
    }

    /** A number of bytes for people, in kibibytes when it is large. */
    public static String humanReadableSize(int bytes) {
        return bytes > 9999 ? (bytes >> 10) + "K" : Integer.toString(bytes);
    }
}
