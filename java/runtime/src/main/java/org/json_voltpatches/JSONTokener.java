package org.json_voltpatches;

import java.math.BigDecimal;

/** Reads JSON text. */
public class JSONTokener {
    /** Objects within objects; deeper text is refused. */
    private static final int MAX_DEPTH = 512;

    private final String text;
    private int at;
    private int depth;

    public JSONTokener(String text) {
        this.text = text;
    }

    /** An exception that says where reading stands. */
    public JSONException syntaxError(String message) {
        return new JSONException(message + " at character " + at);
    }

    private char peek() throws JSONException {
        while (at < text.length() && text.charAt(at) <= ' ') {
            at++;
        }
        if (at >= text.length()) {
            throw syntaxError("the text ends too early");
        }
        return text.charAt(at);
    }

    void expect(char wanted) throws JSONException {
        if (peek() != wanted) {
            throw syntaxError("expected '" + wanted + "'");
        }
        at++;
    }

    boolean accept(char wanted) throws JSONException {
        if (peek() != wanted) {
            return false;
        }
        at++;
        return true;
    }

    void expectEnd() throws JSONException {
        while (at < text.length()) {
            if (text.charAt(at++) > ' ') {
                throw syntaxError("text behind the value");
            }
        }
    }

    /** The next value: an object, array, string, number, boolean or {@link JSONObject#NULL}. */
    public Object nextValue() throws JSONException {
        if (++depth > MAX_DEPTH) {
            throw syntaxError("values are nested deeper than " + MAX_DEPTH);
        }
        try {
            switch (peek()) {
                case '{':
                    return new JSONObject(this);
                case '[':
                    return new JSONArray(this);
                case '"':
                case '\'':
                    return string();
                default:
                    return word();
            }
        } finally {
            depth--;
        }
    }

    String string() throws JSONException {
        char quote = peek();
        if (quote != '"' && quote != '\'') {
            throw syntaxError("expected a string");
        }
        at++;
        StringBuilder value = new StringBuilder();
        while (true) {
            if (at >= text.length()) {
                throw syntaxError("a string does not end");
            }
            char c = text.charAt(at++);
            if (c == quote) {
                return value.toString();
            }
            value.append(c == '\\' ? escaped() : c);
        }
    }

    private char escaped() throws JSONException {
        if (at >= text.length()) {
            throw syntaxError("a string does not end");
        }
        char c = text.charAt(at++);
        switch (c) {
            case 'b':
                return '\b';
            case 't':
                return '\t';
            case 'n':
                return '\n';
            case 'f':
                return '\f';
            case 'r':
                return '\r';
            case 'u':
                if (at + 4 > text.length()) {
                    throw syntaxError("a string does not end");
                }
                at += 4;
                try {
                    return (char) Integer.parseInt(text.substring(at - 4, at), 16);
                } catch (NumberFormatException e) {
                    throw syntaxError("not four hex digits behind \\u");
                }
            default:
                return c;
        }
    }

    private Object word() throws JSONException {
        int start = at;
        while (at < text.length() && ",:]}/\\\"[{;=# \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(start, at);
        switch (word) {
            case "":
                throw syntaxError("a value is missing");
            case "true":
                return Boolean.TRUE;
            case "false":
                return Boolean.FALSE;
            case "null":
                return JSONObject.NULL;
            default:
                return number(word);
        }
    }

    private Object number(String word) throws JSONException {
        try {
            if (word.indexOf('.') >= 0 || word.indexOf('e') >= 0 || word.indexOf('E') >= 0) {
                return Double.valueOf(word);
            }
            long value = new BigDecimal(word).longValueExact();
            if (value == (int) value) {
                return (int) value;
            }
            return value;
        } catch (ArithmeticException | NumberFormatException e) {
            throw syntaxError("not a value: " + word);
        }
    }
}
