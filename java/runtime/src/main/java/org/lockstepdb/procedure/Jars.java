package org.lockstepdb.procedure;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import java.util.zip.ZipOutputStream;

/** Jars in memory. */
public final class Jars {
    /** All that a jar may hold, in bytes, when unpacked. */
    private static final long MAX_BYTES = 512L << 20;

    private Jars() {}

    /** The files of a jar that a user gave. */
    static Map<String, byte[]> read(byte[] jar) throws IOException {
        Map<String, byte[]> entries = readMerged(jar);
        if (entries.isEmpty()) {
            throw new IOException("not a jar, or an empty one");
        }
        return entries;
    }

    /** The files of a jar that {@link #merge} made: none, once all classes are removed. */
    static Map<String, byte[]> readMerged(byte[] jar) throws IOException {
        Map<String, byte[]> entries = new TreeMap<>();
        long total = 0;
        try (ZipInputStream in = new ZipInputStream(new ByteArrayInputStream(jar))) {
            for (ZipEntry entry = in.getNextEntry(); entry != null; entry = in.getNextEntry()) {
                if (entry.isDirectory()) {
                    continue;
                }
                byte[] data = in.readNBytes((int) Math.min(MAX_BYTES - total + 1,
                        Integer.MAX_VALUE - 8));
                total += data.length;
                if (total > MAX_BYTES) {
                    throw new IOException("the jar holds more than " + MAX_BYTES + " bytes");
                }
                entries.put(entry.getName(), data);
            }
        } catch (IllegalArgumentException e) {
            throw new IOException("the jar is damaged: " + e.getMessage(), e);
        }
        return entries;
    }

    /**
     * The jar that is in force after a change: what is present, without the classes that match,
     * under what is added. The same arguments give the same bytes.
     *
     * @param present null if there is none
     * @param added null if nothing is
     * @param removePatterns class names divided by commas, {@code *} for a part of a name without
     *     a dot and {@code **} for any part; null for none
     */
    public static byte[] merge(byte[] present, byte[] added, String removePatterns)
            throws IOException {
        Map<String, byte[]> entries = present == null ? new TreeMap<>() : readMerged(present);
        if (removePatterns != null) {
            for (String pattern : removePatterns.split(",")) {
                Pattern regex = regex(pattern.trim());
                entries.keySet().removeIf(name -> regex.matcher(name).matches());
            }
        }
        if (added != null) {
            entries.putAll(read(added));
        }
        return write(entries);
    }

    private static Pattern regex(String pattern) {
        StringBuilder regex = new StringBuilder();
        for (int i = 0; i < pattern.length(); i++) {
            char c = pattern.charAt(i);
            if (c == '*') {
                boolean twice = i + 1 < pattern.length() && pattern.charAt(i + 1) == '*';
                regex.append(twice ? ".*" : "[^/]*");
                i += twice ? 1 : 0;
            } else {
                regex.append(Pattern.quote(String.valueOf(c == '.' ? '/' : c)));
            }
        }
        // Nested classes go with their outermost one.
        return Pattern.compile(regex + "(\\$.*)?\\.class");
    }

    private static byte[] write(Map<String, byte[]> entries) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ZipOutputStream out = new ZipOutputStream(bytes)) {
            for (Map.Entry<String, byte[]> entry : entries.entrySet()) {
                ZipEntry head = new ZipEntry(entry.getKey());
                head.setTimeLocal(java.time.LocalDateTime.of(1980, 1, 1, 0, 0));
                out.putNextEntry(head);
                out.write(entry.getValue());
                out.closeEntry();
            }
        }
        return bytes.toByteArray();
    }
}
