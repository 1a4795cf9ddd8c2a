package org.lockstepdb.procedure;

import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Static initializers of users' classes. */
final class Initializers {
    private static final String NAME = "<clinit>";

    private Initializers() {}

    /** Whether a class file has a static initializer; false also for bytes that are none. */
    static boolean has(byte[] classFile) {
        boolean[] found = new boolean[1];
        ClassVisitor visitor = new ClassVisitor(Opcodes.ASM9) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor,
                    String signature, String[] exceptions) {
                found[0] |= name.equals(NAME);
                return null;
            }
        };
        try {
            new ClassReader(classFile).accept(visitor,
                    ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
        } catch (RuntimeException notReadable) {
            return false;
        }
        return found[0];
    }

    /**
     * Initializes a class. Libraries have classes for other libraries that need not be there, and
     * classes that start threads, which procedures outside of transactions may: what fails for
     * that is found where the class is used.
     *
     * @throws DescribeException its static initializer, or one that it needs, fails
     */
    static Void run(String className, ClassLoader loader) throws DescribeException {
        try {
            Class.forName(className, true, loader);
        } catch (ClassNotFoundException | NoClassDefFoundError missing) {
            return null;
        } catch (LinkageError e) {
            boolean wrapped = e instanceof ExceptionInInitializerError && e.getCause() != null;
            Throwable failure = wrapped ? e.getCause() : e;
            boolean refusedThread = failure instanceof SecurityException;
            if (!refusedThread && (wrapped || isInInitializer(failure))) {
                throw new DescribeException("Cannot load class: " + className
                        + ": its static initializer failed: " + failure
                        + UserTrace.framesOf(failure, className), failure);
            }
        }
        return null;
    }

    private static boolean isInInitializer(Throwable failure) {
        for (StackTraceElement frame : failure.getStackTrace()) {
            if (frame.getMethodName().equals(NAME)) {
                return true;
            }
        }
        return false;
    }
}
