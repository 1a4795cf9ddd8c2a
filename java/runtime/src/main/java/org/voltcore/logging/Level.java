package org.voltcore.logging;

/** How much a message matters. */
public enum Level {
    TRACE,
    DEBUG,
    INFO,
    WARN,
    ERROR,
    FATAL
}
