//! Power cuts: a host with a command log on a disk that loses what was not synced, lives several
//! lives in a row, and is recovered after each.
//!
//! Money moves between accounts in transactions of one round and of several, at one partition and
//! at more; deposits, transactions that must fail, rows that are held and released, and rows that
//! a global index finds go on beside. Whatever writes leaves a note for its call at every account
//! that it touches, so the notes tell which calls the host has: those that were answered, all of
//! them wholly; others wholly or not at all; and those that were told to have failed, none.
//!
//! A life ends by a power cut between two steps, a disk that fails from some operation on, one
//! sync that fails, a disk that is full, or in order. What of unsynced writes is left, the seed
//! decides write by write: nothing, all or a first part; so writes are lost, torn and reordered.
//! The power can fail again while the host is recovered. Each recovery is made twice and must
//! give the same rows in the same slots; behind an orderly end they are those of the host that
//! ended. A bit that flips in what was synced must be reported.

use crate::bank::Failure;
use crate::plans::Sql;
use crate::world::log::HostLog;
use crate::world::replay::{HostDisk, Recovered};
use crate::world::{Shape, World};
use lockstep_base::random::{SeededRandom, split_mix};
use lockstep_durability::command_log::{FIRST_BLOCK, FOLDER, LogFaults};
use lockstep_env::memory::{FaultHook, MemoryDisk, Survival, UnsyncedWrite};
use lockstep_env::{Disk, DiskErrorKind, DiskOperation};
use lockstep_site::Faults;
use std::collections::BTreeMap;
use std::sync::Arc;

mod judge;
mod workload;

pub(crate) use workload::procedure;

const SCHEMA: &str = "
CREATE TABLE accounts (account BIGINT NOT NULL, money BIGINT NOT NULL, PRIMARY KEY (account));
PARTITION TABLE accounts ON COLUMN account;
CREATE TABLE moves (
  account BIGINT NOT NULL, number BIGINT NOT NULL, side BIGINT NOT NULL, amount BIGINT NOT NULL,
  PRIMARY KEY (account, number, side)
);
PARTITION TABLE moves ON COLUMN account;
CREATE TABLE holds (account BIGINT NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (account));
PARTITION TABLE holds ON COLUMN account;
CREATE TABLE tags (id BIGINT NOT NULL, tag BIGINT NOT NULL, PRIMARY KEY (id));
PARTITION TABLE tags ON COLUMN id;
CREATE GLOBAL UNIQUE INDEX tags_by_tag ON tags (tag);
CREATE VIEW totals (account, notes, amount) AS
  SELECT account, COUNT(*), SUM(amount) FROM moves GROUP BY account;
CREATE PROCEDURE FROM NATIVE SlowMove;
CREATE PROCEDURE Deposit PARTITION ON TABLE moves COLUMN account PARAMETER 0 AS BEGIN
  INSERT INTO moves VALUES (?, ?, ?, ?);
  UPDATE accounts SET money = money + ? WHERE account = ?;
END;
CREATE PROCEDURE Move AS BEGIN
  UPDATE accounts SET money = money + ? WHERE account = ?;
  INSERT INTO moves VALUES (?, ?, ?, ?);
  UPDATE accounts SET money = money + ? WHERE account = ?;
  INSERT INTO moves VALUES (?, ?, ?, ?);
END;
CREATE PROCEDURE Break AS BEGIN
  UPDATE accounts SET money = money + ? WHERE account = ?;
  INSERT INTO moves VALUES (?, ?, ?, ?);
  INSERT INTO accounts VALUES (?, 0);
END;
CREATE PROCEDURE Hold AS BEGIN
  INSERT INTO holds VALUES (?, ?);
  INSERT INTO moves VALUES (?, ?, ?, ?);
  INSERT INTO holds VALUES (?, ?);
  INSERT INTO moves VALUES (?, ?, ?, ?);
END;
CREATE PROCEDURE Release AS BEGIN
  DELETE FROM holds WHERE account = ?;
  INSERT INTO moves VALUES (?, ?, ?, ?);
  DELETE FROM holds WHERE account = ?;
  INSERT INTO moves VALUES (?, ?, ?, ?);
END;
CREATE PROCEDURE BreakRelease AS BEGIN
  DELETE FROM holds WHERE account = ?;
  DELETE FROM holds WHERE account = ?;
  INSERT INTO accounts VALUES (?, 0);
END;
";

const MONEY: i64 = 1_000;

/// What is broken in a host, to see that the checks notice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Broken {
    /// In the protocol between partitions and coordinator.
    pub protocol: Faults,
    /// In the command log.
    pub log: LogFaults,
    /// Clients are answered before the log is durable.
    pub answers_leave_early: bool,
    /// The coordinator hears of votes before they are durable.
    pub votes_leave_early: bool,
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Recoveries.
    pub recoveries: u64,
    /// Calls that began.
    pub calls: u64,
    /// Those that were answered with success, and that were told to have failed.
    pub answered: [u64; 2],
    /// Those that were told that nobody knows.
    pub unknown: u64,
    /// Those that were cut off and are there, and that are not.
    pub cut_off: [u64; 2],
    /// Lives that ended by a cut, a failing disk, a failing sync, a full disk, in order.
    pub ends: [u64; 5],
    /// Logs with a torn end.
    pub torn: u64,
    /// Entries that ran again.
    pub replayed: u64,
    /// Transactions left out.
    pub left_out: u64,
    /// Yes votes that could not be repeated.
    pub unrepeatable: u64,
    /// Damage that was reported.
    pub damaged: u64,
    /// A hash of everything that happened.
    pub trace: u64,
}

/// How a call ended, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nobody has heard.
    Open,
    /// It must be there, or must not.
    Known(bool),
}

/// A note that a call leaves: account, side, amount.
type Note = (i64, i64, i64);

#[derive(Debug)]
struct Call {
    notes: Vec<Note>,
    must_fail: bool,
    /// Counts notes: of one account, or of all.
    counts: Option<Option<i64>>,
    end: End,
}

struct Run {
    seed: u64,
    shape: Shape,
    broken: Broken,
    random: SeededRandom,
    disk: MemoryDisk,
    accounts: i64,
    segment_bytes: u32,
    calls: Vec<Call>,
    outstanding: usize,
    /// Notes that reads have seen at least: of an account, and of all.
    seen: BTreeMap<Option<i64>, i64>,
    report: Report,
}

/// Runs one seed: a host of three lives with so many calls each.
///
/// # Errors
/// The first check that failed.
pub fn run_seed(seed: u64, calls: usize, broken: Broken) -> Result<Report, Failure> {
    let mut run = Run::new(seed, broken);
    match run.lives(calls) {
        Ok(()) => Ok(run.report),
        Err(message) => Err(Failure { seed, message: format!("power cuts: {message}") }),
    }
}

impl Run {
    fn new(seed: u64, broken: Broken) -> Run {
        let mut random = SeededRandom::new(seed ^ 0xd15c);
        let mut shape = Shape::of(1 + random.below(4) as u32);
        shape.active_multi = [1, 3, 64][random.below(3) as usize];
        shape.speculates = random.chance(4, 5);
        shape.faults = broken.protocol;
        Run {
            seed,
            shape,
            broken,
            disk: MemoryDisk::new(),
            accounts: 2 * (1 + random.below(5) as i64),
            segment_bytes: FIRST_BLOCK + 1_024 * (1 + random.below(16) as u32),
            random,
            calls: Vec::new(),
            outstanding: 0,
            seen: BTreeMap::new(),
            report: Report::default(),
        }
    }

    fn lives(&mut self, calls: usize) -> Result<(), String> {
        self.disk.create_folder(FOLDER).map_err(|error| error.to_string())?;
        let mut world = self.recover(0)?;
        for account in 0..self.accounts {
            world.call(0, &[(&sql("INSERT INTO accounts VALUES (?, ?)"), &[account, MONEY])]);
        }
        world.settle();
        let loaded = world.take_answers();
        if loaded.len() as i64 != self.accounts
            || loaded.iter().any(|answer| answer.outcome.failure.is_some())
        {
            return Err(format!("the accounts cannot be loaded: {loaded:?}"));
        }
        for life in 1..=3 {
            let in_order = self.live(&mut world, calls)?;
            let content = in_order.then(|| world.content_hashes());
            self.note(world.trace);
            drop(world);
            self.cut_power();
            self.expect_damage_reported()?;
            world = self.recover(life)?;
            let recovered = world.content_hashes();
            if content.is_some_and(|content| content != recovered) {
                return Err("behind an orderly end the rows are other ones".to_string());
            }
            recovered.iter().for_each(|hash| self.note(*hash));
            self.judge(&mut world)?;
        }
        Ok(())
    }

    fn note(&mut self, what: u64) {
        self.report.trace ^= what;
        split_mix(&mut self.report.trace);
    }

    /// Goes on until the life ends; true if it ends in order.
    fn live(&mut self, world: &mut World, calls: usize) -> Result<bool, String> {
        let end = [0, 0, 0, 1, 1, 2, 3, 4][self.random.below(8) as usize];
        self.report.ends[end] += 1;
        let mut steps = u64::MAX;
        match end {
            0 => steps = self.random.below(calls as u64 * 12),
            1 => self.disk.set_hook(Some(fails_from(self.random.below(80), None))),
            2 => {
                let sync = Some(DiskOperation::Sync);
                self.disk.set_hook(Some(fails_from(self.random.below(30), sync)));
            }
            3 => self.fill_disk(),
            _ => {}
        }
        let clients = 1 + self.random.below(12) as usize;
        world.repeat_one_in = [0, 3, 20][self.random.below(3) as usize];
        let expires = self.random.chance(1, 4);
        let mut begun = 0;
        while begun < calls && steps > 0 && world.log_failure().is_none() {
            steps -= 1;
            let begins = self.outstanding < clients && self.random.chance(1, 3);
            if begins || !world.step() {
                self.begin(world);
                begun += 1;
            }
            if expires && self.random.chance(1, 40) {
                world.expire();
            }
            self.judge_answers(world)?;
        }
        if end != 4 {
            return Ok(false);
        }
        world.settle();
        self.judge_answers(world)?;
        match (world.log_failure(), self.outstanding, world.is_idle()) {
            (Some(failure), _, _) => Err(format!("the log failed on a sound disk: {failure}")),
            (None, 0, true) => Ok(true),
            (None, open, _) => Err(format!("{open} calls unanswered, or the host is not at rest")),
        }
    }

    /// From now on the disk has little room.
    fn fill_disk(&mut self) {
        const PLENTY: u64 = 1 << 40;
        self.disk.limit_capacity(Some(PLENTY));
        let free = self.disk.free_bytes().unwrap_or(PLENTY);
        let more = self.random.below(60_000);
        self.disk.limit_capacity(Some(PLENTY - free + more));
    }

    /// The power fails; what was not synced is partly lost.
    fn cut_power(&mut self) {
        self.outstanding = 0;
        self.disk.set_hook(None);
        self.disk.limit_capacity(None);
        let mode = self.random.below(4);
        let random = &mut self.random;
        self.disk.cut_power(|write| survival(random, mode, write));
    }

    fn host_disk(&self) -> HostDisk {
        HostDisk { disk: Arc::new(self.disk.clone()), faults: self.broken.log }
    }

    fn read_disk(&self, seed: u64) -> Result<Recovered, String> {
        self.host_disk().recover(seed, self.shape, SCHEMA)
    }

    fn open_log(&mut self, recovered: &mut Recovered) -> Result<HostLog, String> {
        let end = std::mem::take(&mut recovered.end);
        let settings = (self.segment_bytes, self.random.next_u64(), 2 + self.random.below(12));
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        HostLog::open(&disk, settings, end, self.broken).map_err(|error| error.to_string())
    }

    /// Recovers the host twice; the power may fail while it is done.
    fn recover(&mut self, life: u64) -> Result<World, String> {
        let seed = self.seed.wrapping_mul(5).wrapping_add(life);
        let mut first = self.read_disk(seed)?;
        self.report.torn += u64::from(first.end.0.torn.is_some());
        let (content, sequences) = (first.world.content_hashes(), first.end.1.clone());
        if self.random.chance(1, 2) {
            self.disk.set_hook(Some(fails_from(self.random.below(12), None)));
        }
        // The first time, the host gets as far as a new segment at most.
        let _ = self.open_log(&mut first);
        drop(first);
        self.cut_power();
        let mut second = self.read_disk(seed)?;
        if second.world.content_hashes() != content || second.end.1 != sequences {
            return Err("a second recovery gives another state".to_string());
        }
        self.report.recoveries += 2;
        self.report.replayed += second.replayed;
        self.report.left_out += second.left_out as u64;
        self.report.unrepeatable += second.restarts;
        let log = self.open_log(&mut second)?;
        second.world.attach_log(log);
        Ok(second.world)
    }
}

fn sql(text: &str) -> Sql {
    text.into()
}

/// A disk whose operations fail from the numbered one on: all, or those of one kind.
fn fails_from(number: u64, only: Option<DiskOperation>) -> FaultHook {
    let mut left = number;
    Box::new(move |operation, _, _, _| {
        if only.is_some_and(|only| only != operation) {
            return Ok(());
        }
        match left {
            0 => Err(DiskErrorKind::Other),
            _ => {
                left -= 1;
                Ok(())
            }
        }
    })
}

/// What a power cut leaves of a write: nothing of any, all of each, or as is drawn.
fn survival(random: &mut SeededRandom, mode: u64, write: &UnsyncedWrite<'_>) -> Survival {
    let drawn = if mode < 2 { mode } else { random.below(3) };
    match (drawn, write) {
        (0, _) => Survival::Lost,
        (2, UnsyncedWrite::Bytes { bytes, .. }) => {
            Survival::Torn(random.below(bytes.len() as u64 + 1) as usize)
        }
        _ => Survival::Kept,
    }
}
