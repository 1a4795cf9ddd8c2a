package org.voltdb;

import java.util.zip.CRC32;
import org.lockstepdb.procedure.Bytes;

/** Tables as text for people. */
final class TableText {
    private static final int SHOWN_BINARY_BYTES = 5;
    private static final int BINARY_COLUMN_CHARACTERS = 87;

    private TableText() {}

    static String schema(VoltTable table) {
        StringBuilder text = new StringBuilder(" column count: " + table.columns + "\n");
        for (int i = 0; i < table.columns; i++) {
            text.append('(').append(table.getColumnName(i)).append(':')
                    .append(table.getColumnType(i).getName()).append("), ");
        }
        return text.toString();
    }

    static String plain(VoltTable table) {
        StringBuilder text = new StringBuilder();
        text.append(" header size: ").append(table.headerBytes()).append('\n');
        text.append(" status code: ").append(table.getStatusCode()).append(schema(table));
        text.append(" rows -\n");
        VoltTableRow row = new VoltTable.Row(table);
        while (row.advanceRow()) {
            text.append("  ").append(row(row));
        }
        return text.toString();
    }

    static String row(VoltTableRow row) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < row.getColumnCount(); i++) {
            if (i > 0) {
                text.append(',');
            }
            VoltType type = row.getColumnType(i);
            Object value = row.get(i, type);
            if (row.wasNull()) {
                text.append("NULL");
            } else {
                text.append(type == VoltType.VARBINARY ? binary((byte[]) value) : value);
            }
        }
        return text.append('\n').toString();
    }

    static String binary(byte[] value) {
        CRC32 sum = new CRC32();
        sum.update(value, 0, value.length);
        int shown = Math.min(value.length, SHOWN_BINARY_BYTES);
        return "bin[crc:" + sum.getValue() + ",value:0x" + Bytes.hex(value, 0, shown)
                + (shown < value.length ? "..." : "") + "]";
    }

    static String formatted(VoltTable table, boolean names) {
        String[][] cells = new String[table.rowCount()][table.columns];
        int[] widths = new int[table.columns];
        for (int i = 0; names && i < widths.length; i++) {
            widths[i] = table.getColumnName(i).length();
        }
        VoltTableRow row = new VoltTable.Row(table);
        while (row.advanceRow()) {
            String[] line = cells[row.getActiveRowIndex()];
            for (int i = 0; i < line.length; i++) {
                line[i] = cell(row, i);
                widths[i] = Math.max(widths[i], line[i].length());
            }
        }
        StringBuilder text = new StringBuilder();
        if (names) {
            for (int i = 0; i < widths.length; i++) {
                pad(text, i, table.getColumnName(i), widths[i], false);
            }
            text.append('\n');
            for (int i = 0; i < widths.length; i++) {
                text.append(i > 0 ? " " : "").append("-".repeat(widths[i] + 1));
            }
            text.append('\n');
        }
        for (String[] line : cells) {
            for (int i = 0; i < line.length; i++) {
                pad(text, i, line[i], widths[i], isRight(table.getColumnType(i)));
            }
            text.append('\n');
        }
        return text.toString();
    }

    private static boolean isRight(VoltType type) {
        return type.isNumber() || type == VoltType.BOOLEAN;
    }

    private static String cell(VoltTableRow row, int column) {
        VoltType type = row.getColumnType(column);
        Object value = row.get(column, type);
        if (row.wasNull()) {
            return "NULL";
        }
        if (type != VoltType.VARBINARY) {
            return value.toString();
        }
        String digits = Bytes.hex((byte[]) value);
        return digits.length() <= BINARY_COLUMN_CHARACTERS ? digits
                : digits.substring(0, BINARY_COLUMN_CHARACTERS) + "...";
    }

    private static void pad(StringBuilder text, int column, String cell, int width, boolean right) {
        if (column > 0) {
            text.append(' ');
        }
        String blanks = " ".repeat(width + 1 - cell.length());
        text.append(right ? blanks : "").append(cell).append(right ? "" : blanks);
    }
}
