package org.lockstepdb.procedure;

import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.voltdb.VoltUDAggregate;

/** The classes of one state of the catalog, under a loader of their own. */
public final class ClassSpace {
    private static final int AGGREGATE = 4;

    private final UserLoader loader;
    private final Map<String, byte[]> entries;
    private final Map<String, Procedure> procedures = new TreeMap<>();

    public ClassSpace(byte[] jar) throws IOException {
        entries = Jars.readMerged(jar);
        loader = new UserLoader(entries);
    }

    /** What a class is for, 0 for none of ours or one that cannot be loaded. */
    private int kindOf(String name) {
        try {
            Class<?> type = Class.forName(name, false, loader);
            if (VoltUDAggregate.class.isAssignableFrom(type)) {
                return AGGREGATE;
            }
            return Procedure.kindOf(type);
        } catch (ClassNotFoundException | LinkageError e) {
            return 0;
        }
    }

    /** All classes, with what they are; the layout is in README.md. */
    public byte[] list() {
        Record out = new Record();
        Map<String, Integer> found = new TreeMap<>();
        for (String entry : entries.keySet()) {
            if (isClass(entry)) {
                found.put(classOf(entry), kindOf(classOf(entry)));
            }
        }
        out.putInt(found.size());
        found.forEach((name, kind) -> out.putString(name).putByte(kind));
        return out.toBytes();
    }

    private static boolean isClass(String entry) {
        return entry.endsWith(".class") && !entry.startsWith("META-INF/")
                && !entry.endsWith("module-info.class");
    }

    private static String classOf(String entry) {
        return entry.substring(0, entry.length() - ".class".length()).replace('/', '.');
    }

    /**
     * Runs the static initializers of the classes of a jar that is being added. They run in a
     * loader of their own, so that the classes in force start as if this had not been called.
     *
     * @param added the jar, which is part of these classes already
     * @throws DescribeException an initializer fails, or does not end
     */
    public void initialize(byte[] added) throws IOException, DescribeException {
        UserLoader trial = new UserLoader(entries);
        for (Map.Entry<String, byte[]> entry : Jars.read(added).entrySet()) {
            if (isClass(entry.getKey()) && Initializers.has(entry.getValue())) {
                String name = classOf(entry.getKey());
                Loading.guarded(name, () -> Initializers.run(name, trial));
            }
        }
    }

    private Class<?> load(String className) throws DescribeException {
        try {
            return Class.forName(className, true, loader);
        } catch (ClassNotFoundException e) {
            throw new DescribeException("Cannot find class: " + className + (e.getMessage() != null
                    && e.getMessage().equals(className) ? "" : " (" + e.getMessage() + ")"), e);
        } catch (LinkageError e) {
            Throwable cause = e.getCause() == null ? e : e.getCause();
            throw new DescribeException("Cannot load class: " + className + ": " + cause, cause);
        }
    }

    /**
     * Loads, checks and instantiates a procedure.
     *
     * @throws DescribeException says what is wrong with it
     */
    public synchronized Procedure procedure(String className) throws DescribeException {
        Procedure present = procedures.get(className);
        if (present == null) {
            present = Loading.guarded(className, () -> new Procedure(load(className)));
            procedures.put(className, present);
        }
        return present;
    }

    /** Loads and checks a scalar function. */
    public synchronized ScalarFunction function(String className, String method)
            throws DescribeException {
        return Loading.guarded(className, () -> new ScalarFunction(load(className), method));
    }

    /** Loads and checks an aggregate function. */
    public synchronized AggregateFunction aggregate(String className) throws DescribeException {
        return Loading.guarded(className, () -> new AggregateFunction(load(className)));
    }

    /** Forgets the classes; calls that are under way end as they would. */
    public synchronized void close() {
        procedures.clear();
    }
}
