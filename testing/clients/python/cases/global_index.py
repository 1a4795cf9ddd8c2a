"""Global indexes as clients see them: calls that an index leads to the partition of a row."""

import threading

from harness import (BIGINT, Case, FastSerializerCaller, GRACEFUL_FAILURE, INTEGER, STRING,
                     SUCCESS, UNEXPECTED_FAILURE)

ROWS = 40


class Routed(Case):
    """Procedures with VIA GLOBAL INDEX, which clients cannot route and the server does."""

    schema = (
        "CREATE TABLE led (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL, v INTEGER)",
        "PARTITION TABLE led ON COLUMN id",
        "CREATE GLOBAL UNIQUE INDEX led_name ON led (name)",
        "CREATE PROCEDURE LedGet PARTITION ON TABLE led COLUMN id"
        " VIA GLOBAL INDEX led_name PARAMETER 0 AS SELECT id, v FROM led WHERE name = ?",
        "CREATE PROCEDURE LedSet PARTITION ON TABLE led COLUMN id"
        " VIA GLOBAL INDEX led_name PARAMETER 1 AS UPDATE led SET v = ? WHERE name = ?",
        "CREATE PROCEDURE LedRename PARTITION ON TABLE led COLUMN id"
        " VIA GLOBAL INDEX led_name PARAMETER 1 AS UPDATE led SET name = ? WHERE name = ?",
        "CREATE PROCEDURE LedDrop PARTITION ON TABLE led COLUMN id"
        " VIA GLOBAL INDEX led_name PARAMETER 0 AS DELETE FROM led WHERE name = ?",
        # A row goes to another value of its partitioning column, and mostly another partition.
        "CREATE PROCEDURE LedMove AS BEGIN DELETE FROM led WHERE id = ?;"
        " INSERT INTO led VALUES (?, ?, ?); END",
    )

    def setUp(self):
        self.sql("DELETE FROM led")
        for number in range(ROWS):
            self.call("LED.insert", [BIGINT, STRING, INTEGER], [number, "n%d" % number, 0])

    def get(self, name):
        """The rows that the index leads to."""
        return [list(row) for row in self.call("LedGet", [STRING], [name])[0].tuples]

    def modified(self, procedure, types, values):
        """How many rows a call has changed."""
        return self.call(procedure, types, values)[0].tuples[0][0]

    def test_hits_and_misses(self):
        for number in range(ROWS):
            self.assertEqual(self.get("n%d" % number), [[number, 0]])
        self.assertEqual(self.get("nobody"), [])
        self.assertEqual(self.get(""), [])
        self.assertEqual(self.get(None), [])

    def test_changes(self):
        for number in range(ROWS):
            name = "n%d" % number
            self.assertEqual(self.modified("LedSet", [INTEGER, STRING], [number + 7, name]), 1)
        self.assertEqual(self.modified("LedSet", [INTEGER, STRING], [1, "nobody"]), 0)
        self.assertEqual(self.rows("SELECT id, v FROM led ORDER BY id"),
                         [[number, number + 7] for number in range(ROWS)])

    def test_a_key_that_changes(self):
        for number in range(ROWS):
            names = ["m%d" % number, "n%d" % number]
            self.assertEqual(self.modified("LedRename", [STRING, STRING], names), 1)
            self.assertEqual(self.get(names[0]), [[number, 0]])
            self.assertEqual(self.get(names[1]), [])
        self.refused(GRACEFUL_FAILURE, "(?s)CONSTRAINT VIOLATION.*LED_NAME", "LedRename",
                     [STRING, STRING], ["m1", "m2"])
        self.assertEqual(self.get("m1"), [[1, 0]])
        self.assertEqual(self.get("m2"), [[2, 0]])

    def test_rows_that_go(self):
        for number in range(ROWS):
            name = "n%d" % number
            self.assertEqual(self.modified("LedDrop", [STRING], [name]), 1)
            self.assertEqual(self.modified("LedDrop", [STRING], [name]), 0)
            self.assertEqual(self.get(name), [])
        self.call("LED.insert", [BIGINT, STRING, INTEGER], [5000, "n1", 3])
        self.assertEqual(self.get("n1"), [[5000, 3]])

    def move(self, caller, old, new):
        """The row goes from one value of its partitioning column to another, with its name."""
        types = [BIGINT, BIGINT, STRING, INTEGER]
        return caller.call("LedMove", types, [old, new, "n1", new])

    def test_a_row_that_moves(self):
        places = [1] + list(range(1000, 1030))
        for old, new in zip(places, places[1:]):
            answer = self.move(self.caller, old, new)
            self.assertEqual(answer.status, SUCCESS, answer.statusString)
            self.assertEqual(self.get("n1"), [[new, new]])
            self.assertEqual(self.modified("LedSet", [INTEGER, STRING], [-new, "n1"]), 1)
            self.assertEqual(self.get("n1"), [[new, -new]])

    def test_a_row_that_moves_meanwhile_is_found_once(self):
        places = [1] + list(range(2000, 2200))
        failures = []

        def mover():
            caller = FastSerializerCaller(self.port)
            for old, new in zip(places, places[1:]):
                answer = self.move(caller, old, new)
                if answer.status != SUCCESS:
                    failures.append(answer.statusString)
            caller.close()

        thread = threading.Thread(target=mover)
        thread.start()
        seen = [1]
        while thread.is_alive():
            rows = self.get("n1")
            self.assertEqual(len(rows), 1, rows)
            seen.append(rows[0][0])
        thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(seen, sorted(seen), "it never goes back")
        self.assertEqual(self.get("n1"), [[places[-1], places[-1]]])

    def test_clients_see_what_they_cannot_route(self):
        names = {row[2]: row[6] for row in self.call("@SystemCatalog", [STRING],
                                                     ["PROCEDURES"])[0].tuples}
        self.assertIn('"singlePartition":false', names["LedGet"].replace(" ", ""))
        self.refused(UNEXPECTED_FAILURE, "LedGet to the correct partition", "LedGet")
