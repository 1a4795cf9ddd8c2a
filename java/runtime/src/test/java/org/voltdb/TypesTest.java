package org.voltdb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Date;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.voltdb.client.ClientResponse;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** Types, times and places. */
class TypesTest {
    @ParameterizedTest
    @CsvSource({"TINYINT,3,tinyint,1,byte", "SMALLINT,4,smallint,2,short",
        "INTEGER,5,integer,4,int", "BIGINT,6,bigint,8,long", "FLOAT,8,float,8,double",
        "STRING,9,varchar,-1,java.lang.String",
        "TIMESTAMP,11,timestamp,8,org.voltdb.types.TimestampType",
        "DECIMAL,22,decimal,16,java.math.BigDecimal", "BOOLEAN,23,boolean,1,boolean",
        "VARBINARY,25,varbinary,-1,[B",
        "GEOGRAPHY_POINT,26,GEOGRAPHY_POINT,16,org.voltdb.types.GeographyPointValue",
        "GEOGRAPHY,27,GEOGRAPHY,-1,org.voltdb.types.GeographyValue"})
    void typesOfColumns(VoltType type, byte code, String sql, int bytes, String javaClass) {
        assertEquals(code, type.getValue());
        assertSame(type, VoltType.get(code));
        assertEquals(sql, type.toSQLString());
        assertEquals("VoltType." + type.getName(), type.toString());
        assertEquals(bytes, type.getLengthInBytesForFixedTypesWithoutCheck());
        assertEquals(javaClass, type.classFromType().getName());
        assertSame(type, VoltType.typeFromClass(type.classFromType()));
        assertSame(type, VoltType.typeFromString(sql.toUpperCase()));
        assertSame(type, VoltType.typeFromString(type.toString()));
    }

    @Test
    void classesOfValues() {
        assertSame(VoltType.FLOAT, VoltType.typeFromObject(1.5f));
        assertSame(VoltType.TIMESTAMP, VoltType.typeFromObject(new Date()));
        assertSame(VoltType.TIMESTAMP, VoltType.typeFromClass(java.sql.Timestamp.class));
        assertSame(VoltType.VARBINARY, VoltType.typeFromObject(ByteBuffer.allocate(1)));
        assertSame(VoltType.VARBINARY, VoltType.typeFromClass(Byte[].class));
        assertSame(VoltType.VOLTTABLE, VoltType.typeFromClass(VoltTable.class));
        assertSame(VoltType.NULL, VoltType.typeFromObject(null));
        assertThrows(VoltTypeException.class, () -> VoltType.typeFromClass(Object.class));
        assertThrows(RuntimeException.class, () -> VoltType.typeFromString("text"));
        assertThrows(AssertionError.class, () -> VoltType.get((byte) 99));
        assertThrows(RuntimeException.class, VoltType.NULL::classFromType);
    }

    @Test
    void nullsAndBytes() {
        for (VoltType type : VoltType.values()) {
            if (type.isJdbcVisible() && type != VoltType.BOOLEAN
                    && !type.toSQLString().startsWith("INLIST")) {
                assertTrue(VoltType.isVoltNullValue(type.getNullValue()), type.toString());
            }
        }
        assertSame(VoltType.NULL_DECIMAL, VoltType.DECIMAL.getNullValue());
        assertFalse(VoltType.isVoltNullValue(0));
        assertFalse(VoltType.isVoltNullValue(-128));
        assertTrue(VoltType.isVoltNullValue((byte) -128));
        assertArrayEquals(new byte[] {5, 0, 0, 0, 0, 0, 0, 0}, VoltType.valueToBytes((short) 5));
        assertArrayEquals(new byte[] {97}, VoltType.valueToBytes("a"));
        assertEquals(5L, VoltType.BIGINT.bytesToValue(VoltType.valueToBytes(5L)));
        assertEquals(1048576, VoltType.MAX_VALUE_LENGTH);
        assertEquals(262144, VoltType.MAX_VALUE_LENGTH_IN_CHARACTERS);
        assertEquals(2097152, VoltTableRow.MAX_TUPLE_LENGTH);
    }

    @Test
    void times() {
        TimestampType time = new TimestampType("2020-02-03 04:05:06.700008");
        assertEquals(1580702706700008L, time.getTime());
        assertEquals(8, time.getUSec());
        assertEquals("2020-02-03 04:05:06.700008", time.toString());
        assertEquals(1580702706700L, time.asApproximateJavaDate().getTime());
        assertThrows(RuntimeException.class, time::asExactJavaDate);
        assertThrows(RuntimeException.class, time::asExactJavaSqlDate);
        assertEquals(new Date(7), new TimestampType(new Date(7)).asExactJavaDate());
        assertEquals(time, new TimestampType(time.asJavaTimestamp()));
        assertEquals("1969-12-31 23:59:59.999999", new TimestampType(-1).toString());
        assertEquals(-1, new TimestampType(new TimestampType(-1).asJavaTimestamp()).getTime());
        assertTrue(time.compareTo(new TimestampType(5)) > 0);
        assertEquals(time.hashCode(), new TimestampType(time.getTime()).hashCode());
        assertTrue(Math.abs(new TimestampType().getTime() / 1000 - System.currentTimeMillis())
                < 60_000);
        for (String wrong : new String[] {"", "x", "2020-01", "2020-13-01", "2020-01-01 24:00:00",
            "2020-01-01 00:00", "2020-01-01 00:00:00.", "2020-01-01 00:00:00.1234567"}) {
            assertThrows(IllegalArgumentException.class, () -> new TimestampType(wrong), wrong);
        }
    }

    @Test
    void points() {
        GeographyPointValue point = GeographyPointValue.fromWKT(" point ( -71.25   42.5 ) ");
        assertEquals(-71.25, point.getLongitude());
        assertEquals(42.5, point.getLatitude());
        assertEquals("POINT (-71.25 42.5)", point.toString());
        assertEquals("POINT (1.234567890123 0.0)",
                new GeographyPointValue(1.23456789012345, -0.0).toWKT());
        assertThrows(IllegalArgumentException.class, () -> new GeographyPointValue(180.1, 0));
        assertThrows(IllegalArgumentException.class, () -> new GeographyPointValue(0, Double.NaN));
        assertThrows(IllegalArgumentException.class, () -> GeographyPointValue.fromWKT("POINT(1)"));
        assertEquals("POINT (10.0 85.0)", GeographyPointValue.normalizeLngLat(190, 95).toWKT());
        GeographyPointValue zero = new GeographyPointValue(0, 0);
        GeographyPointValue ten = new GeographyPointValue(10, 20);
        assertEquals("POINT (-20.0 10.0)", ten.rotate(90, zero).toWKT());
        assertEquals("POINT (20.0 40.0)", ten.mul(2).toWKT());
        assertEquals("POINT (19.0 39.0)", ten.scale(new GeographyPointValue(1, 1), 2).toWKT());
        assertEquals("POINT (20.0 40.0)", ten.add(ten).toWKT());
        assertEquals(zero, ten.sub(ten));
        assertEquals(new GeographyPointValue(180, 1), new GeographyPointValue(-180, 1));
        assertEquals(new GeographyPointValue(12, 90), new GeographyPointValue(13, 90));
        ByteBuffer bytes = ByteBuffer.allocate(GeographyPointValue.getLengthInBytes() * 2);
        point.flattenToBuffer(bytes);
        GeographyPointValue.serializeNull(bytes);
        assertEquals(point, GeographyPointValue.unflattenFromBuffer(bytes, 0));
        assertNull(GeographyPointValue.unflattenFromBuffer(bytes, 16));
    }

    @Test
    void polygons() {
        String text = "POLYGON ((0.0 0.0, 9.0 0.0, 0.0 9.0, 0.0 0.0),"
                + " (0.1 0.1, 0.1 0.2, 0.2 0.1, 0.1 0.1))";
        GeographyValue polygon = GeographyValue.fromWKT(text);
        assertEquals(text, polygon.toWKT());
        assertEquals(2, polygon.getRings().size());
        assertEquals(40 + 2 * (43 + 3 * 24), polygon.getLengthInBytes());
        ByteBuffer bytes = ByteBuffer.allocate(polygon.getLengthInBytes());
        polygon.flattenToBuffer(bytes);
        assertEquals(text, GeographyValue.unflattenFromBuffer(bytes, 0).toWKT());
        assertEquals(polygon, new GeographyValue(polygon.getRings()));
        assertTrue(polygon.add(new GeographyPointValue(1, 1)).toWKT()
                .startsWith("POLYGON ((1.0 1.0, 10.0 1.0"));
        for (String wrong : new String[] {"", "POINT(0 0)", "POLYGON((0 0,1 0,0 1,1 1))",
            "POLYGON((0 0,1 0,0 0))", "POLYGON((0 0,1 0,0 1,0 0)", "POLYGON((0 0 0,1 0,0 1,0 0))",
            "POLYGON((0 0,x 0,0 1,0 0))", "POLYGON()"}) {
            assertThrows(IllegalArgumentException.class, () -> new GeographyValue(wrong), wrong);
        }
        assertThrows(IllegalArgumentException.class, () -> new GeographyValue(List.of()));
        assertEquals(32768, GeographyValue.DEFAULT_LENGTH);
        assertEquals(155, GeographyValue.MIN_SERIALIZED_LENGTH);
    }

    @Test
    void statements() {
        SQLStmt statement = new SQLStmt(" SELECT 1\nFROM t ", "t,u");
        assertEquals("SELECT 1 FROM t;", statement.getText());
        assertEquals("t,u", statement.getJoinOrder());
        assertFalse(statement.isReadOnly());
        assertEquals("a b;", SQLStmt.canonicalizeStmt("a\r\nb;"));
        VoltProcedure.VoltAbortException abort = new VoltProcedure.VoltAbortException();
        assertEquals("No message specified.", abort.getMessage());
        assertEquals(ClientResponse.USER_ABORT, abort.getClientResponseStatus());
        assertEquals("USER ABORT", abort.getShortStatusString());
    }
}
