package org.lockstepdb.procedure;

import java.lang.reflect.Method;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** Writes the {@link Invoker} of a method. */
final class InvokerWriter {
    private static final String INVOKER = Type.getInternalName(Invoker.class);
    private static final String PARAMETERS = Type.getInternalName(Parameters.class);
    private static final String RETURNED = Type.getInternalName(Returned.class);

    private InvokerWriter() {}

    static byte[] write(String name, Class<?> owner, Method method) {
        // Java 17's class file version; the method has no jumps, so it needs no frames.
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        writer.visit(Opcodes.V17, Opcodes.ACC_PUBLIC | Opcodes.ACC_FINAL | Opcodes.ACC_SUPER,
                name.replace('.', '/'), null, INVOKER, null);
        MethodVisitor constructor =
                writer.visitMethod(Opcodes.ACC_PUBLIC, "<init>", "()V", null, null);
        constructor.visitCode();
        constructor.visitVarInsn(Opcodes.ALOAD, 0);
        constructor.visitMethodInsn(Opcodes.INVOKESPECIAL, INVOKER, "<init>", "()V", false);
        constructor.visitInsn(Opcodes.RETURN);
        constructor.visitMaxs(0, 0);
        constructor.visitEnd();
        writeCall(writer, Type.getInternalName(owner), method);
        writer.visitEnd();
        return writer.toByteArray();
    }

    private static void writeCall(ClassWriter writer, String owner, Method method) {
        MethodVisitor call = writer.visitMethod(Opcodes.ACC_PUBLIC, "call",
                "(Ljava/lang/Object;L" + PARAMETERS + ";L" + RETURNED + ";)V", null, null);
        call.visitCode();
        call.visitVarInsn(Opcodes.ALOAD, 3);
        call.visitVarInsn(Opcodes.ALOAD, 1);
        call.visitTypeInsn(Opcodes.CHECKCAST, owner);
        for (Class<?> parameter : method.getParameterTypes()) {
            readParameter(call, parameter);
        }
        call.visitVarInsn(Opcodes.ALOAD, 2);
        call.visitMethodInsn(Opcodes.INVOKEVIRTUAL, PARAMETERS, "end", "()V", false);
        call.visitMethodInsn(Opcodes.INVOKEVIRTUAL, owner, method.getName(),
                Type.getMethodDescriptor(method), false);
        Class<?> returned = method.getReturnType();
        // Numbers of any width go as the widest.
        if (returned == int.class || returned == short.class || returned == byte.class) {
            call.visitInsn(Opcodes.I2L);
            returned = long.class;
        } else if (returned == double.class) {
            call.visitMethodInsn(Opcodes.INVOKESTATIC, "java/lang/Double", "valueOf",
                    "(D)Ljava/lang/Double;", false);
        }
        String given = returned == long.class ? "J" : "Ljava/lang/Object;";
        call.visitMethodInsn(Opcodes.INVOKEVIRTUAL, RETURNED, "set", "(" + given + ")V", false);
        call.visitInsn(Opcodes.RETURN);
        call.visitMaxs(0, 0);
        call.visitEnd();
    }

    private static void readParameter(MethodVisitor call, Class<?> parameter) {
        call.visitVarInsn(Opcodes.ALOAD, 2);
        String reader = "next";
        if (parameter == long.class) {
            reader = "nextLong";
        } else if (parameter == int.class) {
            reader = "nextInt";
        } else if (parameter == short.class) {
            reader = "nextShort";
        } else if (parameter == byte.class) {
            reader = "nextByte";
        } else if (parameter == double.class) {
            reader = "nextDouble";
        } else if (parameter == String.class) {
            reader = "nextString";
        }
        boolean general = reader.equals("next");
        call.visitMethodInsn(Opcodes.INVOKEVIRTUAL, PARAMETERS, reader,
                "()" + (general ? "Ljava/lang/Object;" : Type.getDescriptor(parameter)), false);
        if (general) {
            call.visitTypeInsn(Opcodes.CHECKCAST, Type.getInternalName(parameter));
        }
    }
}
