"""Generated procedures, SQL procedures with several results, and ad hoc SQL."""

from harness import BIGINT, Case, INTEGER, NULL, STRING, SUCCESS, UNEXPECTED_FAILURE


class Generated(Case):
    """TABLE.insert, .select, .update, .upsert and .delete."""

    schema = (
        "CREATE TABLE part (k BIGINT NOT NULL, a INTEGER, b VARCHAR(10), PRIMARY KEY (k))",
        "PARTITION TABLE part ON COLUMN k",
        "CREATE TABLE repl (k BIGINT NOT NULL, a INTEGER, b VARCHAR(10), PRIMARY KEY (k))",
        "CREATE TABLE nokey (k BIGINT NOT NULL, a INTEGER)",
        "PARTITION TABLE nokey ON COLUMN k",
    )
    types = (BIGINT, INTEGER, STRING)

    def tearDown(self):
        for table in ("part", "repl", "nokey"):
            self.sql("DELETE FROM " + table)

    def changed(self, procedure, types, values):
        """The count that a generated write answers; its shape must be VoltDB's."""
        tables = self.call(procedure, types, values)
        self.assertEqual(len(tables), 1)
        self.assert_columns(tables[0], "modified_tuples:BIGINT")
        return tables[0].tuples[0][0]

    def test_partitioned(self):
        self.check_table("PART")

    def test_replicated(self):
        self.check_table("REPL")

    def check_table(self, table):
        """All verbs on one table, each with its count."""
        everything = "SELECT * FROM %s ORDER BY k" % table
        self.assertEqual(self.changed(table + ".insert", self.types, [1, 10, "one"]), 1)
        self.assertEqual(self.changed(table + ".upsert", self.types, [1, 11, "eins"]), 1)
        self.assertEqual(self.changed(table + ".upsert", self.types, [2, 20, "two"]), 1)
        self.assertEqual(self.rows(everything), [[1, 11, "eins"], [2, 20, "two"]])
        update = [1, 12, "uno", 1]
        self.assertEqual(self.changed(table + ".update", self.types + (BIGINT,), update), 1)
        update = [3, 12, "tre", 3]
        self.assertEqual(self.changed(table + ".update", self.types + (BIGINT,), update), 0)
        if table == "PART":
            found = self.call("PART.select", [BIGINT], [1])[0]
            self.assertEqual(found.tuples, [[1, 12, "uno"]])
            self.assertEqual(self.call("PART.select", [BIGINT], [77])[0].tuples, [])
        self.assertEqual(self.changed(table + ".delete", [BIGINT], [1]), 1)
        self.assertEqual(self.changed(table + ".delete", [BIGINT], [1]), 0)
        self.assertEqual(self.rows(everything), [[2, 20, "two"]])

    def test_tables_without_a_key_have_insert_only(self):
        self.assertEqual(self.changed("NOKEY.insert", [BIGINT, INTEGER], [1, 1]), 1)
        self.assertEqual(self.changed("NOKEY.insert", [BIGINT, INTEGER], [1, 1]), 1)
        for verb in ("update", "upsert", "delete", "select"):
            response = self.caller.call("NOKEY." + verb, [BIGINT], [1])
            self.assertEqual(response.status, UNEXPECTED_FAILURE, verb)


class Procedures(Case):
    """SQL procedures: one and several statements, one and all partitions."""

    schema = (
        "CREATE TABLE item (k BIGINT NOT NULL, grp INTEGER NOT NULL, v BIGINT, PRIMARY KEY (k))",
        "PARTITION TABLE item ON COLUMN k",
        "CREATE VIEW item_by_grp (grp, n, total, low, high) AS"
        " SELECT grp, COUNT(*), SUM(v), MIN(v), MAX(v) FROM item GROUP BY grp",
        "CREATE PROCEDURE ItemGet PARTITION ON TABLE item COLUMN k AS"
        " SELECT * FROM item WHERE k = ?",
        "CREATE PROCEDURE ItemMove PARTITION ON TABLE item COLUMN k PARAMETER 1 AS"
        " UPDATE item SET grp = ? WHERE k = ?",
        "CREATE PROCEDURE ItemThree AS BEGIN SELECT COUNT(*) FROM item; SELECT SUM(v) AS total"
        " FROM item; SELECT grp, n FROM item_by_grp ORDER BY grp; END",
        "CREATE PROCEDURE ItemBump AS UPDATE item SET v = v + ? WHERE grp = ?",
    )

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for number in range(100):
            cls.caller.call("ITEM.insert", [BIGINT, INTEGER, BIGINT],
                            [number, number % 3, number * 10])

    def test_single_partition(self):
        for key in (0, 1, 50, 99):
            table = self.call("ItemGet", [BIGINT], [key])[0]
            self.assert_columns(table, "K:BIGINT GRP:INTEGER V:BIGINT")
            self.assertEqual(table.tuples[0][0], key)
        self.assertEqual(self.call("ItemGet", [BIGINT], [1000])[0].tuples, [])

    def test_several_result_tables(self):
        tables = self.call("ItemThree")
        self.assertEqual(len(tables), 3)
        self.assert_columns(tables[0], "C1:BIGINT")
        self.assert_columns(tables[1], "TOTAL:BIGINT")
        self.assert_columns(tables[2], "GRP:INTEGER N:BIGINT")
        self.assertEqual(tables[0].tuples, [[100]])
        self.assertEqual(tables[2].tuples, [[0, 34], [1, 33], [2, 33]])

    def test_the_routing_parameter_can_be_another(self):
        for key in (3, 4, 5):
            self.assertEqual(self.call("ItemMove", [INTEGER, BIGINT], [9, key])[0].tuples, [[1]])
        self.assertEqual(self.rows("SELECT k FROM item WHERE grp = 9 ORDER BY k"), [[3], [4], [5]])
        self.assertEqual(self.rows("SELECT n, total, low, high FROM item_by_grp WHERE grp = 9"),
                         [[3, 120, 30, 50]])
        for key in (3, 4, 5):
            self.call("ItemMove", [INTEGER, BIGINT], [key % 3, key])
        self.assertEqual(self.rows("SELECT COUNT(*) FROM item_by_grp WHERE grp = 9"), [[0]])

    def test_writes_to_all_partitions(self):
        self.assertEqual(self.call("ItemBump", [BIGINT, INTEGER], [1, 0])[0].tuples, [[34]])
        self.assertEqual(self.call("ItemBump", [BIGINT, INTEGER], [-1, 0])[0].tuples, [[34]])
        self.assertEqual(self.rows("SELECT SUM(v) FROM item"), [[49500]])

    def test_reads_over_all_partitions(self):
        self.assertEqual(self.rows("SELECT k FROM item ORDER BY k DESC LIMIT 3"),
                         [[99], [98], [97]])
        self.assertEqual(self.rows("SELECT grp, COUNT(*), MIN(v), MAX(v), SUM(v), AVG(v) FROM item"
                                   " GROUP BY grp ORDER BY grp")[1], [1, 33, 10, 970, 16170, 490])
        self.assertEqual(self.rows("SELECT COUNT(*) FROM item WHERE v > 500"), [[49]])
        self.assertEqual(self.rows("SELECT DISTINCT grp FROM item ORDER BY grp"), [[0], [1], [2]])

    def test_ad_hoc_parameters(self):
        tables = self.call("@AdHoc", [STRING, BIGINT], ["SELECT v FROM item WHERE k = ?", 42])
        self.assertEqual(tables[0].tuples, [[420]])

    def test_several_ad_hoc_statements(self):
        tables = self.call("@AdHoc", [STRING], ["SELECT COUNT(*) FROM item; SELECT k FROM item"
                                                " WHERE k = 7"])
        self.assertEqual([table.tuples for table in tables], [[[100]], [[7]]])

    def test_null_parameters(self):
        self.assertEqual(self.call("ItemBump", [NULL, INTEGER], [None, 77])[0].tuples, [[0]])


class Concurrency(Case):
    """Many calls in flight on one connection are each answered once."""

    matrix = "sites"
    schema = (
        "CREATE TABLE counter (k BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (k))",
        "PARTITION TABLE counter ON COLUMN k",
        "CREATE PROCEDURE Bump PARTITION ON TABLE counter COLUMN k AS"
        " UPDATE counter SET v = v + 1 WHERE k = ?",
    )

    def test_pipelined_calls(self):
        from voltclient import VoltClient
        for key in range(10):
            self.call("COUNTER.insert", [BIGINT, BIGINT], [key, 0])
        with VoltClient(["127.0.0.1"], port=self.port) as client:
            calls = [client.call_async("Bump", [BIGINT], [number % 10]) for number in range(2000)]
            for call in calls:
                response = call.result(30)
                self.assertEqual(response.status, SUCCESS, response.statusString)
        self.assertEqual(self.rows("SELECT MIN(v), MAX(v), SUM(v) FROM counter"),
                         [[200, 200, 2000]])
