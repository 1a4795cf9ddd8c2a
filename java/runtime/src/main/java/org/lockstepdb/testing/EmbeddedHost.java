package org.lockstepdb.testing;

import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import org.lockstepdb.procedure.Wire;
import org.voltdb.client.ClientResponse;

/**
 * A host of its own for a test: starts with the test and is gone with it. Its data is in memory.
 *
 * <pre>{@code
 * try (EmbeddedHost host = EmbeddedHost.start()) {
 *     host.sql("CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id;");
 *     host.loadClasses(MyProcedure.class);
 *     host.sql("CREATE PROCEDURE PARTITION ON TABLE t COLUMN id FROM CLASS app.MyProcedure;");
 *     ClientResponse response = host.call("MyProcedure", 5L);
 * }
 * }</pre>
 *
 * The program is the one that the environment variable {@code LOCKSTEP_BINARY} or the system
 * property {@code lockstep.binary} names, or {@code lockstep} on the path. Tests for more than one
 * connection use VoltDB's client and {@link #port}.
 */
public final class EmbeddedHost implements AutoCloseable {
    private static final String READY = "lockstep: ready on ";
    private static final int START_TIMEOUT_MS = 30_000;
    private static final int STOP_TIMEOUT_SECONDS = 10;

    private final Process process;
    private final StringBuilder output = new StringBuilder();
    private final int port;
    private final Socket socket;
    private final DataInputStream in;
    private final DataOutputStream out;
    private long handle;

    private EmbeddedHost(int sites, List<String> options) throws IOException {
        List<String> command = new ArrayList<>(List.of(program(), "start", "--sites",
                String.valueOf(sites), "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"));
        for (String option : options) {
            command.add("--option");
            command.add(option);
        }
        process = new ProcessBuilder(command).redirectErrorStream(true).start();
        try {
            process.getOutputStream().close();
            port = awaitReady();
            socket = new Socket("127.0.0.1", port);
            socket.setTcpNoDelay(true);
            in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
            out = new DataOutputStream(socket.getOutputStream());
            Wire.logIn(in, out);
        } catch (IOException | RuntimeException e) {
            process.destroyForcibly();
            throw e;
        }
    }

    private static String program() {
        String named = System.getProperty("lockstep.binary", System.getenv("LOCKSTEP_BINARY"));
        return named == null ? "lockstep" : named;
    }

    /** Starts a host with one site. */
    public static EmbeddedHost start() throws IOException {
        return start(1);
    }

    /**
     * Starts a host.
     *
     * @param sites how many partitions it has
     * @param options as for {@code lockstep start --option}: {@code name=value}
     */
    public static EmbeddedHost start(int sites, String... options) throws IOException {
        return new EmbeddedHost(sites, List.of(options));
    }

    private int awaitReady() throws IOException {
        BufferedReader reader = new BufferedReader(
                new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        CompletableFuture<Integer> ready = new CompletableFuture<>();
        Thread thread = new Thread(() -> read(reader, ready), "host output");
        thread.setDaemon(true);
        thread.start();
        try {
            return ready.get(START_TIMEOUT_MS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while the host started");
        } catch (ExecutionException | TimeoutException e) {
            throw new IOException("the host did not start:\n" + output());
        }
    }

    private void read(BufferedReader reader, CompletableFuture<Integer> ready) {
        try {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                synchronized (output) {
                    output.append(line).append('\n');
                }
                if (line.startsWith(READY)) {
                    String address = line.substring(READY.length()).trim();
                    ready.complete(Integer.valueOf(
                            address.substring(address.lastIndexOf(':') + 1)));
                }
            }
            ready.completeExceptionally(new IOException("the host ended"));
        } catch (IOException | RuntimeException e) {
            ready.completeExceptionally(e);
        }
    }

    /** What the host has printed. */
    public String output() {
        synchronized (output) {
            return output.toString();
        }
    }

    /** Where clients connect, on the loopback address. */
    public int port() {
        return port;
    }

    /** Calls a procedure and waits for its answer, whatever that is. */
    public synchronized ClientResponse call(String procedure, Object... parameters)
            throws IOException {
        return Wire.call(in, out, ++handle, procedure, parameters);
    }

    /** Runs statements or DDL; fails if they do. */
    public ClientResponse sql(String statements, Object... parameters) throws IOException {
        Object[] all = new Object[parameters.length + 1];
        all[0] = statements;
        System.arraycopy(parameters, 0, all, 1, parameters.length);
        return succeeded(call("@AdHoc", all), statements);
    }

    /** Loads classes as {@code LOAD CLASSES} does, with those nested in them. */
    public void loadClasses(Class<?>... classes) throws IOException {
        loadJar(jar(classes));
    }

    /** Loads the jar of a file. */
    public void loadJar(Path file) throws IOException {
        loadJar(Files.readAllBytes(file));
    }

    /** Loads a jar. */
    public void loadJar(byte[] jar) throws IOException {
        succeeded(call("@UpdateClasses", jar, null), "@UpdateClasses");
    }

    private static ClientResponse succeeded(ClientResponse response, String what)
            throws IOException {
        if (response.getStatus() != ClientResponse.SUCCESS) {
            throw new IOException(what + " failed: " + response.getStatusString());
        }
        return response;
    }

    private static byte[] jar(Class<?>... classes) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (JarOutputStream jar = new JarOutputStream(bytes)) {
            List<Class<?>> left = new ArrayList<>(List.of(classes));
            for (int i = 0; i < left.size(); i++) {
                Class<?> one = left.get(i);
                left.addAll(List.of(one.getDeclaredClasses()));
                addWithAnonymous(jar, one);
            }
        }
        return bytes.toByteArray();
    }

    /** Adds a class and the classes without a name in it, which are numbered from 1. */
    private static void addWithAnonymous(JarOutputStream jar, Class<?> one) throws IOException {
        String name = one.getName().replace('.', '/');
        if (!add(jar, one, name)) {
            throw new IOException("the bytes of " + one + " cannot be found");
        }
        for (int i = 1; add(jar, one, name + "$" + i); i++) {
            continue;
        }
    }

    private static boolean add(JarOutputStream jar, Class<?> near, String name)
            throws IOException {
        try (InputStream code = near.getResourceAsStream("/" + name + ".class")) {
            if (code == null) {
                return false;
            }
            jar.putNextEntry(new JarEntry(name + ".class"));
            code.transferTo(jar);
            jar.closeEntry();
            return true;
        }
    }

    /** Ends the host. */
    @Override
    public void close() throws IOException {
        socket.close();
        process.destroy();
        try {
            if (!process.waitFor(STOP_TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
