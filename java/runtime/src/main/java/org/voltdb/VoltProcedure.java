package org.voltdb;

import java.util.Date;
import java.util.Random;
import org.lockstepdb.procedure.ProcedureInstance;

/**
 * The base of transactional procedures. A subclass has statements as final fields of class
 * {@link SQLStmt}, a public constructor without parameters, and one public method {@code run}.
 */
public abstract class VoltProcedure {
    public static final Expectation EXPECT_EMPTY = new Expectation(Expectation.Kind.EMPTY);
    public static final Expectation EXPECT_ONE_ROW = new Expectation(Expectation.Kind.ONE_ROW);
    public static final Expectation EXPECT_ZERO_OR_ONE_ROW =
            new Expectation(Expectation.Kind.ZERO_OR_ONE_ROW);
    public static final Expectation EXPECT_NON_EMPTY =
            new Expectation(Expectation.Kind.NON_EMPTY);
    public static final Expectation EXPECT_SCALAR = new Expectation(Expectation.Kind.SCALAR);
    public static final Expectation EXPECT_SCALAR_LONG =
            new Expectation(Expectation.Kind.SCALAR_LONG);

    /** One row with one BIGINT of a value. */
    public static final Expectation EXPECT_SCALAR_MATCH(long scalar) {
        return new Expectation(Expectation.Kind.SCALAR_MATCH, scalar);
    }

    /** Ends the call and undoes what it did. */
    public static class VoltAbortException extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private static final String NO_MESSAGE = "No message specified.";

        public VoltAbortException() {
            super(NO_MESSAGE);
        }

        public VoltAbortException(String message) {
            super(message);
        }

        public VoltAbortException(Throwable cause) {
            super(cause);
        }

        @Override
        public String getMessage() {
            String message = super.getMessage();
            return message == null ? NO_MESSAGE : message;
        }

        public byte getClientResponseStatus() {
            return -1;
        }

        public String getShortStatusString() {
            return "USER ABORT";
        }
    }

    /** Null while the constructor runs. */
    ProcedureInstance instance;

    public VoltProcedure() {}

    private ProcedureInstance instance() {
        ProcedureInstance present = instance;
        if (present == null) {
            throw new IllegalStateException("procedure " + getClass().getSimpleName()
                    + " used its context outside a call");
        }
        return present;
    }

    /** Appends a statement to the batch. */
    public void voltQueueSQL(SQLStmt statement, Object... arguments) {
        instance().queue(statement, null, arguments);
    }

    /** Appends a statement to the batch, with a test of its result. */
    public void voltQueueSQL(SQLStmt statement, Expectation expectation, Object... arguments) {
        instance().queue(statement, expectation, arguments);
    }

    /** Executes the batch: a table for each statement. */
    public VoltTable[] voltExecuteSQL() {
        return instance().execute(false);
    }

    /**
     * Executes the batch: a table for each statement.
     *
     * @param isFinalSQL promises that no other batch follows
     */
    public VoltTable[] voltExecuteSQL(boolean isFinalSQL) {
        return instance().execute(isFinalSQL);
    }

    /** A code for the client, beside the status. */
    public void setAppStatusCode(byte statusCode) {
        instance().setApplicationStatus(statusCode);
    }

    /** A text for the client, beside the status. */
    public void setAppStatusString(String statusString) {
        instance().setApplicationStatus(statusString);
    }

    /** When the transaction began, the same on all replicas, to the millisecond. */
    public Date getTransactionTime() {
        return new Date(instance().transactionTimeMillis());
    }

    /** The same stream of numbers on all replicas. */
    public Random getSeededRandomNumberGenerator() {
        return instance().random();
    }

    /** The transaction's number, which no other has. */
    public long getUniqueId() {
        return instance().uniqueId();
    }

    /** The name by which older procedures ask for {@link #getUniqueId}. */
    @Deprecated
    public long getTransactionId() {
        return instance().uniqueId();
    }

    /** The identity of this cluster among those that replicate to each other. */
    public int getClusterId() {
        return instance().clusterId();
    }

    /** The partition that executes the call, 16383 in a multi-partition procedure. */
    public int getPartitionId() {
        return instance().partitionId();
    }
}
