package org.lockstepdb.procedure;

/** The host process's: registered by the host, which is in Rust. */
final class NativeCalls implements HostCalls {
    @Override
    public void start(long call, long request, int mode, String procedure, byte[] parameterSet) {
        startCall(call, request, mode, procedure, parameterSet);
    }

    @Override
    public void finish(long call, byte[] outcome) {
        finishCall(call, outcome);
    }

    private static native void startCall(long call, long request, int mode, String procedure,
            byte[] parameterSet);

    private static native void finishCall(long call, byte[] outcome);
}
