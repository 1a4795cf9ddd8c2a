"""Native procedures as clients see them: application status, several tables, aborts.

`Probe` inserts a key, sets an application status, and aborts if it is told to.
"""

from harness import BIGINT, Case, GRACEFUL_FAILURE, INTEGER, NULL, STRING, SUCCESS, USER_ABORT

TABLE = ("CREATE TABLE probe (k BIGINT NOT NULL, PRIMARY KEY (k))",
         "PARTITION TABLE probe ON COLUMN k")
TYPES = (BIGINT, INTEGER, STRING, STRING)


class NativeSinglePartition(Case):
    """`Probe` on one partition."""

    schema = TABLE + ("CREATE PROCEDURE PARTITION ON TABLE probe COLUMN k FROM NATIVE Probe",)

    def tearDown(self):
        self.sql("DELETE FROM probe")

    def probe(self, *values):
        """The response of a call; None becomes a typeless null."""
        types = [NULL if value is None else kind for kind, value in zip(TYPES, values)]
        return self.caller.call("Probe", types, values)

    def test_application_status(self):
        for status, text in ((0, "zero"), (127, "hé 日本"), (-127, ""), (5, None)):
            response = self.probe(1, status, text, None)
            self.assertEqual(response.status, SUCCESS, response.statusString)
            self.assertEqual(response.appStatus, status)
            self.assertEqual(response.appStatusString, text)
            self.sql("DELETE FROM probe")

    def test_several_tables(self):
        response = self.probe(42, None, None, None)
        self.assertEqual(response.status, SUCCESS, response.statusString)
        self.assertEqual(len(response.tables), 2)
        self.assert_columns(response.tables[0], ":BIGINT")
        self.assert_columns(response.tables[1], "N:BIGINT")
        self.assertEqual([table.tuples for table in response.tables], [[[42]], [[1]]])
        self.assertIsNone(response.appStatus)

    def test_an_abort_keeps_the_application_status_and_nothing_else(self):
        for key in range(10):
            response = self.probe(key, 7, "seven", "not today: ключ")
            self.assertEqual(response.status, USER_ABORT, response.statusString)
            self.assertRegex(response.statusString, "VOLTDB ERROR: USER ABORT.*not today: ключ")
            self.assertEqual((response.appStatus, response.appStatusString), (7, "seven"))
            self.assertEqual(response.tables, [])
        self.assertEqual(self.rows("SELECT COUNT(*) FROM probe"), [[0]])
        self.assertEqual(self.probe(3, None, None, None).status, SUCCESS)

    def test_a_violation_inside(self):
        self.assertEqual(self.probe(1, None, None, None).status, SUCCESS)
        response = self.probe(1, 9, None, None)
        self.assertEqual(response.status, GRACEFUL_FAILURE, response.statusString)
        self.assertRegex(response.statusString, "Constraint Type UNIQUE, Table CatalogId PROBE")
        self.assertEqual(self.rows("SELECT COUNT(*) FROM probe"), [[1]])


class NativeMultiPartition(NativeSinglePartition):
    """`Probe` over all partitions: its rounds are ordered among all sites."""

    matrix = "sites"
    schema = TABLE + ("CREATE PROCEDURE FROM NATIVE Probe",)
