package org.lockstepdb.procedure;

import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import org.voltdb.Expectation;
import org.voltdb.SQLStmt;
import org.voltdb.VoltNonTransactionalProcedure;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** What the runner does with classes of the API that users cannot. */
public abstract class ApiAccess {
    static final ApiAccess API = load();

    private static ApiAccess load() {
        try {
            Constructor<?> constructor =
                    Class.forName("org.voltdb.Api").getDeclaredConstructor();
            constructor.setAccessible(true);
            return (ApiAccess) constructor.newInstance();
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** A table to be read, in a part of an array. */
    public abstract VoltTable table(byte[] data, int base, int end);

    /** What the statement was bound to last, null if nothing. */
    public abstract StatementBinding binding(SQLStmt statement);

    /** Remembers where a statement belongs. */
    public abstract void bind(SQLStmt statement, StatementBinding binding);

    /** Gives a procedure its context. */
    public abstract void attach(VoltProcedure procedure, ProcedureInstance instance);

    /** Gives a procedure its context. */
    public abstract void attach(VoltNonTransactionalProcedure procedure, NonTransactionalCall call);

    /** What is wrong with a result, null if nothing. */
    public abstract String fault(Expectation expectation, VoltTable table);

    /** Writes a table with its length at the buffer's position. */
    public abstract void write(VoltTable table, ByteBuffer out);
}
