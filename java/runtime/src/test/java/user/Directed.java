package user;

import java.util.concurrent.CompletableFuture;
import org.voltcore.logging.VoltLogger;
import org.voltdb.VoltCompoundProcedure;
import org.voltdb.VoltNonTransactionalProcedure;
import org.voltdb.VoltTable;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/** Procedures that call others. */
public final class Directed {
    private Directed() {}

    public static class Boxed extends VoltNonTransactionalProcedure {
        public long run(Long a) {
            return a;
        }
    }

    public static class Adding extends VoltNonTransactionalProcedure {
        public CompletableFuture<Long> run(long a, String b) {
            setAppStatusCode((byte) 3);
            setAppStatusString("cluster " + getClusterId());
            return callProcedure("First", a, b).thenCombine(callProcedure("Second", a),
                    (x, y) -> x.getResults()[0].asScalarLong() + y.getResults()[0].asScalarLong());
        }
    }

    public static class Passing extends VoltNonTransactionalProcedure {
        public CompletableFuture<ClientResponse> run(String name) {
            return callProcedure(name);
        }
    }

    public static class Everywhere extends VoltNonTransactionalProcedure {
        public long run() throws Exception {
            long sum = 0;
            for (ClientResponseWithPartitionKey one : callAllPartitionProcedure("Count", 5).get()) {
                sum += one.response.getResults()[0].asScalarLong() * (one.partitionId + 1);
            }
            return sum;
        }
    }

    public static class Throwing extends VoltNonTransactionalProcedure {
        public VoltTable run() {
            throw new IllegalArgumentException("no");
        }
    }

    public static class Stages extends VoltCompoundProcedure {
        private static final VoltLogger LOG = new VoltLogger("stages");
        private int kind;
        private long sum;

        public long run(int kind) {
            this.kind = kind;
            newStageList(this::first).then(this::second).then(this::third).build();
            return 0;
        }

        private void first(ClientResponse[] none) {
            LOG.debug("first");
            setAppStatusCode((byte) (20 + none.length));
            if (kind == 4) {
                throw new IllegalStateException("odd");
            }
            for (int i = 0; i < (kind == 5 ? 11 : 2); i++) {
                queueProcedureCall("Ask", i);
            }
        }

        private void second(ClientResponse[] answers) {
            for (ClientResponse answer : answers) {
                sum = sum * 10 + answer.getResults()[0].asScalarLong();
            }
            if (kind == 1) {
                abortProcedure("because");
            }
            if (kind == 2) {
                newStageList(last -> completeProcedure(-1)).build();
            }
            queueProcedureCall("Tell", sum);
        }

        private void third(ClientResponse[] answers) {
            if (kind != 3) {
                completeProcedure(sum * 100 + answers.length);
            }
        }
    }
}
