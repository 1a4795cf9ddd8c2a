package org.lockstepdb.procedure;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** What the loader puts into user code: tests whether to go on, and stands-in for exits. */
public final class Guard {
    /** How many calls are to stop; not 0 sends all polls the long way. */
    static volatile int raised;
    private static final Object LOCK = new Object();

    private Guard() {}

    /** Ends the call if it is to stop. Stands at loops, method entries and handlers. */
    public static void poll() {
        if (raised != 0) {
            pollSlowly();
        }
    }

    private static void pollSlowly() {
        Site site = Site.current();
        if (site != null && site.isStopped()) {
            throw new Cancelled(site.reason());
        }
    }

    /** Stops the call that runs on an engine's thread, if one does. Any thread may call it. */
    public static boolean stop(Engine engine, String reason) {
        Site site = Site.of(engine);
        return stop(site, site.call(), reason);
    }

    static boolean stop(Site site, long call, String reason) {
        synchronized (LOCK) {
            if ((call & 1) == 0 || site.call() != call || site.isStopped()) {
                return false;
            }
            // A stop that came too late for its call is still counted.
            raised += site.hasStop() ? 0 : 1;
            site.markStopped(call, reason);
            // Under the lock, so that the end of the call (settle) takes it back and it cannot
            // come behind that and hit the thread's next work.
            Thread thread = site.thread;
            if (thread != null) {
                thread.interrupt();
            }
        }
        return true;
    }

    /** The site's call has ended; takes back what was meant for it. */
    static void settle(Site site) {
        synchronized (LOCK) {
            if (site.hasStop()) {
                site.clearStop();
                raised--;
                Thread.interrupted();
            }
        }
    }

    /** Gives up a site whose thread does not stop: other threads' polls are quick again. */
    static void abandon(Site site) {
        synchronized (LOCK) {
            if (site.thread != null) {
                Site.BY_THREAD.remove(site.thread, site);
            }
            if (site.hasStop()) {
                site.clearStop();
                raised--;
            }
        }
    }

    /** In place of the exits of the JVM. */
    public static void exit(int status) {
        throw new SecurityException("a procedure called exit(" + status
                + "): procedures cannot end the host");
    }

    /** In place of the exits of {@link Runtime}. */
    public static void exit(Runtime runtime, int status) {
        exit(status);
    }

    /** Before a call of any method {@code start()}: threads are refused inside transactions. */
    public static void starting(Object object) {
        if (object instanceof Thread) {
            refuseThreads();
        }
    }

    /** Where pools and timers are made: threads are refused inside transactions. */
    public static void refuseThreads() {
        Site site = Site.current();
        if (site != null && site.transactional && site.isInUserCode()) {
            throw new SecurityException("a transactional procedure cannot start threads");
        }
    }

    private static void check(Class<?> owner, String name) {
        boolean exits = owner == Runtime.class || owner == System.class
                ? name.equals("exit") || name.equals("halt")
                : owner.getName().equals("java.lang.Shutdown");
        if (exits) {
            exit(0);
        }
        if (Thread.class.isAssignableFrom(owner) && name.equals("start")) {
            refuseThreads();
        }
    }

    /** In place of {@link Method#invoke}. */
    public static Object invoke(Method method, Object object, Object[] arguments)
            throws IllegalAccessException, InvocationTargetException {
        check(method.getDeclaringClass(), method.getName());
        if (method.getDeclaringClass().getClassLoader() instanceof UserLoader) {
            // The caller that Java sees is this class, which has not the rights of the user's.
            method.setAccessible(true);
        }
        return method.invoke(object, arguments);
    }

    /** In place of {@link MethodHandles.Lookup#findStatic}. */
    public static MethodHandle findStatic(MethodHandles.Lookup lookup, Class<?> owner, String name,
            MethodType type) throws ReflectiveOperationException {
        check(owner, name);
        return lookup.findStatic(owner, name, type);
    }

    /** In place of {@link MethodHandles.Lookup#findVirtual}. */
    public static MethodHandle findVirtual(MethodHandles.Lookup lookup, Class<?> owner,
            String name, MethodType type) throws ReflectiveOperationException {
        check(owner, name);
        return lookup.findVirtual(owner, name, type);
    }
}
