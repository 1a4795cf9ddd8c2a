package org.lockstepdb.procedure;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;
import org.voltdb.Expectation;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltProcedure.VoltAbortException;
import org.voltdb.VoltTable;
import org.voltdb.exceptions.ConstraintFailureException;
import org.voltdb.exceptions.EEException;
import org.voltdb.exceptions.InterruptException;
import org.voltdb.exceptions.SQLException;

/** A procedure's object on one thread, and the call that it is in. */
public final class ProcedureInstance {
    /** Where the parameters begin in a call. */
    private static final int CALL_HEAD = 28;
    private static final int BATCH_HEAD = 8;
    private static final int FLAG_MULTI_PARTITION = 1;
    private static final int FLAG_FINAL = 1;
    private static final VoltTable[] NO_TABLES = new VoltTable[0];
    private static final int LARGEST_BATCH_BYTES = 2047 << 20;
    private static volatile int maxBatchBytes = 512 << 20;

    private final Procedure procedure;
    private final Site site;
    private final Engine engine;
    private final VoltProcedure user;
    private final Invoker invoker;
    private final int parameterCount;
    private final Parameters parameters;
    private final Returned returned = new Returned();
    private final Output out;

    // The call.
    private long uniqueId;
    private long transactionTimeMillis;
    private int partitionId;
    private int clusterId;
    private boolean multiPartition;
    private Random random;
    private byte applicationStatus;
    private String applicationText;
    private boolean wasFinal;
    private boolean batchFailed;
    private Throwable engineFailure;
    private String engineFailureText;
    private boolean active;

    // The batch.
    private int queued;
    private SQLStmt[] statements = new SQLStmt[8];
    private Expectation[] expectations = new Expectation[8];
    private boolean expecting;

    ProcedureInstance(Procedure procedure, Site site, VoltProcedure user) {
        this.procedure = procedure;
        this.site = site;
        this.engine = site.engine;
        this.user = user;
        invoker = procedure.invoker();
        Class<?>[] classes = procedure.parameterClasses();
        parameterCount = classes.length;
        parameters = new Parameters(classes);
        out = new Output(engine);
        ApiAccess.API.attach(user, this);
        procedure.bindStatements(user);
    }

    /** Sets the most that the batches of all procedures may hold, in bytes. */
    public static void limitBatches(int bytes) {
        maxBatchBytes = bytes;
    }

    /**
     * Runs a call. Never throws.
     *
     * @param length of the call in the engine's buffer
     * @return length of the outcome in the engine's other buffer
     */
    public int invoke(int length) {
        Throwable failure = null;
        // The state of the class loader is that of user code: libraries look for theirs there.
        site.enter();
        active = true;
        try {
            if (begin(length)) {
                invoker.call(user, parameters, returned);
            } else {
                failure = wrongCount();
            }
        } catch (Throwable thrown) {
            failure = thrown;
        }
        boolean stopped = failure != null && site.isStopped();
        int written = finish(failure, stopped);
        active = false;
        site.leave();
        return written;
    }

    private boolean begin(int length) {
        ByteBuffer call = engine.toJava();
        uniqueId = call.getLong(0);
        transactionTimeMillis = call.getLong(8);
        partitionId = call.getInt(16);
        clusterId = call.getInt(20);
        multiPartition = (call.getInt(24) & FLAG_MULTI_PARTITION) != 0;
        random = null;
        applicationStatus = Byte.MIN_VALUE;
        applicationText = null;
        wasFinal = false;
        batchFailed = false;
        engineFailure = null;
        returned.clear();
        clearBatch();
        parameters.begin(call, CALL_HEAD, length);
        return Parameters.count(call, CALL_HEAD) == parameterCount;
    }

    private ParameterFailure wrongCount() {
        return new ParameterFailure("VOLTDB ERROR: PROCEDURE " + procedure.name() + " EXPECTS "
                + parameterCount + " PARAMS, BUT RECEIVED "
                + Parameters.count(engine.toJava(), CALL_HEAD));
    }

    private int finish(Throwable failure, boolean stopped) {
        Throwable last = failure;
        for (int attempt = 0; attempt < 3; attempt++) {
            try {
                return last == null ? Outcome.writeSuccess(out, this, returned)
                        : Outcome.writeFailure(out, this, last, stopped);
            } catch (Throwable e) {
                // What a procedure returned may be no result; memory or stack may have run out.
                last = last == null || attempt > 0 ? e : last;
            }
        }
        return Outcome.writeBare(out, this);
    }

    Procedure procedure() {
        return procedure;
    }

    Parameters parameters() {
        return parameters;
    }

    byte applicationStatus() {
        return applicationStatus;
    }

    String applicationText() {
        return applicationText;
    }

    /** The exception that the engine's last failure became, and that failure's text. */
    Throwable engineFailure() {
        return engineFailure;
    }

    String engineFailureText() {
        return engineFailureText;
    }

    private void mustBeInCall() {
        if (!active || Thread.currentThread() != site.thread) {
            throw new IllegalStateException("procedure " + procedure.name() + " used its context"
                    + (active ? " in another thread" : " outside a call"));
        }
    }

    /** See {@link VoltProcedure#voltQueueSQL}. */
    public void queue(SQLStmt statement, Expectation expectation, Object[] arguments) {
        mustBeInCall();
        if (statement == null) {
            throw new IllegalArgumentException("SQLStmt parameter to voltQueueSQL(..) was null.");
        }
        StatementBinding binding = ApiAccess.API.binding(statement);
        if (binding == null || binding.procedure != procedure) {
            binding = bind(statement);
        }
        Object[] given = arguments == null ? new Object[] {null} : arguments;
        byte[] types = procedure.parameterTypes(binding.index);
        if (types != null && types.length != given.length) {
            throw new VoltAbortException("Number of arguments provided was " + given.length
                    + " where " + types.length + " was expected for statement "
                    + statement.getText());
        }
        if (queued == 0) {
            out.begin(BATCH_HEAD, engine.isLimited() ? maxBatchBytes : LARGEST_BATCH_BYTES);
        }
        int start = out.length();
        try {
            out.putInt(binding.index);
            out.putShort(given.length);
            for (int i = 0; i < given.length; i++) {
                Object argument = given[i];
                if (argument instanceof byte[] && types != null && types[i] < 0) {
                    argument = Arguments.numbers((byte[]) argument);
                }
                int code = Arguments.put(out, argument);
                if (types != null && code != types[i] && code != 1
                        && !ArgumentTypes.areIntegers(code, types[i])) {
                    ArgumentTypes.check(procedure, statement, i, code, types[i]);
                }
            }
        } catch (Throwable e) {
            out.skip(start - out.length());
            throw e;
        }
        remember(statement, expectation);
    }

    private void remember(SQLStmt statement, Expectation expectation) {
        if (queued == statements.length) {
            statements = Arrays.copyOf(statements, 2 * queued);
            expectations = Arrays.copyOf(expectations, 2 * queued);
        }
        statements[queued] = statement;
        expectations[queued] = expectation;
        expecting |= expectation != null;
        queued++;
    }

    private StatementBinding bind(SQLStmt statement) {
        int index = procedure.indexOf(user, statement);
        if (index < 0) {
            throw new IllegalArgumentException("SQLStmt objects cannot be instantiated after"
                    + " Procedure: " + procedure.name()
                    + " was created; it must be a final field of the class: "
                    + statement.getText());
        }
        return procedure.bindStatement(statement, index);
    }

    private void clearBatch() {
        queued = 0;
        expecting = false;
    }

    /** See {@link VoltProcedure#voltExecuteSQL(boolean)}. */
    public VoltTable[] execute(boolean isFinal) {
        mustBeInCall();
        Guard.poll();
        int count = queued;
        boolean tests = expecting;
        clearBatch();
        if (wasFinal) {
            throw new RuntimeException("Procedure " + procedure.name() + " attempted to execute a"
                    + " batch after claiming a previous batch was final and will be aborted.\n"
                    + "  Examine calls to voltExecuteSQL() and verify that the call with the"
                    + " argument value 'true' is actually the final one");
        }
        if (batchFailed && multiPartition) {
            throw new RuntimeException("Procedure " + procedure.name() + " attempted to execute"
                    + " new batch after hitting EE exception in a previous batch");
        }
        wasFinal = isFinal;
        if (count == 0) {
            return NO_TABLES;
        }
        out.setInt(0, isFinal ? FLAG_FINAL : 0);
        out.setInt(4, count);
        site.step();
        int length = engine.executeBatch(out.length());
        site.step();
        if (length < 0) {
            throw failed(-length);
        }
        VoltTable[] tables = tables(length, count);
        if (tests) {
            test(tables);
        }
        return tables;
    }

    /** The results are copied once, so that they stay what they are when the buffer changes. */
    private VoltTable[] tables(int length, int count) {
        byte[] data = new byte[length];
        engine.toJava().get(0, data);
        VoltTable[] tables = new VoltTable[count];
        int at = 0;
        for (int i = 0; i < count; i++) {
            int end = at + 4 + Bytes.getInt(data, at);
            tables[i] = ApiAccess.API.table(data, at + 4, end);
            at = end;
        }
        return tables;
    }

    private void test(VoltTable[] tables) {
        for (int i = 0; i < tables.length; i++) {
            Expectation expectation = expectations[i];
            String fault = expectation == null ? null
                    : ApiAccess.API.fault(expectation, tables[i]);
            if (fault != null) {
                throw new VoltAbortException("Expectation failing in procedure: "
                        + procedure.name() + "\n  Running SQL: " + statements[i].getText()
                        + "\n  Error message: " + fault);
            }
        }
    }

    private Throwable raise(int kind, String state, String message) {
        switch (kind) {
            case 1:
                return new ConstraintFailureException(state, message);
            case 2:
                return new SQLException(state, message);
            case 3:
                return new InterruptException(message);
            default:
                Guard.stop(site, site.call(), message);
                return new Cancelled(message);
        }
    }

    private EEException failed(int length) {
        batchFailed = true;
        ByteBuffer data = engine.toJava();
        int kind = data.get(0);
        String state = string(data, 1);
        String message = string(data, 5 + Math.max(data.getInt(1), 0));
        Throwable failure = raise(kind, state, message);
        engineFailure = failure;
        engineFailureText = message;
        if (failure instanceof Cancelled) {
            throw (Cancelled) failure;
        }
        return (EEException) failure;
    }

    private static String string(ByteBuffer data, int at) {
        int length = data.getInt(at);
        if (length < 0) {
            return null;
        }
        byte[] text = new byte[length];
        data.get(at + 4, text);
        return new String(text, StandardCharsets.UTF_8);
    }

    /** See {@link VoltProcedure#setAppStatusCode}. */
    public void setApplicationStatus(byte status) {
        applicationStatus = status;
    }

    /** See {@link VoltProcedure#setAppStatusString}. */
    public void setApplicationStatus(String text) {
        applicationText = text;
    }

    /** Milliseconds since 1970. */
    public long transactionTimeMillis() {
        return transactionTimeMillis;
    }

    public long uniqueId() {
        return uniqueId;
    }

    public int partitionId() {
        return partitionId;
    }

    public int clusterId() {
        return clusterId;
    }

    /** See {@link VoltProcedure#getSeededRandomNumberGenerator}. */
    public Random random() {
        if (random == null) {
            random = new Random(uniqueId);
        }
        return random;
    }
}
