package org.voltdb.task;

import java.util.Locale;

/** Where a task runs. */
public enum TaskScope {
    /** Once in the cluster. */
    DATABASE,
    /** On each host. */
    HOSTS,
    /** On each partition. */
    PARTITIONS;

    /** The scope with a number, see {@link #getId}. */
    public static TaskScope fromId(byte id) {
        for (TaskScope scope : values()) {
            if (scope.getId() == id) {
                return scope;
            }
        }
        throw new IllegalArgumentException("there is no task scope with the number " + id);
    }

    /** The scope with a name, in any case; without one, {@link #DATABASE}. */
    public static TaskScope fromName(String name) {
        return name == null ? DATABASE : valueOf(name.toUpperCase(Locale.ROOT));
    }

    /** The name of the scope with a number. */
    public static String translateIdToName(byte id) {
        return fromId(id).name();
    }

    /** A number that stays the same. */
    public byte getId() {
        return (byte) ordinal();
    }
}
