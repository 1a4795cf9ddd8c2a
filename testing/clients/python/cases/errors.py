"""Failures: their statuses, their texts, and that they leave nothing behind."""

from harness import (BIGINT, Case, FLOAT, GRACEFUL_FAILURE, INTEGER, NULL, STRING, SUCCESS,
                     UNEXPECTED_FAILURE)


class CallErrors(Case):
    """Calls that cannot run."""

    schema = (
        "CREATE TABLE keyed (k BIGINT NOT NULL, v VARCHAR(6), PRIMARY KEY (k))",
        "PARTITION TABLE keyed ON COLUMN k",
        "CREATE PROCEDURE KeyedGet PARTITION ON TABLE keyed COLUMN k AS"
        " SELECT v FROM keyed WHERE k = ?",
        "CREATE PROCEDURE KeyedByText AS SELECT k FROM keyed WHERE v = ? AND k > ?",
    )

    def tearDown(self):
        self.sql("DELETE FROM keyed")

    def test_unknown_procedures(self):
        for name in ("NoSuch", "@NoSuch", "KEYED.truncate", "keyedget2", "NOSUCH.insert"):
            with self.subTest(name=name):
                self.refused(UNEXPECTED_FAILURE, "^Procedure %s was not found" % name, name,
                             [BIGINT], [1])

    def test_wrong_number_of_parameters(self):
        text = "PROCEDURE KeyedByText EXPECTS 2 PARAMS, BUT RECEIVED %d"
        self.refused(GRACEFUL_FAILURE, text % 1, "KeyedByText", [STRING], ["a"])
        self.refused(GRACEFUL_FAILURE, text % 3, "KeyedByText", [STRING, BIGINT, BIGINT],
                     ["a", 1, 2])
        self.refused(GRACEFUL_FAILURE, "EXPECTS 1 PARAMS, BUT RECEIVED 2", "KeyedGet",
                     [BIGINT, BIGINT], [1, 2])

    def test_parameters_of_the_wrong_type(self):
        text = "PROCEDURE KeyedByText TYPE ERROR FOR PARAMETER 1"
        self.refused(GRACEFUL_FAILURE, text, "KeyedByText", [STRING, STRING], ["a", "abc"])
        self.refused(GRACEFUL_FAILURE, text, "KeyedByText", [STRING, FLOAT], ["a", 3.0])

    def test_a_partitioning_value_that_cannot_be_hashed(self):
        self.refused(UNEXPECTED_FAILURE, "Error sending procedure KEYED.insert to the correct"
                     " partition", "KEYED.insert", [STRING, STRING], ["zz", "a"])

    def test_sql_that_does_not_parse_or_bind(self):
        self.sql_refused(GRACEFUL_FAILURE, ".", "SELEC")
        self.sql_refused(GRACEFUL_FAILURE, "(?i)no_such", "SELECT * FROM no_such")
        self.sql_refused(GRACEFUL_FAILURE, "(?i)nope", "SELECT nope FROM keyed")
        self.sql_refused(GRACEFUL_FAILURE, "no SQL statement", "  ")

    def test_a_failing_call_leaves_the_connection_usable(self):
        for _ in range(3):
            self.refused(UNEXPECTED_FAILURE, "was not found", "NoSuch")
            self.assertEqual(self.call("@Ping")[0].tuples, [[0]])

    def test_responses_carry_no_application_status_unless_set(self):
        response = self.caller.call("@Ping")
        self.assertEqual(response.status, SUCCESS)
        self.assertIsNone(response.appStatus)
        self.assertIsNone(response.appStatusString)

    def test_failures_have_no_tables(self):
        response = self.refused(UNEXPECTED_FAILURE, "was not found", "NoSuch")
        self.assertEqual(response.tables, [])
        self.assertIsNone(response.exception)


class Constraints(Case):
    """Violations: the text names constraint, table and rows; nothing of the call remains."""

    schema = (
        "CREATE TABLE c1 (k BIGINT NOT NULL, u INTEGER, v VARCHAR(6), PRIMARY KEY (k))",
        "PARTITION TABLE c1 ON COLUMN k",
        "CREATE TABLE c2 (k BIGINT NOT NULL, v VARCHAR(6) NOT NULL, PRIMARY KEY (k))",
        "CREATE PROCEDURE TwoC2 AS BEGIN INSERT INTO c2 VALUES (?, ?); INSERT INTO c2 VALUES"
        " (?, ?); END",
        "CREATE PROCEDURE ThreeC1 PARTITION ON TABLE c1 COLUMN k AS BEGIN"
        " INSERT INTO c1 (k, u) VALUES (?, 1); UPDATE c1 SET v = 'new' WHERE k = ?;"
        " UPDATE c1 SET v = ? WHERE k = ?; END",
    )

    def setUp(self):
        self.call("C1.insert", [BIGINT, INTEGER, STRING], [1, 10, "one"])
        self.call("C2.insert", [BIGINT, STRING], [1, "one"])

    def tearDown(self):
        self.sql("DELETE FROM c1")
        self.sql("DELETE FROM c2")

    def test_primary_keys(self):
        for table, types, values in (("C1", [BIGINT, INTEGER, STRING], [1, 30, "dup"]),
                                     ("C2", [BIGINT, STRING], [1, "dup"])):
            response = self.refused(GRACEFUL_FAILURE, "VOLTDB ERROR: CONSTRAINT VIOLATION",
                                    table + ".insert", types, values)
            self.assertRegex(response.statusString,
                             "Constraint Type UNIQUE, Table CatalogId %s" % table)
            self.assertRegex(response.statusString, r"(?s)Relevant Tuples:.*dup")

    def test_not_null(self):
        self.refused(GRACEFUL_FAILURE, "Constraint Type NOT_NULL, Table CatalogId C2",
                     "C2.insert", [BIGINT, NULL], [2, None])

    def test_statement_atomicity(self):
        self.call("C2.insert", [BIGINT, STRING], [2, "two"])
        self.sql_refused(GRACEFUL_FAILURE, "CONSTRAINT VIOLATION", "UPDATE c2 SET k = 5")
        self.assertEqual(self.rows("SELECT k FROM c2 ORDER BY k"), [[1], [2]])

    def test_a_violation_in_the_middle_undoes_the_whole_call(self):
        self.refused(GRACEFUL_FAILURE, "CONSTRAINT VIOLATION", "TwoC2",
                     [BIGINT, STRING, BIGINT, STRING], [5, "five", 1, "dup"])
        self.assertEqual(self.rows("SELECT k, v FROM c2 ORDER BY k"), [[1, "one"]])
        self.call("TwoC2", [BIGINT, STRING, BIGINT, STRING], [5, "five", 6, "six"])
        self.assertEqual(self.rows("SELECT COUNT(*) FROM c2"), [[3]])

    def test_a_late_error_undoes_earlier_statements_of_one_partition(self):
        self.refused(GRACEFUL_FAILURE, "exceeds the size of the VARCHAR", "ThreeC1",
                     [BIGINT, BIGINT, STRING, BIGINT], [9, 9, "far too long", 9])
        self.assertEqual(self.rows("SELECT k, v FROM c1 ORDER BY k"), [[1, "one"]])

    def test_several_statements_in_one_call_are_one_transaction(self):
        self.sql_refused(GRACEFUL_FAILURE, "CONSTRAINT VIOLATION",
                         "INSERT INTO c2 VALUES (7, 'a'); INSERT INTO c2 VALUES (7, 'b')")
        self.assertEqual(self.rows("SELECT COUNT(*) FROM c2"), [[1]])

    def test_division_by_zero(self):
        self.sql_refused(GRACEFUL_FAILURE, "Attempted to divide", "SELECT u / 0 FROM c1")


class SchemaErrors(Case):
    """Schema changes that are refused change nothing."""

    matrix = "sites"

    def test_a_batch_is_atomic(self):
        self.sql_refused(GRACEFUL_FAILURE, ".", "CREATE TABLE half (a INTEGER);"
                         " CREATE TABLE half2 (a NOSUCHTYPE);")
        self.sql_refused(GRACEFUL_FAILURE, "(?i)half", "SELECT * FROM half")

    def test_names_are_taken_once(self):
        self.run_ddl("CREATE TABLE once (a INTEGER)")
        self.addCleanup(self.run_ddl, "DROP TABLE once IF EXISTS")
        self.sql_refused(GRACEFUL_FAILURE, "(?i)once", "CREATE TABLE once (a INTEGER)")

    def test_dropping_what_is_not_there(self):
        self.sql_refused(GRACEFUL_FAILURE, "(?i)absent", "DROP TABLE absent")
        self.run_ddl("DROP TABLE absent IF EXISTS")

    def test_ddl_does_not_mix_with_queries(self):
        self.sql_refused(GRACEFUL_FAILURE, "DDL mixed with DML", "CREATE TABLE mixed (a INTEGER);"
                         " INSERT INTO mixed VALUES (1)")

    def test_a_procedure_whose_sql_fails_is_not_created(self):
        self.sql_refused(GRACEFUL_FAILURE, ".", "CREATE PROCEDURE Bad AS SELECT * FROM absent")
        self.refused(UNEXPECTED_FAILURE, "was not found", "Bad")


class ForeignPartitions(Case):
    """Single-partition procedures that reach beyond their partition."""

    matrix = "sites"
    schema = (
        "CREATE TABLE p1 (k BIGINT NOT NULL, v INTEGER)",
        "PARTITION TABLE p1 ON COLUMN k",
        "CREATE PROCEDURE PutTwo PARTITION ON TABLE p1 COLUMN k AS BEGIN"
        " INSERT INTO p1 VALUES (?, 1); INSERT INTO p1 VALUES (?, 2); END",
    )

    def test_a_row_for_another_partition_is_refused_and_all_is_undone(self):
        for other in range(1, 40):
            response = self.caller.call("PutTwo", [BIGINT, BIGINT], [0, other])
            if self.server.sites == 1:
                self.assertEqual(response.status, SUCCESS, response.statusString)
                continue
            if response.status != SUCCESS:
                self.assertEqual(response.status, GRACEFUL_FAILURE, response.statusString)
                self.assertRegex(response.statusString, "(?i)p1")
                break
        else:
            if self.server.sites > 1:
                self.fail("39 keys and none of another partition")
        counts = self.rows("SELECT v, COUNT(*) FROM p1 GROUP BY v ORDER BY v")
        if counts:
            self.assertEqual(counts[0][1], counts[1][1], "half of a call is left")
        self.sql("DELETE FROM p1")
