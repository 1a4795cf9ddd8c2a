"""The calls that each verb of VoltDB's `voltadmin` makes, on the admin port of a host with a
directory, and what that tool reads from the answers.

Every class starts a server of its own.
"""

import contextlib
import pathlib
import shutil
import tempfile
import time
import unittest
import urllib.parse

from harness import (BIGINT, FastSerializerCaller, GRACEFUL_FAILURE, INTEGER, NULL, STRING,
                     SUCCESS, TINYINT, VARBINARY)
from server import Server, made_directory

DRAIN_TIMEOUT_S = 30
UNSUPPORTED_DYNAMIC_CHANGE = -13
SERVER_UNAVAILABLE = -5


class Voltadmin(unittest.TestCase):
    """One test a verb, or a few that belong together."""

    matrix = "alone"

    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="lockstep voltadmin "))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.directory = made_directory(self.place / "host", 2)
        self.start()

    def start(self):
        """Starts the host on its directory, with a client at each port."""
        self.server = Server(2, directory=self.directory)
        self.server.start()
        self.addCleanup(self.server.stop)
        self.client = FastSerializerCaller(self.server.port)
        self.admin = FastSerializerCaller(self.server.admin_port)

    def call(self, procedure, types=(), values=()):
        """A call of the tool, which must succeed; its tables."""
        response = self.admin.call(procedure, types, values)
        self.assertEqual(response.status, SUCCESS, (procedure, response.statusString))
        return response.tables

    def refused(self, procedure, types, values, pattern, status=GRACEFUL_FAILURE):
        """A call of the tool that must be refused with a text that says why."""
        response = self.admin.call(procedure, types, values)
        self.assertEqual(response.status, status, response.statusString)
        self.assertRegex(response.statusString, pattern)

    def statistics(self, selector):
        """The tables of a selector, asked for as the tool does."""
        return self.call("@Statistics", [STRING, INTEGER], [selector, 0])

    def information(self, selector):
        """The rows of a part of `@SystemInformation`."""
        return self.call("@SystemInformation", [STRING], [selector])[0].tuples

    def overview(self):
        """The keys of the host as the tool knows them."""
        return {row[1].lower(): row[2] for row in self.information("OVERVIEW")}

    def sql(self, text):
        """Ad hoc SQL of a client, which must succeed."""
        response = self.client.call("@AdHoc", [STRING], [text])
        self.assertEqual(response.status, SUCCESS, response.statusString)
        return response.tables[0].tuples

    def fill(self):
        """Two tables with a row each."""
        for name in ("a", "b"):
            self.sql("CREATE TABLE %s (id BIGINT NOT NULL PRIMARY KEY)" % name)
            self.sql("INSERT INTO %s VALUES (1)" % name)

    def test_status_and_inspect(self):
        overview = self.overview()
        major, minor = (int(part) for part in overview["version"].split(".")[:2])
        self.assertGreaterEqual((major, minor), (11, 0), "what the tool asks for is 7.2 or more")
        self.assertEqual(major, 11)
        self.assertRegex(overview["lockstepversion"], r"^\d+\.\d+\.\d+")
        self.assertNotIn("license", overview, "the tool would ask for elastic resizing")
        self.assertEqual((int(overview["clusterid"]), int(overview["fullclustersize"])), (0, 1))
        for key in ("hostname", "clientport", "uptime", "replicationrole", "cpucores",
                    "cputhreads", "memory", "kubernetes", "clustersafety"):
            self.assertIn(key, overview)
        deployment = {row[0]: row[1] for row in self.information("DEPLOYMENT")}
        self.assertEqual([int(deployment[key]) for key in ("hostcount", "kfactor",
                                                           "sitesperhost")], [1, 0, 2])
        ports = sorted(row[5] for row in self.statistics("LIVECLIENTS")[0].tuples)
        self.assertEqual(ports, [0, 1], "a client, and the tool at the admin port")
        self.assertEqual(self.statistics("DRROLE")[0].tuples, [["NONE", "DISABLED", -1]])
        self.assertEqual(self.statistics("DRPRODUCER")[0].tuples, [])
        self.assertEqual(self.statistics("DRCONSUMER")[1].tuples, [])

    def test_show(self):
        self.assertEqual([row[0] for row in self.information("LICENSE")], ["LICENSE"])
        self.fill()
        self.call("@SnapshotSave", [STRING], ['{block:true,format:"native"}'])
        shown = self.statistics("SnapshotSummary")[0].tuples
        self.assertEqual([row[-1] for row in shown], ["SUCCESS"])

    def saved(self, parameters):
        """What the tool looks at of a snapshot: the column RESULT."""
        rows = self.call("@SnapshotSave", [STRING], [parameters])[0].tuples
        self.assertTrue(rows)
        self.assertEqual({row[3] for row in rows}, {"SUCCESS"}, rows)

    def await_snapshot(self):
        """Waits until no snapshot is in progress."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while any(row[-1] == "INPROGRESS" for row in self.statistics("SNAPSHOTSUMMARY")[0].tuples):
            self.assertLess(time.monotonic(), deadline)

    def test_save_and_restore(self):
        self.fill()
        self.saved('{block:false,format:"native"}')
        self.await_snapshot()
        folder = self.place / "in a folder"
        uri = "file://" + urllib.parse.quote(str(folder))
        self.saved('{uripath:"%s",nonce:"N1",block:true,format:"native"}' % uri)
        self.saved('{uripath:"%s",nonce:"N2",block:true,format:"csv",tables:%s}' % (uri, ["A"]))
        self.assertTrue((folder / "N2-A-host_0.csv").exists())
        self.assertFalse((folder / "N2-B-host_0.csv").exists())
        self.sql("DELETE FROM a")
        self.sql("DELETE FROM b")
        given = '{path:"%s",nonce:"N1",hashinator:"false",skiptables: %s}' % (folder, ["B"])
        rows = self.call("@SnapshotRestore", [STRING], [given])[0].tuples
        self.assertEqual({row[5] for row in rows}, {"SUCCESS"}, rows)
        counts = [self.sql("SELECT COUNT(*) FROM " + name)[0][0] for name in ("a", "b")]
        self.assertEqual(counts, [1, 0])
        self.refused("@SnapshotRestore", [STRING], ['{path:"%s"' % folder], "no , or }")

    def test_pause_and_resume(self):
        self.fill()
        self.assertEqual(self.call("@Pause")[0].tuples, [[0]])
        self.assertEqual(self.call("@Quiesce")[0].tuples, [[0]])
        self.assertEqual(self.statistics("EXPORT")[0].tuples, [])
        self.assertEqual(self.statistics("DRPRODUCER")[0].tuples, [])
        refused = self.client.call("A.insert", [BIGINT], [2])
        self.assertEqual(refused.status, SERVER_UNAVAILABLE)
        self.assertEqual(self.call("@Resume")[0].tuples, [[0]])
        self.assertEqual(self.client.call("A.insert", [BIGINT], [2]).status, SUCCESS)

    def drained(self):
        """The tool's wait before it stops a cluster: sums of columns that must come to zero."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        waits = [("LIVECLIENTS", (6, 7, 8)), ("IMPORTER", (8,)), ("COMMANDLOG", (3, 4)),
                 ("EXPORT", (9,))]
        for selector, columns in waits:
            while True:
                rows = self.statistics(selector)[0].tuples
                if not any(row[column] for row in rows for column in columns):
                    break
                self.assertLess(time.monotonic(), deadline, (selector, rows))

    def shut_down(self, save):
        """What `shutdown` and `shutdown --save` do."""
        self.assertNotEqual(self.overview()["clustersafety"], "REDUCED")
        number = self.call("@PrepareShutdown")[0].tuples[0][0]
        self.assertEqual(self.call("@Quiesce")[0].tuples, [[0]])
        self.drained()
        # Nobody is answered: what the client makes of the closed connection is its own matter.
        with contextlib.suppress(Exception):
            self.admin.call("@Shutdown", [BIGINT] if save else [], [number] if save else [])
        self.assertEqual(self.server.process.wait(20), 0, self.server.output())

    def test_shutdown(self):
        self.fill()
        self.shut_down(save=False)
        self.start()
        self.assertEqual(self.sql("SELECT COUNT(*) FROM a"), [[1]])
        self.shut_down(save=True)
        self.start()
        self.assertIn("0 log entries replayed", self.server.output())
        self.assertEqual(self.sql("SELECT COUNT(*) FROM a"), [[1]])

    def test_shutdown_that_is_given_up_and_cancelled(self):
        self.fill()
        self.call("@PrepareShutdown")
        for caller in (self.client, self.admin):
            refused = caller.call("A.insert", [BIGINT], [2])
            self.assertEqual(refused.status, SERVER_UNAVAILABLE)
            self.assertRegex(refused.statusString, r"^Server is shutting down\. .*@CancelShutdown")
        said = "a shutdown is prepared"
        self.assertIn(said, self.server.output_with(said))
        self.assertEqual(self.call("@CancelShutdown")[0].tuples, [[0]])
        self.assertEqual(self.client.call("A.insert", [BIGINT], [2]).status, SUCCESS)

    def test_live_clients_count_calls_of_others(self):
        for caller in (self.client, self.admin):
            response = caller.call("@Statistics", [STRING, INTEGER], ["LIVECLIENTS", 0])
            self.assertEqual([row[8] for row in response.tables[0].tuples], [0, 0])

    def test_note_and_validate(self):
        self.call("@Note", [STRING], ["the cellar is dry"])
        said = self.server.output_with("the cellar is dry")
        self.assertRegex(said, r"INFO.*the cellar is dry")
        rows, hashes = self.call("@ValidatePartitioning", [VARBINARY], [None])
        self.assertEqual((sum(row[4] for row in rows.tuples),
                          [row[3] for row in hashes.tuples]), (0, [1, 1]))

    def test_update(self):
        def file(sites):
            return "<deployment>\n<cluster sitesperhost='%d' kfactor='0'/>\n</deployment>" % sites
        self.assertEqual(self.call("@UpdateApplicationCatalog", [NULL, STRING],
                                   [None, file(2)])[0].tuples, [[0]])
        self.refused("@UpdateApplicationCatalog", [NULL, STRING], [None, file(9)],
                     "sitesperhost is 2 here and 9 in the file", UNSUPPORTED_DYNAMIC_CHANGE)
        self.refused("@UpdateApplicationCatalog", [NULL, STRING], [None, "<deployment>"],
                     "is not XML: <deployment> is not closed")

    def test_verbs_of_features_that_are_not_there(self):
        for procedure, types, values, why in [
                ("@Promote", [], [], "non-replica cluster"),
                ("@ResetDR", [TINYINT] * 3, [-1, 0, 1], "no replication between clusters"),
                ("@ExportControl", [STRING] * 3, ["S", "T", "release"], "exports no streams"),
                ("@TopicControl", [STRING] * 2, ["T", "release"], "no topics"),
                ("@UpdateLicense", [STRING], ["ab"], "needs no license"),
                ("@JStack", [INTEGER], [-1], "gdb or perf"),
                ("@PrepareStopNode", [INTEGER], [0], "its leader cannot be moved"),
                ("@StopNode", [INTEGER], [0], "Stop the process instead"),
                ("@ElasticRemoveNT", [TINYINT, STRING, STRING, BIGINT], [2, "", "", -1],
                 "removed by @RemoveHost"),
                ("@CheckUpgradePlanNT", [STRING] * 2, ["/kit", "/root"], "upgrades in service")]:
            with self.subTest(procedure):
                self.refused(procedure, types, values, why)
