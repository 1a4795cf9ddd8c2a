package org.voltdb.types;

import java.text.SimpleDateFormat;
import java.util.Calendar;
import java.util.Date;
import java.util.GregorianCalendar;
import java.util.Locale;
import java.util.TimeZone;
import org.json_voltpatches.JSONString;

/** A point in time in microseconds since 1970-01-01 UTC. */
public class TimestampType implements JSONString, Comparable<TimestampType> {
    private static final int FRACTION_DIGITS = 6;
    private final long micros;

    /** The present, to the millisecond. */
    public TimestampType() {
        this(System.currentTimeMillis() * 1000);
    }

    public TimestampType(long timestamp) {
        micros = timestamp;
    }

    /** A date; a {@link java.sql.Timestamp} keeps its microseconds. */
    public TimestampType(Date date) {
        long fraction = 0;
        if (date instanceof java.sql.Timestamp) {
            fraction = ((java.sql.Timestamp) date).getNanos() / 1000 % 1000;
        }
        micros = Math.multiplyExact(date.getTime(), 1000L) + fraction;
    }

    /**
     * @param text a date with an optional time, {@code YYYY-MM-DD[ hh:mm:ss[.ffffff]]}, in the
     *     default time zone
     */
    public TimestampType(String text) {
        micros = parse(text);
    }

    private static long parse(String text) {
        String trimmed = text.trim();
        String time = "";
        String date = trimmed;
        int space = trimmed.indexOf(' ');
        if (space >= 0) {
            date = trimmed.substring(0, space);
            time = trimmed.substring(space + 1);
        }
        String fraction = "";
        int point = time.indexOf('.');
        if (point >= 0) {
            fraction = time.substring(point + 1);
            time = time.substring(0, point);
        }
        int[] day = numbers(date, "-", text);
        int[] clock = space < 0 ? new int[3] : numbers(time, ":", text);
        boolean inRange = day[1] >= 1 && day[1] <= 12 && day[2] >= 1 && day[2] <= 31
                && clock[0] <= 23 && clock[1] <= 59 && clock[2] <= 59;
        if (!inRange || (point >= 0 && !fraction.matches("\\d{1,9}"))) {
            throw bad(text);
        }
        if (fraction.length() > FRACTION_DIGITS
                && !fraction.substring(FRACTION_DIGITS).matches("0+")) {
            throw new IllegalArgumentException(
                    "Can't convert from String to TimestampType with fractional microseconds");
        }
        Calendar calendar = new GregorianCalendar();
        calendar.clear();
        // The 30th of February is the 1st or 2nd of March.
        calendar.set(day[0], day[1] - 1, day[2], clock[0], clock[1], clock[2]);
        long millis = calendar.getTimeInMillis();
        StringBuilder digits = new StringBuilder(fraction);
        while (digits.length() < FRACTION_DIGITS) {
            digits.append('0');
        }
        return millis * 1000 + Long.parseLong(digits.substring(0, FRACTION_DIGITS));
    }

    private static int[] numbers(String text, String separator, String whole) {
        String[] parts = text.split(separator, -1);
        if (parts.length != 3) {
            throw bad(whole);
        }
        int[] numbers = new int[3];
        for (int i = 0; i < 3; i++) {
            if (!parts[i].matches("\\d{1,4}")) {
                throw bad(whole);
            }
            numbers[i] = Integer.parseInt(parts[i]);
        }
        return numbers;
    }

    private static IllegalArgumentException bad(String text) {
        return new IllegalArgumentException("Timestamp format must be "
                + "yyyy-mm-dd hh:mm:ss[.fffffffff], not '" + text + "'");
    }

    /** Milliseconds since 1970 of a text as the constructor takes it. */
    public static long millisFromJDBCformat(String text) {
        return Math.floorDiv(new TimestampType(text).micros, 1000L);
    }

    /** Microseconds since 1970. */
    public long getTime() {
        return micros;
    }

    /** The microseconds beyond whole milliseconds, 0 to 999. */
    public short getUSec() {
        return (short) Math.floorMod(micros, 1000L);
    }

    /** The date, cut to milliseconds. */
    public Date asApproximateJavaDate() {
        return new Date(Math.floorDiv(micros, 1000L));
    }

    /** The date; fails if that would lose microseconds. */
    public Date asExactJavaDate() {
        return new Date(exactMillis());
    }

    /** The SQL date; fails if that would lose microseconds. */
    public java.sql.Date asExactJavaSqlDate() {
        return new java.sql.Date(exactMillis());
    }

    private long exactMillis() {
        if (getUSec() != 0) {
            throw new RuntimeException(
                    "Can't convert to java Date from TimestampType with fractional milliseconds");
        }
        return Math.floorDiv(micros, 1000L);
    }

    /** The SQL timestamp, with microseconds. */
    public java.sql.Timestamp asJavaTimestamp() {
        java.sql.Timestamp timestamp = new java.sql.Timestamp(Math.floorDiv(micros, 1000L));
        timestamp.setNanos((int) Math.floorMod(micros, 1_000_000L) * 1000);
        return timestamp;
    }

    /** With six digits of seconds, in the default time zone. */
    @Override
    public String toString() {
        return toString(TimeZone.getDefault());
    }

    /** With six digits of seconds, in a time zone. */
    public String toString(TimeZone zone) {
        SimpleDateFormat format = new SimpleDateFormat("yyyy-MM-dd HH:mm:ss", Locale.ROOT);
        format.setTimeZone(zone);
        String seconds = format.format(new Date(Math.floorDiv(micros, 1000L)));
        return seconds + String.format(Locale.ROOT, ".%06d", Math.floorMod(micros, 1_000_000L));
    }

    @Override
    public String toJSONString() {
        return Long.toString(micros);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof TimestampType && ((TimestampType) other).micros == micros;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(micros);
    }

    @Override
    public int compareTo(TimestampType other) {
        return Long.compare(micros, other.micros);
    }
}
