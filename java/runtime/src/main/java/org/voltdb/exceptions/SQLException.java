package org.voltdb.exceptions;

/** A statement failed. */
public class SQLException extends EEException {
    private static final long serialVersionUID = 1L;

    private final String sqlState;

    public SQLException(String sqlState, String message) {
        super(message);
        this.sqlState = sqlState;
    }

    /** Five characters of the SQL standard. */
    public String getSQLState() {
        return sqlState;
    }
}
