package org.lockstepdb.procedure;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.voltdb.VoltTable;
import org.voltdb.client.ClientResponse;

/** An answer read from its bytes. */
final class Response implements ClientResponse {
    private static final int HAS_STATUS_STRING = 0x20;
    private static final int HAS_APPLICATION_STRING = 0x80;

    private final byte status;
    private final byte applicationStatus;
    private final String statusString;
    private final String applicationString;
    private final int clusterMillis;
    private final long nanos;
    private final VoltTable[] tables;

    /** An answer of the protocol, from its version byte on. */
    Response(ByteBuffer in, long nanos) {
        in.get();
        in.getLong();
        int present = in.get();
        status = in.get();
        statusString = (present & HAS_STATUS_STRING) != 0 ? string(in) : null;
        applicationStatus = in.get();
        applicationString = (present & HAS_APPLICATION_STRING) != 0 ? string(in) : null;
        clusterMillis = in.getInt();
        tables = new VoltTable[in.getShort()];
        for (int i = 0; i < tables.length; i++) {
            byte[] table = bytes(in);
            tables[i] = ApiAccess.API.table(table, 0, table.length);
        }
        this.nanos = nanos;
    }

    /** An answer that nobody sent. */
    Response(byte status, String statusString) {
        this.status = status;
        this.statusString = statusString;
        applicationStatus = UNINITIALIZED_APP_STATUS_CODE;
        applicationString = null;
        clusterMillis = 0;
        nanos = 0;
        tables = new VoltTable[0];
    }

    private static byte[] bytes(ByteBuffer in) {
        byte[] data = new byte[in.getInt()];
        in.get(data);
        return data;
    }

    private static String string(ByteBuffer in) {
        return new String(bytes(in), StandardCharsets.UTF_8);
    }

    @Override
    public byte getStatus() {
        return status;
    }

    @Override
    public byte getAppStatus() {
        return applicationStatus;
    }

    @Override
    public VoltTable[] getResults() {
        return tables;
    }

    @Override
    public String getStatusString() {
        return statusString;
    }

    @Override
    public String getAppStatusString() {
        return applicationString;
    }

    @Override
    public int getClusterRoundtrip() {
        return clusterMillis;
    }

    @Override
    public int getClientRoundtrip() {
        return (int) TimeUnit.NANOSECONDS.toMillis(nanos);
    }

    @Override
    public long getClientRoundtripNanos() {
        return nanos;
    }
}
