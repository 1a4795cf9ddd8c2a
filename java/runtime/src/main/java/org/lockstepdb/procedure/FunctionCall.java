package org.lockstepdb.procedure;

import org.voltdb.VoltProcedure.VoltAbortException;
import org.voltdb.VoltType;

/** What calls of functions have in common. */
final class FunctionCall {
    private static final int SUCCESS = 1;
    private static final int USER_ABORT = -1;
    private static final int GRACEFUL = -2;

    private FunctionCall() {}

    /** User code of a call. */
    interface Body {
        void run() throws Throwable;
    }

    /** Runs a body that writes its answer behind the status; the answer's length. */
    static int run(Site site, Output out, Body body) {
        // A thread has one site. A statement of a Java procedure may call functions: then the
        // procedure's call goes on in them.
        Site present = Site.current();
        Site watched = present == null ? site : present;
        boolean nested = watched.isNested();
        if (nested) {
            watched.step();
        } else {
            watched.enter();
        }
        int length;
        try {
            out.begin(0);
            out.putByte(SUCCESS);
            body.run();
            length = out.length();
        } catch (Throwable failure) {
            length = fail(out, failure);
        }
        if (nested) {
            watched.step();
        } else {
            watched.leave();
        }
        return length;
    }

    private static int fail(Output out, Throwable failure) {
        out.begin(0);
        out.putByte(failure instanceof VoltAbortException ? USER_ABORT : GRACEFUL);
        out.putByte(Byte.MIN_VALUE);
        out.putInt(-1);
        out.putByte(failure instanceof Cancelled ? 2 : 0);
        out.putString(failure.getClass().getName());
        out.putString(failure.getMessage());
        out.putString(UserTrace.of(failure));
        return out.length();
    }

    /** Writes a value with its type in front; the null values of numbers are NULL. */
    static void putValue(Output out, Returned returned) {
        Object value = returned.isLong() ? (Object) returned.number() : returned.object();
        if (VoltType.isVoltNullValue(value)) {
            out.putByte(VoltType.NULL.getValue());
            return;
        }
        Arguments.put(out, value);
    }
}
