"""What all cases share: the configurations they run in, and a call through either client."""

import re
import unittest

from voltclient import VoltClient
from voltdbclient import FastSerializer, VoltProcedure

import wire

TINYINT = FastSerializer.VOLTTYPE_TINYINT
SMALLINT = FastSerializer.VOLTTYPE_SMALLINT
INTEGER = FastSerializer.VOLTTYPE_INTEGER
BIGINT = FastSerializer.VOLTTYPE_BIGINT
FLOAT = FastSerializer.VOLTTYPE_FLOAT
STRING = FastSerializer.VOLTTYPE_STRING
TIMESTAMP = FastSerializer.VOLTTYPE_TIMESTAMP
DECIMAL = FastSerializer.VOLTTYPE_DECIMAL
VARBINARY = FastSerializer.VOLTTYPE_VARBINARY
NULL = FastSerializer.VOLTTYPE_NULL

SUCCESS, USER_ABORT, GRACEFUL_FAILURE, UNEXPECTED_FAILURE = 1, -1, -2, -3
CREATED = re.compile(r"CREATE\s+(TABLE|VIEW|PROCEDURE)\s+(?!PARTITION\b)(\w+)", re.I)
NATIVE = re.compile(r"(PROCEDURE)\b.*\bFROM\s+NATIVE\s+(\w+)", re.I | re.S)
DROP_ORDER = ("PROCEDURE", "VIEW", "TABLE")


class FastSerializerCaller:
    """Calls through the one-call-at-a-time client."""

    name = "FastSerializer"

    def __init__(self, port):
        self.serializer = FastSerializer("127.0.0.1", port, procedure_timeout=60)

    def call(self, procedure, types=(), values=()):
        """One call; the client's own response object."""
        return VoltProcedure(self.serializer, procedure, list(types)).call(list(values))

    def close(self):
        """Closes the connection."""
        self.serializer.close()


class VoltClientCaller:
    """Calls through the topology-aware client with many calls in flight."""

    name = "VoltClient"

    def __init__(self, port):
        self.client = VoltClient(["127.0.0.1"], port=port, procedure_timeout=60)

    def call(self, procedure, types=(), values=()):
        """One call; the client's own response object."""
        return self.client.call(procedure, list(types), list(values))

    def close(self):
        """Closes all connections."""
        self.client.close()


class Case(unittest.TestCase):
    """A test against a running server. `run.py` fills in the configuration."""

    #: Which configurations make sense: "all", "sites" (client port only) or "one".
    matrix = "all"
    #: DDL statements, one call each, undone after the class.
    schema = ()

    server = None
    port = None
    caller_class = FastSerializerCaller
    caller = None

    @classmethod
    def setUpClass(cls):
        cls.caller = cls.caller_class(cls.port)
        # Cleanups also run when a statement below fails; the next class finds nothing left.
        cls.addClassCleanup(cls.caller.close)
        cls.addClassCleanup(cls.drop_schema)
        for statement in cls.schema:
            cls.run_ddl(statement)

    @classmethod
    def drop_schema(cls):
        """Drops what the schema made, users before what they use."""
        text = ";\n".join(cls.schema)
        made = [(kind.upper(), name) for kind, name in CREATED.findall(text)]
        for statement in cls.schema:
            made += [(kind.upper(), name) for kind, name in NATIVE.findall(statement)]
        for kind, name in sorted(set(made), key=lambda pair: DROP_ORDER.index(pair[0])):
            cls.run_ddl("DROP %s %s IF EXISTS" % (kind, name))

    @classmethod
    def run_ddl(cls, sql):
        """A schema change that must succeed."""
        response = cls.caller.call("@AdHoc", [STRING], [sql])
        if response.status != SUCCESS:
            raise AssertionError("%s\n-> %s %s" % (sql, response.status, response.statusString))

    def call(self, procedure, types=(), values=()):
        """A call that must succeed; its tables."""
        response = self.caller.call(procedure, types, values)
        if response.status != SUCCESS:
            self.fail("%s%r -> %s %s" % (procedure, tuple(values)[:4], response.status,
                                         response.statusString))
        return response.tables

    def sql(self, text):
        """An ad hoc statement that must succeed; its first table."""
        return self.call("@AdHoc", [STRING], [text])[0]

    def rows(self, text):
        """The rows of an ad hoc query."""
        return [list(row) for row in self.sql(text).tuples]

    def refused(self, status, pattern, procedure, types=(), values=()):
        """A call that must fail with a status and a text that matches; the response."""
        response = self.caller.call(procedure, types, values)
        self.assertEqual(response.status, status, response.statusString)
        self.assertRegex(response.statusString or "", pattern)
        return response

    def sql_refused(self, status, pattern, text):
        """An ad hoc statement that must fail."""
        return self.refused(status, pattern, "@AdHoc", [STRING], [text])

    def raw(self, **options):
        """A raw connection to the same port."""
        connection = wire.Connection(self.port, **options)
        self.addCleanup(connection.close)
        return connection

    def assert_columns(self, table, expected):
        """Compares names and types of a client's table with 'NAME:TYPE NAME:TYPE'."""
        self.assertEqual(columns_of(table), expected)


TYPE_NAMES = {3: "TINYINT", 4: "SMALLINT", 5: "INTEGER", 6: "BIGINT", 8: "FLOAT", 9: "STRING",
              11: "TIMESTAMP", 22: "DECIMAL", 25: "VARBINARY"}


def columns_of(table):
    """Names and types of a client's table as 'NAME:TYPE NAME:TYPE'."""
    return " ".join("%s:%s" % (column.name, TYPE_NAMES.get(column.type, column.type))
                    for column in table.columns)
