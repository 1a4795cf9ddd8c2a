package org.voltdb.types;

import java.io.DataOutput;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;

/** A polygon on the earth: an outer ring, counter-clockwise, and holes, clockwise; all closed. */
public class GeographyValue {
    public static final int DEFAULT_LENGTH = 32768;
    public static final int MIN_SERIALIZED_LENGTH = 155;
    public static final int MAX_SERIALIZED_LENGTH = 1 << 20;
    /** Bytes of a polygon without loops, and of a loop without vertices. */
    private static final int POLYGON_BYTES = 40;
    private static final int LOOP_BYTES = 43;
    private static final int VERTEX_BYTES = 24;
    private static final int BOUND_BYTES = 33;
    private static final double UNSET = 360.0;
    private static final String IMPROPER = "Improperly formatted WKT for polygon: ";

    /** Rings as the user gave them: closed, holes clockwise. */
    private final List<List<GeographyPointValue>> rings;

    public GeographyValue(List<List<GeographyPointValue>> rings) {
        if (rings == null || rings.isEmpty()) {
            throw new IllegalArgumentException("GeographyValue must have at least one ring");
        }
        List<List<GeographyPointValue>> copy = new ArrayList<>();
        for (List<GeographyPointValue> ring : rings) {
            if (ring.size() < 4) {
                throw new IllegalArgumentException(
                        IMPROPER + "a polygon ring must contain at least 4 points"
                        + " (including repeated closing vertex)");
            }
            if (!ring.get(0).equals(ring.get(ring.size() - 1))) {
                throw new IllegalArgumentException(IMPROPER
                        + "closing points of ring are not equal: \"" + ring.get(0)
                        + "\" != \"" + ring.get(ring.size() - 1) + "\"");
            }
            copy.add(Collections.unmodifiableList(new ArrayList<>(ring)));
        }
        this.rings = Collections.unmodifiableList(copy);
    }

    /** A polygon from well-known text, {@code POLYGON((lng lat, ...), (...))}. */
    public GeographyValue(String text) {
        this(parse(text));
    }

    /** See the constructor from text. */
    public static GeographyValue fromWKT(String text) {
        return new GeographyValue(text);
    }

    private static List<List<GeographyPointValue>> parse(String text) {
        if (text == null) {
            throw new IllegalArgumentException("Argument to GeographyValue WKT constructor was"
                    + " null");
        }
        String rest = text.trim();
        if (!rest.toUpperCase(Locale.ROOT).startsWith("POLYGON")) {
            throw bad(text);
        }
        rest = rest.substring("POLYGON".length()).trim();
        if (!rest.startsWith("(") || !rest.endsWith(")")) {
            throw bad(text);
        }
        rest = rest.substring(1, rest.length() - 1).trim();
        List<List<GeographyPointValue>> rings = new ArrayList<>();
        while (true) {
            int close = rest.indexOf(')');
            if (!rest.startsWith("(") || close < 0) {
                throw bad(text);
            }
            List<GeographyPointValue> ring = new ArrayList<>();
            for (String vertex : rest.substring(1, close).split(",", -1)) {
                String[] numbers = vertex.trim().split("\\s+");
                if (numbers.length != 2) {
                    throw bad(text);
                }
                try {
                    ring.add(new GeographyPointValue(Double.parseDouble(numbers[0]),
                            Double.parseDouble(numbers[1])));
                } catch (NumberFormatException e) {
                    throw bad(text);
                }
            }
            rings.add(ring);
            rest = rest.substring(close + 1).trim();
            if (rest.isEmpty()) {
                return rings;
            }
            if (!rest.startsWith(",")) {
                throw bad(text);
            }
            rest = rest.substring(1).trim();
        }
    }

    private static IllegalArgumentException bad(String text) {
        String shown = text.length() > 100 ? text.substring(0, 100) + "..." : text;
        return new IllegalArgumentException(IMPROPER
                + "expected POLYGON, rings and vertices, not " + shown);
    }

    /** The rings, closed, the outer first. */
    public List<List<GeographyPointValue>> getRings() {
        return rings;
    }

    public String toWKT() {
        StringBuilder text = new StringBuilder("POLYGON (");
        String ringSeparator = "";
        for (List<GeographyPointValue> ring : rings) {
            text.append(ringSeparator).append('(');
            String separator = "";
            for (GeographyPointValue point : ring) {
                text.append(separator).append(point.coordinates());
                separator = ", ";
            }
            text.append(')');
            ringSeparator = ", ";
        }
        return text.append(')').toString();
    }

    @Override
    public String toString() {
        return toWKT();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof GeographyValue && ((GeographyValue) other).rings.equals(rings);
    }

    @Override
    public int hashCode() {
        return rings.hashCode();
    }

    /** Length in the wire form. */
    public int getLengthInBytes() {
        int length = POLYGON_BYTES;
        for (List<GeographyPointValue> ring : rings) {
            length += LOOP_BYTES + VERTEX_BYTES * (ring.size() - 1);
        }
        return length;
    }

    /** Longest text of a column of so many bytes, in characters. */
    public static int getValueDisplaySize(int columnBytes) {
        if (columnBytes < MIN_SERIALIZED_LENGTH || columnBytes > MAX_SERIALIZED_LENGTH) {
            throw new IllegalArgumentException("Cannot compute max display size for a GEOGRAPHY"
                    + " value of size " + columnBytes + " bytes");
        }
        int vertices = (columnBytes - POLYGON_BYTES - LOOP_BYTES) / VERTEX_BYTES;
        return "POLYGON (())".length() + vertices * 36;
    }

    /** Writes the wire form; bounds are left for the server to fill in. */
    public void flattenToBuffer(ByteBuffer buffer) {
        buffer.put((byte) 0);
        buffer.put((byte) 1);
        buffer.put((byte) (rings.size() > 1 ? 1 : 0));
        buffer.putInt(rings.size());
        for (int number = 0; number < rings.size(); number++) {
            List<GeographyPointValue> ring = rings.get(number);
            buffer.put((byte) 0);
            int vertices = ring.size() - 1;
            buffer.putInt(vertices);
            for (int i = 0; i < vertices; i++) {
                // Loops are kept counter-clockwise: holes are turned about their first vertex.
                GeographyPointValue point = ring.get(number == 0 || i == 0 ? i : vertices - i);
                double longitude = Math.toRadians(point.getLongitude());
                double latitude = Math.toRadians(point.getLatitude());
                double radius = Math.cos(latitude);
                buffer.putDouble(Math.cos(longitude) * radius);
                buffer.putDouble(Math.sin(longitude) * radius);
                buffer.putDouble(Math.sin(latitude));
            }
            buffer.put((byte) 0);
            buffer.putInt(number == 0 ? 0 : 1);
            putBound(buffer);
        }
        putBound(buffer);
    }

    private static void putBound(ByteBuffer buffer) {
        buffer.put((byte) 0);
        for (int i = 0; i < 4; i++) {
            buffer.putDouble(UNSET);
        }
    }

    /** Writes the wire form. */
    public void serialize(DataOutput out) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(getLengthInBytes());
        flattenToBuffer(buffer);
        out.write(buffer.array());
    }

    /** Reads the wire form at an offset. */
    public static GeographyValue unflattenFromBuffer(ByteBuffer buffer, int offset) {
        ByteBuffer there = buffer.duplicate();
        there.position(offset);
        return unflattenFromBuffer(there);
    }

    /** Reads the wire form. */
    public static GeographyValue unflattenFromBuffer(ByteBuffer buffer) {
        byte version = buffer.get();
        if (version != 0 && version != 1) {
            throw new IllegalArgumentException("unknown version of a polygon: " + version);
        }
        buffer.get();
        buffer.get();
        int loops = buffer.getInt();
        List<List<GeographyPointValue>> rings = new ArrayList<>();
        for (int number = 0; number < loops; number++) {
            buffer.get();
            int vertices = buffer.getInt();
            if (vertices < 0 || (long) vertices * VERTEX_BYTES > buffer.remaining()) {
                throw new IllegalArgumentException("a polygon's ring has " + vertices
                        + " vertices, more than its bytes");
            }
            List<GeographyPointValue> ring = new ArrayList<>(vertices + 1);
            for (int i = 0; i < vertices; i++) {
                ring.add(point(buffer.getDouble(), buffer.getDouble(), buffer.getDouble()));
            }
            if (number > 0 && vertices > 0) {
                Collections.reverse(ring.subList(1, vertices));
            }
            ring.add(ring.get(0));
            rings.add(ring);
            buffer.position(buffer.position() + 5 + BOUND_BYTES);
        }
        buffer.position(buffer.position() + BOUND_BYTES);
        return new GeographyValue(rings);
    }

    private static GeographyPointValue point(double x, double y, double z) {
        double latitude = Math.atan2(z, Math.sqrt(x * x + y * y));
        double longitude = Math.atan2(y, x);
        return new GeographyPointValue(Math.toDegrees(longitude), Math.toDegrees(latitude));
    }

    /** The polygon moved by a point's coordinates. */
    public GeographyValue add(GeographyPointValue offset) {
        List<List<GeographyPointValue>> moved = new ArrayList<>();
        for (List<GeographyPointValue> ring : rings) {
            List<GeographyPointValue> points = new ArrayList<>();
            for (GeographyPointValue point : ring) {
                points.add(point.add(offset));
            }
            moved.add(points);
        }
        return new GeographyValue(moved);
    }
}
