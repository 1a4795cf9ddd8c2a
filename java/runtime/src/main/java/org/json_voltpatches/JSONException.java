package org.json_voltpatches;

/** Text is not JSON, or holds something else than was asked for. */
public class JSONException extends Exception {
    private static final long serialVersionUID = 1L;

    public JSONException(String message) {
        super(message);
    }

    public JSONException(Throwable cause) {
        super(cause);
    }
}
