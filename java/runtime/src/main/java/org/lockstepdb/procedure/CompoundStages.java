package org.lockstepdb.procedure;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.voltdb.client.ClientResponse;

/** The stages of a compound procedure's call. One runs at a time, on a thread of the pool. */
public final class CompoundStages {
    /** Calls that a stage may queue. */
    private static final int MAX_CALLS = 10;

    private final NonTransactionalCall call;
    private final Deque<Consumer<ClientResponse[]>> waiting = new ArrayDeque<>();
    private final List<CompletableFuture<ClientResponse>> queued = new ArrayList<>();
    private final List<Runnable> toCall = new ArrayList<>();
    private Returned result;
    /** Where the code of the present stage can be stopped. */
    private final Site site = Site.outside();

    CompoundStages(NonTransactionalCall call) {
        this.call = call;
    }

    /** Puts other stages in the place of those that have not begun. */
    public void replace(List<Consumer<ClientResponse[]>> list) {
        waiting.clear();
        waiting.addAll(list);
    }

    /** Queues a call for the end of the present stage. */
    public void queue(String procedure, Object[] parameters) {
        if (queued.size() >= MAX_CALLS) {
            throw new IllegalStateException("a stage of procedure " + call.procedureName()
                    + " queues more than " + MAX_CALLS + " calls");
        }
        CompletableFuture<ClientResponse> future = new CompletableFuture<>();
        queued.add(future);
        toCall.add(() -> call.callProcedure(procedure, parameters).whenComplete((answer, e) -> {
            if (e == null) {
                future.complete(answer);
            } else {
                future.completeExceptionally(e);
            }
        }));
    }

    /** Ends with a number. */
    public void complete(long value) {
        result = new Returned();
        result.set(value);
    }

    /** Ends with a table or tables. */
    public void complete(Object value) {
        result = new Returned();
        result.set(value);
    }

    void begin() {
        runStage(new ClientResponse[0]);
    }

    private void runStage(ClientResponse[] answers) {
        if (call.isFinished()) {
            return;
        }
        Consumer<ClientResponse[]> stage = waiting.poll();
        if (stage == null) {
            fail(new IllegalStateException("procedure " + call.procedureName()
                    + " ended without completeProcedure"));
            return;
        }
        site.enter();
        try {
            stage.accept(answers);
        } catch (Throwable e) {
            fail(e);
            return;
        } finally {
            site.leaveThread();
        }
        try {
            send();
        } catch (Throwable e) {
            fail(e);
        }
    }

    void stop(String reason) {
        Guard.stop(site, site.call(), reason);
    }

    private void fail(Throwable failure) {
        call.fail(failure);
    }

    /** Sends what the stage queued; the next one runs when all is answered. */
    private void send() {
        if (result != null && toCall.isEmpty()) {
            call.succeed(result);
            return;
        }
        List<CompletableFuture<ClientResponse>> sent = new ArrayList<>(queued);
        List<Runnable> calls = new ArrayList<>(toCall);
        queued.clear();
        toCall.clear();
        CompletableFuture.allOf(sent.toArray(new CompletableFuture<?>[0]))
                .whenComplete((nothing, failure) -> NonTransactional.run(() -> {
                    if (failure != null) {
                        fail(failure);
                    } else if (result != null) {
                                    call.succeed(result);
                    } else {
                        ClientResponse[] answers = new ClientResponse[sent.size()];
                        for (int i = 0; i < answers.length; i++) {
                            answers[i] = sent.get(i).join();
                        }
                        runStage(answers);
                    }
                }));
        calls.forEach(Runnable::run);
    }
}
