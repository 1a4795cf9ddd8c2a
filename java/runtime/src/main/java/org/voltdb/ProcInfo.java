package org.voltdb;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** How older procedures say where they run; DDL is the present way and goes before it. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface ProcInfo {
    /** The partitioning column and parameter, as {@code TABLE.COLUMN: number}. */
    String partitionInfo() default "";

    /** Whether it runs on a single partition. */
    boolean singlePartition() default false;
}
