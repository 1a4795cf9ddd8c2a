package org.lockstepdb.procedure;

import java.util.HashSet;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/**
 * Puts polls of {@link Guard} into a user's class, and stand-ins for what would end the host. What
 * is put in are calls without arguments or with those that are there, so frames stay as they are.
 */
final class Rewriter {
    private static final String GUARD = Type.getInternalName(Guard.class);
    private static final Set<String> POOLS = Set.of("java/util/concurrent/ThreadPoolExecutor",
            "java/util/concurrent/ScheduledThreadPoolExecutor", "java/util/concurrent/ForkJoinPool",
            "java/util/Timer");

    private Rewriter() {}

    static byte[] rewrite(byte[] original) {
        ClassReader reader = new ClassReader(original);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor,
                    String signature, String[] exceptions) {
                MethodVisitor next =
                        super.visitMethod(access, name, descriptor, signature, exceptions);
                return new Method(next);
            }
        }, 0);
        return writer.toByteArray();
    }

    private static final class Method extends MethodVisitor {
        /** Labels that were passed: a jump to one goes back. */
        private final Set<Label> passed = new HashSet<>();
        private final Set<Label> handlers = new HashSet<>();
        private final java.util.List<Label[]> blocks = new java.util.ArrayList<>();
        private boolean handlerBegins;

        Method(MethodVisitor next) {
            super(Opcodes.ASM9, next);
        }

        private void poll() {
            super.visitMethodInsn(Opcodes.INVOKESTATIC, GUARD, "poll", "()V", false);
        }

        @Override
        public void visitCode() {
            super.visitCode();
            poll();
        }

        @Override
        public void visitTryCatchBlock(Label start, Label end, Label handler, String type) {
            super.visitTryCatchBlock(start, end, handler, type);
            handlers.add(handler);
            blocks.add(new Label[] {start, end, handler});
        }

        @Override
        public void visitLabel(Label label) {
            super.visitLabel(label);
            passed.add(label);
            if (handlers.contains(label) && !coversItself(label)) {
                handlerBegins = true;
            }
        }

        /**
         * Whether what the handler throws comes back to it, as where compilers give back monitors;
         * a poll there would never get out.
         */
        private boolean coversItself(Label handler) {
            for (Label[] block : blocks) {
                if (block[2] == handler && passed.contains(block[0])
                        && !passed.contains(block[1])) {
                    return true;
                }
            }
            return false;
        }

        /** A handler's poll stands before its first instruction, behind its frame. */
        private void instruction() {
            if (handlerBegins) {
                handlerBegins = false;
                poll();
            }
        }

        private void jump(Label target) {
            if (passed.contains(target)) {
                poll();
            }
        }

        @Override
        public void visitJumpInsn(int opcode, Label label) {
            instruction();
            jump(label);
            super.visitJumpInsn(opcode, label);
        }

        @Override
        public void visitTableSwitchInsn(int min, int max, Label otherwise, Label... labels) {
            instruction();
            switchPoll(otherwise, labels);
            super.visitTableSwitchInsn(min, max, otherwise, labels);
        }

        @Override
        public void visitLookupSwitchInsn(Label otherwise, int[] keys, Label[] labels) {
            instruction();
            switchPoll(otherwise, labels);
            super.visitLookupSwitchInsn(otherwise, keys, labels);
        }

        private void switchPoll(Label otherwise, Label[] labels) {
            boolean back = passed.contains(otherwise);
            for (Label label : labels) {
                back |= passed.contains(label);
            }
            if (back) {
                poll();
            }
        }

        @Override
        public void visitInsn(int opcode) {
            instruction();
            super.visitInsn(opcode);
        }

        @Override
        public void visitIntInsn(int opcode, int operand) {
            instruction();
            super.visitIntInsn(opcode, operand);
        }

        @Override
        public void visitVarInsn(int opcode, int variable) {
            instruction();
            super.visitVarInsn(opcode, variable);
        }

        @Override
        public void visitTypeInsn(int opcode, String type) {
            instruction();
            if (opcode == Opcodes.NEW && POOLS.contains(type)) {
                refuseThreads();
            }
            super.visitTypeInsn(opcode, type);
        }

        private void refuseThreads() {
            super.visitMethodInsn(Opcodes.INVOKESTATIC, GUARD, "refuseThreads", "()V", false);
        }

        @Override
        public void visitFieldInsn(int opcode, String owner, String name, String descriptor) {
            instruction();
            super.visitFieldInsn(opcode, owner, name, descriptor);
        }

        @Override
        public void visitLdcInsn(Object value) {
            instruction();
            super.visitLdcInsn(value);
        }

        @Override
        public void visitIincInsn(int variable, int increment) {
            instruction();
            super.visitIincInsn(variable, increment);
        }

        @Override
        public void visitMultiANewArrayInsn(String descriptor, int dimensions) {
            instruction();
            super.visitMultiANewArrayInsn(descriptor, dimensions);
        }

        @Override
        public void visitMethodInsn(int opcode, String owner, String name, String descriptor,
                boolean isInterface) {
            instruction();
            String standIn = standIn(owner, name, descriptor);
            if (standIn != null) {
                super.visitMethodInsn(Opcodes.INVOKESTATIC, GUARD, name.equals("halt") ? "exit"
                        : name, standIn, false);
                return;
            }
            if (name.equals("start") && descriptor.equals("()V")
                    && (opcode == Opcodes.INVOKEVIRTUAL || opcode == Opcodes.INVOKESPECIAL)) {
                super.visitInsn(Opcodes.DUP);
                super.visitMethodInsn(Opcodes.INVOKESTATIC, GUARD, "starting",
                        "(Ljava/lang/Object;)V", false);
            } else if (owner.equals("java/util/concurrent/Executors") && name.startsWith("new")) {
                refuseThreads();
            }
            super.visitMethodInsn(opcode, owner, name, descriptor, isInterface);
        }

        @Override
        public void visitInvokeDynamicInsn(String name, String descriptor, Handle bootstrap,
                Object... arguments) {
            instruction();
            Object[] replaced = arguments.clone();
            for (int i = 0; i < replaced.length; i++) {
                if (replaced[i] instanceof Handle) {
                    replaced[i] = replaced((Handle) replaced[i]);
                }
            }
            super.visitInvokeDynamicInsn(name, descriptor, bootstrap, replaced);
        }

        private static Handle replaced(Handle handle) {
            String standIn = standIn(handle.getOwner(), handle.getName(), handle.getDesc());
            if (standIn == null) {
                return handle;
            }
            String name = handle.getName().equals("halt") ? "exit" : handle.getName();
            return new Handle(Opcodes.H_INVOKESTATIC, GUARD, name, standIn, false);
        }
    }

    /** The descriptor of the method of {@link Guard} to call instead, or null. */
    private static String standIn(String owner, String name, String descriptor) {
        switch (owner + "." + name) {
            case "java/lang/System.exit":
                return descriptor;
            case "java/lang/Runtime.exit":
            case "java/lang/Runtime.halt":
            case "java/lang/reflect/Method.invoke":
            case "java/lang/invoke/MethodHandles$Lookup.findStatic":
            case "java/lang/invoke/MethodHandles$Lookup.findVirtual":
                return "(L" + owner + ";" + descriptor.substring(1);
            default:
                return null;
        }
    }
}
