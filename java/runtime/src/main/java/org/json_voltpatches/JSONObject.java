package org.json_voltpatches;

import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** Names with values, in the order in which they came. */
public class JSONObject {
    /** Stands for JSON's null. */
    public static final Object NULL = new Object() {
        @Override
        public String toString() {
            return "null";
        }
    };

    private final Map<String, Object> map = new LinkedHashMap<>();

    public JSONObject() {}

    public JSONObject(String text) throws JSONException {
        JSONTokener tokener = new JSONTokener(text);
        read(tokener);
        tokener.expectEnd();
    }

    public JSONObject(JSONTokener tokener) throws JSONException {
        read(tokener);
    }

    public JSONObject(Map<String, ?> values) {
        map.putAll(values);
    }

    private void read(JSONTokener tokener) throws JSONException {
        tokener.expect('{');
        if (tokener.accept('}')) {
            return;
        }
        do {
            String name = tokener.string();
            tokener.expect(':');
            map.put(name, tokener.nextValue());
        } while (tokener.accept(','));
        tokener.expect('}');
    }

    public Object get(String name) throws JSONException {
        Object value = map.get(name);
        if (value == null) {
            throw new JSONException("JSONObject[" + quote(name) + "] not found.");
        }
        return value;
    }

    public Object opt(String name) {
        return map.get(name);
    }

    private <T> T get(String name, Class<T> wanted) throws JSONException {
        Object value = get(name);
        if (!wanted.isInstance(value)) {
            throw new JSONException("JSONObject[" + quote(name) + "] is not a "
                    + wanted.getSimpleName() + ".");
        }
        return wanted.cast(value);
    }

    public String getString(String name) throws JSONException {
        return get(name).toString();
    }

    public int getInt(String name) throws JSONException {
        return get(name, Number.class).intValue();
    }

    public long getLong(String name) throws JSONException {
        return get(name, Number.class).longValue();
    }

    public double getDouble(String name) throws JSONException {
        return get(name, Number.class).doubleValue();
    }

    public boolean getBoolean(String name) throws JSONException {
        return get(name, Boolean.class);
    }

    public JSONArray getJSONArray(String name) throws JSONException {
        return get(name, JSONArray.class);
    }

    public JSONObject getJSONObject(String name) throws JSONException {
        return get(name, JSONObject.class);
    }

    public boolean has(String name) {
        return map.containsKey(name);
    }

    public boolean isNull(String name) {
        return !map.containsKey(name) || map.get(name) == NULL;
    }

    public int length() {
        return map.size();
    }

    public Iterator<String> keys() {
        return map.keySet().iterator();
    }

    public Set<String> keySet() {
        return map.keySet();
    }

    public JSONObject put(String name, Object value) throws JSONException {
        if (name == null) {
            throw new JSONException("Null key.");
        }
        if (value == null) {
            map.remove(name);
        } else {
            map.put(name, value);
        }
        return this;
    }

    public JSONObject put(String name, long value) throws JSONException {
        return put(name, (Object) value);
    }

    public JSONObject put(String name, int value) throws JSONException {
        return put(name, (Object) value);
    }

    public JSONObject put(String name, double value) throws JSONException {
        return put(name, (Object) value);
    }

    public JSONObject put(String name, boolean value) throws JSONException {
        return put(name, (Object) value);
    }

    public Object remove(String name) {
        return map.remove(name);
    }

    /** A string in quotation marks, with what must be escaped. */
    public static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (int i = 0; text != null && i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c >= ' ' && c != '\u2028' && c != '\u2029') {
                out.append(c);
            } else if (c == '\n') {
                out.append("\\n");
            } else if (c == '\t') {
                out.append("\\t");
            } else if (c == '\r') {
                out.append("\\r");
            } else {
                out.append(String.format("\\u%04x", (int) c));
            }
        }
        return out.append('"').toString();
    }

    /** Any value as JSON. */
    public static String valueToString(Object value) throws JSONException {
        if (value == null || value == NULL) {
            return "null";
        }
        if (value instanceof JSONString) {
            return ((JSONString) value).toJSONString();
        }
        if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            if (Double.isNaN(number) || Double.isInfinite(number)) {
                throw new JSONException("JSON does not allow non-finite numbers");
            }
            return value.toString();
        }
        if (value instanceof Number || value instanceof Boolean || value instanceof JSONObject
                || value instanceof JSONArray) {
            return value.toString();
        }
        if (value instanceof Map) {
            JSONObject object = new JSONObject();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                object.put(String.valueOf(entry.getKey()), entry.getValue());
            }
            return object.toString();
        }
        if (value instanceof Collection) {
            return new JSONArray((Collection<?>) value).toString();
        }
        return quote(value.toString());
    }

    @Override
    public String toString() {
        StringBuilder out = new StringBuilder("{");
        try {
            for (Map.Entry<String, Object> entry : map.entrySet()) {
                out.append(out.length() > 1 ? "," : "").append(quote(entry.getKey())).append(':')
                        .append(valueToString(entry.getValue()));
            }
        } catch (JSONException e) {
            return null;
        }
        return out.append('}').toString();
    }
}
