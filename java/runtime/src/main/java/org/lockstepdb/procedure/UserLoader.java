package org.lockstepdb.procedure;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.util.Collections;
import java.util.Enumeration;
import java.util.Map;

/**
 * Loads a user's classes from memory, rewritten. It gives them the JDK, the API, and what their jar
 * holds; nothing else of the host's.
 */
final class UserLoader extends ClassLoader {
    private static final ClassLoader RUNTIME = UserLoader.class.getClassLoader();

    static {
        registerAsParallelCapable();
    }

    private final Map<String, byte[]> entries;

    UserLoader(Map<String, byte[]> entries) {
        // No name of its own: it would stand in every frame of a stack trace.
        super(ClassLoader.getPlatformClassLoader());
        this.entries = entries;
    }

    private static boolean isApi(String name) {
        return name.startsWith("org.voltdb.") || name.startsWith("org.lockstepdb.procedure.")
                || name.startsWith("org.voltcore.logging.")
                || name.startsWith("org.json_voltpatches.");
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        if (isApi(name)) {
            try {
                return RUNTIME.loadClass(name);
            } catch (ClassNotFoundException notOurs) {
                // An application may live in a package of that name.
                return super.loadClass(name, resolve);
            }
        }
        return super.loadClass(name, resolve);
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
        byte[] original = entries.get(name.replace('.', '/') + ".class");
        if (original == null) {
            throw new ClassNotFoundException(name);
        }
        byte[] rewritten;
        try {
            rewritten = Rewriter.rewrite(original);
        } catch (RuntimeException e) {
            throw new ClassFormatError("class " + name + " cannot be read: " + e.getMessage());
        }
        return defineClass(name, rewritten, 0, rewritten.length);
    }

    /** Defines the class that calls a procedure, beside it. */
    Class<?> defineInvoker(String name, byte[] code) {
        return defineClass(name, code, 0, code.length);
    }

    /** A class that was defined already, or null. */
    Class<?> findLoaded(String name) {
        return findLoadedClass(name);
    }

    @Override
    public InputStream getResourceAsStream(String name) {
        byte[] data = entries.get(name);
        return data != null ? new ByteArrayInputStream(data) : super.getResourceAsStream(name);
    }

    @Override
    protected URL findResource(String name) {
        byte[] data = entries.get(name);
        if (data == null) {
            return null;
        }
        try {
            return new URL(null, "memory:" + name, new URLStreamHandler() {
                @Override
                protected URLConnection openConnection(URL url) {
                    return new Connection(url, data);
                }
            });
        } catch (MalformedURLException e) {
            return null;
        }
    }

    @Override
    protected Enumeration<URL> findResources(String name) {
        URL url = findResource(name);
        return url == null ? Collections.emptyEnumeration()
                : Collections.enumeration(Collections.singleton(url));
    }

    private static final class Connection extends URLConnection {
        private final byte[] data;

        Connection(URL url, byte[] data) {
            super(url);
            this.data = data;
        }

        @Override
        public void connect() {}

        @Override
        public InputStream getInputStream() throws IOException {
            return new ByteArrayInputStream(data);
        }
    }
}
