package org.lockstepdb.procedure;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import org.voltdb.VoltTypeException;

/** Big-endian numbers in byte arrays, and bytes as hexadecimal text. */
public final class Bytes {
    private static final VarHandle SHORT =
            MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.BIG_ENDIAN);
    private static final VarHandle INT =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);
    private static final VarHandle LONG =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);
    private static final char[] DIGITS = "0123456789ABCDEF".toCharArray();

    private Bytes() {}

    public static short getShort(byte[] data, int offset) {
        return (short) SHORT.get(data, offset);
    }

    public static int getInt(byte[] data, int offset) {
        return (int) INT.get(data, offset);
    }

    public static long getLong(byte[] data, int offset) {
        return (long) LONG.get(data, offset);
    }

    public static double getDouble(byte[] data, int offset) {
        return Double.longBitsToDouble(getLong(data, offset));
    }

    public static void putShort(byte[] data, int offset, short value) {
        SHORT.set(data, offset, value);
    }

    public static void putInt(byte[] data, int offset, int value) {
        INT.set(data, offset, value);
    }

    public static void putLong(byte[] data, int offset, long value) {
        LONG.set(data, offset, value);
    }

    /** Upper-case digits, two a byte. */
    public static String hex(byte[] data) {
        return hex(data, 0, data.length);
    }

    /** Upper-case digits of a part of an array. */
    public static String hex(byte[] data, int offset, int length) {
        char[] text = new char[length * 2];
        for (int i = 0; i < length; i++) {
            text[2 * i] = DIGITS[(data[offset + i] >> 4) & 15];
            text[2 * i + 1] = DIGITS[data[offset + i] & 15];
        }
        return new String(text);
    }

    /** The bytes that digits spell. */
    public static byte[] unhex(String text) {
        if (text.length() % 2 != 0) {
            throw new VoltTypeException("hex string has an odd number of digits: " + shorten(text));
        }
        byte[] data = new byte[text.length() / 2];
        for (int i = 0; i < data.length; i++) {
            int high = Character.digit(text.charAt(2 * i), 16);
            int low = Character.digit(text.charAt(2 * i + 1), 16);
            if (high < 0 || low < 0) {
                throw new VoltTypeException("not a hex digit in: " + shorten(text));
            }
            data[i] = (byte) (high << 4 | low);
        }
        return data;
    }

    private static String shorten(String text) {
        return text.length() > 40 ? text.substring(0, 40) + "..." : text;
    }
}
