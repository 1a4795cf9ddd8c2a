package failover;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/**
 * Executes a list of reads and writes of the registers of a group. A comma separates two steps of a
 * batch, a semicolon ends a batch: "r0,w0=7;r3" reads and writes register 0 in one batch and reads
 * register 3 in the next one. The step "x" rolls the transaction back.
 */
final class Steps {
    /** A group has this many registers, and this many of them have the same partitioning key. */
    private static final long REGISTERS = 6;
    private static final long REGISTERS_OF_PART = 2;

    private Steps() {
    }

    /** One row for each step: the value that was read, or the number of rows that were written. */
    static VoltTable[] run(VoltProcedure procedure, SQLStmt read, SQLStmt write, long group,
            String steps) {
        VoltTable rows = new VoltTable(new VoltTable.ColumnInfo("v", VoltType.BIGINT));
        for (String batch : steps.split(";")) {
            for (String step : batch.split(",")) {
                queue(procedure, read, write, group, step);
            }
            for (VoltTable table : procedure.voltExecuteSQL()) {
                // A register always has a row: the judge refuses the value of a missing one.
                rows.addRow(table.advanceRow() ? table.getLong(0) : -1);
            }
        }
        return new VoltTable[] {rows};
    }

    private static void queue(VoltProcedure procedure, SQLStmt read, SQLStmt write, long group,
            String step) {
        if (step.equals("x")) {
            throw new VoltProcedure.VoltAbortException("the call asked for a rollback");
        }
        String[] sides = step.substring(1).split("=");
        long inGroup = Long.parseLong(sides[0]);
        long part = 1 + inGroup / REGISTERS_OF_PART;
        long register = group * REGISTERS + inGroup;
        if (step.charAt(0) == 'r') {
            procedure.voltQueueSQL(read, part, register);
        } else {
            procedure.voltQueueSQL(write, Long.parseLong(sides[1]), part, register);
        }
    }
}
