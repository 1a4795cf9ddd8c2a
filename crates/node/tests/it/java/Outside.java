import java.util.concurrent.CompletableFuture;
import org.voltdb.VoltNonTransactionalProcedure;
import org.voltdb.VoltTable;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/** No transaction: calls others as it is told. */
public class Outside extends VoltNonTransactionalProcedure {
    private static volatile long sink;

    public CompletableFuture<?> run(String how, long key) throws Exception {
        setAppStatusCode((byte) 9);
        setAppStatusString(how);
        switch (how) {
            case "wait":
                // Two transactions, one behind the other, on a thread that waits.
                ClientResponse put = callProcedure("T.insert", key, 1).get();
                if (put.getStatus() != ClientResponse.SUCCESS) {
                    throw new IllegalStateException(put.getStatusString());
                }
                return done(callProcedure("T.select", key).get().getResults()[0]);
            case "chain":
                return callProcedure("T.insert", key, 2)
                        .thenCompose(put2 -> callProcedure("T.select", key))
                        .thenApply(ClientResponse::getResults);
            case "pass":
                return callProcedure("T.insert", key, 3);
            case "everywhere":
                return callAllPartitionProcedure("Here").thenApply(Outside::sum);
            case "by key":
                return callAllPartitionProcedure("CountByKey").thenApply(Outside::sum);
            case "ad hoc":
                return callProcedure("@AdHoc", "SELECT COUNT(*) FROM t").thenApply(
                        ClientResponse::getResults);
            case "absent":
                return callProcedure("Absent").thenApply(
                        answer -> table(answer.getStatus() + " " + answer.getStatusString()));
            case "nested":
                return callProcedure("Outside", "wait", key).thenApply(ClientResponse::getResults);
            case "number":
                return CompletableFuture.completedFuture(key);
            case "abort":
                throw new org.voltdb.VoltProcedure.VoltAbortException("as it was told");
            case "throw":
                throw new IllegalArgumentException("a broken promise");
            case "later":
                return callProcedure("T.insert", key, 4).thenApply(answer -> {
                    throw new IllegalArgumentException("a promise broken later");
                });
            case "exit":
                System.exit(3);
                return null;
            case "loop":
                while (true) {
                    sink++;
                }
            case "sleep":
                Thread.sleep(1_000_000);
                return null;
            case "never":
                return new CompletableFuture<Long>();
            default:
                return done(null);
        }
    }

    private static CompletableFuture<VoltTable> done(VoltTable table) {
        return CompletableFuture.completedFuture(table);
    }

    private static VoltTable table(String text) {
        VoltTable table = new VoltTable(
                new VoltTable.ColumnInfo("text", org.voltdb.VoltType.STRING));
        table.addRow(text);
        return table;
    }

    private static VoltTable table(long number) {
        VoltTable table = new VoltTable(
                new VoltTable.ColumnInfo("number", org.voltdb.VoltType.BIGINT));
        table.addRow(number);
        return table;
    }

    private static VoltTable sum(ClientResponseWithPartitionKey[] answers) {
        long total = 0;
        for (ClientResponseWithPartitionKey answer : answers) {
            if (answer.response.getStatus() != ClientResponse.SUCCESS) {
                return table(answer.response.getStatusString());
            }
            total += answer.response.getResults()[0].asScalarLong();
        }
        return table(total * 100 + answers.length);
    }
}
