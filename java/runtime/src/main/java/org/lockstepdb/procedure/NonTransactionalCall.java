package org.lockstepdb.procedure;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.voltdb.VoltCompoundProcedure.CompoundProcAbortException;
import org.voltdb.VoltNonTransactionalProcedure;
import org.voltdb.VoltProcedure.VoltAbortException;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/** A call of a non-transactional or compound procedure, with an object of its own. */
public final class NonTransactionalCall {
    private static final int CALL_HEAD = 28;
    private static final String UNEXPECTED = "VOLTDB ERROR: UNEXPECTED FAILURE: ";

    private final Procedure procedure;
    private final long call;
    private final HostCalls host;
    private final HeapEngine heap;
    private final Parameters parameters;
    private final int clusterId;
    private final CompoundStages stages;
    private final AtomicBoolean finished = new AtomicBoolean();
    /** Where its code can be stopped. */
    private final Site site = Site.outside();
    private volatile byte applicationStatus = Byte.MIN_VALUE;
    private volatile String applicationText;

    NonTransactionalCall(Procedure procedure, long call, byte[] record, HostCalls host) {
        this.procedure = procedure;
        this.call = call;
        this.host = host;
        heap = new HeapEngine(record);
        parameters = new Parameters(procedure.parameterClasses());
        clusterId = ByteBuffer.wrap(record).getInt(20);
        stages = procedure.kind() == Procedure.COMPOUND ? new CompoundStages(this) : null;
    }

    void run() {
        if (isFinished()) {
            return;
        }
        Returned returned = new Returned();
        site.enter();
        try {
            int count = Parameters.count(heap.toJava(), CALL_HEAD);
            int expected = procedure.parameterClasses().length;
            if (count != expected) {
                throw new ParameterFailure("VOLTDB ERROR: PROCEDURE " + procedure.name()
                        + " EXPECTS " + expected + " PARAMS, BUT RECEIVED " + count);
            }
            parameters.begin(heap.toJava(), CALL_HEAD, heap.toJava().capacity());
            VoltNonTransactionalProcedure user =
                    (VoltNonTransactionalProcedure) procedure.create();
            ApiAccess.API.attach(user, this);
            procedure.invoker().call(user, parameters, returned);
        } catch (Throwable e) {
            fail(e);
            return;
        } finally {
            site.leaveThread();
        }
        if (stages != null) {
            stages.begin();
        } else if (returned.object() instanceof CompletableFuture) {
            ((CompletableFuture<?>) returned.object()).whenComplete(this::ended);
        } else {
            succeed(returned);
        }
    }

    private void ended(Object value, Throwable failure) {
        if (failure != null) {
            boolean wrapped = failure instanceof CompletionException && failure.getCause() != null;
            fail(wrapped ? failure.getCause() : failure);
        } else if (value instanceof ClientResponse) {
            passOn((ClientResponse) value);
        } else {
            Returned returned = new Returned();
            returned.set(value);
            succeed(returned);
        }
    }

    /** Ends with the answer of another call. */
    private void passOn(ClientResponse response) {
        if (response.getAppStatus() != Byte.MIN_VALUE) {
            applicationStatus = response.getAppStatus();
        }
        if (response.getAppStatusString() != null) {
            applicationText = response.getAppStatusString();
        }
        if (response.getStatus() == ClientResponse.SUCCESS) {
            Returned returned = new Returned();
            returned.set(response.getResults());
            succeed(returned);
        } else {
            fail(response.getStatus(), null, response.getStatusString());
        }
    }

    private void head(Output out, int status) {
        out.putByte(status);
        out.putByte(applicationStatus);
        out.putString(applicationText);
    }

    void succeed(Returned returned) {
        HeapEngine bytes = new HeapEngine(new byte[0]);
        Output out = new Output(bytes);
        try {
            out.begin(0);
            head(out, ClientResponse.SUCCESS);
            Outcome.putReturned(out, procedure.name(), returned);
        } catch (RuntimeException e) {
            fail(e);
            return;
        }
        finish(bytes.written(out.length()));
    }

    /** Ends with what was thrown. */
    void fail(Throwable failure) {
        if (failure instanceof ParameterFailure) {
            fail(ClientResponse.GRACEFUL_FAILURE, failure, failure.getMessage());
        } else if (!parameters.isComplete()) {
            fail(ClientResponse.GRACEFUL_FAILURE, failure, "VOLTDB ERROR: PROCEDURE "
                    + procedure.name() + " TYPE ERROR FOR PARAMETER " + parameters.number() + ": "
                    + failure);
        } else if (failure instanceof CompoundProcAbortException && stages != null) {
            fail(ClientResponse.COMPOUND_PROC_USER_ABORT, failure,
                    "COMPOUND PROC ERROR: User abort: " + failure.getMessage());
        } else if (stages != null) {
            fail(ClientResponse.UNEXPECTED_FAILURE, failure,
                    "COMPOUND PROC ERROR: Unexpected failure: " + UserTrace.of(failure));
        } else if (failure instanceof VoltAbortException) {
            fail(ClientResponse.USER_ABORT, failure, "VOLTDB ERROR: USER ABORT "
                    + failure.getMessage()
                    + UserTrace.framesOf(failure, procedure.className()));
        } else {
            fail(ClientResponse.UNEXPECTED_FAILURE, failure, UNEXPECTED + UserTrace.of(failure));
        }
    }

    void fail(int status, Throwable failure, String text) {
        HeapEngine bytes = new HeapEngine(new byte[0]);
        Output out = new Output(bytes);
        out.begin(0);
        head(out, status);
        out.putByte(0);
        out.putString(failure == null ? null : failure.getClass().getName());
        out.putString(failure == null ? null : failure.getMessage());
        out.putString(text);
        finish(bytes.written(out.length()));
    }

    private void finish(byte[] outcome) {
        if (finished.compareAndSet(false, true)) {
            NonTransactional.ended(call);
            host.finish(call, outcome);
        }
    }

    /** Ends without a word: somebody else has answered. */
    void stop(String reason) {
        finished.set(true);
        if (stages != null) {
            stages.stop(reason);
        }
        Guard.stop(site, site.call(), reason);
    }

    boolean isFinished() {
        return finished.get();
    }

    String procedureName() {
        return procedure.name();
    }

    public CompoundStages stages() {
        return stages;
    }

    public int clusterId() {
        return clusterId;
    }

    public void setApplicationStatus(byte status) {
        applicationStatus = status;
    }

    public void setApplicationStatus(String text) {
        applicationText = text;
    }

    /** See {@link VoltNonTransactionalProcedure#callProcedure}. */
    public CompletableFuture<ClientResponse> callProcedure(String name, Object... values) {
        CompletableFuture<ClientResponse> future = new CompletableFuture<>();
        long began = System.nanoTime();
        NonTransactional.request(host, call, HostCalls.ONE, name, parameterSet(values), answer -> {
            try {
                answer.getShort();
                answer.getInt();
                answer.getInt();
                future.complete(new Response(answer, System.nanoTime() - began));
            } catch (RuntimeException e) {
                future.completeExceptionally(e);
            }
        });
        return future;
    }

    private static byte[] parameterSet(Object[] values) {
        return values == null ? HeapEngine.parameterSet((Object) null)
                : HeapEngine.parameterSet(values);
    }

    /** See {@link VoltNonTransactionalProcedure#callAllPartitionProcedure}. */
    public CompletableFuture<ClientResponseWithPartitionKey[]> callAllPartitionProcedure(
            String name, Object... values) {
        CompletableFuture<ClientResponseWithPartitionKey[]> future = new CompletableFuture<>();
        long began = System.nanoTime();
        NonTransactional.request(host, call, HostCalls.ALL_PARTITIONS, name, parameterSet(values),
                answer -> {
                    try {
                        future.complete(allResponses(answer, System.nanoTime() - began));
                    } catch (RuntimeException e) {
                        future.completeExceptionally(e);
                    }
                });
        return future;
    }

    private static ClientResponseWithPartitionKey[] allResponses(ByteBuffer answer, long nanos) {
        ClientResponseWithPartitionKey[] all =
                new ClientResponseWithPartitionKey[answer.getShort()];
        for (int i = 0; i < all.length; i++) {
            int partition = answer.getInt();
            int length = answer.getInt();
            int next = answer.position() + length;
            Response response = new Response(answer, nanos);
            answer.position(next);
            all[i] = new ClientResponseWithPartitionKey(partition, response, partition);
        }
        return all;
    }
}
