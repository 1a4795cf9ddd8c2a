// Load through VoltDB's unmodified Java clients: what each call did, a line each. Arguments and
// lines are those of python_driver.py and history.py.

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.voltdb.VoltTable;
import org.voltdb.client.Client;
import org.voltdb.client.Client2;
import org.voltdb.client.Client2Config;
import org.voltdb.client.ClientConfig;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.NoConnectionsException;
import org.voltdb.client.ProcCallException;

/** Drives a cluster through `Client` or `Client2`, which gets one address and learns the others. */
public final class FailoverDriver {
    private static final long LIMIT_S = 10;
    private static final int KEYS = 5;
    private static final int GROUPS = 4;
    private static final int PARTS = 3;
    private static final int REGISTERS_OF_PART = 2;
    private static final long STRIDE = 1_000_000;
    private static final PrintStream OUT = new PrintStream(System.out, false);

    private interface Calls {
        ClientResponse call(String procedure, Object... values) throws Exception;
    }

    private final Calls client;
    private final String mode;
    private final AtomicLongArray tried;
    private final int workers;
    private volatile boolean stopped;

    private FailoverDriver(Calls client, String mode, int workers) {
        this.client = client;
        this.mode = mode;
        this.workers = workers;
        this.tried = new AtomicLongArray(workers);
    }

    public static void main(String[] arguments) throws Exception {
        int workers = Integer.parseInt(arguments[2]);
        Calls client = arguments[0].equals("client2") ? second(arguments[3]) : first(arguments[3]);
        FailoverDriver driver = new FailoverDriver(client, arguments[1], workers);
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < workers; number++) {
            int worker = number;
            threads.add(new Thread(() -> driver.work(worker)));
            threads.get(worker).start();
        }
        while (System.in.read() >= 0) {
            continue;
        }
        driver.stopped = true;
        for (Thread thread : threads) {
            thread.join(2_000 * LIMIT_S);
        }
        OUT.flush();
        Runtime.getRuntime().halt(0);
    }

    private void work(int worker) {
        switch (mode) {
            case "load" -> load(worker);
            case "registers" -> registers(worker);
            default -> transactions(worker);
        }
    }

    private static Calls first(String address) throws Exception {
        ClientConfig config = new ClientConfig();
        config.setTopologyChangeAware(true);
        config.setProcedureCallTimeout(1_000 * LIMIT_S);
        Client client = ClientFactory.createClient(config);
        client.createConnection(address);
        return client::callProcedure;
    }

    private static Calls second(String address) throws Exception {
        Client2Config config = new Client2Config()
                .procedureCallTimeout(LIMIT_S, TimeUnit.SECONDS);
        Client2 client = ClientFactory.createClient(config);
        String[] parts = address.split(":");
        client.connectSync(parts[0], Integer.parseInt(parts[1]));
        return client::callProcedureSync;
    }

    /** One call and its line; the value that came back, or null where it failed. */
    private Long call(int worker, String operation, String procedure, long key, long argument,
            long old, Object... values) {
        return call(worker, operation, procedure, key, argument, old, "-", values);
    }

    private Long call(int worker, String operation, String procedure, long key, long argument,
            long old, String steps, Object[] values) {
        String status;
        String text = null;
        List<Long> rows = List.of();
        long begin = System.nanoTime() / 1000;
        try {
            ClientResponse answer = client.call(procedure, values);
            status = Byte.toString(answer.getStatus());
            text = answer.getStatusString();
            VoltTable[] tables = answer.getResults();
            if (answer.getStatus() == ClientResponse.SUCCESS && tables.length > 0) {
                rows = firstColumn(tables[0]);
            }
        } catch (ProcCallException failure) {
            ClientResponse answer = failure.getClientResponse();
            // The first client gives a call that it timed out this status, with this text.
            boolean late = answer.getStatus() == ClientResponse.CONNECTION_TIMEOUT;
            status = late ? "late" : Byte.toString(answer.getStatus());
            text = answer.getStatusString();
        } catch (NoConnectionsException failure) {
            status = "-14";
            text = failure.toString();
        } catch (Exception failure) {
            status = "lost";
            text = failure.toString();
        }
        long end = System.nanoTime() / 1000;
        String said = text == null || text.isBlank() ? "-" : text.trim().replaceAll("\\s+", " ");
        if (mode.equals("transactions")) {
            said = steps + " " + joined(rows) + " " + said;
        }
        long value = rows.isEmpty() ? -1 : rows.get(0);
        synchronized (OUT) {
            OUT.println(worker + " " + operation + " " + key + " " + argument + " " + old + " "
                    + status + " " + value + " " + begin + " " + end + " " + said);
            OUT.flush();
        }
        if (status.equals("1")) {
            return value;
        }
        pause();
        return null;
    }

    private static List<Long> firstColumn(VoltTable table) {
        List<Long> rows = new ArrayList<>();
        while (table.advanceRow()) {
            rows.add(table.getLong(0));
        }
        return rows;
    }

    private static String joined(List<Long> rows) {
        String word = rows.stream().map(String::valueOf).collect(Collectors.joining(","));
        return word.isEmpty() ? "-" : word;
    }

    /** Spares a machine whose cluster is electing. */
    private static void pause() {
        try {
            Thread.sleep(10);
        } catch (InterruptedException nobodyDoes) {
            Thread.currentThread().interrupt();
        }
    }

    private void load(int worker) {
        List<Long> known = new ArrayList<>();
        for (long count = 1; !stopped; count++) {
            long key = worker * STRIDE + count;
            int turn = (int) (count % 8);
            if (turn == 0) {
                call(worker, "bump", "bump", 0, 0, 0);
            } else if (turn == 4) {
                call(worker, "note", "note", key, 0, 0, key);
            } else if ((turn == 1 || turn == 5) && !known.isEmpty()) {
                int at = ThreadLocalRandom.current().nextInt(known.size());
                key = known.get(turn == 1 ? known.size() - 1 : at);
                call(worker, "read", "find", key, 0, 0, key);
            } else if (turn == 3 || turn == 7) {
                key = tried.get((worker + 1) % workers);
                call(worker, "peek", "find", key, 0, 0, key);
            } else {
                tried.set(worker, key);
                if (call(worker, "insert", "add_one", key, 0, 0, key) != null) {
                    known.add(key);
                }
            }
        }
    }

    private void registers(int worker) {
        long[] seen = new long[KEYS];
        for (long count = 1; !stopped; count++) {
            int key = ThreadLocalRandom.current().nextInt(KEYS);
            int kind = ThreadLocalRandom.current().nextInt(4);
            long fresh = worker * STRIDE + count;
            if (kind < 2) {
                Long value = call(worker, "get", "get_one", key, 0, 0, key);
                seen[key] = value == null ? seen[key] : value;
            } else if (kind == 2) {
                call(worker, "put", "put_one", key, fresh, 0, fresh, key);
            } else {
                call(worker, "cas", "cas_one", key, fresh, seen[key], fresh, key, seen[key]);
            }
        }
    }

    private void transactions(int worker) {
        long[] seen = new long[KEYS];
        for (long count = 1; !stopped; count++) {
            long fresh = worker * STRIDE + count * PARTS;
            if (random(2) == 0) {
                redundant(worker, seen, fresh);
            } else {
                several(worker, fresh);
            }
        }
    }

    private void several(int worker, long fresh) {
        long group = random(GROUPS);
        int part = random(PARTS);
        boolean single = random(2) == 0;
        int first = single ? part * REGISTERS_OF_PART : 0;
        int size = single ? REGISTERS_OF_PART : PARTS * REGISTERS_OF_PART;
        List<Integer> registers = new ArrayList<>(
                IntStream.range(first, first + size).boxed().toList());
        Collections.shuffle(registers, ThreadLocalRandom.current());
        String steps = stepsOn(registers.subList(0, Math.min(size, 1 + random(3))), fresh);
        if (single) {
            call(worker, "single", "SingleRegisters", group, 0, 0, steps,
                    new Object[] {1L + part, group, steps});
        } else {
            call(worker, "multi", "MultiRegisters", group, 0, 0, steps,
                    new Object[] {group, steps});
        }
    }

    private static String stepsOn(List<Integer> registers, long fresh) {
        List<String> steps = new ArrayList<>();
        for (int at = 0; at < registers.size(); at++) {
            int kind = random(3);
            if (kind != 0) {
                steps.add("r" + registers.get(at));
            }
            if (kind != 1) {
                steps.add("w" + registers.get(at) + "=" + (fresh + at));
            }
        }
        StringBuilder text = new StringBuilder(steps.get(0));
        for (String step : steps.subList(1, steps.size())) {
            text.append(random(2) == 0 ? "," : ";").append(step);
        }
        return text + (random(8) == 0 ? ";x" : "");
    }

    private void redundant(int worker, long[] seen, long fresh) {
        int key = random(KEYS);
        int kind = random(4);
        if (kind < 2) {
            Long value = call(worker, "get_all", "get_copies", key, 0, 0, key);
            seen[key] = value == null ? seen[key] : value;
        } else if (kind == 2) {
            call(worker, "put_all", "put_copies", key, fresh, 0, fresh, key);
        } else {
            call(worker, "cas_all", "cas_copies", key, fresh, seen[key], fresh, key, seen[key]);
        }
    }

    private static int random(int bound) {
        return ThreadLocalRandom.current().nextInt(bound);
    }
}
