"""The client protocol by hand, for what no well-behaved client would send.

Independent of voltdbclient on purpose: two readings of the protocol catch each other's mistakes.
"""

import decimal
import hashlib
import socket
import struct

NULL, TINYINT, SMALLINT, INTEGER, BIGINT, FLOAT, STRING, TIMESTAMP = 1, 3, 4, 5, 6, 8, 9, 11
VOLTTABLE, DECIMAL, VARBINARY = 21, 22, 25
ARRAY = -99
INTEGERS = {TINYINT: (">b", 1), SMALLINT: (">h", 2), INTEGER: (">i", 4), BIGINT: (">q", 8),
            TIMESTAMP: (">q", 8)}
NULL_FLOAT = -1.7e308
PING_HANDLE = 2 ** 63 - 1
TOPOLOGY_HANDLE = PING_HANDLE - 1
PROCEDURES_HANDLE = PING_HANDLE - 2
MAX_FRAME = 50 * 1024 * 1024


class Closed(Exception):
    """The server closed the connection."""


def text(value):
    """A string with its length; None is the null string."""
    if value is None:
        return struct.pack(">i", -1)
    raw = value if isinstance(value, bytes) else value.encode("utf-8")
    return struct.pack(">i", len(raw)) + raw


def frame(body):
    """A message with its length."""
    return struct.pack(">i", len(body)) + body


def login_body(version=1, scheme=1, service="database", user="", password="", digest=None):
    """A login message; `digest` overrides the hash of the password."""
    if digest is None:
        algorithm = hashlib.sha256 if scheme == 1 else hashlib.sha1
        digest = algorithm(password.encode("utf-8")).digest()
    head = struct.pack(">b", version) + (struct.pack(">b", scheme) if version != 0 else b"")
    return head + text(service) + text(user) + digest


def value(kind, item):
    """The bytes of a value without its type byte."""
    if kind == NULL:
        return b""
    if kind in INTEGERS:
        layout, size = INTEGERS[kind]
        return struct.pack(layout, -(1 << (8 * size - 1)) if item is None else item)
    if kind == FLOAT:
        return struct.pack(">d", NULL_FLOAT if item is None else item)
    if kind in (STRING, VARBINARY):
        return text(item)
    if kind == DECIMAL:
        if item is None:
            return b"\x80" + bytes(15)
        with decimal.localcontext() as context:
            context.prec = 60
            return int(decimal.Decimal(item) * 10 ** 12).to_bytes(16, "big", signed=True)
    if kind == VOLTTABLE:
        return item
    raise ValueError("cannot encode type %d" % kind)


def table(columns, rows):
    """The bytes of a table, for a parameter; columns are (name, type) pairs."""
    header = (b"\0" + struct.pack(">h", len(columns))
              + b"".join(struct.pack(">b", kind) for _, kind in columns)
              + b"".join(text(name) for name, _ in columns))
    body = frame(header) + struct.pack(">i", len(rows)) + b"".join(
        frame(b"".join(value(kind, item) for (_, kind), item in zip(columns, row)))
        for row in rows)
    return frame(body)


def parameters(items):
    """A parameter set of (type, value) pairs."""
    return struct.pack(">h", len(items)) + b"".join(
        struct.pack(">b", kind) + value(kind, item) for kind, item in items)


def invocation(name, items=(), handle=1, extensions=None):
    """A call: version 0, or version 2 with extension bytes."""
    if extensions is None:
        return b"\0" + text(name) + struct.pack(">q", handle) + parameters(items)
    body = b"".join(struct.pack(">bb", kind, code) + payload
                    for kind, code, payload in extensions)
    return (b"\2" + text(name) + struct.pack(">qb", handle, len(extensions)) + body
            + parameters(items))


class Reader:
    """Takes values off the front of a message, and insists that they are there."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        """The next `size` bytes."""
        piece = self.data[self.at:self.at + size]
        if len(piece) != size:
            raise ValueError("message ends early at byte %d" % self.at)
        self.at += size
        return piece

    def number(self, layout):
        """The next number in the layout of `struct`."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def text(self):
        """The next string, or None."""
        size = self.number(">i")
        return None if size < 0 else self.take(size).decode("utf-8")

    def value(self, kind):
        """The next value of a column of type `kind`; timestamps stay microseconds."""
        if kind in INTEGERS:
            layout, size = INTEGERS[kind]
            number = self.number(layout)
            return None if number == -(1 << (8 * size - 1)) else number
        if kind == FLOAT:
            number = self.number(">d")
            return None if number <= NULL_FLOAT else number
        if kind == STRING:
            return self.text()
        if kind == VARBINARY:
            size = self.number(">i")
            return None if size < 0 else self.take(size)
        if kind == DECIMAL:
            raw = self.take(16)
            if raw == b"\x80" + bytes(15):
                return None
            return decimal.Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-12)
        raise ValueError("unknown column type %d" % kind)

    def table(self):
        """The next result table; every length in it must be right."""
        total = self.number(">i")
        end = self.at + total
        header = self.number(">i")
        header_end = self.at + header
        status, count = self.number(">b"), self.number(">h")
        kinds = [self.number(">b") for _ in range(count)]
        names = [self.text() for _ in range(count)]
        if self.at != header_end:
            raise ValueError("table header: %d bytes, said %d" % (self.at, header_end))
        rows = []
        for _ in range(self.number(">i")):
            row_end = self.number(">i") + self.at
            rows.append([self.value(kind) for kind in kinds])
            if self.at != row_end:
                raise ValueError("row of the wrong length")
        if self.at != end:
            raise ValueError("table of the wrong length")
        return Table(status, names, kinds, rows)


class Table:
    """A decoded result table."""

    def __init__(self, status, names, kinds, rows):
        self.status, self.names, self.kinds, self.rows = status, names, kinds, rows


class Response:
    """A decoded response; it must end where its frame ends."""

    def __init__(self, body):
        reader = Reader(body)
        self.version = reader.number(">b")
        self.handle = reader.number(">q")
        self.present = reader.number(">B")
        self.status = reader.number(">b")
        self.text = reader.text() if self.present & 0x20 else None
        self.app_status = reader.number(">b")
        self.app_text = reader.text() if self.present & 0x80 else None
        self.round_trip_ms = reader.number(">i")
        if self.present & 0x50:
            raise ValueError("exception or hashes sent to a client")
        self.tables = [reader.table() for _ in range(reader.number(">h"))]
        if reader.at != len(body):
            raise ValueError("response with trailing bytes")


class Connection:
    """A raw connection; logs in unless told not to."""

    def __init__(self, port, login=True, timeout_s=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.login_reply = None
        if login:
            self.send(login_body())
            self.login_reply = self.receive()
            if self.login_reply[1] != 0:
                raise Closed("login refused with status %d" % self.login_reply[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the socket."""
        self.socket.close()

    def send(self, body):
        """Sends one framed message."""
        self.send_raw(frame(body))

    def send_raw(self, data):
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def receive(self):
        """The next message's body; Closed if there is none."""
        size = struct.unpack(">i", self._exactly(4))[0]
        return self._exactly(size)

    def _exactly(self, size):
        pieces = []
        while size:
            try:
                piece = self.socket.recv(min(size, 1 << 20))
            except (ConnectionResetError, BrokenPipeError):
                piece = b""
            if not piece:
                raise Closed("closed by the server")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def response(self):
        """The next message as a response."""
        return Response(self.receive())

    def call(self, name, items=(), handle=1, extensions=None):
        """Sends a call and returns its response; pushes are not expected."""
        self.send(invocation(name, items, handle, extensions))
        response = self.response()
        if response.handle != handle:
            raise ValueError("handle %d answered as %d" % (handle, response.handle))
        return response

    def adhoc(self, sql):
        """Runs SQL text."""
        return self.call("@AdHoc", [(STRING, sql)])

    def is_closed(self, within_s=10):
        """Whether the server closes the connection within a time, whatever it says before."""
        self.socket.settimeout(within_s)
        try:
            while True:
                if not self.socket.recv(1 << 16):
                    return True
        except socket.timeout:
            return False
        except OSError:
            return True
