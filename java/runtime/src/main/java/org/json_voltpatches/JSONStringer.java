package org.json_voltpatches;

import java.util.ArrayDeque;
import java.util.Deque;

/** Builds JSON text piece by piece. */
public class JSONStringer {
    private final StringBuilder text = new StringBuilder();
    /** The closing character of each object and array that is open. */
    private final Deque<Character> open = new ArrayDeque<>();
    private boolean separatorDue;
    private boolean keyWritten;

    private void before(boolean key) throws JSONException {
        boolean inObject = !open.isEmpty() && open.peek() == '}';
        if (inObject != (key || keyWritten) || (key && keyWritten)) {
            throw new JSONException(key ? "Misplaced key." : "Value out of sequence.");
        }
        if (separatorDue && !keyWritten) {
            text.append(',');
        }
        keyWritten = key;
        separatorDue = !key;
    }

    private JSONStringer begin(char opening, char closing) throws JSONException {
        before(false);
        text.append(opening);
        open.push(closing);
        separatorDue = false;
        return this;
    }

    private JSONStringer end(char closing) throws JSONException {
        if (open.isEmpty() || open.peek() != closing || keyWritten) {
            throw new JSONException("Misplaced end of " + (closing == '}' ? "object" : "array"));
        }
        text.append(open.pop());
        separatorDue = true;
        return this;
    }

    public JSONStringer object() throws JSONException {
        return begin('{', '}');
    }

    public JSONStringer endObject() throws JSONException {
        return end('}');
    }

    public JSONStringer array() throws JSONException {
        return begin('[', ']');
    }

    public JSONStringer endArray() throws JSONException {
        return end(']');
    }

    public JSONStringer key(String name) throws JSONException {
        before(true);
        text.append(JSONObject.quote(name)).append(':');
        return this;
    }

    public JSONStringer value(Object value) throws JSONException {
        String written = JSONObject.valueToString(value);
        before(false);
        text.append(written);
        return this;
    }

    public JSONStringer value(long value) throws JSONException {
        return value((Object) value);
    }

    public JSONStringer value(double value) throws JSONException {
        return value((Object) value);
    }

    public JSONStringer value(boolean value) throws JSONException {
        return value((Object) value);
    }

    /** A name with its value. */
    public JSONStringer keySymbolValuePair(String name, Object value) throws JSONException {
        return key(name).value(value);
    }

    /** The text, null while something is open. */
    @Override
    public String toString() {
        return open.isEmpty() && text.length() > 0 ? text.toString() : null;
    }
}
