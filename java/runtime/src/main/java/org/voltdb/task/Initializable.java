package org.voltdb.task;

import java.util.Collection;

/**
 * What the classes of a task have in common. A class may have a public method {@code initialize}
 * whose parameters are a {@link TaskHelper}, or none, and those of the clause {@code WITH}; the
 * last may be a {@code String[]} or {@code Object[]} that takes all that are left. A method
 * {@code validateParameters} with the same parameters returns what is wrong with them, or null.
 */
public interface Initializable {
    /**
     * Names of further classes that this one needs: a task starts again when one of them changes,
     * and with null when any class does.
     */
    default Collection<String> getDependencies() {
        return null;
    }
}
