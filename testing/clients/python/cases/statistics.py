"""@Statistics: exact columns, and numbers that follow what was done."""

import struct
import zlib

from harness import BIGINT, Case, GRACEFUL_FAILURE, INTEGER, NULL, STRING

HOST = "TIMESTAMP:BIGINT HOST_ID:INTEGER HOSTNAME:STRING"
SITE = HOST + " SITE_ID:INTEGER"
TABLE = (SITE + " PARTITION_ID:BIGINT TABLE_NAME:STRING TABLE_TYPE:STRING TUPLE_COUNT:BIGINT"
         " TUPLE_ALLOCATED_MEMORY:BIGINT TUPLE_DATA_MEMORY:BIGINT STRING_DATA_MEMORY:BIGINT"
         " TUPLE_LIMIT:INTEGER PERCENT_FULL:INTEGER DR:STRING EXPORT:STRING")
INDEX = (SITE + " PARTITION_ID:BIGINT INDEX_NAME:STRING TABLE_NAME:STRING INDEX_TYPE:STRING"
         " IS_UNIQUE:TINYINT IS_COUNTABLE:TINYINT ENTRY_COUNT:BIGINT MEMORY_ESTIMATE:BIGINT")
TIMES = (" INVOCATIONS:BIGINT TIMED_INVOCATIONS:BIGINT MIN_EXECUTION_TIME:BIGINT"
         " MAX_EXECUTION_TIME:BIGINT AVG_EXECUTION_TIME:BIGINT MIN_RESULT_SIZE:INTEGER"
         " MAX_RESULT_SIZE:INTEGER AVG_RESULT_SIZE:INTEGER MIN_PARAMETER_SET_SIZE:INTEGER"
         " MAX_PARAMETER_SET_SIZE:INTEGER AVG_PARAMETER_SET_SIZE:INTEGER ABORTS:BIGINT"
         " FAILURES:BIGINT")
PROCEDURE = (SITE + " PARTITION_ID:INTEGER PROCEDURE:STRING" + TIMES
             + " TRANSACTIONAL:TINYINT COMPOUND:TINYINT")
PROCEDUREDETAIL = SITE + " PARTITION_ID:INTEGER PROCEDURE:STRING STATEMENT:STRING" + TIMES
PROCEDUREPROFILE = ("TIMESTAMP:BIGINT PROCEDURE:STRING WEIGHTED_PERC:BIGINT INVOCATIONS:BIGINT"
                    " AVG:BIGINT MIN:BIGINT MAX:BIGINT ABORTS:BIGINT FAILURES:BIGINT")
PROCEDUREINPUT = ("TIMESTAMP:BIGINT PROCEDURE:STRING WEIGHTED_PERC:BIGINT INVOCATIONS:BIGINT"
                  " MIN_PARAMETER_SET_SIZE:BIGINT MAX_PARAMETER_SET_SIZE:BIGINT"
                  " AVG_PARAMETER_SET_SIZE:BIGINT TOTAL_PARAMETER_SET_SIZE_MB:BIGINT")
PROCEDUREOUTPUT = ("TIMESTAMP:BIGINT PROCEDURE:STRING WEIGHTED_PERC:BIGINT INVOCATIONS:BIGINT"
                   " MIN_RESULT_SIZE:BIGINT MAX_RESULT_SIZE:BIGINT AVG_RESULT_SIZE:BIGINT"
                   " TOTAL_RESULT_SIZE_MB:BIGINT")
MEMORY = (HOST + " RSS:INTEGER JAVAUSED:INTEGER JAVAUNUSED:INTEGER TUPLEDATA:BIGINT"
          " TUPLEALLOCATED:BIGINT INDEXMEMORY:BIGINT STRINGMEMORY:BIGINT TUPLECOUNT:BIGINT"
          " POOLEDMEMORY:BIGINT PHYSICALMEMORY:BIGINT JAVAMAXHEAP:INTEGER")
LATENCY = (HOST + " INTERVAL:INTEGER COUNT:INTEGER TPS:INTEGER P50:BIGINT P95:BIGINT P99:BIGINT"
           " P99.9:BIGINT P99.99:BIGINT P99.999:BIGINT MAX:BIGINT")
INITIATOR = (SITE + " CONNECTION_ID:BIGINT CONNECTION_HOSTNAME:STRING PROCEDURE_NAME:STRING"
             " INVOCATIONS:BIGINT AVG_EXECUTION_TIME:INTEGER MIN_EXECUTION_TIME:INTEGER"
             " MAX_EXECUTION_TIME:INTEGER ABORTS:BIGINT FAILURES:BIGINT")
IDLETIME = (SITE + " COUNT:BIGINT PERCENT:FLOAT AVG:BIGINT MIN:BIGINT MAX:BIGINT"
            " STDDEV:BIGINT")
QUEUE = SITE + " CURRENT_DEPTH:INTEGER POLL_COUNT:BIGINT AVG_WAIT:BIGINT MAX_WAIT:BIGINT"
HISTOGRAM = SITE + " HISTOGRAM:VARBINARY UNCOMPRESSED_HISTOGRAM:VARBINARY"


def zigzag(data):
    """Numbers of seven bits a byte, sign in the lowest bit: HdrHistogram's counts."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7f if shift < 56 else byte) << shift
        shift += 7
        if byte < 0x80 or shift > 56:
            yield (value >> 1) ^ -(value & 1)
            value = shift = 0


class Statistics(Case):
    """Two tables, an index and a procedure, counted."""

    matrix = "sites"

    schema = (
        "CREATE TABLE stat (k BIGINT NOT NULL, g INTEGER, s VARCHAR(200), PRIMARY KEY (k))",
        "PARTITION TABLE stat ON COLUMN k",
        "CREATE TABLE stat_repl (k BIGINT NOT NULL PRIMARY KEY)",
        "CREATE INDEX stat_by_g ON stat (g)",
        "CREATE PROCEDURE StatGet PARTITION ON TABLE stat COLUMN k AS"
        " SELECT * FROM stat WHERE k = ?",
    )
    count = 300

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for key in range(cls.count):
            cls.caller.call("STAT.insert", [BIGINT, INTEGER, STRING], [key, key % 7, "s" * 100])
            cls.caller.call("StatGet", [BIGINT], [key])
        cls.caller.call("STAT_REPL.insert", [BIGINT], [1])

    def statistics(self, selector, columns, delta=0):
        """The rows of a selector as dictionaries; columns are compared as well."""
        tables = self.call("@Statistics", [STRING, INTEGER], [selector, delta])
        self.assert_columns(tables[0], columns)
        names = [column.name for column in tables[0].columns]
        return [dict(zip(names, row)) for row in tables[0].tuples]

    def test_table(self):
        rows = self.statistics("TABLE", TABLE)
        mine = [row for row in rows if row["TABLE_NAME"] == "STAT"]
        self.assertEqual(sorted(row["PARTITION_ID"] for row in mine),
                         list(range(self.server.sites)))
        self.assertEqual(sum(row["TUPLE_COUNT"] for row in mine), self.count)
        self.assertEqual({row["TABLE_TYPE"] for row in mine}, {"PersistentTable"})
        self.assertGreater(sum(row["TUPLE_DATA_MEMORY"] for row in mine), 0)
        for row in mine:
            self.assertGreaterEqual(row["TUPLE_ALLOCATED_MEMORY"], row["TUPLE_DATA_MEMORY"])
        replicated = [row for row in rows if row["TABLE_NAME"] == "STAT_REPL"]
        self.assertTrue(replicated)
        self.assertEqual({row["TUPLE_COUNT"] for row in replicated}, {1})

    def test_index(self):
        rows = [row for row in self.statistics("INDEX", INDEX) if row["TABLE_NAME"] == "STAT"]
        by_g = [row for row in rows if row["INDEX_NAME"] == "STAT_BY_G"]
        self.assertEqual(len(by_g), self.server.sites)
        self.assertEqual(sum(row["ENTRY_COUNT"] for row in by_g), self.count)
        self.assertEqual({row["IS_UNIQUE"] for row in by_g}, {0})
        self.assertTrue([row for row in rows if row["IS_UNIQUE"] == 1], "the primary key's index")

    def test_procedure(self):
        rows = [row for row in self.statistics("PROCEDURE", PROCEDURE)
                if row["PROCEDURE"].rsplit(".", 1)[-1] == "StatGet"]
        self.assertEqual(sum(row["INVOCATIONS"] for row in rows), self.count)
        for row in rows:
            self.assertLessEqual(row["MIN_EXECUTION_TIME"], row["MAX_EXECUTION_TIME"])

    def test_procedure_variants(self):
        for selector, columns in (("PROCEDUREPROFILE", PROCEDUREPROFILE),
                                  ("PROCEDUREINPUT", PROCEDUREINPUT),
                                  ("PROCEDUREOUTPUT", PROCEDUREOUTPUT)):
            with self.subTest(selector=selector):
                rows = {row["PROCEDURE"]: row for row in self.statistics(selector, columns)}
                self.assertEqual(rows["StatGet"]["INVOCATIONS"], self.count)

    def test_procedure_detail(self):
        rows = self.statistics("PROCEDUREDETAIL", PROCEDUREDETAIL)
        mine = [row for row in rows if row["PROCEDURE"] == "StatGet"]
        whole = [row for row in mine if row["STATEMENT"] == "<ALL>"]
        self.assertEqual(sum(row["INVOCATIONS"] for row in whole), self.count)
        self.assertGreater(len(mine), len(whole), "a row for each statement too")

    def test_memory(self):
        rows = self.statistics("MEMORY", MEMORY)
        self.assertEqual(len(rows), 1)
        self.assertGreaterEqual(rows[0]["TUPLECOUNT"], self.count)
        self.assertAlmostEqual(rows[0]["RSS"], self.server.rss_kb(), delta=64 * 1024)

    def test_latency(self):
        rows = self.statistics("LATENCY", LATENCY)
        self.assertTrue(rows)
        for row in rows:
            self.assertLessEqual(row["P50"], row["P99"])
            self.assertLessEqual(row["P99"], row["MAX"])

    def test_initiator(self):
        rows = [row for row in self.statistics("INITIATOR", INITIATOR)
                if row["PROCEDURE_NAME"] == "StatGet"]
        self.assertEqual(sum(row["INVOCATIONS"] for row in rows), self.count)

    def test_idle_time_and_queue(self):
        for selector, columns in (("IDLETIME", IDLETIME), ("QUEUE", QUEUE)):
            rows = self.statistics(selector, columns)
            self.assertEqual([row["SITE_ID"] for row in rows], list(range(self.server.sites)))
            for row in rows:
                self.assertLessEqual(row.get("AVG", row.get("AVG_WAIT")),
                                     row.get("MAX", row.get("MAX_WAIT")))
        self.assertGreaterEqual(sum(row["POLL_COUNT"] for row in rows), 2 * self.count)

    def test_histogram(self):
        recorded = 0
        for row in self.statistics("LATENCY_HISTOGRAM", HISTOGRAM):
            packed, plain = row["HISTOGRAM"].tobytes(), row["UNCOMPRESSED_HISTOGRAM"].tobytes()
            self.assertEqual(struct.unpack_from(">II", packed), (0x1c849314, len(packed) - 8))
            self.assertEqual(zlib.decompress(packed[8:]), plain)
            cookie, length, offset, digits = struct.unpack_from(">IIII", plain)
            self.assertEqual((cookie, length, offset, digits), (0x1c849313, len(plain) - 40, 0, 2))
            recorded += sum(count for count in zigzag(plain[40:]) if count > 0)
        self.assertGreaterEqual(recorded, 2 * self.count)

    def test_topology(self):
        tables = self.call("@Statistics", [STRING, INTEGER], ["TOPO", 0])
        self.assertEqual(len(tables), 2)
        self.assert_columns(tables[0], "Partition:INTEGER Sites:STRING Leader:STRING")
        self.assert_columns(tables[1], "HASHTYPE:STRING HASHCONFIG:VARBINARY")
        partitions = [row[0] for row in tables[0].tuples]
        self.assertEqual(sorted(partitions), list(range(self.server.sites)) + [16383])
        for _, sites, leader in tables[0].tuples:
            self.assertRegex(leader, r"^0:\d+$")
            self.assertEqual(sites, leader)
        kind, config = tables[1].tuples[0]
        self.assertEqual(kind, "ELASTIC")
        self.check_ring(config.tobytes())

    def check_ring(self, config):
        """The raw ring: ascending tokens from the lowest integer on, every partition in it."""
        count = struct.unpack_from(">i", config)[0]
        self.assertEqual(len(config), 4 + 8 * count)
        pairs = list(struct.iter_unpack(">ii", config[4:]))
        tokens = [token for token, _ in pairs]
        self.assertEqual(tokens[0], -2 ** 31)
        self.assertEqual(tokens, sorted(set(tokens)))
        self.assertEqual({partition for _, partition in pairs}, set(range(self.server.sites)))

    def test_selectors_ignore_case_and_need_no_delta(self):
        table = self.call("@Statistics", [STRING], ["table"])[0]
        self.assert_columns(table, TABLE)

    def test_bad_arguments(self):
        text = "must be a valid STRING selector, instead was NOSUCH"
        self.refused(GRACEFUL_FAILURE, text, "@Statistics", [STRING, INTEGER], ["NOSUCH", 0])
        self.refused(GRACEFUL_FAILURE, "(?i)instead was null", "@Statistics", [NULL, INTEGER],
                     [None, 0])
        self.refused(GRACEFUL_FAILURE, r"expects 2, received 0", "@Statistics")
        self.refused(GRACEFUL_FAILURE, r"expects 2, received 3", "@Statistics",
                     [STRING, INTEGER, INTEGER], ["TABLE", 0, 0])
