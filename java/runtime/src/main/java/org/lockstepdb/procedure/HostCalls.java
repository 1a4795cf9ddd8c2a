package org.lockstepdb.procedure;

/** What non-transactional procedures ask of the host; any thread may call it. */
public interface HostCalls {
    /** One call, routed as a client's. */
    int ONE = 0;
    /** A call on every partition. */
    int ALL_PARTITIONS = 1;

    /**
     * Begins an inner call, which is answered by {@link NonTransactional#complete}.
     *
     * @param call the call of the procedure, whose user's permissions hold
     */
    void start(long call, long request, int mode, String procedure, byte[] parameterSet);

    /** The procedure's own call has ended; the layout of outcomes is in README.md. */
    void finish(long call, byte[] outcome);
}
