package org.voltdb.task;

import java.util.Collection;
import java.util.Collections;

/**
 * What the classes of a task have in common. A class may have a method {@code initialize} whose
 * parameters are a {@link TaskHelper}, or none, and those of the clause {@code WITH}.
 */
public interface Initializable {
    /** Names of further classes that this one needs. */
    default Collection<String> getDependencies() {
        return Collections.emptyList();
    }
}
