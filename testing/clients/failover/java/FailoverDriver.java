// Load through VoltDB's unmodified Java clients: what each call did, a line each. Arguments and
// lines are those of python_driver.py and history.py.

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
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
    private static final long STRIDE = 1_000_000;
    private static final PrintStream OUT = new PrintStream(System.out, false);

    private interface Calls {
        ClientResponse call(String procedure, Object... values) throws Exception;
    }

    private final Calls client;
    private final AtomicLongArray tried;
    private final int workers;
    private volatile boolean stopped;

    private FailoverDriver(Calls client, int workers) {
        this.client = client;
        this.workers = workers;
        this.tried = new AtomicLongArray(workers);
    }

    public static void main(String[] arguments) throws Exception {
        int workers = Integer.parseInt(arguments[2]);
        Calls client = arguments[0].equals("client2") ? second(arguments[3]) : first(arguments[3]);
        FailoverDriver driver = new FailoverDriver(client, workers);
        boolean load = arguments[1].equals("load");
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < workers; number++) {
            int worker = number;
            Runnable work = () -> {
                if (load) {
                    driver.load(worker);
                } else {
                    driver.registers(worker);
                }
            };
            threads.add(new Thread(work));
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
        String status;
        String text = null;
        long value = -1;
        long begin = System.nanoTime() / 1000;
        try {
            ClientResponse answer = client.call(procedure, values);
            status = Byte.toString(answer.getStatus());
            text = answer.getStatusString();
            VoltTable[] tables = answer.getResults();
            if (answer.getStatus() == ClientResponse.SUCCESS && tables.length > 0
                    && tables[0].advanceRow()) {
                value = tables[0].getLong(0);
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
}
