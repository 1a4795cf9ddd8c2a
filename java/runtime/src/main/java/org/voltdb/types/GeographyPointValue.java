package org.voltdb.types;

import java.io.DataOutput;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.text.DecimalFormat;
import java.text.DecimalFormatSymbols;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A point on the earth: longitude and latitude in degrees. */
public class GeographyPointValue {
    /** Both coordinates of the point that stands for NULL. */
    static final double NULL_COORDINATE = 360.0;
    private static final int BYTES = 16;
    private static final String NUMBER = "([-+]?\\d*\\.?\\d+(?:[eE][-+]?\\d+)?)";
    private static final Pattern WKT = Pattern.compile(
            "\\s*POINT\\s*\\(\\s*" + NUMBER + "\\s+" + NUMBER + "\\s*\\)\\s*",
            Pattern.CASE_INSENSITIVE);

    private final double longitude;
    private final double latitude;

    /**
     * @param longitude -180 to 180
     * @param latitude -90 to 90
     */
    public GeographyPointValue(double longitude, double latitude) {
        // Written so that not-a-number fails as well.
        if (!(longitude >= -180.0 && longitude <= 180.0)) {
            throw new IllegalArgumentException("Longitude out of bounds: " + longitude);
        }
        if (!(latitude >= -90.0 && latitude <= 90.0)) {
            throw new IllegalArgumentException("Latitude out of bounds: " + latitude);
        }
        // No negative zeros, so that equal points have equal bytes.
        this.longitude = longitude + 0.0;
        this.latitude = latitude + 0.0;
    }

    /** A point from well-known text, {@code POINT(longitude latitude)}. */
    public static GeographyPointValue fromWKT(String text) {
        if (text == null) {
            throw new IllegalArgumentException(
                    "Null well known text argument to GeographyPointValue.fromWKT");
        }
        Matcher matcher = WKT.matcher(text);
        if (!matcher.matches()) {
            throw new IllegalArgumentException("Cannot construct GeographyPointValue value from"
                    + " '" + text + "'");
        }
        return new GeographyPointValue(Double.parseDouble(matcher.group(1)),
                Double.parseDouble(matcher.group(2)));
    }

    public double getLongitude() {
        return longitude;
    }

    public double getLatitude() {
        return latitude;
    }

    /** The coordinates as in well-known text. */
    String coordinates() {
        DecimalFormat format = new DecimalFormat("##0.0###########",
                DecimalFormatSymbols.getInstance(Locale.ROOT));
        return format.format(longitude) + " " + format.format(latitude);
    }

    /** Well-known text with at most twelve digits behind the point. */
    public String toWKT() {
        return "POINT (" + coordinates() + ")";
    }

    @Override
    public String toString() {
        return toWKT();
    }

    /** Longest text of a value, in characters. */
    public static int getValueDisplaySize() {
        return 42;
    }

    /** The longitude, one for all names of a place: the poles have many, and the date line two. */
    private double meridian() {
        if (Math.abs(latitude) == 90.0) {
            return 0.0;
        }
        return longitude == -180.0 ? 180.0 : longitude;
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof GeographyPointValue)) {
            return false;
        }
        GeographyPointValue point = (GeographyPointValue) other;
        return point.latitude == latitude && point.meridian() == meridian();
    }

    @Override
    public int hashCode() {
        return Double.hashCode(meridian()) * 31 + Double.hashCode(latitude);
    }

    /** Sixteen. */
    public static int getLengthInBytes() {
        return BYTES;
    }

    /** Writes the two coordinates. */
    public void flattenToBuffer(ByteBuffer buffer) {
        buffer.putDouble(longitude);
        buffer.putDouble(latitude);
    }

    /** Writes the two coordinates. */
    public void serialize(DataOutput out) throws IOException {
        out.writeDouble(longitude);
        out.writeDouble(latitude);
    }

    /** Reads the two coordinates at an offset; null for NULL. */
    public static GeographyPointValue unflattenFromBuffer(ByteBuffer buffer, int offset) {
        return of(buffer.getDouble(offset), buffer.getDouble(offset + 8));
    }

    /** Reads the two coordinates; null for NULL. */
    public static GeographyPointValue unflattenFromBuffer(ByteBuffer buffer) {
        return of(buffer.getDouble(), buffer.getDouble());
    }

    private static GeographyPointValue of(double longitude, double latitude) {
        if (longitude == NULL_COORDINATE && latitude == NULL_COORDINATE) {
            return null;
        }
        return new GeographyPointValue(longitude, latitude);
    }

    /** Writes the point that stands for NULL. */
    public static void serializeNull(ByteBuffer buffer) {
        buffer.putDouble(NULL_COORDINATE);
        buffer.putDouble(NULL_COORDINATE);
    }

    /** A point from coordinates beyond the range: longitude wraps, latitude goes over the pole. */
    public static GeographyPointValue normalizeLngLat(double longitude, double latitude) {
        double lat = Math.IEEEremainder(latitude, 360.0);
        double lng = longitude;
        if (lat > 90.0) {
            lat = 180.0 - lat;
            lng += 180.0;
        } else if (lat < -90.0) {
            lat = -180.0 - lat;
            lng += 180.0;
        }
        double meridian = Math.abs(lat) == 90.0 ? 0.0 : Math.IEEEremainder(lng, 360.0);
        return new GeographyPointValue(meridian, lat);
    }

    /** This point plus a multiple of another, by coordinates. */
    public GeographyPointValue add(GeographyPointValue offset, double scale) {
        return normalizeLngLat(longitude + offset.longitude * scale,
                latitude + offset.latitude * scale);
    }

    public GeographyPointValue add(GeographyPointValue offset) {
        return add(offset, 1.0);
    }

    public GeographyPointValue sub(GeographyPointValue offset) {
        return add(offset, -1.0);
    }

    public GeographyPointValue sub(GeographyPointValue offset, double scale) {
        return add(offset, -scale);
    }

    /** Both coordinates times a factor. */
    public GeographyPointValue mul(double factor) {
        return normalizeLngLat(longitude * factor, latitude * factor);
    }

    /** This point turned about a centre, in the plane of the coordinates. */
    public GeographyPointValue rotate(double degrees, GeographyPointValue centre) {
        double sine = Math.sin(Math.toRadians(degrees));
        double cosine = Math.cos(Math.toRadians(degrees));
        double x = longitude - centre.longitude;
        double y = latitude - centre.latitude;
        return normalizeLngLat(cosine * x - sine * y + centre.longitude,
                sine * x + cosine * y + centre.latitude);
    }

    /** This point moved away from a centre by a factor. */
    public GeographyPointValue scale(GeographyPointValue centre, double factor) {
        return normalizeLngLat(factor * (longitude - centre.longitude) + centre.longitude,
                factor * (latitude - centre.latitude) + centre.latitude);
    }
}
