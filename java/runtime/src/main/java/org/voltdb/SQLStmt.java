package org.voltdb;

import org.lockstepdb.procedure.StatementBinding;

/** A statement of a procedure: a final field, whose text CREATE PROCEDURE plans. */
public class SQLStmt {
    private final String text;
    private final String joinOrder;
    /** Of the procedure that used it last; replaced as a whole, since sites share static ones. */
    StatementBinding binding;

    public SQLStmt(String sqlText) {
        this(sqlText, null);
    }

    /**
     * @param joinOrder names or aliases of the tables, divided by commas
     */
    public SQLStmt(String sqlText, String joinOrder) {
        if (sqlText == null) {
            throw new IllegalArgumentException("the text of an SQLStmt is null");
        }
        text = canonicalizeStmt(sqlText);
        this.joinOrder = joinOrder;
    }

    /** The text in one line, with a semicolon at its end. */
    public static String canonicalizeStmt(String statement) {
        String line = statement.replace("\r\n", " ").replace('\n', ' ').replace('\r', ' ').trim();
        return line.endsWith(";") ? line : line + ";";
    }

    public String getText() {
        return text;
    }

    public String getJoinOrder() {
        return joinOrder;
    }

    /** Whether it changes nothing; known once its procedure is created. */
    public boolean isReadOnly() {
        return binding != null && binding.readOnly();
    }

    @Override
    public String toString() {
        return text;
    }
}
