package org.voltdb;

import java.nio.ByteBuffer;
import org.lockstepdb.procedure.ApiAccess;
import org.lockstepdb.procedure.NonTransactionalCall;
import org.lockstepdb.procedure.ProcedureInstance;
import org.lockstepdb.procedure.StatementBinding;

/** Lets the runner at what users shall not see; found by name. */
final class Api extends ApiAccess {
    Api() {}

    @Override
    public VoltTable table(byte[] data, int base, int end) {
        return new VoltTable(data, base, end);
    }

    @Override
    public StatementBinding binding(SQLStmt statement) {
        return statement.binding;
    }

    @Override
    public void bind(SQLStmt statement, StatementBinding binding) {
        statement.binding = binding;
    }

    @Override
    public void attach(VoltProcedure procedure, ProcedureInstance instance) {
        procedure.instance = instance;
    }

    @Override
    public void attach(VoltNonTransactionalProcedure procedure, NonTransactionalCall call) {
        procedure.call = call;
    }

    @Override
    public String fault(Expectation expectation, VoltTable table) {
        return expectation.fault(table);
    }

    @Override
    public void write(VoltTable table, ByteBuffer out) {
        table.flattenToBuffer(out);
    }
}
