package org.lockstepdb.procedure;

/**
 * Calls a procedure's {@code run}. A subclass is written for each procedure when it is loaded: it
 * reads each parameter as its declared type, so that no call needs reflection or boxing.
 */
public abstract class Invoker {
    /** Ends the names of the classes that are written. */
    static final String SUFFIX = "$$Lockstep";

    protected Invoker() {}

    /** Reads the parameters, calls the procedure and hands over what it returns. */
    public abstract void call(Object procedure, Parameters in, Returned out) throws Throwable;
}
