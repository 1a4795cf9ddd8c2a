package org.lockstepdb.procedure;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/** Jars of the classes that these tests were compiled to. */
final class TestJars {
    private TestJars() {}

    /** All of package {@code user}, as a user's jar. */
    static byte[] user() {
        try {
            Path root = Path.of(TestJars.class.getProtectionDomain().getCodeSource().getLocation()
                    .toURI());
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (ZipOutputStream out = new ZipOutputStream(bytes);
                    Stream<Path> files = Files.walk(root.resolve("user"))) {
                for (Path file : files.filter(Files::isRegularFile).sorted().toList()) {
                    out.putNextEntry(new ZipEntry(root.relativize(file).toString()));
                    out.write(Files.readAllBytes(file));
                    out.closeEntry();
                }
                out.putNextEntry(new ZipEntry("settings.txt"));
                out.write("from the jar".getBytes());
            }
            return bytes.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (URISyntaxException e) {
            throw new IllegalStateException(e);
        }
    }

    static ClassSpace space() {
        try {
            return new ClassSpace(user());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
