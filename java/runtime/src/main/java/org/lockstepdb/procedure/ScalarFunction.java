package org.lockstepdb.procedure;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import org.voltdb.VoltType;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** A method that SQL can call. */
public final class ScalarFunction {
    private final Constructor<?> constructor;
    private final Method method;
    private final Invoker invoker;

    ScalarFunction(Class<?> type, String name) throws DescribeException {
        method = find(type, name);
        constructor = Procedure.findConstructor(type);
        if (!isAllowed(method.getReturnType())) {
            throw new DescribeException("Method " + type.getName() + "." + name
                    + " has an unsupported return type " + method.getReturnType().getName());
        }
        int number = 0;
        for (Class<?> parameter : method.getParameterTypes()) {
            if (!isAllowed(parameter)) {
                throw new DescribeException("Method " + type.getName() + "." + name
                        + " has an unsupported parameter type " + parameter.getName()
                        + " at position " + number);
            }
            number++;
        }
        invoker = makeInvoker(type, method);
        Procedure.create(constructor);
    }

    private static Method find(Class<?> type, String name) throws DescribeException {
        List<Method> found = new ArrayList<>();
        String hint = "";
        for (Method candidate : type.getDeclaredMethods()) {
            if (!candidate.getName().equals(name) || candidate.isSynthetic()) {
                continue;
            }
            int modifiers = candidate.getModifiers();
            if (!Modifier.isPublic(modifiers)) {
                hint = " A method of that name is not public.";
            } else if (Modifier.isStatic(modifiers)) {
                hint = " A method of that name is static.";
            } else if (candidate.getReturnType() == void.class) {
                hint = " A method of that name returns void.";
            } else {
                found.add(candidate);
            }
        }
        if (found.size() > 1) {
            throw new DescribeException("Class " + type.getSimpleName()
                    + " has multiple methods named " + name
                    + ". Only a single function method is supported.");
        }
        if (found.isEmpty()) {
            throw new DescribeException("Cannot find the implementation method " + name
                    + " for user-defined function in class " + type.getSimpleName() + "." + hint);
        }
        return found.get(0);
    }

    static boolean isAllowed(Class<?> type) {
        return type == byte.class || type == short.class || type == int.class
                || type == long.class || type == double.class || Parameters.isBoxed(type)
                || type == byte[].class || type == Byte[].class || type == BigDecimal.class
                || type == String.class || type == TimestampType.class
                || type == GeographyPointValue.class || type == GeographyValue.class;
    }

    static Invoker makeInvoker(Class<?> type, Method method) throws DescribeException {
        try {
            String name = type.getName() + "$" + method.getName() + Invoker.SUFFIX;
            UserLoader loader = (UserLoader) type.getClassLoader();
            Class<?> written = loader.findLoaded(name);
            if (written == null) {
                written = loader.defineInvoker(name, InvokerWriter.write(name, type, method));
            }
            return (Invoker) written.getConstructor().newInstance();
        } catch (ReflectiveOperationException | LinkageError e) {
            throw new DescribeException("Method " + method + " cannot be called: " + e, e);
        }
    }

    /** int8 type code of the result, int16 parameters, int8 type code each. */
    public byte[] describe() {
        Record out = new Record();
        out.putByte(VoltType.typeFromClass(method.getReturnType()).getValue());
        Class<?>[] parameters = method.getParameterTypes();
        out.putShort(parameters.length);
        for (Class<?> parameter : parameters) {
            out.putByte(VoltType.typeFromClass(parameter).getValue());
        }
        return out.toBytes();
    }

    /** An object for the calls of one thread. */
    public Instance newInstance(Engine engine) throws DescribeException {
        return new Instance(engine);
    }

    /** The function's object on one thread. */
    public final class Instance {
        private final Object user;
        private final Site site;
        private final Parameters parameters = new Parameters(method.getParameterTypes(), true);
        private final Returned returned = new Returned();
        private final Output out;

        private Instance(Engine engine) throws DescribeException {
            user = Procedure.create(constructor);
            site = Site.of(engine);
            out = new Output(engine);
        }

        /**
         * Calls the function; the layouts are in README.md. Never throws.
         *
         * @param length of the parameter set in the engine's buffer
         * @return length of the answer in the engine's other buffer
         */
        public int invoke(int length) {
            return FunctionCall.run(site, out, () -> {
                parameters.begin(site.engine.toJava(), 0, length);
                returned.clear();
                invoker.call(user, parameters, returned);
                FunctionCall.putValue(out, returned);
            });
        }
    }
}
