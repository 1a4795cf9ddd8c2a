"""Bulk loads: VoltClient's own loader, which hashes rows itself and sends batches to partitions.

Into tables of all kinds; a batch with a bad row leaves nothing, and the error says what is wrong.
"""

from voltclient import VoltBulkLoader, VoltClient

import wire
from harness import BIGINT, Case, INTEGER, STRING, SUCCESS

COLUMNS = (("ID", BIGINT), ("G", INTEGER), ("NAME", STRING))


def key_bytes(number):
    """The partition key of an integer, as clients send it."""
    return number.to_bytes(8, "little", signed=True)


class Loads(Case):
    """Rows by the hundred."""

    schema = (
        "CREATE TABLE load_plain (id BIGINT NOT NULL PRIMARY KEY, g INTEGER, name VARCHAR(30))",
        "PARTITION TABLE load_plain ON COLUMN id",
        "CREATE VIEW load_groups (g, n, s) AS SELECT g, COUNT(*), SUM(id) FROM load_plain"
        " GROUP BY g",
        "CREATE TABLE load_indexed (id BIGINT NOT NULL PRIMARY KEY, g INTEGER, name VARCHAR(30))",
        "PARTITION TABLE load_indexed ON COLUMN id",
        "CREATE GLOBAL UNIQUE INDEX load_name ON load_indexed (name)",
        "CREATE TABLE load_everywhere (id BIGINT NOT NULL PRIMARY KEY, g INTEGER,"
        " name VARCHAR(30))",
        "CREATE TABLE load_two (a BIGINT NOT NULL, b VARCHAR(30) NOT NULL, v INTEGER,"
        " PRIMARY KEY (a, b))",
        "PARTITION TABLE load_two ON COLUMNS (a, b)",
    )
    tables = ("load_plain", "load_indexed", "load_everywhere", "load_two")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = VoltClient(["127.0.0.1"], port=cls.port)
        cls.addClassCleanup(cls.client.close)

    def tearDown(self):
        for table in self.tables:
            self.sql("DELETE FROM " + table)

    def load(self, table, rows, upsert=False, batch_size=100):
        """Loads rows with the client's loader; the texts of what failed."""
        failed = []
        with VoltBulkLoader(self.client, table, batch_size=batch_size, upsert=upsert,
                            failure_callback=lambda row, why: failed.append((row, why))) as loader:
            loader.insert_rows(rows)
            loader.drain()
            self.assertEqual(loader.completed_row_count + loader.failed_row_count, len(rows))
        return failed

    def same_entries(self):
        """The index has what its table has."""
        rows = self.rows("SELECT id, name FROM load_indexed ORDER BY id")
        held = self.rows('SELECT id, name FROM "LOAD_NAME#ENTRIES" ORDER BY id')
        self.assertEqual(rows, held)
        return len(rows)

    def test_rows_of_a_view(self):
        self.assertEqual(self.load("load_plain", [(n, n % 7, "x") for n in range(1000)]), [])
        expected = [[g, len(range(g, 1000, 7)), sum(range(g, 1000, 7))] for g in range(7)]
        self.assertEqual(self.rows("SELECT g, n, s FROM load_groups ORDER BY g"), expected)

    def test_rows_of_a_global_index(self):
        rows = [(n, n % 7, "name %d" % n) for n in range(600)]
        self.assertEqual(self.load("load_indexed", rows), [])
        self.assertEqual(self.same_entries(), 600)
        found = self.rows("SELECT id FROM load_indexed WHERE name = 'name 77'")
        self.assertEqual(found, [[77]])

    def test_upserts_move_entries(self):
        self.load("load_indexed", [(n, 0, "old %d" % n) for n in range(100)])
        self.assertEqual(self.load("load_indexed", [(n, 1, "new %d" % n) for n in range(150)],
                                   upsert=True), [])
        self.assertEqual(self.same_entries(), 150)
        self.assertEqual(self.rows("SELECT COUNT(*) FROM load_indexed WHERE g = 1"), [[150]])

    def test_duplicates_are_named_and_the_others_stay(self):
        self.load("load_indexed", [(n, 0, "name %d" % n) for n in range(100)])
        # The loader sends the rows of a refused batch one by one.
        failed = self.load("load_indexed",
                           [(n, 0, "name %d" % (5 if n == 150 else n)) for n in range(100, 200)])
        self.assertEqual([row[0] for row, _ in failed], [150])
        text = failed[0][1].statusString
        self.assertIn("LOAD_NAME", text)
        self.assertIn("name 5", text)
        self.assertEqual(self.same_entries(), 199)

    def test_a_batch_with_a_duplicate_leaves_nothing(self):
        self.call("LOAD_INDEXED.insert", [BIGINT, INTEGER, STRING], [1000, 0, "taken"])
        mine = [n for n in range(200) if self.client.get_partition_for_parameter(BIGINT, n)
                == self.client.get_partition_for_parameter(BIGINT, 0)]
        rows = [(n, 0, "n%d" % n) for n in mine[:-1]] + [(mine[-1], 0, "taken")]
        parameters = [(wire.VARBINARY, key_bytes(0)), (wire.STRING, "LOAD_INDEXED"),
                      (wire.TINYINT, 0), (wire.VOLTTABLE, wire.table(COLUMNS, rows))]
        response = self.raw().call("@LoadSinglepartitionTable", parameters)
        self.assertNotEqual(response.status, SUCCESS)
        self.assertRegex(response.text, "LOAD_NAME[^!]*taken")
        self.assertEqual(self.same_entries(), 1)

    def test_replicated_rows(self):
        rows = [(n, 0, "x%d" % n) for n in range(300)]
        self.assertEqual(self.load("load_everywhere", rows), [])
        self.assertEqual(self.rows("SELECT COUNT(*), SUM(id) FROM load_everywhere"),
                         [[300, sum(range(300))]])
        failed = self.load("load_everywhere", [(n, 0, "y") for n in range(290, 310)])
        self.assertEqual(sorted(row[0] for row, _ in failed), list(range(290, 300)))
        self.assertEqual(self.rows("SELECT COUNT(*) FROM load_everywhere"), [[310]])

    def test_rows_of_two_partitioning_columns(self):
        # A client sees no partitioning column that it could hash, and takes the table for one
        # that is everywhere: the server gives each partition its rows.
        self.assertEqual(self.load("load_two", [(n % 10, "b%d" % n, n) for n in range(300)]), [])
        for n in range(0, 300, 7):
            found = self.rows("SELECT v FROM load_two WHERE a = %d AND b = 'b%d'" % (n % 10, n))
            self.assertEqual(found, [[n]])
        # A batch is loaded wholly or not at all; the loader then sends its rows one by one.
        failed = self.load("load_two", [(n % 10, "b%d" % n, n) for n in range(290, 320)])
        self.assertEqual(sorted(row[2] for row, _ in failed), list(range(290, 300)))
        self.assertEqual(self.load("load_two", [(n % 10, "b%d" % n, -n) for n in range(330)],
                                   upsert=True), [])
        self.assertEqual(self.rows("SELECT COUNT(*), SUM(v) FROM load_two"),
                         [[330, -sum(range(330))]])
