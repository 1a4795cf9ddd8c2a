package org.voltdb;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.lockstepdb.procedure.CompoundStages;
import org.voltdb.client.ClientResponse;

/**
 * The base of procedures in stages: each queues calls, which run side by side, and the next gets
 * their answers. {@code run} builds the list of stages.
 */
public class VoltCompoundProcedure extends VoltNonTransactionalProcedure {
    /** Ends the procedure without success. */
    public static class CompoundProcAbortException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        public CompoundProcAbortException(String reason) {
            super(reason);
        }

        public CompoundProcAbortException(Throwable cause) {
            super(cause);
        }

        public CompoundProcAbortException(String reason, Throwable cause) {
            super(reason, cause);
        }
    }

    /** Collects stages; {@link #build} puts them in force. */
    public final class StageListBuilder {
        private final List<Consumer<ClientResponse[]>> list = new ArrayList<>();

        StageListBuilder(Consumer<ClientResponse[]> first) {
            list.add(first);
        }

        public StageListBuilder then(Consumer<ClientResponse[]> next) {
            list.add(next);
            return this;
        }

        /** Replaces the stages that have not begun. */
        public void build() {
            stages().replace(list);
        }
    }

    private CompoundStages stages() {
        CompoundStages stages = call == null ? null : call.stages();
        if (stages == null) {
            throw new IllegalStateException("procedure " + getClass().getSimpleName()
                    + " used its context outside a call");
        }
        return stages;
    }

    public final StageListBuilder newStageList(Consumer<ClientResponse[]> first) {
        return new StageListBuilder(first);
    }

    /** Calls a procedure when the present stage ends. */
    public final void queueProcedureCall(String procedure, Object... parameters) {
        stages().queue(procedure, parameters);
    }

    /** Ends the procedure with a number. */
    public final void completeProcedure(long result) {
        stages().complete(result);
    }

    /** Ends the procedure with a table. */
    public final void completeProcedure(VoltTable result) {
        stages().complete(result);
    }

    /** Ends the procedure with tables. */
    public final void completeProcedure(VoltTable[] result) {
        stages().complete(result);
    }

    /** Ends the procedure and the present stage without success. */
    public final void abortProcedure(String reason) {
        throw new CompoundProcAbortException(reason);
    }

    @Override
    public void setAppStatusCode(byte statusCode) {
        super.setAppStatusCode(statusCode);
    }

    @Override
    public void setAppStatusString(String statusString) {
        super.setAppStatusString(statusString);
    }
}
