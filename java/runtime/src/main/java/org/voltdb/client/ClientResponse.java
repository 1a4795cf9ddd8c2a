package org.voltdb.client;

import org.voltdb.VoltTable;

/** The answer to a call. */
public interface ClientResponse {
    byte SUCCESS = 1;
    byte USER_ABORT = -1;
    byte GRACEFUL_FAILURE = -2;
    byte UNEXPECTED_FAILURE = -3;
    byte CONNECTION_LOST = -4;
    byte SERVER_UNAVAILABLE = -5;
    byte CONNECTION_TIMEOUT = -6;
    byte RESPONSE_UNKNOWN = -7;
    byte TXN_RESTART = -8;
    byte OPERATIONAL_FAILURE = -9;
    byte TXN_MISPARTITIONED = -10;
    byte TXN_MISROUTED = -11;
    byte DR_TABLE_HASH_NOT_FOUND = -12;
    byte UNSUPPORTED_DYNAMIC_CHANGE = -13;
    byte CLIENT_ERROR_TXN_NOT_SENT = -14;
    byte CLIENT_REQUEST_TIMEOUT = -15;
    byte CLIENT_RESPONSE_TIMEOUT = -16;
    byte COMPOUND_PROC_USER_ABORT = -17;
    byte COMPOUND_PROC_TIMEOUT = -18;
    byte SYSPROC_UNAVAILABLE_IN_MIXED_MODE = -19;
    byte UNINITIALIZED_APP_STATUS_CODE = -128;

    byte getStatus();

    /** What the procedure set, {@link #UNINITIALIZED_APP_STATUS_CODE} if nothing. */
    byte getAppStatus();

    VoltTable[] getResults();

    /** Why the call failed; null if nothing is said. */
    String getStatusString();

    /** What the procedure set, null if nothing. */
    String getAppStatusString();

    /** Milliseconds in the cluster. */
    int getClusterRoundtrip();

    /** Milliseconds that the caller waited. */
    int getClientRoundtrip();

    /** Nanoseconds that the caller waited. */
    long getClientRoundtripNanos();
}
