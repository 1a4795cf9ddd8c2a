package org.lockstepdb.procedure;

/** Exceptions as text, with the frames of user code and none of ours. */
final class UserTrace {
    /** Frames of one exception that are shown: a stack overflow has thousands. */
    private static final int MAX_FRAMES = 100;
    private static final int MAX_CAUSES = 10;

    private UserTrace() {}

    /** An exception with its frames down to where the procedure was called, and its causes. */
    static String of(Throwable failure) {
        StringBuilder text = new StringBuilder();
        Throwable present = failure;
        for (int depth = 0; present != null && depth < MAX_CAUSES; depth++) {
            text.append(depth > 0 ? "\nCaused by: " : "").append(describe(present));
            int frames = 0;
            for (StackTraceElement frame : present.getStackTrace()) {
                if (frame.getClassName().endsWith(Invoker.SUFFIX)) {
                    break;
                }
                if (++frames > MAX_FRAMES) {
                    text.append("\n    ...");
                    break;
                }
                append(text, frame);
            }
            present = present.getCause() == present ? null : present.getCause();
        }
        return text.toString();
    }

    /** What a thread is doing, a line for each frame. */
    static String frames(StackTraceElement[] stack) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < stack.length && i < MAX_FRAMES; i++) {
            append(text, stack[i]);
        }
        return text.toString();
    }

    /** Without the names of modules and loaders, which say nothing here. */
    private static void append(StringBuilder text, StackTraceElement frame) {
        text.append("\n    at ").append(frame.getClassName()).append('.')
                .append(frame.getMethodName()).append('(');
        if (frame.isNativeMethod()) {
            text.append("Native Method");
        } else if (frame.getFileName() == null) {
            text.append("Unknown Source");
        } else {
            text.append(frame.getFileName());
            if (frame.getLineNumber() >= 0) {
                text.append(':').append(frame.getLineNumber());
            }
        }
        text.append(')');
    }

    /** User code may fail in describing its own exceptions. */
    private static String describe(Throwable failure) {
        try {
            return failure.toString();
        } catch (Throwable e) {
            return failure.getClass().getName();
        }
    }

    /** The frames in a procedure's class, a line each. */
    static String framesOf(Throwable failure, String className) {
        StringBuilder text = new StringBuilder();
        int frames = 0;
        for (StackTraceElement frame : failure.getStackTrace()) {
            String owner = frame.getClassName();
            boolean own = owner.equals(className) || owner.startsWith(className + "$");
            if (own && !owner.endsWith(Invoker.SUFFIX) && ++frames <= MAX_FRAMES) {
                append(text, frame);
            }
        }
        return text.toString();
    }
}
