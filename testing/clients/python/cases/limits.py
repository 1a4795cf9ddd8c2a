"""Limits: slow and silent clients, too many of them, results that are too large.

Every class starts a server of its own, since the limits are options of the server.
"""

import os
import resource
import socket
import time
import unittest

import wire
from harness import Case, GRACEFUL_FAILURE, UNEXPECTED_FAILURE
from server import Server
from wire import Closed

HANGUP_S = 20


class OwnServer(Case):
    """A case with a server of its own."""

    matrix = "alone"
    sites = 1
    options = ()
    open_files = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.sites, cls.options, cls.open_files)
        cls.server.start()
        cls.addClassCleanup(cls.server.stop)
        cls.port = cls.server.port
        super().setUpClass()


class TooManyConnections(OwnServer):
    """The limit on connections."""

    options = ("max_connections=20",)

    def test_the_limit_is_told_and_a_place_becomes_free(self):
        held = [self.raw() for _ in range(19)]  # the twentieth is the case's own client
        late = self.raw(login=False)
        try:
            late.send(wire.login_body())
            reply = late.receive()
            self.assertEqual((len(reply), reply[1]), (2, 1))
        except (Closed, OSError) as closed:
            self.fail("closed without a login status: %s" % closed)
        self.assertTrue(late.is_closed(5))
        for connection in held:
            self.assertEqual(connection.call("@Ping").status, 1)
        held.pop().close()
        deadline = time.monotonic() + 10
        while True:
            try:
                self.assertEqual(self.raw().call("@Ping").status, 1)
                return
            except Closed:
                self.assertLess(time.monotonic(), deadline, "no place became free")
                time.sleep(0.05)


class IdleConnections(OwnServer):
    """Ten thousand connections that do nothing."""

    count = 10_000
    options = ("max_connections=10100",)

    @classmethod
    def setUpClass(cls):
        wanted = cls.count + 1000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise unittest.SkipTest("the hard limit of open files is %d < %d" % (hard, wanted))
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        super().setUpClass()

    def test_ten_thousand(self):
        begin_kb = self.server.rss_kb()
        idle = []
        try:
            for _ in range(self.count - 10):
                idle.append(wire.Connection(self.port, timeout_s=30))
            begin = time.monotonic()
            self.assertEqual(self.call("@Ping")[0].tuples, [[0]])
            self.assertLess(time.monotonic() - begin, 2)
            for connection in idle[::100]:
                self.assertEqual(connection.call("@Ping", handle=12).handle, 12)
            per_connection_kb = (self.server.rss_kb() - begin_kb) / self.count
            self.assertLess(per_connection_kb, 64, "KiB of memory for an idle connection")
        finally:
            for connection in idle:
                connection.close()


class FileDescriptors(OwnServer):
    """More connections than the system lets the server open."""

    open_files = 100

    def test_those_served_go_on_and_a_place_becomes_free(self):
        served, waiting = [self.raw()], []
        for _ in range(120):
            connection = self.raw(login=False, timeout_s=1)
            try:
                connection.send(wire.login_body())
                connection.receive()
                served.append(connection)
            except (Closed, OSError):
                waiting.append(connection)
                if len(waiting) == 5:
                    break
        self.assertTrue(waiting, "120 connections within 100 files")
        self.assertGreater(len(served), 50)
        begin = cpu_seconds(self.server)
        for connection in served[::10]:
            self.assertEqual(connection.call("@Ping").status, 1)
        time.sleep(1)
        self.assertLess(cpu_seconds(self.server) - begin, 0.7, "the server spins")
        for connection in waiting + served[-20:]:
            connection.close()
        self.assertEqual(self.raw(timeout_s=10).call("@Ping").status, 1)


def cpu_seconds(server):
    """CPU time that the server's process has used."""
    with open("/proc/%d/stat" % server.process.pid, encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class SlowClients(OwnServer):
    """A client that never reads and one that never speaks; the waits run side by side."""

    options = ("unread_timeout_ms=3000", "login_timeout_ms=3000")
    schema = (
        "CREATE TABLE wide (k BIGINT NOT NULL, v VARCHAR(200000), PRIMARY KEY (k))",
        "PARTITION TABLE wide ON COLUMN k",
    )

    def test_they_are_closed_and_nobody_else_notices(self):
        for key in range(10):
            self.raw().call("WIDE.insert", [(wire.BIGINT, key), (wire.STRING, "x" * 200_000)])
        silent = self.raw(login=False)
        deaf = self.raw()
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        begin_kb = self.server.rss_kb()
        sent = self.send_until_blocked(deaf)
        slowest, bystander = 0.0, self.raw()
        silent_closed = deaf_closed = False
        deadline = time.monotonic() + HANGUP_S
        while time.monotonic() < deadline and not (silent_closed and deaf_closed):
            asked = time.monotonic()
            self.assertEqual(bystander.call("@Ping").status, 1)
            row = bystander.adhoc("SELECT k FROM wide WHERE k = 3")
            self.assertEqual(row.tables[0].rows, [[3]])
            slowest = max(slowest, time.monotonic() - asked)
            silent_closed = silent_closed or silent.is_closed(0.1)
            deaf_closed = deaf_closed or self.is_reset(deaf)
        self.assertLess(slowest, 2, "seconds for a bystander's call")
        grown_kb = self.server.rss_kb(peak=True) - begin_kb
        self.assertLess(grown_kb, 512 * 1024, "%d calls sent, %d KiB more" % (sent, grown_kb))
        self.assertTrue(silent_closed, "a connection that never logs in stays open")
        self.assertTrue(deaf_closed, "a connection that never reads stays open")

    @staticmethod
    def send_until_blocked(connection):
        """Sends queries with large answers until the server takes no more; how many."""
        query = wire.frame(wire.invocation("@AdHoc", [(wire.STRING, "SELECT * FROM wide")]))
        connection.socket.settimeout(2)
        sent = 0
        try:
            while sent < 100_000:
                connection.socket.sendall(query)
                sent += 1
        except OSError:
            pass
        return sent

    @staticmethod
    def is_reset(connection):
        """Whether the server gave the connection up, seen by a client that only sends."""
        connection.socket.settimeout(0.1)
        try:
            connection.socket.send(b"\0")
        except (BrokenPipeError, ConnectionResetError):
            return True
        except OSError:
            return False  # no room: the server still holds it
        return False


class LargeResults(OwnServer):
    """A result over the 50 MiB that a frame holds."""

    sites = 3
    schema = (
        "CREATE TABLE big (k BIGINT NOT NULL, v VARCHAR(262144), PRIMARY KEY (k))",
        "PARTITION TABLE big ON COLUMN k",
    )

    def test_it_is_an_error_and_the_connection_goes_on(self):
        connection = self.raw(timeout_s=120)
        for key in range(60):
            items = [(wire.BIGINT, key), (wire.STRING, "🙂" * 262_144)]
            answer = connection.call("BIG.insert", items)
            self.assertEqual(answer.status, 1, answer.text)
        answer = connection.adhoc("SELECT * FROM big")
        self.assertEqual(answer.status, GRACEFUL_FAILURE, answer.text)
        self.assertEqual(answer.tables, [])
        answer = connection.adhoc("SELECT * FROM big WHERE k < 20")
        self.assertEqual((answer.status, len(answer.tables[0].rows)), (1, 20), answer.text)


class Shutdown(unittest.TestCase):
    """SIGTERM ends the process in order, with clients connected."""

    matrix = "alone"

    def test_it_stops_with_connections_open(self):
        server = Server(2)
        server.start()
        held = [wire.Connection(server.port) for _ in range(5)]
        self.assertEqual(held[0].call("@Ping").status, 1)
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0, server.output())
        self.assertLess(time.monotonic() - begin, 10)
        for connection in held:
            self.assertTrue(connection.is_closed(5))
            connection.close()

    def test_an_administrator_stops_it(self):
        server = Server(2)
        server.start()
        with wire.Connection(server.port) as client, wire.Connection(server.admin_port) as admin:
            refused = client.call("@Shutdown")
            self.assertEqual(refused.status, UNEXPECTED_FAILURE, refused.text)
            admin.send(wire.invocation("@Shutdown", (), 1))
            self.assertTrue(admin.is_closed(10))
            self.assertTrue(client.is_closed(10))
        self.assertEqual(server.process.wait(10), 0)
        self.assertEqual(server.stop(), 0)
