package org.voltdb;

import java.io.IOException;
import java.math.BigDecimal;
import org.json_voltpatches.JSONArray;
import org.json_voltpatches.JSONException;
import org.json_voltpatches.JSONObject;
import org.lockstepdb.procedure.Bytes;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** Tables as JSON: status, schema and data. */
final class TableJson {
    private TableJson() {}

    static String write(VoltTable table) {
        StringBuilder text = new StringBuilder("{\"status\":" + table.getStatusCode()
                + ",\"schema\":[");
        for (int i = 0; i < table.columns; i++) {
            text.append(i > 0 ? "," : "").append("{\"name\":")
                    .append(JSONObject.quote(table.getColumnName(i))).append(",\"type\":")
                    .append(table.typeCode(i)).append('}');
        }
        text.append("],\"data\":[");
        VoltTableRow row = new VoltTable.Row(table);
        while (row.advanceRow()) {
            text.append(row.getActiveRowIndex() > 0 ? ",[" : "[");
            for (int i = 0; i < table.columns; i++) {
                text.append(i > 0 ? "," : "").append(value(row, i));
            }
            text.append(']');
        }
        return text.append("]}").toString();
    }

    private static String value(VoltTableRow row, int column) {
        VoltType type = row.getColumnType(column);
        Object value = row.get(column, type);
        if (row.wasNull()) {
            return "null";
        }
        switch (type) {
            case TIMESTAMP:
                return Long.toString(((TimestampType) value).getTime());
            case VARBINARY:
                return JSONObject.quote(Bytes.hex((byte[]) value));
            case FLOAT:
                double number = (Double) value;
                return Double.isNaN(number) || Double.isInfinite(number)
                        ? JSONObject.quote(value.toString()) : value.toString();
            default:
                return value instanceof Number && type != VoltType.DECIMAL ? value.toString()
                        : JSONObject.quote(value.toString());
        }
    }

    static VoltTable read(JSONObject json) throws JSONException, IOException {
        JSONArray schema = json.getJSONArray("schema");
        VoltTable.ColumnInfo[] columns = new VoltTable.ColumnInfo[schema.length()];
        for (int i = 0; i < columns.length; i++) {
            JSONObject column = schema.getJSONObject(i);
            columns[i] = new VoltTable.ColumnInfo(column.getString("name"),
                    VoltType.get((byte) column.getInt("type")));
        }
        VoltTable table = new VoltTable(columns);
        table.setStatusCode((byte) json.getInt("status"));
        JSONArray rows = json.getJSONArray("data");
        for (int i = 0; i < rows.length(); i++) {
            JSONArray values = rows.getJSONArray(i);
            if (values.length() != columns.length) {
                throw new IOException("row " + i + " has " + values.length() + " values, not "
                        + columns.length);
            }
            Object[] row = new Object[columns.length];
            for (int j = 0; j < row.length; j++) {
                row[j] = values.isNull(j) ? null : value(columns[j].type, values, j);
            }
            table.addRow(row);
        }
        return table;
    }

    private static Object value(VoltType type, JSONArray values, int column)
            throws JSONException {
        switch (type) {
            case TINYINT:
            case SMALLINT:
            case INTEGER:
            case BIGINT:
            case TIMESTAMP:
                return values.getLong(column);
            case FLOAT:
                return Double.valueOf(values.getString(column));
            case DECIMAL:
                return new BigDecimal(values.getString(column));
            case GEOGRAPHY_POINT:
                return GeographyPointValue.fromWKT(values.getString(column));
            case GEOGRAPHY:
                return GeographyValue.fromWKT(values.getString(column));
            default:
                return values.getString(column);
        }
    }
}
