package procedures;

import java.util.Arrays;
import java.util.Date;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** Results that tests can compare: a table with one text. */
final class Shown {
    private Shown() {}

    static String text(Object value) {
        if (value instanceof Date) {
            return value.getClass().getSimpleName() + " " + ((Date) value).getTime();
        }
        if (value != null && value.getClass().isArray()) {
            String all = Arrays.deepToString(new Object[] {value});
            return all.substring(1, all.length() - 1);
        }
        return String.valueOf(value);
    }

    /** A table with one row and column: the value as text, with its class. */
    static VoltTable of(Object value) {
        VoltTable table = new VoltTable(new VoltTable.ColumnInfo("SHOWN", VoltType.STRING));
        table.addRow(text(value));
        return table;
    }

    /** The same for several values, divided by bars. */
    static VoltTable all(Object... values) {
        String[] texts = new String[values.length];
        for (int i = 0; i < texts.length; i++) {
            texts[i] = text(values[i]);
        }
        return of(String.join(" | ", texts));
    }
}
