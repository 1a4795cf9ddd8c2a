//! Lock-store: records that sessions find by a secondary key, lock, think about, and write back
//! unlocked, several times in a row. A lock that is not given back expires. What a store of
//! sessions or of call state does all day.

use crate::distribution::{letters, session_random};
use crate::workload::{
    Answer, Check, Database, Found, Next, NextCall, RowSink, Session, TableToFill, Verdict,
    Workload, check_content,
};
use lockstep_base::random::SeededRandom;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType};

/// A lock is given where nobody holds it, or held it too long. Its text stands between the name
/// of the procedure with its place and the end of the statement.
const LOCK: &str = "AS BEGIN
  UPDATE record SET owner = ?, expires = DATEADD(MILLISECOND, ?, NOW)
    WHERE locator = ? AND (owner = 0 OR expires <= NOW);
  SELECT id, changes, content FROM record WHERE locator = ? AND owner = ?;
END;
";
const TABLE: &str = "\
CREATE TABLE record (
  id BIGINT NOT NULL, locator VARCHAR(32) NOT NULL, owner BIGINT NOT NULL, expires TIMESTAMP,
  changes BIGINT NOT NULL, content VARCHAR(65536 BYTES) NOT NULL,
  PRIMARY KEY (id)
);
PARTITION TABLE record ON COLUMN id;
CREATE PROCEDURE LockStoreWrite PARTITION ON TABLE record COLUMN id PARAMETER 1 AS
  UPDATE record SET content = ?, changes = changes + 1, owner = 0
    WHERE id = ? AND owner = ? AND changes = ?;
";
const BY_GLOBAL_INDEX: &str = "\
CREATE GLOBAL UNIQUE INDEX record_by_locator ON record (locator);
CREATE PROCEDURE LockStoreLock
  PARTITION ON TABLE record COLUMN id VIA GLOBAL INDEX record_by_locator PARAMETER 2
";
const BY_ALL_PARTITIONS: &str = "\
CREATE INDEX record_by_locator ON record (locator);
CREATE PROCEDURE LockStoreFind AS SELECT id FROM record WHERE locator = ?;
CREATE PROCEDURE LockStoreLock PARTITION ON TABLE record COLUMN id PARAMETER 2
";
const BY_ONE_TRANSACTION: &str = "\
CREATE INDEX record_by_locator ON record (locator);
CREATE PROCEDURE LockStoreLock
";

const STEP_LOCK: usize = 0;
const STEP_WRITE: usize = 1;
/// What sessions count, by place.
const WRITES: usize = 0;
const UNANSWERED_WRITES: usize = 1;
const REFUSED_LOCKS: usize = 2;
const EXPIRED_LOCKS: usize = 3;
const WRONG_CONTENTS: usize = 4;

/// How a record is found by its secondary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondaryKey {
    /// By a global unique index: the call is led to the record's partition.
    GlobalIndex,
    /// All partitions are read for its primary key, and a second call locks it there.
    FindThenLock,
    /// One transaction over all partitions finds and locks it.
    OneTransaction,
}

/// What is run.
#[derive(Debug, Clone)]
pub struct LockStore {
    /// Records.
    pub records: u64,
    /// Bytes of a record's content, 1 to 65,536.
    pub content_bytes: usize,
    /// How often a session locks and writes a record before it goes to another one.
    pub rounds: u32,
    /// The time between a lock and its write, in microseconds: least and most.
    pub think_us: (u64, u64),
    /// When a lock that was not given back expires, in milliseconds.
    pub lock_ms: u32,
    /// How records are found.
    pub secondary_key: SecondaryKey,
    /// Changes that the records counted before the run.
    before: i64,
}

impl LockStore {
    /// The published shape: five rounds, 1 to 5 ms between lock and write.
    ///
    /// # Errors
    /// No records, or contents of another size than a column holds.
    pub fn new(
        records: u64,
        content_bytes: usize,
        secondary_key: SecondaryKey,
    ) -> Result<LockStore, String> {
        if records == 0 {
            return Err("there must be a record to lock".to_string());
        }
        if content_bytes == 0 || content_bytes > 65_536 {
            return Err(format!("{content_bytes} bytes > a content has 1 to 65536 bytes"));
        }
        let think_us = (1_000, 5_000);
        let (rounds, lock_ms, before) = (5, 1_000, 0);
        Ok(LockStore { records, content_bytes, rounds, think_us, lock_ms, secondary_key, before })
    }
}

/// The secondary key of a record: nothing of the primary one shows in it.
fn locator(record: u64, out: &mut String) {
    use std::fmt::Write;
    out.clear();
    let scattered = record.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let _ = write!(out, "L{scattered:016x}");
}

impl Workload for LockStore {
    fn name(&self) -> &'static str {
        "lock-store"
    }

    fn transactions(&self) -> &[&'static str] {
        &["LOCK", "WRITE"]
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let secondary_key = match self.secondary_key {
            SecondaryKey::GlobalIndex => "global-index",
            SecondaryKey::FindThenLock => "find-then-lock",
            SecondaryKey::OneTransaction => "one-transaction",
        };
        vec![
            ("records", self.records.to_string()),
            ("content_bytes", self.content_bytes.to_string()),
            ("rounds", self.rounds.to_string()),
            ("think_us", format!("{} to {}", self.think_us.0, self.think_us.1)),
            ("lock_ms", self.lock_ms.to_string()),
            ("secondary_key", secondary_key.to_string()),
        ]
    }

    fn schema(&self) -> Vec<String> {
        let way = match self.secondary_key {
            SecondaryKey::GlobalIndex => format!("{BY_GLOBAL_INDEX}{LOCK}"),
            SecondaryKey::OneTransaction => format!("{BY_ONE_TRANSACTION}{LOCK}"),
            SecondaryKey::FindThenLock => {
                format!("{BY_ALL_PARTITIONS}{}", LOCK.replace("locator = ?", "id = ?"))
            }
        };
        vec![TABLE.to_string(), way]
    }

    fn tables(&self) -> Vec<TableToFill> {
        let columns = vec![
            ("id", SqlType::BigInt),
            ("locator", SqlType::Varchar),
            ("owner", SqlType::BigInt),
            ("expires", SqlType::Timestamp),
            ("changes", SqlType::BigInt),
            ("content", SqlType::Varchar),
        ];
        let rows = self.records;
        vec![TableToFill { name: "record", columns, partitioned_by: Some(0), rows }]
    }

    fn fill(&self, rows: &mut dyn RowSink) -> Result<(), String> {
        let mut random = SeededRandom::new(self.records);
        let (mut key, mut content) = (String::new(), String::new());
        (0..self.records).try_for_each(|record| {
            locator(record, &mut key);
            content.clear();
            letters(&mut random, self.content_bytes, &mut content);
            let values = [
                Datum::Int(record as i64),
                Datum::Text(&key),
                Datum::Int(0),
                Datum::Null,
                Datum::Int(0),
                Datum::Text(&content),
            ];
            rows.row(0, &values)
        })
    }

    fn survey(&self, database: &mut dyn Database) -> Result<Found, String> {
        let Ok(rows) = database.number("SELECT COUNT(*) FROM record;") else {
            return Ok(Found::Nothing);
        };
        match rows {
            0 => Ok(Found::Tables),
            rows if rows == self.records as i64 => {
                check_content(database, "record", self.content_bytes)?;
                Ok(Found::Rows)
            }
            rows => Err(format!("record has {rows} rows, this run is for {}", self.records)),
        }
    }

    fn begin(&mut self, database: &mut dyn Database) -> Result<(), String> {
        self.before = database.number("SELECT SUM(changes) FROM record;")?;
        Ok(())
    }

    fn session(&self, number: u64, seed: u64) -> Box<dyn Session> {
        let mut random = session_random(seed, number);
        // Owners of an earlier run with locks left are others.
        let owner = 1 + (random.next_u64() >> 1 & !0xffff_ffff | number & 0xffff_ffff) as i64;
        let mut content = String::new();
        letters(&mut random, self.content_bytes, &mut content);
        let step = match self.secondary_key {
            SecondaryKey::FindThenLock => Step::Find,
            _ => Step::Lock,
        };
        let mut client = Client {
            shape: self.clone(),
            random,
            owner,
            content,
            locator: String::new(),
            id: 0,
            changes: 0,
            rounds_left: self.rounds.max(1),
            step,
            counts: [0; 5],
        };
        client.draw();
        Box::new(client)
    }

    fn counters(&self) -> &[&'static str] {
        &["writes", "unanswered writes", "refused locks", "expired locks", "wrong contents"]
    }

    fn check(
        &self,
        database: &mut dyn Database,
        counts: &[u64],
        complete: bool,
    ) -> Result<Vec<Check>, String> {
        let count = |place: usize| counts.get(place).copied().unwrap_or(0) as i64;
        let rows = database.number("SELECT COUNT(*) FROM record;")?;
        let changes = database.number("SELECT SUM(changes) FROM record;")? - self.before;
        let (writes, unanswered) = (count(WRITES), count(UNANSWERED_WRITES));
        let mut checks = vec![
            Check::equal("records = records loaded", rows, self.records as i64),
            Check::within("changes of all records = answered writes", changes, writes, unanswered),
            Check::equal("contents of another size", count(WRONG_CONTENTS), 0),
        ];
        // A lock whose expiry somebody else has met stays with nobody, or with its next owner.
        if complete {
            let held = database.number("SELECT COUNT(*) FROM record WHERE owner <> 0;")?;
            checks.push(Check::within("locks held = expired locks", held, 0, count(EXPIRED_LOCKS)));
        }
        Ok(checks)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Find,
    Lock,
    Write,
}

struct Client {
    shape: LockStore,
    random: SeededRandom,
    owner: i64,
    content: String,
    locator: String,
    id: i64,
    changes: i64,
    rounds_left: u32,
    step: Step,
    counts: [u64; 5],
}

impl Client {
    /// Takes another record.
    fn draw(&mut self) {
        locator(self.random.below(self.shape.records), &mut self.locator);
        self.rounds_left = self.shape.rounds.max(1);
    }

    fn first_step(&self) -> Step {
        match self.shape.secondary_key {
            SecondaryKey::FindThenLock => Step::Find,
            _ => Step::Lock,
        }
    }

    fn pause_us(&mut self) -> u64 {
        let (least, most) = self.shape.think_us;
        self.random.between(least as i64, most.max(least) as i64) as u64
    }

    /// The lock's answer: the record, if it is ours.
    fn locked(&mut self, answer: &Answer<'_>) -> Next {
        let Some(table) = answer.table(1).filter(|_| answer.is_success()) else {
            return self.failed();
        };
        let row = table.rows().next().and_then(Result::ok);
        let Some(row) = row else {
            // Somebody else holds it: again after a pause.
            self.counts[REFUSED_LOCKS] += 1;
            self.step = self.first_step();
            let pause_us = self.pause_us();
            return Next { ended: Some(Verdict::Aborted), goes_on: true, pause_us };
        };
        match (row.get(0), row.get(1), row.get(2)) {
            (Ok(Datum::Int(id)), Ok(Datum::Int(changes)), Ok(Datum::Text(content))) => {
                (self.id, self.changes) = (id, changes);
                let is_whole = content.len() == self.shape.content_bytes;
                self.counts[WRONG_CONTENTS] += u64::from(!is_whole);
            }
            _ => return self.failed(),
        }
        self.step = Step::Write;
        Next { ended: Some(Verdict::Good), goes_on: true, pause_us: self.pause_us() }
    }

    fn written(&mut self, answer: &Answer<'_>) -> Next {
        let changed = answer.number(0).filter(|_| answer.is_success());
        let verdict = match changed {
            Some(1) => {
                self.counts[WRITES] += 1;
                Verdict::Good
            }
            // The lock had expired, and somebody else took it.
            Some(0) => {
                self.counts[EXPIRED_LOCKS] += 1;
                Verdict::Aborted
            }
            _ => return self.failed(),
        };
        self.step = self.first_step();
        self.rounds_left -= 1;
        if self.rounds_left == 0 {
            self.draw();
            return Next::end(verdict);
        }
        Next { ended: Some(verdict), goes_on: true, pause_us: 0 }
    }

    /// On with another record.
    fn failed(&mut self) -> Next {
        self.step = self.first_step();
        self.draw();
        Next::end(Verdict::Error)
    }
}

impl Session for Client {
    fn next_call(&mut self, parameters: &mut ParameterWriter) -> NextCall {
        match self.step {
            Step::Find => {
                parameters.text(&self.locator);
                NextCall { transaction: STEP_LOCK, procedure: "LockStoreFind" }
            }
            Step::Lock => {
                parameters.bigint(self.owner).integer(self.shape.lock_ms as i32);
                match self.shape.secondary_key {
                    SecondaryKey::FindThenLock => parameters.bigint(self.id).bigint(self.id),
                    _ => parameters.text(&self.locator).text(&self.locator),
                };
                parameters.bigint(self.owner);
                NextCall { transaction: STEP_LOCK, procedure: "LockStoreLock" }
            }
            Step::Write => {
                let first = (b'a' + self.random.below(26) as u8) as char;
                self.content.replace_range(..1, first.encode_utf8(&mut [0; 4]));
                parameters.text(&self.content).bigint(self.id).bigint(self.owner);
                parameters.bigint(self.changes);
                NextCall { transaction: STEP_WRITE, procedure: "LockStoreWrite" }
            }
        }
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Next {
        match self.step {
            Step::Find => match answer.number(0).filter(|_| answer.is_success()) {
                Some(id) => {
                    (self.id, self.step) = (id, Step::Lock);
                    Next::go_on()
                }
                None => self.failed(),
            },
            Step::Lock => self.locked(answer),
            Step::Write => self.written(answer),
        }
    }

    fn lost(&mut self) {
        self.counts[UNANSWERED_WRITES] += u64::from(self.step == Step::Write);
    }

    fn counts(&self) -> &[u64] {
        &self.counts
    }
}
