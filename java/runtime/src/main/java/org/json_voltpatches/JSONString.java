package org.json_voltpatches;

/** A value that writes itself as JSON. */
public interface JSONString {
    /** The value as JSON text. */
    String toJSONString();
}
