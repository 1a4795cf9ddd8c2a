package org.voltdb;

/**
 * A user-defined aggregate function: an instance per group and partition takes the values of its
 * rows; the instances of a group's partitions are serialized and combined.
 *
 * @param <T> the argument's type
 * @param <U> the class itself
 */
public interface VoltUDAggregate<T, U> {
    /** Begins anew. */
    void start();

    /** Takes a row's value. */
    void assemble(T value);

    /** Takes what another instance has taken. */
    void combine(U other);

    /** The result. */
    Object end();
}
