"""Operating a host with a directory: pause, quiesce, and the stop that saves.

Every class starts a server of its own.
"""

import contextlib
import pathlib
import shutil
import tempfile
import unittest

from harness import (BIGINT, FastSerializerCaller, GRACEFUL_FAILURE, STRING, SUCCESS,
                     UNEXPECTED_FAILURE)
from server import Server, made_directory

SERVER_UNAVAILABLE = -5


class Operate(unittest.TestCase):
    """The unmodified client on both ports of a host with a directory."""

    matrix = "alone"

    def setUp(self):
        place = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-operate-"))
        self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        self.directory = made_directory(place / "host", 2)
        self.server = self.started()

    def started(self):
        server = Server(2, directory=self.directory)
        server.start()
        self.addCleanup(server.stop)
        self.client = FastSerializerCaller(server.port)
        self.admin = FastSerializerCaller(server.admin_port)
        return server

    def sql(self, caller, text):
        return caller.call("@AdHoc", [STRING], [text])

    def count(self):
        return self.sql(self.client, "SELECT COUNT(*) FROM t").tables[0].tuples[0][0]

    def test_a_paused_host_reads_for_clients_and_writes_for_administrators(self):
        self.assertEqual(self.sql(self.client, "CREATE TABLE t (a BIGINT)").status, SUCCESS)
        refused = self.client.call("@Pause")
        self.assertEqual((refused.status, refused.statusString),
                         (UNEXPECTED_FAILURE, "@Pause is not available to this client"))
        self.assertEqual(self.admin.call("@Pause").tables[0].tuples, [[0]])
        refused = self.client.call("T.insert", [BIGINT], [1])
        self.assertEqual((refused.status, refused.statusString),
                         (SERVER_UNAVAILABLE, "Server is paused and is available in read-only "
                                              "mode - please try again later."))
        self.assertEqual(self.count(), 0)
        self.assertEqual(self.admin.call("T.insert", [BIGINT], [2]).status, SUCCESS)
        self.assertEqual(self.admin.call("@Resume").tables[0].tuples, [[0]])
        self.assertEqual(self.client.call("T.insert", [BIGINT], [3]).status, SUCCESS)
        self.assertEqual(self.client.call("@Quiesce").tables[0].tuples, [[0]])
        self.assertEqual(self.count(), 2)

    def test_a_stop_that_saves_leaves_nothing_to_run_again(self):
        self.assertEqual(self.sql(self.client, "CREATE TABLE t (a BIGINT)").status, SUCCESS)
        for value in range(10):
            self.assertEqual(self.client.call("T.insert", [BIGINT], [value]).status, SUCCESS)
        number = self.admin.call("@PrepareShutdown").tables[0].tuples[0][0]
        refused = self.client.call("T.insert", [BIGINT], [11])
        self.assertEqual(refused.status, SERVER_UNAVAILABLE, refused.statusString)
        self.assertRegex(refused.statusString, r"^Server is shutting down\. .*@CancelShutdown")
        self.assertEqual(self.admin.call("@Quiesce").status, SUCCESS)
        wrong = self.admin.call("@Shutdown", [BIGINT], [number + 1])
        self.assertEqual(wrong.status, GRACEFUL_FAILURE, wrong.statusString)
        # Nobody is answered: what the client makes of the closed connection is its own matter.
        with contextlib.suppress(Exception):
            self.admin.call("@Shutdown", [BIGINT], [number])
        self.assertEqual(self.server.process.wait(20), 0)
        self.server = self.started()
        self.assertIn("0 log entries replayed", self.server.output())
        self.assertEqual(self.count(), 10)
