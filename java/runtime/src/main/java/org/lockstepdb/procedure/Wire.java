package org.lockstepdb.procedure;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import org.voltdb.client.ClientResponse;

/** VoltDB's protocol as a client speaks it, one call at a time: for tests of procedures. */
public final class Wire {
    private static final int MAX_MESSAGE_BYTES = 52_428_800;

    private Wire() {}

    /** Logs in without a name. */
    public static void logIn(DataInputStream in, DataOutputStream out) throws IOException {
        byte[] digest;
        try {
            digest = MessageDigest.getInstance("SHA-256").digest(new byte[0]);
        } catch (NoSuchAlgorithmException e) {
            throw new IOException("this JVM has no SHA-256", e);
        }
        byte[] service = "database".getBytes(StandardCharsets.US_ASCII);
        ByteBuffer message = ByteBuffer.allocate(4 + 2 + 4 + service.length + 4 + digest.length);
        message.putInt(message.capacity() - 4).put((byte) 1).put((byte) 1);
        message.putInt(service.length).put(service).putInt(0).put(digest);
        out.write(message.array());
        byte[] answer = read(in);
        if (answer.length < 2 || answer[1] != 0) {
            throw new IOException("the host refused the login");
        }
    }

    /** Calls a procedure and waits for the answer. */
    public static ClientResponse call(DataInputStream in, DataOutputStream out, long handle,
            String procedure, Object... parameters) throws IOException {
        byte[] name = procedure.getBytes(StandardCharsets.UTF_8);
        byte[] set = parameters == null ? HeapEngine.parameterSet((Object) null)
                : HeapEngine.parameterSet(parameters);
        ByteBuffer message = ByteBuffer.allocate(4 + 1 + 4 + name.length + 8 + set.length);
        message.putInt(message.capacity() - 4).put((byte) 0).putInt(name.length).put(name);
        message.putLong(handle).put(set);
        long began = System.nanoTime();
        out.write(message.array());
        return new Response(ByteBuffer.wrap(read(in)), System.nanoTime() - began);
    }

    private static byte[] read(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length <= 0 || length > MAX_MESSAGE_BYTES) {
            throw new IOException("a message of " + length + " bytes");
        }
        byte[] message = new byte[length];
        in.readFully(message);
        return message;
    }
}
