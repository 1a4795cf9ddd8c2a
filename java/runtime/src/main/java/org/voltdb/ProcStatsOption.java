package org.voltdb;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** How often calls of a procedure are measured. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface ProcStatsOption {
    /** One call in so many. */
    int procSamplingInterval() default 20;

    /** The statements of one call in so many. */
    int stmtSamplingInterval() default 200;
}
