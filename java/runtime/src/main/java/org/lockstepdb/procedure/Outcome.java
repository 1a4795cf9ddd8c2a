package org.lockstepdb.procedure;

import org.voltdb.VoltProcedure.VoltAbortException;
import org.voltdb.VoltTable;

/** Writes how a call ended. */
final class Outcome {
    private static final int SUCCESS = 1;
    private static final int USER_ABORT = -1;
    private static final int GRACEFUL = -2;
    private static final int UNEXPECTED = -3;
    private static final int FROM_PROCEDURE = 0;
    private static final int FROM_ENGINE = 1;
    private static final int STOPPED = 2;
    private static final String UNEXPECTED_PREFIX = "VOLTDB ERROR: UNEXPECTED FAILURE: ";
    /** What comes before the value in the table of a procedure that returns a number. */
    private static final byte[] LONG_TABLE_HEAD = {
        0, 0, 0, 28, 0, 0, 0, 8, -128, 0, 1, 6, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 8
    };

    private Outcome() {}

    private static void putHead(Output out, int status, ProcedureInstance call) {
        out.begin(0);
        out.room(6);
        out.putByteUnchecked(status);
        out.putByteUnchecked(call.applicationStatus());
        String text = call.applicationText();
        if (text == null) {
            out.putIntUnchecked(-1);
        } else {
            out.putString(text);
        }
    }

    static int writeSuccess(Output out, ProcedureInstance call, Returned returned) {
        putHead(out, SUCCESS, call);
        putReturned(out, call.procedure().name(), returned);
        return out.length();
    }

    /** Writes the count of tables and the tables. */
    static void putReturned(Output out, String name, Returned returned) {
        Object object = returned.object();
        if (returned.isLong()) {
            out.room(2 + LONG_TABLE_HEAD.length + 8);
            out.putShortUnchecked(1);
            out.putBytes(LONG_TABLE_HEAD);
            out.putLongUnchecked(returned.number());
        } else if (object == null) {
            out.putShort(0);
        } else if (object instanceof VoltTable) {
            out.putShort(1);
            out.putTable((VoltTable) object);
        } else if (object instanceof VoltTable[]) {
            putTables(out, name, (VoltTable[]) object);
        } else {
            throw new IllegalStateException("procedure " + name + " returned a "
                    + object.getClass().getName());
        }
    }

    private static void putTables(Output out, String name, VoltTable[] tables) {
        if (tables.length > Short.MAX_VALUE) {
            throw new ParameterFailure("VOLTDB ERROR: PROCEDURE " + name + " returns "
                    + tables.length + " tables; the limit is " + Short.MAX_VALUE);
        }
        out.putShort(tables.length);
        for (VoltTable table : tables) {
            if (table == null) {
                throw new IllegalStateException("procedure " + name
                        + " returned an array with a null table");
            }
            out.putTable(table);
        }
    }

    static int writeFailure(Output out, ProcedureInstance call, Throwable failure,
            boolean stopped) {
        int origin = FROM_PROCEDURE;
        int status = UNEXPECTED;
        String text;
        if (failure == call.engineFailure()) {
            origin = FROM_ENGINE;
            status = GRACEFUL;
            text = call.engineFailureText();
        } else if (stopped) {
            origin = STOPPED;
            text = UNEXPECTED_PREFIX + UserTrace.of(failure);
        } else if (failure instanceof ParameterFailure) {
            status = GRACEFUL;
            text = failure.getMessage();
        } else if (!call.parameters().isComplete()) {
            status = GRACEFUL;
            text = "VOLTDB ERROR: PROCEDURE " + call.procedure().name()
                    + " TYPE ERROR FOR PARAMETER " + call.parameters().number() + ": " + failure;
        } else if (failure instanceof VoltAbortException) {
            status = USER_ABORT;
            text = "VOLTDB ERROR: USER ABORT " + failure.getMessage()
                    + UserTrace.framesOf(failure, call.procedure().className());
        } else {
            text = UNEXPECTED_PREFIX + UserTrace.of(failure);
        }
        putHead(out, status, call);
        out.putByte(origin);
        out.putString(failure.getClass().getName());
        out.putString(failure.getMessage());
        out.putString(text);
        return out.length();
    }

    /** What is left to say when writing a failure failed. */
    static int writeBare(Output out, ProcedureInstance call) {
        out.begin(0);
        out.putByteUnchecked(UNEXPECTED);
        out.putByteUnchecked(Byte.MIN_VALUE);
        out.putIntUnchecked(-1);
        out.putByteUnchecked(FROM_PROCEDURE);
        out.putIntUnchecked(-1);
        out.putIntUnchecked(-1);
        out.putIntUnchecked(-1);
        return out.length();
    }
}
