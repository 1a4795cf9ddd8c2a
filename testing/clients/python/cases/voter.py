"""The voter application with its native procedure."""

from harness import BIGINT, Case, GRACEFUL_FAILURE, INTEGER, SMALLINT, STRING

ACCEPTED, BAD_CONTESTANT, OVER_LIMIT = 0, 1, 2


class Voter(Case):
    """`Vote` against its rules, and the two views against its table."""

    schema = (
        "CREATE TABLE contestants (contestant_number INTEGER NOT NULL,"
        " contestant_name VARCHAR(50) NOT NULL, PRIMARY KEY (contestant_number))",
        "CREATE TABLE votes (phone_number BIGINT NOT NULL, state VARCHAR(2) NOT NULL,"
        " contestant_number INTEGER NOT NULL)",
        "PARTITION TABLE votes ON COLUMN phone_number",
        "CREATE TABLE area_code_state (area_code SMALLINT NOT NULL, state VARCHAR(2) NOT NULL,"
        " PRIMARY KEY (area_code))",
        "CREATE VIEW v_votes_by_phone_number (phone_number, num_votes) AS"
        " SELECT phone_number, COUNT(*) FROM votes GROUP BY phone_number",
        "CREATE VIEW v_votes_by_contestant_number_state (contestant_number, state, num_votes) AS"
        " SELECT contestant_number, state, COUNT(*) FROM votes GROUP BY contestant_number, state",
        "CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone_number FROM NATIVE Vote",
    )

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for number in range(1, 7):
            cls.caller.call("CONTESTANTS.insert", [INTEGER, STRING], [number, "C%d" % number])
        for code, state in ((617, "MA"), (212, "NY"), (415, "CA")):
            cls.caller.call("AREA_CODE_STATE.insert", [SMALLINT, STRING], [code, state])

    def tearDown(self):
        self.sql("DELETE FROM votes")

    def vote(self, phone, contestant, limit=2):
        """One call; its verdict."""
        table = self.call("Vote", [BIGINT, INTEGER, BIGINT], [phone, contestant, limit])[0]
        self.assert_columns(table, ":BIGINT")
        return table.tuples[0][0]

    def test_the_rules(self):
        self.assertEqual(self.vote(6175550001, 1), ACCEPTED)
        self.assertEqual(self.vote(6175550001, 2), ACCEPTED)
        self.assertEqual(self.vote(6175550001, 3), OVER_LIMIT)
        self.assertEqual(self.vote(6175550001, 99), BAD_CONTESTANT)
        self.assertEqual(self.vote(2125550001, 99), BAD_CONTESTANT)
        self.assertEqual(self.vote(2125550001, 6), ACCEPTED)
        self.assertEqual(self.rows("SELECT COUNT(*) FROM votes"), [[3]])

    def test_states_come_from_the_area_code(self):
        for phone, state in ((6175550002, "MA"), (4155550002, "CA"), (9995550002, "XX")):
            self.vote(phone, 1)
            found = self.rows("SELECT state FROM votes WHERE phone_number = %d" % phone)
            self.assertEqual(found, [[state]])

    def test_views_follow_the_votes(self):
        accepted = 0
        for number in range(300):
            phone = (6170000000, 2120000000, 4150000000)[number % 3] + number % 25
            accepted += self.vote(phone, 1 + number % 7) == ACCEPTED
        self.assertEqual(self.rows("SELECT COUNT(*) FROM votes"), [[accepted]])
        self.assertEqual(self.rows("SELECT SUM(num_votes) FROM v_votes_by_phone_number"),
                         [[accepted]])
        self.assertEqual(self.rows("SELECT SUM(num_votes) FROM v_votes_by_contestant_number_state"),
                         [[accepted]])
        self.assertEqual(self.rows("SELECT MAX(num_votes) FROM v_votes_by_phone_number"), [[2]])
        self.sql("DELETE FROM votes")
        self.assertEqual(self.rows("SELECT COUNT(*) FROM v_votes_by_phone_number"), [[0]])

    def test_wrong_parameters(self):
        self.refused(GRACEFUL_FAILURE, "PROCEDURE Vote EXPECTS 3 PARAMS, BUT RECEIVED 2", "Vote",
                     [BIGINT, INTEGER], [6175550003, 1])
        self.refused(GRACEFUL_FAILURE, "PROCEDURE Vote TYPE ERROR FOR PARAMETER 1", "Vote",
                     [BIGINT, STRING, BIGINT], [6175550003, "x", 2])

    def test_an_unknown_native_name_is_refused(self):
        self.sql_refused(GRACEFUL_FAILURE, "(?i)NoSuchNative",
                         "CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone_number"
                         " FROM NATIVE NoSuchNative")
