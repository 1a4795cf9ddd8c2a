//! The clients of a host that is killed: calls of one partition and of several, replicated
//! tables, views, global indexes, changes of the schema, and money that must not change; and the
//! tasks that the host runs by itself.

use super::client::{Client, Model, numbers, pairs, rows, sql_text};
use super::{PATIENCE, java};
use lockstep_client::Connection;
use lockstep_types::{Datum, HashRing, SqlType};
use lockstep_workloads::bank;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

pub const SITES: u32 = 2;
/// Clients that each write numbers in order at one partition, many calls in flight.
const WRITERS: i64 = 3;
/// Clients that each change and delete long rows at one partition.
const CHANGERS: i64 = 2;
const ACCOUNTS: i64 = 20;
const BALANCE: i64 = 1_000;
/// Rows of one changer.
const CHANGED_ROWS: i64 = 97;
/// The client of SQL text changes the schema with every call of such a number.
const CHANGE_EVERY: i64 = 4;
/// The client of a table that is emptied does so with every call of such a number.
const EMPTY_EVERY: i64 = 40;

const SCHEMA: &str = "\
CREATE TABLE written (writer BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (writer, n));
PARTITION TABLE written ON COLUMN writer;
CREATE VIEW written_by_writer (writer, calls, total)
  AS SELECT writer, COUNT(*), SUM(n) FROM written GROUP BY writer;
CREATE TABLE changed (
  slot BIGINT NOT NULL, id BIGINT NOT NULL, n BIGINT NOT NULL, pad VARCHAR(3000),
  PRIMARY KEY (slot, id));
PARTITION TABLE changed ON COLUMN slot;
CREATE INDEX changed_n ON changed (n);
CREATE VIEW changed_all (rows_there, least, most)
  AS SELECT COUNT(*), MIN(n), MAX(n) FROM changed;
CREATE TABLE everywhere (n BIGINT NOT NULL, PRIMARY KEY (n));
CREATE TABLE spots (p BIGINT NOT NULL, PRIMARY KEY (p));
PARTITION TABLE spots ON COLUMN p;
CREATE TABLE texts (n BIGINT NOT NULL, PRIMARY KEY (n));
PARTITION TABLE texts ON COLUMN n;
CREATE TABLE emptied (n BIGINT NOT NULL, PRIMARY KEY (n));
PARTITION TABLE emptied ON COLUMN n;
CREATE TABLE named (id BIGINT NOT NULL, name BIGINT NOT NULL, PRIMARY KEY (id));
PARTITION TABLE named ON COLUMN id;
CREATE GLOBAL UNIQUE INDEX named_name ON named (name);
CREATE TABLE pairs (half BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (half, n));
PARTITION TABLE pairs ON COLUMN half;
CREATE PROCEDURE WritePair
  PARTITION ON TABLE pairs COLUMN half PARAMETER 0 AND ON TABLE pairs COLUMN half PARAMETER 2
  AS BEGIN
    INSERT INTO pairs VALUES (?, ?);
    INSERT INTO pairs VALUES (?, ?);
  END;
CREATE TABLE ticked (p BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (p));
PARTITION TABLE ticked ON COLUMN p;
CREATE TABLE ticked_here (p BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (p));
PARTITION TABLE ticked_here ON COLUMN p;
CREATE TABLE ticked_there (p BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (p));
PARTITION TABLE ticked_there ON COLUMN p;
CREATE PROCEDURE Tick AS UPDATE ticked SET n = n + 1;
CREATE PROCEDURE TickHere DIRECTED AS BEGIN
    UPDATE ticked_here SET n = n + 1;
    UPDATE ticked_there SET n = n + 1;
  END;
";

/// What the host calls by itself.
const TASKS: &str = "\
CREATE TASK tick ON SCHEDULE EVERY 5 MILLISECONDS PROCEDURE Tick;
CREATE TASK tick_here ON SCHEDULE DELAY 5 MILLISECONDS PROCEDURE TickHere
  ON ERROR LOG RUN ON PARTITIONS;
";

/// Queries that must say the same: a view and what it is made of, an index and its rows.
const SAME: &[[&str; 2]] = &[
    [
        "SELECT writer, calls, total FROM written_by_writer ORDER BY writer",
        "SELECT writer, COUNT(*), SUM(n) FROM written GROUP BY writer ORDER BY writer",
    ],
    [
        "SELECT rows_there, least, most FROM changed_all",
        "SELECT COUNT(*), MIN(n), MAX(n) FROM changed",
    ],
    [
        "SELECT id, name FROM named ORDER BY id",
        "SELECT id, name FROM \"NAMED_NAME#ENTRIES\" ORDER BY id",
    ],
    // The copies of a replicated table, each read where a row of the other one lives.
    [
        "SELECT p, COUNT(*), SUM(n), MAX(n) FROM spots, everywhere GROUP BY p ORDER BY p",
        "SELECT p, all_rows, total, most FROM spots, \
         (SELECT COUNT(*) all_rows, SUM(n) total, MAX(n) most FROM everywhere) e \
         WHERE all_rows > 0 ORDER BY p",
    ],
    // A task's call is done at all its partitions, and in both its statements, or not at all.
    ["SELECT MAX(n) - MIN(n) FROM ticked", "SELECT COUNT(*) - 2 FROM ticked"],
    [
        "SELECT COUNT(*) FROM ticked_here h, ticked_there t WHERE h.p = t.p AND h.n = t.n",
        "SELECT COUNT(*) FROM ticked_here",
    ],
];

/// Changes of the schema, one after the other, and which of [`PROBES`] each switches.
const CHANGES: &[(&str, &[usize])] = &[
    (
        "CREATE TABLE made (a BIGINT NOT NULL PRIMARY KEY, b BIGINT); \
         PARTITION TABLE made ON COLUMN a",
        &[0],
    ),
    ("CREATE PROCEDURE made_put AS INSERT INTO made (a, b) VALUES (?, ?)", &[1]),
    ("ALTER TABLE made ADD COLUMN c VARCHAR(20) DEFAULT 'x'", &[2]),
    ("CREATE INDEX made_c ON made (c)", &[3]),
    ("CREATE VIEW made_by_b (b, n) AS SELECT b, COUNT(*) FROM made GROUP BY b", &[4]),
    ("CREATE GLOBAL INDEX made_b ON made (b)", &[5]),
    ("ALTER TABLE texts ADD COLUMN extra BIGINT DEFAULT 7", &[6]),
    ("DROP INDEX made_b", &[5]),
    ("DROP VIEW made_by_b", &[4]),
    ("DROP INDEX made_c", &[3]),
    ("ALTER TABLE texts DROP COLUMN extra", &[6]),
    ("DROP PROCEDURE made_put", &[1]),
    ("DROP TABLE made", &[0, 2]),
];

/// How to see that a change of the schema is there: a query that runs, or a name that
/// `@SystemCatalog` lists.
const PROBES: &[Probe] = &[
    Probe::Runs("SELECT COUNT(*) FROM made"),
    Probe::Listed("PROCEDURES", "MADE_PUT"),
    Probe::Runs("SELECT COUNT(c) FROM made"),
    Probe::Listed("INDEXINFO", "MADE_C"),
    Probe::Runs("SELECT COUNT(*) FROM made_by_b"),
    Probe::Listed("INDEXINFO", "MADE_B"),
    Probe::Runs("SELECT COUNT(extra) FROM texts"),
];

enum Probe {
    Runs(&'static str),
    Listed(&'static str, &'static str),
}

impl Probe {
    fn is_there(&self, connection: &mut Connection) -> bool {
        match self {
            Probe::Runs(sql) => connection.sql(sql).is_ok(),
            Probe::Listed(selector, name) => {
                let listed = connection.call("@SystemCatalog", &sql_text(selector));
                let tables = listed.expect("it answers").tables().expect("it lists");
                format!("{:?}", tables[0].rows).to_uppercase().contains(&format!("\"{name}\""))
            }
        }
    }
}

/// All clients of a host.
pub struct Workload {
    clients: Vec<Client>,
    /// The classes of those that call procedures in Java.
    jar: Option<Vec<u8>>,
    /// How many calls of tasks were seen.
    ticks: AtomicI64,
}

impl Workload {
    pub fn new() -> Workload {
        let mut clients: Vec<Client> = (0..WRITERS).map(writer).collect();
        clients.extend((0..CHANGERS).map(changer));
        clients.extend([everywhere(), pair_writer(), transfers(), texts(), emptier(), namer()]);
        Workload { clients, jar: None, ticks: AtomicI64::new(0) }
    }

    /// Those, and clients of procedures in Java.
    pub fn with_java(jar: Vec<u8>) -> Workload {
        let mut workload = Workload::new();
        workload.clients.extend(java::clients());
        Workload { jar: Some(jar), ..workload }
    }

    pub fn all(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter()
    }

    /// Calls that were answered so far.
    pub fn answered(&self) -> i64 {
        self.all().map(Client::answered).sum()
    }

    /// Makes the tables, and the rows that clients begin with.
    pub fn prepare(&self, connection: &mut Connection) {
        for script in [SCHEMA, bank::SCHEMA, bank::NATIVE_SCHEMA] {
            connection.sql(script).expect("the schema is made");
        }
        for account in 0..ACCOUNTS {
            let row = numbers(&[account, BALANCE]);
            connection.call("ACCOUNTS.insert", &row).expect("an account is made");
        }
        if let Some(jar) = &self.jar {
            java::prepare(connection, jar);
        }
        for spot in halves() {
            connection.call("SPOTS.insert", &numbers(&[spot])).expect("a spot is made");
        }
        let [one, other] = halves();
        for table in ["ticked", "ticked_here", "ticked_there"] {
            let rows = format!("INSERT INTO {table} VALUES ({one}, 0), ({other}, 0)");
            connection.sql(&rows).expect("the rows that tasks change are made");
        }
        connection.sql(TASKS).expect("the tasks are made");
    }

    /// Everything that was answered is there, and what belongs together agrees.
    pub fn check(&self, connection: &mut Connection) {
        // It waits for an index that is still built, and fails.
        connection.sql("DROP TABLE nothing_of_that_name").expect_err("there is no such table");
        self.all().for_each(|client| client.check(connection));
        for [one, other] in SAME {
            assert_eq!(rows(connection, one), rows(connection, other), "{one}");
        }
        self.check_tasks(connection);
    }

    /// What tasks were seen to have done is there, and they go on.
    fn check_tasks(&self, connection: &mut Connection) {
        let (seen, now) = (self.ticks.load(Ordering::Relaxed), ticks(connection));
        assert!(now >= seen, "{seen} calls were answered and {now} of them are there");
        let deadline = Instant::now() + PATIENCE;
        while ticks(connection) <= now {
            assert!(Instant::now() < deadline, "no task runs");
        }
        self.see_ticks(ticks(connection));
    }

    /// N calls of tasks are to be there at least.
    pub fn see_ticks(&self, ticks: i64) {
        self.ticks.store(ticks, Ordering::Relaxed);
    }
}

/// Calls of tasks that are there.
pub fn ticks(connection: &mut Connection) -> i64 {
    rows(connection, "SELECT MIN(n) FROM ticked")[0][0]
}

/// A failing call repeats the row before.
fn again(n: i64, every: i64) -> i64 {
    if n % every == 0 { n - 1 } else { n }
}

fn writer(writer: i64) -> Client {
    let sql = format!("SELECT n, writer FROM written WHERE writer = {writer}");
    Client::new(
        &format!("writer {writer}"),
        32,
        (11, -2),
        move |n| ("WRITTEN.insert", numbers(&[writer, again(n, 11)])),
        move |model, n| {
            model.insert(n, writer);
        },
        move |connection| pairs(connection, &sql),
    )
}

/// Changes rows in place, with texts that grow and shrink, and deletes some.
fn changer(slot: i64) -> Client {
    let sql = format!("SELECT id, n * 10000 + CHAR_LENGTH(pad) FROM changed WHERE slot = {slot}");
    let id = |n| n * 31 % CHANGED_ROWS;
    let length = |n: i64| n * 137 % 1_501;
    let call = move |n| {
        let mut parameters = numbers(&[slot, id(n)]);
        if n % 4 == 0 {
            return ("CHANGED.delete", parameters);
        }
        parameters.scalar(SqlType::BigInt, Datum::Int(n));
        parameters.scalar(SqlType::Varchar, Datum::Text(&"x".repeat(length(n) as usize)));
        ("CHANGED.upsert", parameters)
    };
    let apply = move |model: &mut Model, n: i64| {
        if n % 4 == 0 {
            model.remove(&id(n));
        } else {
            model.insert(id(n), n * 10_000 + length(n));
        }
    };
    Client::new(&format!("changer {slot}"), 8, (0, 0), call, apply, move |connection| {
        pairs(connection, &sql)
    })
}

fn everywhere() -> Client {
    Client::new(
        "replicated",
        1,
        (0, 0),
        |n| ("EVERYWHERE.insert", numbers(&[n])),
        |model, n| {
            model.insert(n, n);
        },
        |connection| pairs(connection, "SELECT n, n FROM everywhere"),
    )
}

/// Two keys that live at different partitions.
pub fn halves() -> [i64; 2] {
    let ring = HashRing::new(SITES);
    let place = |key: i64| ring.partition_of(Datum::Int(key));
    let other = (1..100).find(|key| place(*key) != place(0)).expect("some key lives elsewhere");
    [0, other]
}

fn pair_writer() -> Client {
    let [first, second] = halves();
    Client::new(
        "pairs",
        8,
        (7, -2),
        // The second half of those that fail is there, since the first call.
        move |n| ("WritePair", numbers(&[first, n, second, if n % 7 == 0 { 1 } else { n }])),
        |model, n| {
            model.insert(n, 2);
        },
        |connection| pairs(connection, "SELECT n, COUNT(*) FROM pairs GROUP BY n"),
    )
}

/// Moves money. Each fifth transfer is for more than there is.
fn transfers() -> Client {
    let transfer =
        |n: i64| [n % ACCOUNTS, (n * 7 + 3) % ACCOUNTS, if n % 5 == 0 { 1 << 40 } else { 1 }];
    let apply = move |model: &mut Model, n| {
        let [from, to, amount] = transfer(n);
        *model.entry(from).or_default() -= amount;
        *model.entry(to).or_default() += amount;
    };
    let find = |connection: &mut Connection| {
        let found = pairs(connection, "SELECT id, balance FROM accounts");
        assert_eq!(found.values().sum::<i64>(), ACCOUNTS * BALANCE, "a transfer is whole");
        found
    };
    let call = move |n| ("TransferAnywhere", numbers(&transfer(n)));
    Client::new("transfers", 1, (5, -1), call, apply, find)
        .begins_with((0..ACCOUNTS).map(|account| (account, BALANCE)).collect())
}

/// Keys of the client of SQL text: rows of the table that comes and goes.
const MADE_ROW: i64 = 1 << 40;

/// What call `n` of the client of SQL text changes: the schema, or a row of one of two tables.
enum Text {
    Change(&'static str, &'static [usize]),
    Row,
    RowMade,
}

fn text_of(n: i64) -> Text {
    let changes = CHANGES.len() as i64;
    let done = n / CHANGE_EVERY;
    if n % CHANGE_EVERY == 0 {
        let (sql, switched) = CHANGES[((done - 1) % changes) as usize];
        return Text::Change(sql, switched);
    }
    let is_made = done > 0 && (done - 1) % changes < changes - 1;
    if is_made && n % 2 == 0 { Text::RowMade } else { Text::Row }
}

/// SQL text: rows, and in between every kind of change of the schema.
fn texts() -> Client {
    let call = |n| {
        let text = match text_of(n) {
            Text::Change(sql, _) => sql.to_string(),
            Text::Row => format!("INSERT INTO texts (n) VALUES ({n})"),
            Text::RowMade => format!("INSERT INTO made (a, b) VALUES ({n}, {})", n % 3),
        };
        ("@AdHoc", sql_text(&text))
    };
    let apply = |model: &mut Model, n| match text_of(n) {
        Text::Change(_, switched) => {
            for probe in switched {
                let there = model.entry(-1 - *probe as i64).or_default();
                *there = 1 - *there;
                if *probe == 0 && *there == 0 {
                    model.retain(|key, _| *key < MADE_ROW);
                }
            }
        }
        Text::Row => {
            model.insert(n, n);
        }
        Text::RowMade => {
            model.insert(MADE_ROW + n, n % 3);
        }
    };
    let find = |connection: &mut Connection| {
        let mut found = pairs(connection, "SELECT n, n FROM texts");
        for (number, probe) in (0..).zip(PROBES) {
            found.insert(-1 - number, i64::from(probe.is_there(connection)));
        }
        if found[&-1] == 1 {
            let made = pairs(connection, "SELECT a, b FROM made");
            found.extend(made.into_iter().map(|(a, b)| (MADE_ROW + a, b)));
        }
        found
    };
    Client::new("SQL text", 1, (0, 0), call, apply, find)
        .begins_with((0..PROBES.len() as i64).map(|number| (-1 - number, 0)).collect())
}

/// Fills a table and empties it.
fn emptier() -> Client {
    let call = |n| match n % EMPTY_EVERY {
        0 => ("@AdHoc", sql_text("TRUNCATE TABLE emptied")),
        _ => ("EMPTIED.insert", numbers(&[n])),
    };
    let apply = |model: &mut Model, n: i64| match n % EMPTY_EVERY {
        0 => model.clear(),
        _ => {
            model.insert(n, n);
        }
    };
    Client::new("emptied", 1, (0, 0), call, apply, |connection| {
        pairs(connection, "SELECT n, n FROM emptied")
    })
}

const RENAMED: i64 = 1 << 40;
const AGAIN: i64 = 1 << 41;

/// The row of a while ago that a call deletes; the first call finds none.
fn forgotten(n: i64) -> i64 {
    let round = n / 5;
    if round == 0 { 0 } else { 1 + 5 * (round / 2) }
}

/// Rows with a name that is theirs alone, whatever partition they live at.
fn namer() -> Client {
    let call = |n: i64| match n % 5 {
        1 => ("NAMED.insert", numbers(&[n, n])),
        2 => ("NAMED.update", numbers(&[n - 1, RENAMED + n, n - 1])),
        3 => {
            let (from, to) = (RENAMED + n - 1, AGAIN + n);
            let sql = format!("UPDATE named SET name = {to} WHERE name = {from}");
            ("@AdHoc", sql_text(&sql))
        }
        4 => ("NAMED.delete", numbers(&[forgotten(n)])),
        // The name of another row.
        _ => ("NAMED.insert", numbers(&[n, AGAIN + n - 2])),
    };
    let apply = |model: &mut Model, n: i64| match n % 5 {
        1 => {
            model.insert(n, n);
        }
        2 => {
            model.insert(n - 1, RENAMED + n);
        }
        3 => {
            model.insert(n - 2, AGAIN + n);
        }
        4 => {
            model.remove(&forgotten(n));
        }
        _ => unreachable!("such calls fail"),
    };
    let find = |connection: &mut Connection| {
        let found = pairs(connection, "SELECT id, name FROM named");
        for (id, name) in found.iter().rev().take(5) {
            let sql = format!("SELECT id, name FROM named WHERE name = {name}");
            let by_name = rows(connection, &sql);
            assert_eq!(by_name, [[*id, *name]], "the index leads to the row");
        }
        found
    };
    Client::new("named", 1, (5, -2), call, apply, find)
}
