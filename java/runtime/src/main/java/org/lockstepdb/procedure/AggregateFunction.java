package org.lockstepdb.procedure;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import org.voltdb.VoltType;
import org.voltdb.VoltUDAggregate;

/** A class that aggregates values. */
public final class AggregateFunction {
    private final Class<?> type;
    private final Constructor<?> constructor;
    private final Class<?> argument;
    private final Class<?> result;

    AggregateFunction(Class<?> type) throws DescribeException {
        this.type = type;
        if (!VoltUDAggregate.class.isAssignableFrom(type)
                || !Serializable.class.isAssignableFrom(type)) {
            throw new DescribeException("Class " + type.getName()
                    + " must implement VoltUDAggregate and java.io.Serializable");
        }
        constructor = Procedure.findConstructor(type);
        argument = method("assemble", 1).getParameterTypes()[0];
        result = method("end", 0).getReturnType();
        if (!ScalarFunction.isAllowed(argument) || !ScalarFunction.isAllowed(result)) {
            throw new DescribeException("Class " + type.getName() + " has an unsupported type: "
                    + (ScalarFunction.isAllowed(argument) ? result : argument).getName());
        }
        Procedure.create(constructor);
    }

    /** The method as the class declares it; compilers add one with the interface's types. */
    private Method method(String name, int parameters) throws DescribeException {
        for (Method candidate : type.getMethods()) {
            if (candidate.getName().equals(name) && candidate.getParameterCount() == parameters
                    && !candidate.isBridge() && !candidate.isSynthetic()) {
                return candidate;
            }
        }
        throw new DescribeException("Class " + type.getName() + " has no method " + name);
    }

    /** int8 type code of the result, int8 type code of the argument. */
    public byte[] describe() {
        return new Record().putByte(VoltType.typeFromClass(result).getValue())
                .putByte(VoltType.typeFromClass(argument).getValue()).toBytes();
    }

    /** An aggregate of one group. */
    public Instance newInstance(Engine engine) throws DescribeException {
        return new Instance(engine);
    }

    /** One group's values. */
    public final class Instance {
        private final Site site;
        private final Output out;
        private final Parameters parameters = new Parameters(new Class<?>[] {argument}, true);
        private VoltUDAggregate<Object, Object> user;

        private Instance(Engine engine) throws DescribeException {
            site = Site.of(engine);
            out = new Output(engine);
            user = make();
        }

        @SuppressWarnings("unchecked")
        private VoltUDAggregate<Object, Object> make() throws DescribeException {
            return (VoltUDAggregate<Object, Object>) Procedure.create(constructor);
        }

        /** Begins anew. */
        public int start() {
            return FunctionCall.run(site, out, () -> user.start());
        }

        /**
         * Takes values: a parameter set that may hold any number of them.
         *
         * @param length of the parameter set in the engine's buffer
         */
        public int assemble(int length) {
            return FunctionCall.run(site, out, () -> {
                int count = Parameters.count(site.engine.toJava(), 0);
                parameters.begin(site.engine.toJava(), 0, length);
                for (int i = 0; i < count; i++) {
                    user.assemble(parameters.nextAs(argument));
                }
            });
        }

        /** Writes what it holds, to be combined elsewhere: int32 length and bytes. */
        public int serialize() {
            return FunctionCall.run(site, out, () -> {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                try (ObjectOutputStream stream = new ObjectOutputStream(bytes)) {
                    stream.writeObject(user);
                }
                out.putVariable(bytes.toByteArray());
            });
        }

        /**
         * Takes what another instance holds.
         *
         * @param length of the bytes in the engine's buffer
         */
        public int combine(int length) {
            return FunctionCall.run(site, out, () -> {
                byte[] bytes = new byte[length];
                site.engine.toJava().get(0, bytes);
                try (ObjectInputStream stream = new UserStream(new ByteArrayInputStream(bytes))) {
                    user.combine(type.cast(stream.readObject()));
                }
            });
        }

        /** Writes the result as a typed value. */
        public int end() {
            return FunctionCall.run(site, out, () -> {
                Returned returned = new Returned();
                returned.set(user.end());
                FunctionCall.putValue(out, returned);
            });
        }
    }

    /** Finds classes where the aggregate's own was found. */
    private final class UserStream extends ObjectInputStream {
        UserStream(InputStream in) throws IOException {
            super(in);
        }

        @Override
        protected Class<?> resolveClass(ObjectStreamClass description)
                throws IOException, ClassNotFoundException {
            try {
                return Class.forName(description.getName(), false, type.getClassLoader());
            } catch (ClassNotFoundException e) {
                return super.resolveClass(description);
            }
        }
    }
}
