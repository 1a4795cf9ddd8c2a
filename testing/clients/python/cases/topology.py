"""Routing as clients see it: partition keys, all-partition calls, pushed changes."""

import gzip
import json
import time

from voltclient import VoltClient, VoltType

import wire
from harness import BIGINT, Case, GRACEFUL_FAILURE, INTEGER, STRING, SUCCESS


class PartitionKeys(Case):
    """@GetPartitionKeys in its three types."""

    def test_one_key_for_each_partition(self):
        for selector, kind in (("INTEGER", "INTEGER"), ("integer", "INTEGER"),
                               (" INTEGER ", "INTEGER"), ("STRING", "STRING"),
                               ("VARCHAR", "STRING"), ("VARBINARY", "VARBINARY")):
            table = self.call("@GetPartitionKeys", [STRING], [selector])[0]
            self.assert_columns(table, "PARTITION_ID:INTEGER PARTITION_KEY:" + kind)
            self.assertEqual(sorted(row[0] for row in table.tuples),
                             list(range(self.server.sites)))

    def test_bad_types(self):
        self.refused(GRACEFUL_FAILURE, "FLOAT is not a supported type",
                     "@GetPartitionKeys", [STRING], ["FLOAT"])
        self.refused(GRACEFUL_FAILURE, "must have one string parameter|EXPECTS 1",
                     "@GetPartitionKeys")


class Routing(Case):
    """The client's hash and the server's agree on every row."""

    schema = (
        "CREATE TABLE routed (k BIGINT NOT NULL, v INTEGER, PRIMARY KEY (k))",
        "PARTITION TABLE routed ON COLUMN k",
        "CREATE TABLE routed_text (k VARCHAR(30) NOT NULL PRIMARY KEY)",
        "PARTITION TABLE routed_text ON COLUMN k",
        "CREATE PROCEDURE CountKey PARTITION ON TABLE routed COLUMN k AS"
        " SELECT COUNT(*) FROM routed WHERE k = ?",
        "CREATE PROCEDURE CountHere DIRECTED AS SELECT COUNT(*) FROM routed",
        "CREATE PROCEDURE CountAll AS SELECT COUNT(*) FROM routed",
    )
    keys = list(range(-50, 150)) + [2 ** 40 + n for n in range(50)]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = VoltClient(["127.0.0.1"], port=cls.port)
        cls.addClassCleanup(cls.client.close)
        for key in cls.keys:
            cls.client.call("ROUTED.insert", [BIGINT, INTEGER], [key, 1])

    def test_the_client_learns_the_topology(self):
        topology = self.client.topology
        self.assertEqual(set(topology.partitions) - {16383}, set(range(self.server.sites)))
        self.assertIn("CountKey", topology.procedures)
        self.assertTrue(topology.procedures["CountKey"].single_partition)

    def test_rows_lie_where_the_client_thinks(self):
        expected = dict.fromkeys(range(self.server.sites), 0)
        for key in self.keys:
            expected[self.client.get_partition_for_parameter(VoltType.BIGINT, key)] += 1
        results = self.client.call_all_partitions("CountHere")
        found = {result.partition_id: result.response.tables[0].tuples[0][0] for result in results}
        self.assertEqual(found, expected)

    def test_all_partition_calls(self):
        results = self.client.call_all_partitions("CountKey")
        self.assertEqual([result.partition_id for result in results],
                         list(range(self.server.sites)))
        for result in results:
            self.assertTrue(result.ok, result)
            present = 1 if result.partition_key in self.keys else 0
            self.assertEqual(result.response.tables[0].tuples, [[present]])

    def test_text_keys_are_found_again(self):
        for number in range(60):
            self.client.call("ROUTED_TEXT.insert", [STRING], ["ключ-%d" % number])
        for number in range(60):
            found = self.client.call("ROUTED_TEXT.select", [STRING], ["ключ-%d" % number])
            self.assertEqual(found.tables[0].tuples, [["ключ-%d" % number]])

    def test_a_directed_procedure_needs_a_destination(self):
        self.refused(GRACEFUL_FAILURE, "callAllPartitionProcedure", "CountHere")

    def test_bad_destinations(self):
        connection = self.raw()
        destination = [(2, 0, b""), (3, 3, (999).to_bytes(4, "big"))]
        answer = connection.call("CountKey", [(wire.INTEGER, 1)], 5, destination)
        self.assertEqual(answer.status, GRACEFUL_FAILURE, answer.text)
        self.assertRegex(answer.text, "(?i)partition")
        destination = [(2, 0, b""), (3, 3, bytes(4))]
        answer = connection.call("CountAll", [(wire.INTEGER, 1)], 6, destination)
        self.assertEqual(answer.status, GRACEFUL_FAILURE, answer.text)
        self.assertRegex(answer.text, "Invalid procedure for all-partition execution")

    def test_unknown_extensions_are_skipped(self):
        extensions = [(99, 4, bytes(8)), (5, 1, b"\x02"), (6, 3, (10 ** 6).to_bytes(4, "big")),
                      (1, 3, (3000).to_bytes(4, "big"))]
        answer = self.raw().call("CountKey", [(wire.BIGINT, 3)], 8, extensions)
        self.assertEqual(answer.status, SUCCESS, answer.text)
        self.assertEqual(answer.tables[0].rows, [[1]])


class Pushes(Case):
    """@Subscribe, and what follows without being asked for."""

    matrix = "sites"

    def create(self, name):
        """Makes and registers a procedure, which changes the catalog."""
        self.run_ddl("CREATE TABLE %s_table (k BIGINT NOT NULL PRIMARY KEY)" % name)
        self.addCleanup(self.run_ddl, "DROP TABLE %s_table IF EXISTS" % name)
        self.run_ddl("CREATE PROCEDURE %s AS SELECT COUNT(*) FROM %s_table" % (name, name))
        self.addCleanup(self.run_ddl, "DROP PROCEDURE %s IF EXISTS" % name)

    def test_subscribe_answers_without_tables(self):
        answer = self.raw().call("@Subscribe", [(wire.STRING, "TOPOLOGY")])
        self.assertEqual((answer.status, answer.tables), (SUCCESS, []))
        self.assertEqual(self.raw().call("@Subscribe").status, SUCCESS)

    def test_unknown_topics(self):
        answer = self.raw().call("@Subscribe", [(wire.STRING, "topology")])
        self.assertEqual(answer.status, GRACEFUL_FAILURE)
        self.assertRegex(answer.text, "is not recognized/supported")

    def test_a_new_procedure_is_pushed_to_subscribers_only(self):
        subscriber, bystander = self.raw(), self.raw()
        self.assertEqual(subscriber.call("@Subscribe", [(wire.STRING, "TOPOLOGY")]).status, SUCCESS)
        self.create("Pushed")
        deadline = time.monotonic() + 15
        names = []
        while "Pushed" not in names and time.monotonic() < deadline:
            push = subscriber.response()
            self.assertEqual(push.status, SUCCESS, push.text)
            if push.handle == wire.PROCEDURES_HANDLE:
                names = [row[2] for row in push.tables[0].rows]
            else:
                self.assertEqual(push.handle, wire.TOPOLOGY_HANDLE)
        self.assertIn("Pushed", names)
        answer = bystander.call("@Ping", handle=77)
        self.assertEqual(answer.handle, 77)

    def test_the_client_learns_new_procedures(self):
        with VoltClient(["127.0.0.1"], port=self.port) as client:
            client.call("@Ping")
            time.sleep(1)  # its subscription is made in the background
            self.create("Learned")
            deadline = time.monotonic() + 15
            while "Learned" not in client.topology.procedures and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertIn("Learned", client.topology.procedures)

    def test_the_ring_as_json(self):
        answer = self.raw().call("@Statistics", [(wire.STRING, "TOPO"), (wire.INTEGER, 1)])
        kind, config = answer.tables[1].rows[0]
        self.assertEqual(kind, "ELASTIC")
        ring = json.loads(gzip.decompress(config))
        self.assertIn("-2147483648", ring)
        self.assertEqual(set(ring.values()), set(range(self.server.sites)))
