package org.voltcore.logging;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Locale;

/** A log for procedures: lines on the standard error stream of the host, from INFO on. */
public class VoltLogger {
    private final String name;

    public VoltLogger(String name) {
        this.name = name;
    }

    private static boolean isShown(Level level) {
        return level.compareTo(Level.INFO) >= 0;
    }

    private void submit(Level level, Object message, Throwable throwable) {
        if (!isShown(level)) {
            return;
        }
        StringWriter text = new StringWriter();
        text.append(level + " " + name + ": " + message);
        if (throwable != null) {
            text.append(System.lineSeparator());
            throwable.printStackTrace(new PrintWriter(text));
        }
        System.err.println(text);
    }

    private void submit(Level level, Throwable throwable, String format, Object... arguments) {
        if (isShown(level)) {
            submit(level, String.format(Locale.ROOT, format, arguments), throwable);
        }
    }

    public void log(Level level, Object message, Throwable throwable) {
        submit(level, message, throwable);
    }

    public void trace(Object message) {
        submit(Level.TRACE, message, null);
    }

    public void trace(Object message, Throwable throwable) {
        submit(Level.TRACE, message, throwable);
    }

    public void debug(Object message) {
        submit(Level.DEBUG, message, null);
    }

    public void debug(Object message, Throwable throwable) {
        submit(Level.DEBUG, message, throwable);
    }

    public void info(Object message) {
        submit(Level.INFO, message, null);
    }

    public void info(Object message, Throwable throwable) {
        submit(Level.INFO, message, throwable);
    }

    public void warn(Object message) {
        submit(Level.WARN, message, null);
    }

    public void warn(Object message, Throwable throwable) {
        submit(Level.WARN, message, throwable);
    }

    public void error(Object message) {
        submit(Level.ERROR, message, null);
    }

    public void error(Object message, Throwable throwable) {
        submit(Level.ERROR, message, throwable);
    }

    public void fatal(Object message) {
        submit(Level.FATAL, message, null);
    }

    public void fatal(Object message, Throwable throwable) {
        submit(Level.FATAL, message, throwable);
    }

    public void traceFmt(String format, Object... arguments) {
        submit(Level.TRACE, null, format, arguments);
    }

    public void debugFmt(String format, Object... arguments) {
        submit(Level.DEBUG, null, format, arguments);
    }

    public void infoFmt(String format, Object... arguments) {
        submit(Level.INFO, null, format, arguments);
    }

    public void warnFmt(String format, Object... arguments) {
        submit(Level.WARN, null, format, arguments);
    }

    public void errorFmt(String format, Object... arguments) {
        submit(Level.ERROR, null, format, arguments);
    }

    public boolean isDebugEnabled() {
        return false;
    }

    public boolean isTraceEnabled() {
        return false;
    }

    public boolean isInfoEnabled() {
        return true;
    }
}
