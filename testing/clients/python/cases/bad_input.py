"""Bytes that no well-behaved client sends. Each ends in an error or a close, for that client only.

After every case a bystander's connection is asked whether the server still serves.
"""

import random
import socket
import struct

import wire
from harness import Case, GRACEFUL_FAILURE, UNEXPECTED_FAILURE
from wire import Closed


class RawCase(Case):
    """A case with a bystander that must notice nothing."""

    matrix = "sites"
    schema = (
        "CREATE TABLE raw (k BIGINT NOT NULL, v VARCHAR(20), PRIMARY KEY (k))",
        "PARTITION TABLE raw ON COLUMN k",
    )

    def setUp(self):
        self.bystander = self.raw()

    def tearDown(self):
        self.assertEqual(self.bystander.call("@Ping", handle=5).status, 1)
        self.assertTrue(self.server.alive(), self.server.output())
        self.sql("DELETE FROM raw")


class Frames(RawCase):
    """Lengths and cuts."""

    def test_bad_lengths_close_the_connection(self):
        for size in (0, -1, -2 ** 31, wire.MAX_FRAME + 1, 2 ** 31 - 1):
            for login in (True, False):
                with self.subTest(size=size, login=login):
                    connection = self.raw(login=login)
                    connection.send_raw(struct.pack(">i", size))
                    self.assertTrue(connection.is_closed(5))

    def test_a_frame_cut_short_harms_nobody(self):
        whole = wire.frame(wire.invocation("RAW.insert", [(wire.BIGINT, 1), (wire.STRING, "a")]))
        for size in (1, 3, 4, 5, len(whole) // 2, len(whole) - 1):
            connection = self.raw()
            connection.send_raw(whole[:size])
            connection.close()
        self.assertEqual(self.rows("SELECT COUNT(*) FROM raw"), [[0]])

    def test_a_frame_in_single_bytes_is_put_together(self):
        connection = self.raw()
        for byte in wire.frame(wire.invocation("@Ping", handle=9)):
            connection.send_raw(bytes([byte]))
        self.assertEqual(connection.response().handle, 9)

    def test_many_frames_in_one_segment(self):
        connection = self.raw()
        connection.send_raw(b"".join(wire.frame(wire.invocation("@Ping", handle=handle))
                                     for handle in range(500)))
        answered = sorted(connection.response().handle for _ in range(500))
        self.assertEqual(answered, list(range(500)))

    def test_a_large_frame_within_the_limit(self):
        items = [(wire.BIGINT, 1), (wire.STRING, "x" * (20 * 1024 * 1024))]
        answer = self.raw(timeout_s=60).call("RAW.insert", items)
        self.assertEqual(answer.status, GRACEFUL_FAILURE, answer.text)
        self.assertLess(len(answer.text), 1 << 20, "the error repeats the value")

    def test_half_closed_connections_are_still_answered(self):
        connection = self.raw()
        connection.send(wire.invocation("@Ping", handle=3))
        connection.socket.shutdown(socket.SHUT_WR)
        try:
            self.assertEqual(connection.response().handle, 3)
        except Closed:
            pass  # closing is as good: the client said that it is done


class Logins(RawCase):
    """The first message."""

    def refused_with(self, status, body):
        """A login that is refused with a framed reply of a status, then closed."""
        connection = self.raw(login=False)
        connection.send(body)
        reply = connection.receive()
        self.assertEqual(len(reply), 2)
        self.assertEqual(struct.unpack(">b", reply[1:])[0], status)
        self.assertTrue(connection.is_closed(5))

    def test_good_logins(self):
        for options in ({"version": 0, "scheme": 0}, {"version": 1, "scheme": 0}, {"version": 1},
                        {"version": 2}, {"user": "somebody", "password": "secret"}):
            with self.subTest(**options):
                connection = self.raw(login=False)
                connection.send(wire.login_body(**options))
                reply = wire.Reader(connection.receive())
                self.assertEqual((reply.number(">b"), reply.number(">b")), (0, 0))
                self.assertEqual(reply.number(">i"), 0)
                self.assertGreater(reply.number(">q"), 0)
                reply.number(">q")
                reply.number(">i")
                self.assertTrue(reply.text())
                self.assertEqual(reply.at, len(reply.data))
                self.assertEqual(connection.call("@Ping").status, 1)

    def test_every_login_names_the_same_cluster(self):
        def instance():
            reply = self.raw().login_reply
            return reply[14:26]
        self.assertEqual(instance(), instance())
        self.assertNotEqual(self.raw().login_reply[6:14], self.raw().login_reply[6:14])

    def test_unknown_services(self):
        self.refused_with(5, wire.login_body(service="export"))
        self.refused_with(5, wire.login_body(service=""))

    def test_unknown_hash_schemes(self):
        self.refused_with(3, wire.login_body(scheme=7))

    def test_digests_of_the_wrong_size(self):
        self.refused_with(-1, wire.login_body(digest=b""))
        self.refused_with(-1, wire.login_body(digest=bytes(31)))
        self.refused_with(-1, wire.login_body(digest=bytes(33)))

    def test_bytes_that_are_no_login(self):
        bodies = (b"\0", b"\1", b"\xff" * 40, wire.login_body()[:12],
                  b"\x63" + wire.login_body()[1:], b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                  struct.pack(">bbi", 1, 1, 2 ** 31 - 1), struct.pack(">bbi", 1, 1, -5))
        for body in bodies:
            with self.subTest(body=body[:20]):
                connection = self.raw(login=False)
                connection.send(body)
                try:
                    self.assertNotEqual(connection.receive()[1], 0, "a login was accepted")
                except Closed:
                    continue
                self.assertTrue(connection.is_closed(5))

    def test_a_call_before_the_login(self):
        connection = self.raw(login=False)
        connection.send(wire.invocation("@Ping"))
        try:
            self.assertNotEqual(connection.receive()[1], 0)
        except Closed:
            return
        self.assertTrue(connection.is_closed(5))

    def test_a_second_login_is_not_a_call(self):
        connection = self.raw()
        connection.send(wire.login_body())
        try:
            self.assertEqual(connection.response().status, UNEXPECTED_FAILURE)
        except Closed:
            pass

    def test_a_call_right_behind_the_login(self):
        connection = self.raw(login=False)
        connection.send_raw(wire.frame(wire.login_body())
                            + wire.frame(wire.invocation("@Ping", handle=4)))
        self.assertEqual(connection.receive()[1], 0)
        self.assertEqual(connection.response().handle, 4)


class Invocations(RawCase):
    """Calls whose bytes do not add up: an error, and the connection goes on or is closed."""

    def rejected(self, body):
        """Sends a bad call; the answer must be an error. The connection may be closed then."""
        connection = self.raw()
        connection.send(body)
        try:
            answer = connection.response()
        except Closed:
            return
        self.assertIn(answer.status, (GRACEFUL_FAILURE, UNEXPECTED_FAILURE), answer.text)
        self.assertTrue(answer.text)

    def test_unknown_versions(self):
        for version in (3, 9, 127, 255):
            self.rejected(bytes([version]) + wire.invocation("@Ping")[1:])

    def test_names(self):
        self.rejected(wire.invocation(""))
        self.rejected(wire.invocation(None))
        self.rejected(wire.invocation(b"\xff\xfe\xc3"))
        self.rejected(wire.invocation("x" * 100_000))

    def test_parameter_sets(self):
        head = wire.invocation("RAW.insert")[:-2]
        bodies = (head, head + struct.pack(">h", -1), head + struct.pack(">h", 2),
                  head + struct.pack(">hb", 1, 77) + bytes(8),
                  head + struct.pack(">hbi", 1, wire.STRING, 1000) + b"short",
                  head + struct.pack(">hbi", 1, wire.STRING, -7),
                  head + struct.pack(">hbi", 1, wire.STRING, 2 ** 31 - 1),
                  head + struct.pack(">hbbh", 1, wire.ARRAY, wire.BIGINT, -1),
                  head + struct.pack(">hbbh", 1, wire.ARRAY, wire.BIGINT, 30_000),
                  head + struct.pack(">hbb", 1, wire.ARRAY, wire.ARRAY) + bytes(8),
                  head + struct.pack(">hbi", 1, wire.VOLTTABLE, 2 ** 31 - 1),
                  head + struct.pack(">hbi", 1, wire.VOLTTABLE, 3) + b"abc",
                  head + struct.pack(">h", 32767))
        for body in bodies:
            with self.subTest(tail=body[len(head):][:16]):
                self.rejected(body)
        self.assertEqual(self.rows("SELECT COUNT(*) FROM raw"), [[0]])

    def test_extensions(self):
        many = [(99, 0, b"")] * 31
        self.rejected(wire.invocation("@Ping", extensions=many))
        self.rejected(wire.invocation("@Ping", extensions=[(3, 1, b"\0")]))
        self.rejected(wire.invocation("@Ping", extensions=[(1, 3, b"\xff\xff\xff\xff")]))
        self.rejected(wire.invocation("@Ping", extensions=[(3, 3, b"\xff\xff\xff\xff")]))
        self.rejected(b"\2" + wire.text("@Ping") + struct.pack(">qb", 1, -1) + bytes(2))
        self.rejected(b"\2" + wire.text("@Ping") + struct.pack(">qbbb", 1, 1, 9, 60) + bytes(2))

    def test_old_versions_are_served(self):
        connection = self.raw()
        for flag in (struct.pack(">b", -1), struct.pack(">bi", 1, 3000)):
            connection.send(b"\1" + flag + wire.text("@Ping") + struct.pack(">qh", 6, 0))
            answer = connection.response()
            self.assertEqual((answer.status, answer.handle), (1, 6))
        self.rejected(b"\1" + struct.pack(">bi", 1, -3) + wire.text("@Ping")
                      + struct.pack(">qh", 6, 0))

    def test_text_that_is_not_utf8(self):
        connection = self.raw()
        for raw in (b"\xff", b"\xc3", b"a\xed\xa0\x80b", b"\xf8\x88\x80\x80\x80", b"\xc0\x80"):
            answer = connection.call("RAW.insert", [(wire.BIGINT, 1), (wire.STRING, raw)], 3)
            self.assertIn(answer.status, (GRACEFUL_FAILURE, UNEXPECTED_FAILURE), raw)
            answer = connection.call("@AdHoc", [(wire.STRING, b"SELECT '" + raw + b"' FROM raw")])
            self.assertIn(answer.status, (GRACEFUL_FAILURE, UNEXPECTED_FAILURE), raw)
        self.assertEqual(self.rows("SELECT COUNT(*) FROM raw"), [[0]])

    def test_handles_come_back_untouched(self):
        connection = self.raw()
        for handle in (0, -1, 1, 2 ** 62, -2 ** 63, 2 ** 63 - 1, 2 ** 63 - 2):
            connection.send(wire.invocation("@Ping", handle=handle))
            self.assertEqual(connection.response().handle, handle)

    def test_random_bytes(self):
        seed = 20_261_120
        source = random.Random(seed)
        for number in range(200):
            connection = self.raw(login=number % 4 != 0)
            body = bytearray(wire.invocation("RAW.insert", [(wire.BIGINT, 1), (wire.STRING, "x")]))
            for _ in range(source.randrange(1, 6)):
                body[source.randrange(len(body))] = source.randrange(256)
            connection.send(bytes(body))
            connection.close()
        self.assertEqual(self.bystander.call("@Ping", handle=6).status, 1, "seed %d" % seed)


class Sql(RawCase):
    """Text that is too much."""

    def test_deep_nesting_is_an_error(self):
        for text in ("SELECT " + "(" * 20_000 + "1" + ")" * 20_000 + " FROM raw",
                     "SELECT k FROM raw WHERE " + "NOT " * 50_000 + "k = 1",
                     "SELECT k FROM raw WHERE " + " AND ".join(["k = 1"] * 20_000),
                     "SELECT " + "-" * 1 + " -".join([""] * 20_000) + "1 FROM raw"):
            connection = self.raw(timeout_s=60)
            answer = connection.adhoc(text)
            self.assertIn(answer.status, (1, GRACEFUL_FAILURE), (answer.text or "")[:200])
            self.assertLess(len(answer.text or ""), 1 << 20)

    def test_long_text(self):
        answer = self.raw(timeout_s=60).adhoc("SELECT '" + "x" * 4_000_000)
        self.assertEqual(answer.status, GRACEFUL_FAILURE)
        self.assertLess(len(answer.text), 1 << 20)
