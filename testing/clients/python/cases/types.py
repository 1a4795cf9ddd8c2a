"""Every column type both ways: nulls, extremes, multibyte text, long values."""

import array
import datetime
import decimal

import wire
from harness import (BIGINT, Case, DECIMAL, FLOAT, GRACEFUL_FAILURE, INTEGER, NULL, SMALLINT,
                     STRING, TIMESTAMP, TINYINT, VARBINARY)

NINES = decimal.Decimal("99999999999999999999999999.999999999999")
TINIEST = decimal.Decimal("0.000000000001")
COLUMNS = ("id", "ti", "si", "ii", "bi", "fl", "de", "vs", "vb", "ts")
KINDS = (INTEGER, TINYINT, SMALLINT, INTEGER, BIGINT, FLOAT, DECIMAL, STRING, VARBINARY, TIMESTAMP)


def moment(text):
    """A timestamp such as the client wants it; the process runs in UTC."""
    return datetime.datetime.fromisoformat(text)


class TypeCase(Case):
    """Values through a generated insert procedure and back through SQL."""

    partition = ""
    schema = (
        "CREATE TABLE all_types (id INTEGER NOT NULL, ti TINYINT, si SMALLINT, ii INTEGER,"
        " bi BIGINT, fl FLOAT, de DECIMAL, vs VARCHAR(100), vb VARBINARY(100), ts TIMESTAMP,"
        " PRIMARY KEY (id))",
        "PARTITION TABLE all_types ON COLUMN id",
    )

    def tearDown(self):
        self.sql("DELETE FROM all_types")

    def round_trip(self, column, kind, value):
        """One value into one column and back."""
        kinds = [INTEGER] + [NULL] * 9
        values = [7] + [None] * 9
        position = COLUMNS.index(column)
        kinds[position], values[position] = kind, value
        tables = self.call("ALL_TYPES.insert", kinds, values)
        self.assertEqual(tables[0].tuples, [[1]])
        found = self.rows("SELECT %s FROM all_types WHERE id = 7" % column)[0][0]
        self.sql("DELETE FROM all_types")
        return found

    def assert_same(self, column, kind, values):
        for value in values:
            with self.subTest(column=column, value=str(value)[:60]):
                self.assertEqual(self.round_trip(column, kind, value), value)


class AllTypes(TypeCase):
    """On a partitioned table."""

    def test_result_columns_have_the_declared_types(self):
        table = self.sql("SELECT * FROM all_types")
        self.assert_columns(table, "ID:INTEGER TI:TINYINT SI:SMALLINT II:INTEGER BI:BIGINT"
                                   " FL:FLOAT DE:DECIMAL VS:STRING VB:VARBINARY TS:TIMESTAMP")
        self.assertEqual(table.tuples, [])

    def test_integers_of_all_widths(self):
        for column, kind, bits in (("ti", TINYINT, 8), ("si", SMALLINT, 16), ("ii", INTEGER, 32),
                                   ("bi", BIGINT, 64)):
            top = 2 ** (bits - 1) - 1
            self.assert_same(column, kind, (0, 1, -1, top, -top))

    def test_wider_integers_are_narrowed_when_they_fit(self):
        self.assertEqual(self.round_trip("ti", BIGINT, 127), 127)
        self.assertEqual(self.round_trip("bi", TINYINT, -5), -5)

    def test_floats(self):
        self.assert_same("fl", FLOAT, (0.0, 1.5, -2.25, 0.1, 1.7976931348623157e308, -1.5e308,
                                       2.2250738585072014e-308, 5e-324, float("inf")))

    def test_nan_is_a_value(self):
        found = self.round_trip("fl", FLOAT, float("nan"))
        self.assertTrue(isinstance(found, float) and found != found, found)
        self.assertIsNone(self.round_trip("fl", FLOAT, float("-inf")))
        for number, value in enumerate((float("nan"), float("nan"), -1.5e308, float("-inf"))):
            self.call("ALL_TYPES.insert", [INTEGER] + [NULL] * 4 + [FLOAT] + [NULL] * 4,
                      [number] + [None] * 4 + [value] + [None] * 4)
        self.assertEqual(self.rows("SELECT id FROM all_types ORDER BY fl, id"),
                         [[3], [0], [1], [2]])
        self.assertEqual(self.rows("SELECT COUNT(*) FROM all_types GROUP BY fl ORDER BY fl"),
                         [[1], [2], [1]])
        self.assertEqual(self.rows("SELECT id FROM all_types WHERE fl IS NULL"), [[3]])

    def test_decimals(self):
        self.assert_same("de", DECIMAL, (decimal.Decimal("1"), decimal.Decimal("-1"),
                                         decimal.Decimal("123.45"), decimal.Decimal("0"), NINES,
                                         -NINES, TINIEST, -TINIEST,
                                         decimal.Decimal("-0.5")))

    def test_strings(self):
        texts = ("", "a", " padded ", "hé", "日本語", "🙂🙃", "a\nb\tc", "it's", "x" * 63, "x" * 64,
                 "x" * 100, "é" * 100, "🙂" * 100, "\u0000zero")
        self.assert_same("vs", STRING, texts)

    def test_varbinary(self):
        for raw in (b"", b"\x00", b"\xff" * 100, bytes(range(100))):
            found = self.round_trip("vb", VARBINARY, raw)
            self.assertEqual(found, array.array("B", raw))

    def test_timestamps(self):
        self.assert_same("ts", TIMESTAMP, (
            moment("1970-01-01 00:00:00"), moment("2000-01-01 00:00:00.123456"),
            moment("1969-12-31 23:59:59.500000"), moment("2100-12-31 23:59:59.999999"),
            moment("1700-02-28 12:00:00")))

    def test_nulls(self):
        for column, kind in zip(COLUMNS[1:], KINDS[1:]):
            with self.subTest(column=column):
                self.assertIsNone(self.round_trip(column, NULL, None))
                if kind != DECIMAL:  # the client cannot write a null of type DECIMAL
                    self.assertIsNone(self.round_trip(column, kind, None))

    def test_a_whole_row(self):
        values = [1, 2, 3, 4, 5, 6.5, decimal.Decimal("7.25"), "acht", b"\x09",
                  moment("2010-10-10 10:10:10.101010")]
        self.call("ALL_TYPES.insert", KINDS, values)
        expected = values[:8] + [array.array("B", b"\x09")] + values[9:]
        self.assertEqual(self.rows("SELECT * FROM all_types"), [expected])

    def test_literals(self):
        self.sql("INSERT INTO all_types VALUES (1, -127, 32767, -2147483647, 9223372036854775807,"
                 " -1.5E10, -0.000000000001, 'é''x', X'0aff', '2001-02-03 04:05:06.000007')")
        self.assertEqual(self.rows("SELECT * FROM all_types"), [[
            1, -127, 32767, -2147483647, 9223372036854775807, -1.5e10, -TINIEST, "é'x",
            array.array("B", b"\x0a\xff"), moment("2001-02-03 04:05:06.000007")]])

    def test_out_of_range_is_refused(self):
        cases = (("ti", SMALLINT, 128), ("ti", BIGINT, -129), ("si", INTEGER, 32768),
                 ("ii", BIGINT, 2147483648), ("ti", BIGINT, 2 ** 62))
        for column, kind, value in cases:
            kinds, values = [INTEGER] + [NULL] * 9, [7] + [None] * 9
            position = COLUMNS.index(column)
            kinds[position], values[position] = kind, value
            with self.subTest(column=column, value=value):
                self.refused(GRACEFUL_FAILURE, ".", "ALL_TYPES.insert", kinds, values)
        self.assertEqual(self.rows("SELECT COUNT(*) FROM all_types"), [[0]])

    def test_values_over_the_columns_length_are_refused(self):
        for column, kind, value, pattern in (
                ("vs", STRING, "x" * 101, r"exceeds the size of the VARCHAR\(100\) column"),
                ("vs", STRING, "🙂" * 101, r"exceeds the size of the VARCHAR\(100\) column"),
                ("vb", VARBINARY, b"x" * 101, r"exceeds the size of the VARBINARY\(100\) column")):
            kinds, values = [INTEGER] + [NULL] * 9, [7] + [None] * 9
            position = COLUMNS.index(column)
            kinds[position], values[position] = kind, value
            with self.subTest(column=column):
                self.refused(GRACEFUL_FAILURE, pattern, "ALL_TYPES.insert", kinds, values)

    def test_strings_become_numbers_where_a_number_is_declared(self):
        self.assertEqual(self.round_trip("bi", STRING, " 1,234 "), 1234)
        self.assertEqual(self.round_trip("de", STRING, "-1.5"), decimal.Decimal("-1.5"))
        self.assertEqual(self.round_trip("fl", STRING, "2.5"), 2.5)
        self.assertEqual(self.round_trip("vb", STRING, "0aFF"), array.array("B", b"\x0a\xff"))
        self.assertEqual(self.round_trip("ts", STRING, "2001-02-03 04:05:06.000007"),
                         moment("2001-02-03 04:05:06.000007"))


class RawTypes(TypeCase):
    """What the Python client cannot write or read exactly, on a raw connection."""

    matrix = "one"

    def raw_round_trip(self, column, kind, value):
        connection = self.raw()
        items = [(wire.INTEGER, 7)] + [(wire.NULL, None)] * 9
        items[COLUMNS.index(column)] = (kind, value)
        inserted = connection.call("ALL_TYPES.insert", items, handle=11)
        self.assertEqual(inserted.status, 1, inserted.text)
        selected = connection.adhoc("SELECT %s FROM all_types" % column)
        self.assertEqual(selected.status, 1, selected.text)
        self.sql("DELETE FROM all_types")
        return selected.tables[0].rows[0][0]

    def test_timestamps_to_the_microsecond_over_all_of_int64(self):
        for micros in (0, 1, -1, 2 ** 63 - 1, -2 ** 63 + 1, 253402300799999999, -12212553600000000):
            with self.subTest(micros=micros):
                self.assertEqual(self.raw_round_trip("ts", wire.TIMESTAMP, micros), micros)
                self.assertEqual(self.raw_round_trip("ts", wire.BIGINT, micros), micros)

    def test_typed_nulls_of_every_type(self):
        for column, kind in zip(COLUMNS[1:], KINDS[1:]):
            with self.subTest(column=column):
                self.assertIsNone(self.raw_round_trip(column, kind, None))

    def test_decimal_bits(self):
        for text in (str(NINES), str(-NINES), "0.000000000001", "-1", "0"):
            with self.subTest(text=text):
                found = self.raw_round_trip("de", wire.DECIMAL, text)
                self.assertEqual(found, decimal.Decimal(text))

    def test_the_sentinels_are_refused_as_values(self):
        connection = self.raw()
        items = [(wire.INTEGER, 7), (wire.SMALLINT, -128)] + [(wire.NULL, None)] * 8
        answer = connection.call("ALL_TYPES.insert", items)
        self.assertEqual(answer.status, GRACEFUL_FAILURE, answer.text)


class ReplicatedTypes(TypeCase):
    """The same values on a replicated table."""

    matrix = "sites"
    schema = (TypeCase.schema[0],)

    def test_a_row_is_the_same_everywhere(self):
        values = [1, -127, -32767, 2147483647, -9223372036854775807, -0.5, -NINES, "日本", b"",
                  moment("1999-12-31 23:59:59.999999")]
        tables = self.call("ALL_TYPES.insert", KINDS, values)
        self.assertEqual(tables[0].tuples, [[1]])
        expected = values[:8] + [array.array("B", b"")] + values[9:]
        self.assertEqual(self.rows("SELECT * FROM all_types"), [expected])


class LongValues(Case):
    """The longest text and bytes that a column can hold."""

    matrix = "one"
    schema = (
        "CREATE TABLE long_text (id INTEGER NOT NULL PRIMARY KEY, v VARCHAR(262144))",
        "CREATE TABLE long_bytes (id INTEGER NOT NULL PRIMARY KEY, v VARBINARY(1048576))",
        "PARTITION TABLE long_text ON COLUMN id",
        "PARTITION TABLE long_bytes ON COLUMN id",
    )

    def test_one_mebibyte_of_text(self):
        for text in ("x" * 262144, "🙂" * 262144):
            self.call("LONG_TEXT.upsert", [INTEGER, STRING], [1, text])
            found = self.rows("SELECT v FROM long_text WHERE id = 1")[0][0]
            self.assertTrue(found == text, "the text came back changed")

    def test_one_mebibyte_of_bytes(self):
        raw = bytes(range(256)) * 4096
        self.call("LONG_BYTES.upsert", [INTEGER, VARBINARY], [1, raw])
        found = self.rows("SELECT v FROM long_bytes WHERE id = 1")[0][0]
        self.assertTrue(found.tobytes() == raw, "the bytes came back changed")

    def test_one_more_is_refused(self):
        self.refused(GRACEFUL_FAILURE, ".", "LONG_BYTES.insert", [INTEGER, VARBINARY],
                     [2, b"x" * 1048577])


class ArrayParameters(Case):
    """IN lists as one parameter."""

    matrix = "sites"
    schema = (
        "CREATE TABLE listed (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20))",
        "PARTITION TABLE listed ON COLUMN id",
        "CREATE PROCEDURE ByIds AS SELECT id FROM listed WHERE id IN ? ORDER BY id",
        "CREATE PROCEDURE ByNames AS SELECT id FROM listed WHERE name IN ? ORDER BY id",
    )

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for number in range(20):
            cls.caller.call("LISTED.insert", [BIGINT, STRING], [number, "n%d" % number])

    def test_integers(self):
        table = self.call("ByIds", [BIGINT], [[3, 17, 5, 99]])[0]
        self.assertEqual(table.tuples, [[3], [5], [17]])

    def test_strings(self):
        table = self.call("ByNames", [STRING], [["n3", "n4", "none"]])[0]
        self.assertEqual(table.tuples, [[3], [4]])

    def test_an_array_for_a_scalar_is_refused(self):
        self.refused(GRACEFUL_FAILURE, "TYPE ERROR FOR PARAMETER 1", "LISTED.insert",
                     [BIGINT, BIGINT], [100, [1, 2]])
