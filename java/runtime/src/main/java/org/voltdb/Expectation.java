package org.voltdb;

/** What a queued statement's result must be; otherwise the procedure is aborted. */
public class Expectation {
    /** What is tested. */
    enum Kind { EMPTY, ONE_ROW, ZERO_OR_ONE_ROW, NON_EMPTY, SCALAR, SCALAR_LONG, SCALAR_MATCH }

    private final Kind kind;
    private final long scalar;

    Expectation(Kind kind) {
        this(kind, 0);
    }

    Expectation(Kind kind, long scalar) {
        this.kind = kind;
        this.scalar = scalar;
    }

    /** What is wrong with a result, null if it is as expected. */
    String fault(VoltTable table) {
        int rows = table.getRowCount();
        switch (kind) {
            case EMPTY:
                return rows == 0 ? null : "Expected zero row, but got " + rows;
            case ONE_ROW:
                return rows == 1 ? null : "Expected one row, but got " + rows;
            case ZERO_OR_ONE_ROW:
                return rows <= 1 ? null : "Expected zero or one rows, but got " + rows;
            case NON_EMPTY:
                return rows > 0 ? null : "Expected one or more rows, but got " + rows;
            default:
                return scalarFault(table, rows);
        }
    }

    private String scalarFault(VoltTable table, int rows) {
        if (rows != 1) {
            return "Expected one row, but got " + rows;
        }
        if (table.getColumnCount() != 1) {
            return "Expected one column, but got " + table.getColumnCount();
        }
        if (kind == Kind.SCALAR) {
            return null;
        }
        if (table.getColumnType(0) != VoltType.BIGINT) {
            return "Expected a BIGINT column, but got " + table.getColumnType(0).getName();
        }
        if (kind == Kind.SCALAR_LONG) {
            return null;
        }
        long found = table.fetchRow(0).getLong(0);
        return found == scalar ? null : "Expected scalar " + scalar + ", but got " + found;
    }

    @Override
    public String toString() {
        return "EXPECT_" + kind + (kind == Kind.SCALAR_MATCH ? " " + scalar : "");
    }
}
