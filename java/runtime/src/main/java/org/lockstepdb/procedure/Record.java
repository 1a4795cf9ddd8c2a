package org.lockstepdb.procedure;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** Bytes for the host, where speed does not matter. */
final class Record {
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

    Record putByte(int value) {
        bytes.write(value);
        return this;
    }

    Record putShort(int value) {
        return putByte(value >> 8).putByte(value);
    }

    Record putInt(int value) {
        return putShort(value >> 16).putShort(value);
    }

    Record putString(String value) {
        if (value == null) {
            return putInt(-1);
        }
        byte[] text = value.getBytes(StandardCharsets.UTF_8);
        putInt(text.length);
        bytes.writeBytes(text);
        return this;
    }

    byte[] toBytes() {
        return bytes.toByteArray();
    }
}
