package org.json_voltpatches;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/** A list of values. */
public class JSONArray {
    private final List<Object> list = new ArrayList<>();

    public JSONArray() {}

    public JSONArray(String text) throws JSONException {
        JSONTokener tokener = new JSONTokener(text);
        read(tokener);
        tokener.expectEnd();
    }

    public JSONArray(JSONTokener tokener) throws JSONException {
        read(tokener);
    }

    public JSONArray(Collection<?> values) {
        list.addAll(values);
    }

    private void read(JSONTokener tokener) throws JSONException {
        tokener.expect('[');
        if (tokener.accept(']')) {
            return;
        }
        do {
            list.add(tokener.nextValue());
        } while (tokener.accept(','));
        tokener.expect(']');
    }

    public int length() {
        return list.size();
    }

    public Object get(int index) throws JSONException {
        Object value = opt(index);
        if (value == null) {
            throw new JSONException("JSONArray[" + index + "] not found.");
        }
        return value;
    }

    public Object opt(int index) {
        return index < 0 || index >= list.size() ? null : list.get(index);
    }

    private <T> T get(int index, Class<T> wanted) throws JSONException {
        Object value = get(index);
        if (!wanted.isInstance(value)) {
            throw new JSONException("JSONArray[" + index + "] is not a " + wanted.getSimpleName()
                    + ".");
        }
        return wanted.cast(value);
    }

    public boolean isNull(int index) {
        Object value = opt(index);
        return value == null || value == JSONObject.NULL;
    }

    public String getString(int index) throws JSONException {
        return get(index).toString();
    }

    public int getInt(int index) throws JSONException {
        return get(index, Number.class).intValue();
    }

    public long getLong(int index) throws JSONException {
        return get(index, Number.class).longValue();
    }

    public double getDouble(int index) throws JSONException {
        return get(index, Number.class).doubleValue();
    }

    public boolean getBoolean(int index) throws JSONException {
        return get(index, Boolean.class);
    }

    public JSONArray getJSONArray(int index) throws JSONException {
        return get(index, JSONArray.class);
    }

    public JSONObject getJSONObject(int index) throws JSONException {
        return get(index, JSONObject.class);
    }

    public JSONArray put(Object value) {
        list.add(value);
        return this;
    }

    @Override
    public String toString() {
        StringBuilder out = new StringBuilder("[");
        try {
            for (int i = 0; i < list.size(); i++) {
                out.append(i > 0 ? "," : "").append(JSONObject.valueToString(list.get(i)));
            }
        } catch (JSONException e) {
            return null;
        }
        return out.append(']').toString();
    }
}
