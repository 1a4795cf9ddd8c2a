package org.lockstepdb.procedure;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.voltdb.ProcInfo;
import org.voltdb.ProcStatsOption;
import org.voltdb.SQLStmt;
import org.voltdb.VoltCompoundProcedure;
import org.voltdb.VoltNonTransactionalProcedure;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** A procedure's class, checked: what DDL needs to know of it, and the maker of its instances. */
public final class Procedure {
    static final int TRANSACTIONAL = 1;
    static final int NON_TRANSACTIONAL = 2;
    static final int COMPOUND = 3;

    private final Class<?> type;
    private final int kind;
    private final Method run;
    private final List<Field> fields;
    private final List<SQLStmt> statements = new ArrayList<>();
    private final Constructor<?> constructor;
    private final Invoker invoker;
    /** Set by {@link #bind}; for each statement its parameters' type codes. */
    private volatile byte[][] parameterTypes;
    private volatile boolean[] readOnly = new boolean[0];

    Procedure(Class<?> type) throws DescribeException {
        this.type = type;
        kind = kindOf(type);
        if (kind == 0) {
            throw new DescribeException("Class " + type.getName() + " is not a procedure: it does"
                    + " not extend VoltProcedure or VoltNonTransactionalProcedure");
        }
        if (Modifier.isAbstract(type.getModifiers())) {
            throw new DescribeException("Class " + type.getName() + " is abstract");
        }
        run = findRun();
        checkRun();
        constructor = findConstructor(type);
        fields = kind == TRANSACTIONAL ? statementFields() : List.of();
        readStatements(create());
        invoker = makeInvoker();
    }

    static int kindOf(Class<?> type) {
        if (VoltProcedure.class.isAssignableFrom(type)) {
            return TRANSACTIONAL;
        }
        if (VoltCompoundProcedure.class.isAssignableFrom(type)) {
            return COMPOUND;
        }
        return VoltNonTransactionalProcedure.class.isAssignableFrom(type) ? NON_TRANSACTIONAL : 0;
    }

    /** The procedure's name if DDL gives none: the class's without its package. */
    String name() {
        return type.getName().substring(type.getName().lastIndexOf('.') + 1);
    }

    String className() {
        return type.getName();
    }

    int kind() {
        return kind;
    }

    private DescribeException broken(String what) {
        return new DescribeException("Procedure: " + name() + " " + what);
    }

    private Method findRun() throws DescribeException {
        Method found = null;
        boolean hidden = false;
        for (Method method : type.getDeclaredMethods()) {
            if (!method.getName().equals("run") || method.isBridge() || method.isSynthetic()) {
                continue;
            }
            if (!Modifier.isPublic(method.getModifiers())
                    || Modifier.isStatic(method.getModifiers())) {
                hidden = true;
                continue;
            }
            if (found != null) {
                throw broken("has multiple public run(...) methods. Only a single run(...) method"
                        + " is allowed.");
            }
            found = method;
        }
        if (found == null) {
            throw broken("has no run(...) method." + (hidden
                    ? " Its run(...) method must be public and not static." : ""));
        }
        return found;
    }

    private void checkRun() throws DescribeException {
        Class<?> returned = run.getReturnType();
        boolean allowed = returned == long.class || returned == Long.class
                || returned == VoltTable.class || returned == VoltTable[].class
                || (kind != TRANSACTIONAL && returned == CompletableFuture.class);
        if (!allowed) {
            throw broken("has run(...) method that doesn't return long, Long, VoltTable or"
                    + " VoltTable[].");
        }
        for (Class<?> parameter : run.getParameterTypes()) {
            Class<?> element = parameter.isArray() ? parameter.getComponentType() : parameter;
            if (element == float.class || element == Float.class) {
                throw broken("has a parameter with invalid type: " + parameter.getSimpleName()
                        + ". Replace this parameter type with double and the run(...) method"
                        + " accepts the same values.");
            }
            boolean boxed = kind != TRANSACTIONAL && Parameters.isBoxed(parameter);
            if (!Parameters.isAllowed(parameter) || boxed) {
                throw broken("has a parameter with invalid type: " + parameter.getName());
            }
        }
    }

    static Constructor<?> findConstructor(Class<?> type) throws DescribeException {
        try {
            Constructor<?> constructor = type.getConstructor();
            constructor.setAccessible(true);
            return constructor;
        } catch (NoSuchMethodException e) {
            throw new DescribeException("Class " + type.getName() + " needs a public constructor"
                    + " without parameters", e);
        }
    }

    Object create() throws DescribeException {
        return create(constructor);
    }

    static Object create(Constructor<?> constructor) throws DescribeException {
        String name = constructor.getDeclaringClass().getName();
        try {
            return constructor.newInstance();
        } catch (InvocationTargetException e) {
            Throwable cause = e.getCause();
            throw new DescribeException("Class " + name + " cannot be instantiated: " + cause,
                    cause);
        } catch (ReflectiveOperationException | LinkageError e) {
            throw new DescribeException("Class " + name + " cannot be instantiated: " + e, e);
        }
    }

    private List<Field> statementFields() throws DescribeException {
        List<Field> found = new ArrayList<>();
        for (Class<?> owner = type; owner != VoltProcedure.class; owner = owner.getSuperclass()) {
            for (Field field : owner.getDeclaredFields()) {
                if (field.getType() != SQLStmt.class) {
                    continue;
                }
                int modifiers = field.getModifiers();
                if (owner != type && Modifier.isPrivate(modifiers)) {
                    continue;
                }
                if (!Modifier.isFinal(modifiers)) {
                    throw new DescribeException("Procedure " + name()
                            + " contains a non-final SQLStmt field.");
                }
                field.setAccessible(true);
                found.add(field);
            }
        }
        return found;
    }

    private void readStatements(Object instance) throws DescribeException {
        for (int i = 0; i < fields.size(); i++) {
            SQLStmt statement = statementOf(instance, i);
            if (statement == null) {
                throw new DescribeException("Procedure " + name() + " has an SQLStmt field "
                        + fields.get(i).getName() + " that is null");
            }
            statements.add(statement);
        }
    }

    private SQLStmt statementOf(Object instance, int index) throws DescribeException {
        try {
            return (SQLStmt) fields.get(index).get(instance);
        } catch (IllegalAccessException e) {
            throw new DescribeException("field " + fields.get(index) + " cannot be read", e);
        }
    }

    private Invoker makeInvoker() throws DescribeException {
        try {
            String name = type.getName() + Invoker.SUFFIX;
            byte[] code = InvokerWriter.write(name, type, run);
            Class<?> written = ((UserLoader) type.getClassLoader()).defineInvoker(name, code);
            return (Invoker) written.getConstructor().newInstance();
        } catch (ReflectiveOperationException | LinkageError e) {
            throw new DescribeException("Procedure: " + name() + " cannot be called: " + e, e);
        }
    }

    Invoker invoker() {
        return invoker;
    }

    Class<?>[] parameterClasses() {
        return run.getParameterTypes();
    }

    /** The layout is in README.md. */
    public byte[] describe() {
        Record out = new Record();
        out.putByte(kind).putString(className()).putString(name());
        out.putShort(statements.size());
        for (int i = 0; i < statements.size(); i++) {
            SQLStmt statement = statements.get(i);
            out.putString(fields.get(i).getName()).putString(statement.getText())
                    .putString(statement.getJoinOrder());
        }
        Class<?>[] parameters = parameterClasses();
        out.putShort(parameters.length);
        for (Class<?> parameter : parameters) {
            boolean array = parameter.isArray() && parameter != byte[].class
                    && parameter != Byte[].class;
            Class<?> element = array ? parameter.getComponentType() : parameter;
            out.putByte(VoltType.typeFromClass(element).getValue()).putByte(array ? 1 : 0)
                    .putString(parameter.getTypeName());
        }
        out.putByte(returnKind());
        ProcStatsOption sampling = type.getAnnotation(ProcStatsOption.class);
        out.putInt(sampling == null ? 0 : sampling.procSamplingInterval());
        out.putInt(sampling == null ? 0 : sampling.stmtSamplingInterval());
        ProcInfo info = type.getAnnotation(ProcInfo.class);
        out.putString(info == null || info.partitionInfo().isEmpty() ? null
                : info.partitionInfo());
        return out.putByte(info != null && info.singlePartition() ? 1 : 0).toBytes();
    }

    private int returnKind() {
        Class<?> returned = run.getReturnType();
        if (returned == long.class) {
            return 0;
        }
        if (returned == Long.class) {
            return 1;
        }
        if (returned == VoltTable.class) {
            return 2;
        }
        return returned == VoltTable[].class ? 3 : 4;
    }

    /** Takes what the planner found of the statements; the layout is in README.md. */
    public void bind(byte[] planned) {
        ByteBuffer in = ByteBuffer.wrap(planned);
        int count = in.getShort();
        byte[][] types = new byte[count][];
        boolean[] reads = new boolean[count];
        for (int i = 0; i < count; i++) {
            reads[i] = in.get() != 0;
            types[i] = new byte[in.getShort()];
            in.get(types[i]);
        }
        readOnly = reads;
        parameterTypes = types;
    }

    boolean readOnly(int statement) {
        boolean[] known = readOnly;
        return statement < known.length && known[statement];
    }

    /** The type codes of a statement's parameters, null while nothing is bound. */
    byte[] parameterTypes(int statement) {
        byte[][] known = parameterTypes;
        return known == null || statement >= known.length ? null : known[statement];
    }

    int statementCount() {
        return statements.size();
    }

    StatementBinding bindStatement(SQLStmt statement, int index) {
        StatementBinding binding = new StatementBinding(this, index);
        ApiAccess.API.bind(statement, binding);
        return binding;
    }

    /** Tells an instance's statements what the planner found of them. */
    void bindStatements(Object instance) {
        for (int i = 0; i < fields.size(); i++) {
            try {
                bindStatement((SQLStmt) fields.get(i).get(instance), i);
            } catch (IllegalAccessException e) {
                throw new IllegalStateException("field " + fields.get(i) + " cannot be read", e);
            }
        }
    }

    /** The place of a statement, -1 if it is not one of this procedure's. */
    int indexOf(Object instance, SQLStmt statement) {
        for (int i = 0; i < fields.size(); i++) {
            try {
                if (fields.get(i).get(instance) == statement) {
                    return i;
                }
            } catch (IllegalAccessException e) {
                throw new IllegalStateException("field " + fields.get(i) + " cannot be read", e);
            }
        }
        return -1;
    }

    /** An instance for the calls of one thread. */
    public ProcedureInstance newInstance(Engine engine) throws DescribeException {
        if (kind != TRANSACTIONAL) {
            throw new DescribeException("Procedure: " + name() + " is not transactional");
        }
        Site site = Site.of(engine);
        Object user;
        // The constructor is user code as well, and may not hold the thread up.
        site.enter();
        try {
            user = create();
        } finally {
            site.leave();
        }
        return new ProcedureInstance(this, site, (VoltProcedure) user);
    }
}
