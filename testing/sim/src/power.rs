//! Power cuts: a host with a command log on a disk that loses what was not synced, lives several
//! lives in a row, and is recovered after each.
//!
//! Money moves between accounts in transactions of one round and of several, at one partition and
//! at more; deposits, transactions that must fail, rows that are held and released, and rows that
//! a global index finds go on beside. Whatever writes leaves a note for its call at every account
//! that it touches, so the notes tell which calls the host has: those that were answered, all of
//! them wholly; others wholly or not at all; and those that were told to have failed, none.
//!
//! Beside that a replicated table is written, rows are loaded in bulk, a procedure that never does
//! the same twice is logged by its effects, and the schema changes: tables, columns, views,
//! indexes and procedures come and go, global indexes are built while calls run, two tables
//! exchange their contents, and a procedure's class is replaced. Rows whose time is over go by the
//! host's own transactions: none early, and none for good that was not told or in progress.
//!
//! In some runs most calls hold or release the same pair, and their time is often over: each that
//! is undone makes those after it run again, and what was refused passes and is refused again.
//!
//! Some connections have their turns at two rows each, several of them in progress at a time: they
//! are had in the order in which they were sent, and what a crash leaves of them is a beginning.
//!
//! In some lives the log is asynchronous: what was answered before the last sync began must be
//! there, and of the rest a beginning at each partition, each transaction wholly.
//!
//! A life ends by a power cut between two steps, a disk that fails from some operation on, one
//! sync that fails, a disk that is full, or in order; there a full disk may have been emptied
//! before. What of unsynced writes is left, the seed
//! decides write by write: nothing, all or a first part; so writes are lost, torn and reordered.
//! The power can fail again while the host is recovered. Each recovery is made twice and must
//! give the same rows in the same slots; after an orderly end they are those of the host that
//! ended. A bit that flips in what was synced must be reported.

use crate::bank::Failure;
use crate::classes::SimClasses;
use crate::plans::{Request, Sql};
use crate::world::log::{HostLog, LogClock};
use crate::world::replay::{HostDisk, Recovered};
use crate::world::save::SavePlan;
use crate::world::{RequestedChange, Shape, World};
use lockstep_base::random::{SeededRandom, split_mix};
use lockstep_durability::command_log::{FIRST_BLOCK, FOLDER, LogFaults, LogPosition};
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_durability::recovery::Outcome;
use lockstep_env::Disk;
use lockstep_env::memory::MemoryDisk;
use lockstep_site::Faults;
use lockstep_types::TransactionId;
use std::collections::BTreeMap;
use std::sync::Arc;

mod aging;
mod damage;
mod exchange;
mod judge;
mod report;
mod rivals;
mod schema;
mod strike;
mod turns;
mod workload;

pub(crate) use judge::read;
pub use report::Report;
pub(crate) use strike::survival;
use strike::{PLACES, Strike, Target};

pub(crate) use workload::procedures;

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
CREATE TABLE rates (id BIGINT NOT NULL, value BIGINT NOT NULL, PRIMARY KEY (id));
CREATE TABLE stamps (
  account BIGINT NOT NULL, number BIGINT NOT NULL, stamp BIGINT NOT NULL,
  PRIMARY KEY (account, number)
);
PARTITION TABLE stamps ON COLUMN account;
CREATE TABLE day (id BIGINT NOT NULL, account BIGINT NOT NULL, PRIMARY KEY (account, id));
PARTITION TABLE day ON COLUMN account;
CREATE INDEX day_by_id ON day (id);
CREATE TABLE night (id BIGINT NOT NULL, account BIGINT NOT NULL, PRIMARY KEY (account, id));
PARTITION TABLE night ON COLUMN account;
CREATE INDEX night_by_id ON night (id);
CREATE TABLE turns (
  id BIGINT NOT NULL, last BIGINT NOT NULL, done BIGINT NOT NULL, overtaken BIGINT NOT NULL,
  PRIMARY KEY (id)
);
PARTITION TABLE turns ON COLUMN id;
CREATE GLOBAL UNIQUE INDEX tags_by_tag ON tags (tag);
CREATE GLOBAL UNIQUE INDEX day_ids ON day (id);
CREATE GLOBAL UNIQUE INDEX night_ids ON night (id);
CREATE VIEW totals (account, notes, amount) AS
  SELECT account, COUNT(*), SUM(amount) FROM moves GROUP BY account;
CREATE PROCEDURE FROM NATIVE SlowMove;
CREATE PROCEDURE Deposit PARTITION ON TABLE moves COLUMN account PARAMETER 0 AS BEGIN
  INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);
  UPDATE accounts SET money = money + ? WHERE account = ?;
END;
CREATE PROCEDURE Move AS BEGIN
  UPDATE accounts SET money = money + ? WHERE account = ?;
  INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);
  UPDATE accounts SET money = money + ? WHERE account = ?;
  INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);
END;
CREATE PROCEDURE PARTITION ON TABLE moves COLUMN account PARAMETER 0 WITH EFFECTS FROM NATIVE Draw;
CREATE PROCEDURE PARTITION ON TABLE moves COLUMN account PARAMETER 0 FROM NATIVE Stopped;
CREATE PROCEDURE PARTITION ON TABLE stamps COLUMN account PARAMETER 0 FROM CLASS Stamp;
CREATE PROCEDURE Rate AS BEGIN
  UPDATE rates SET value = value + ? WHERE id = ?;
  INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);
END;
CREATE PROCEDURE BreakRate AS BEGIN
  UPDATE rates SET value = value + ? WHERE id = ?;
  INSERT INTO accounts VALUES (?, 0);
END;
CREATE PROCEDURE Break AS BEGIN
  UPDATE accounts SET money = money + ? WHERE account = ?;
  INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);
  INSERT INTO accounts VALUES (?, 0);
END;
CREATE PROCEDURE Hold AS BEGIN
  INSERT INTO holds VALUES (?, ?);
  INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);
  INSERT INTO holds VALUES (?, ?);
  INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);
END;
CREATE PROCEDURE Turn AS BEGIN
  UPDATE turns SET overtaken = overtaken + CASE WHEN last >= ? THEN 1 ELSE 0 END,
    done = done + 1, last = ? WHERE id = ?;
  UPDATE turns SET overtaken = overtaken + CASE WHEN last >= ? THEN 1 ELSE 0 END,
    done = done + 1, last = ? WHERE id = ?;
END;
CREATE PROCEDURE Release AS BEGIN
  DELETE FROM holds WHERE account = ?;
  INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);
  DELETE FROM holds WHERE account = ?;
  INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);
END;
CREATE PROCEDURE BreakRelease AS BEGIN
  DELETE FROM holds WHERE account = ?;
  DELETE FROM holds WHERE account = ?;
  INSERT INTO accounts VALUES (?, 0);
END;
";

const MONEY: i64 = 1_000;
/// Rows of the replicated table that are there from the beginning, and what they begin with.
const RATES: i64 = 3;
const RATE: i64 = 100;

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
    /// Syncs of files and folders whose names end so do nothing, and say that they did.
    pub lies_of: Option<&'static str>,
    /// Which lives have an asynchronous log; else it is drawn.
    pub is_async: Option<bool>,
    /// The syncs of an asynchronous log are left out.
    pub forgets_interval: bool,
    /// Recovery runs again what was not committed.
    pub replays_all: bool,
    /// Recovery runs again the writes that failed where they ran first.
    pub runs_failed_writes: bool,
    /// Recovery leaves out what was committed.
    pub skips: Option<Skip>,
}

/// What a broken recovery leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// Changes of the schema, all but the first.
    SchemaChanges,
    /// What the last partition does to replicated tables.
    ReplicatedWritesOfOne,
    /// The images of calls that are logged by their effects.
    Effects,
    /// Rows that were loaded in bulk at one partition.
    Loads,
    /// The exchange of two tables' contents.
    Swaps,
    /// Other classes, all but the first.
    Classes,
    /// The time up to which rows go: that of the clock is taken instead.
    CutOffs,
}

impl Skip {
    /// How statements begin that write a replicated table.
    pub(crate) const REPLICATED: &str = "UPDATE rates";
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
    /// It draws the amount of a note of this account, which is this if it has been told.
    drawn: Option<(i64, Option<i64>)>,
    /// It changes a row of the replicated table.
    rate: Option<(i64, i64)>,
    /// It inserts a row into the extra table.
    has_extra: bool,
    end: End,
    /// How far the log was when it was answered, and whether it ran at one partition.
    answered: Option<(LogClock, bool)>,
}

struct Run {
    seed: u64,
    shape: Shape,
    broken: Broken,
    random: SeededRandom,
    disk: MemoryDisk,
    accounts: i64,
    segment_bytes: u32,
    save_plan: SavePlan,
    /// The life's log is asynchronous.
    is_async: bool,
    /// Calls that ran at one partition and succeeded, in the order of their answers; what those are
    /// in the log of which an earlier run had failed.
    at_partitions: Vec<(usize, Option<TransactionId>)>,
    /// What the log said at the last recovery.
    outcome: Option<Outcome>,
    /// Where the disk failed.
    strike: Strike,
    /// After an orderly end: everything before this place is durable, and a block here says so.
    proven: Option<LogPosition>,
    calls: Vec<Call>,
    outstanding: usize,
    /// Notes that reads have seen at least: of an account, and of all.
    seen: BTreeMap<Option<i64>, i64>,
    schema: schema::Schema,
    turns: turns::Turns,
    rivals: rivals::Rivals,
    exchange: exchange::Exchange,
    aging: aging::Aging,
    report: Report,
}

/// Runs one seed: a host of three lives with N calls each.
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
        shape.digests = true;
        let one_in = [0, 30, 8][random.below(3) as usize];
        Run {
            seed,
            shape,
            broken,
            disk: MemoryDisk::new(),
            accounts: 2 * (1 + random.below(5) as i64),
            segment_bytes: FIRST_BLOCK + 1_024 * (1 + random.below(16) as u32),
            save_plan: SavePlan {
                one_in: [0, 400, 60, 20][random.below(4) as usize],
                kept: 1 + random.below(3) as usize,
                record_bytes: [32, 256, 8_192][random.below(3) as usize],
                step_bytes: [1, 200, 4_096][random.below(3) as usize],
                next: 1,
            },
            is_async: false,
            at_partitions: Vec::new(),
            outcome: None,
            strike: Strike::default(),
            proven: None,
            random,
            calls: Vec::new(),
            outstanding: 0,
            seen: BTreeMap::new(),
            schema: schema::Schema::new(one_in),
            turns: turns::Turns::default(),
            rivals: rivals::Rivals::new(seed),
            exchange: exchange::Exchange::default(),
            aging: aging::Aging::default(),
            report: Report::default(),
        }
    }

    fn lives(&mut self, calls: usize) -> Result<(), String> {
        for folder in [FOLDER, SNAPSHOT_FOLDER] {
            self.disk.create_folder(folder).map_err(|error| error.to_string())?;
        }
        if let Some(end) = self.broken.lies_of {
            self.disk.set_lies(Some(Box::new(move |name| name.ends_with(end))));
        }
        let mut world = self.recover(0)?;
        world.begin_change(RequestedChange::Classes(SimClasses(1).jar().into()));
        world.settle();
        let failure = world.take_change_answer().map(|answer| answer.failure);
        assert_eq!(failure, Some(None), "the first classes");
        world.schema(&[SCHEMA, aging::SCHEMA, schema::DUPLICATES].concat());
        self.schema.set(world.schema_text());
        for account in 0..self.accounts {
            world.call(0, &[(&sql("INSERT INTO accounts VALUES (?, ?)"), &[account, MONEY])]);
        }
        for id in 0..turns::ROWS {
            world.call(0, &[(&sql("INSERT INTO turns VALUES (?, -1, 0, 0)"), &[id])]);
        }
        let rates = (0..RATES).map(|id| vec![id, RATE]).collect();
        world.request(0, Request::Load("RATES", rates));
        let copies = (0..2).map(|id| vec![id, 1]).collect();
        world.request(0, Request::Load("COPIES", copies));
        let twins = (0..schema::TWINS).map(|id| vec![id, id / 2]).collect();
        world.request(0, Request::Load("TWINS", twins));
        world.settle();
        let loaded = world.take_answers();
        if loaded.len() as i64 != self.accounts + turns::ROWS + 3
            || loaded.iter().any(|answer| answer.outcome.failure.is_some())
        {
            return Err(format!("the accounts cannot be loaded: {loaded:?}"));
        }
        for life in 1..=3 {
            let in_order = self.live(&mut world, calls)?;
            self.note(world.trace);
            let digests = in_order.then(|| world.digests());
            let ended = in_order.then_some(world);
            self.cut_power();
            world = self.recover(life)?;
            let recovered = world.content_hashes();
            if let Some(ended) = ended.filter(|ended| ended.content_hashes() != recovered) {
                let difference = ended.difference(&world);
                return Err(format!("after an orderly end the rows are other ones: {difference}"));
            }
            if let Some(digests) = digests.filter(|digests| *digests != world.digests()) {
                let found = world.digests();
                return Err(format!("after an orderly end {digests:?} are digests {found:?}"));
            }
            recovered.iter().for_each(|hash| self.note(*hash));
            self.judge(&mut world)?;
            if self.schema.is_changing() {
                world.resume_build();
            }
        }
        Ok(())
    }

    fn note(&mut self, what: u64) {
        self.report.trace ^= what;
        split_mix(&mut self.report.trace);
    }

    /// Goes on until the life ends; true if it ends in order.
    fn live(&mut self, world: &mut World, calls: usize) -> Result<bool, String> {
        let end = [0, 0, 1, 1, 1, 2, 3, 4, 5][self.random.below(9) as usize];
        self.proven = None;
        self.report.ends[end] += 1;
        let mut steps = u64::MAX;
        match end {
            0 => steps = self.random.below(calls as u64 * 12),
            1 => self.strike_disk(world),
            2 => {
                let number = self.random.below(40);
                self.disk.set_hook(Some(self.strike.fails_from(number, Target::Syncs)));
            }
            3 | 5 => self.fill_disk(),
            _ => {}
        }
        let clients = 1 + self.random.below(12) as usize + self.rivals.clients();
        self.disturb(world);
        let expires = self.random.chance(1, 4) || self.rivals.are_there();
        self.turns.may_fail = expires;
        let mut begun = 0;
        let mut patience = self.random.below(300);
        while begun < calls && steps > 0 && world.log_failure().is_none() {
            steps -= 1;
            let begins = self.outstanding < clients && self.random.chance(1, 3);
            if begins || !world.step() {
                self.begin(world);
                begun += 1;
                self.draw_change(world);
            }
            if world.log_waits_for_space() {
                match (patience.checked_sub(1), end) {
                    (Some(less), _) => patience = less,
                    (None, 5) => self.disk.limit_capacity(None),
                    (None, _) => steps = 0,
                }
            }
            if (expires && self.random.chance(1, 40)) || self.rivals.hurry() {
                world.expire();
            }
            self.draw_expiry(world);
            world.draw_save();
            self.hear_change(world)?;
            self.judge_answers(world)?;
        }
        let in_order = matches!(end, 4 | 5);
        if in_order {
            self.come_to_rest(world)?;
        }
        let saves = world.save_counts();
        self.save_plan.next += saves[0] + saves[1] + u64::from(world.is_saving());
        self.report.saves.iter_mut().zip(saves).for_each(|(sum, count)| *sum += count);
        if let Some(place) = self.strike.place() {
            self.report.struck[place] += 1;
        }
        if !in_order {
            self.forget_uncovered(world.log_clock());
            return match world.log_failure() {
                Some(failure) if end == 3 => Err(format!("a full disk ends the host: {failure}")),
                _ => Ok(false),
            };
        }
        match (world.log_failure(), self.outstanding, world.is_idle()) {
            (Some(failure), _, _) => Err(format!("the log failed on a sound disk: {failure}")),
            (None, 0, true) => {
                self.proven = world.finish_log();
                Ok(true)
            }
            (None, open, _) => Err(format!("{open} calls unanswered, or the host is not at rest")),
        }
    }

    /// What an asynchronous log may have lost is as if nobody had heard of it.
    fn forget_uncovered(&mut self, now: LogClock) {
        if !self.is_async {
            return;
        }
        for call in &mut self.calls {
            if let Some((then, at_partition)) = call.answered.take() {
                self.report.covered[usize::from(!now.covers(then, at_partition))] += 1;
                if !now.covers(then, at_partition) {
                    call.end = End::Open;
                }
            }
        }
        self.seen.clear();
        self.forget_uncovered_expiries(now);
        self.schema.before.retain(|(_, then)| !now.covers(*then, false));
    }

    /// Everything that is in progress ends, a change of the schema too.
    fn come_to_rest(&mut self, world: &mut World) -> Result<(), String> {
        self.disk.limit_capacity(None);
        world.settle();
        self.judge_answers(world)?;
        self.hear_change(world)?;
        match self.schema.is_changing() {
            true => Err("a schema change was never answered".to_string()),
            false => Ok(()),
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
        let Broken { log: faults, replays_all, runs_failed_writes, skips, .. } = self.broken;
        let disk = Arc::new(self.disk.clone());
        HostDisk { disk, faults, replays_all, runs_failed_writes, skips }
    }

    fn read_disk(&self, seed: u64) -> Result<Recovered, String> {
        self.host_disk().recover(seed, self.shape)
    }

    fn open_log(&mut self, recovered: &mut Recovered) -> Result<HostLog, String> {
        let end = std::mem::take(&mut recovered.end);
        let one_in = 2 + self.random.below(12);
        let sync_every = if self.is_async { 2 + self.random.below(6) } else { 0 };
        let settings = (self.segment_bytes, self.random.next_u64(), one_in, sync_every);
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        HostLog::open(&disk, settings, end, self.broken).map_err(|error| error.to_string())
    }

    /// Recovers the host twice; the power may fail while it is done.
    fn recover(&mut self, life: u64) -> Result<World, String> {
        let seed = self.seed.wrapping_mul(5).wrapping_add(life);
        let mut first = self.read_disk(seed)?;
        self.report.torn += u64::from(first.end.0.torn.is_some());
        let (content, sequences) = (first.world.content_hashes(), first.end.1.clone());
        self.expect_damage_reported()?;
        self.expect_loss_reported()?;
        self.damage_snapshot(&content)?;
        self.compare_beginnings(&first)?;
        while self.random.chance(1, 2) {
            let number = self.random.below(12);
            self.disk.set_hook(Some(self.strike.fails_from(number, Target::All)));
            // The first times, the host gets as far as a new segment at most.
            let _ = self.open_log(&mut first);
            self.report.struck[5] += u64::from(self.strike.place().is_some());
            self.cut_power();
            first = self.read_disk(seed)?;
        }
        drop(first);
        let mut second = self.read_disk(seed)?;
        if second.world.content_hashes() != content || second.end.1 != sequences {
            return Err("a second recovery gives another state".to_string());
        }
        self.report.recoveries += 2;
        self.report.beginnings[0] += u64::from(second.from_snapshot);
        self.report.replayed += second.replayed;
        self.report.left_out += second.outcome.left_out() as u64;
        self.report.void_calls += second.outcome.void_calls() as u64;
        self.report.unrepeatable += second.restarts;
        self.report.changed_votes[0] += second.outcome.changed_votes.to_no;
        self.report.changed_votes[1] += second.outcome.changed_votes.to_yes_again;
        self.outcome = Some(second.outcome.clone());
        // Of an index that is being built, a lost end would be one more beginning.
        let may_be = second.world.interrupted_index().is_none();
        self.is_async = may_be && self.broken.is_async.unwrap_or(self.random.chance(1, 4));
        self.report.asynchronous += u64::from(self.is_async);
        let log = self.open_log(&mut second)?;
        second.world.attach_log(log);
        second.world.save_to(Arc::new(self.disk.clone()), self.save_plan);
        second.world.jump_clock(self.random.between(-5_000_000, 5_000_000));
        Ok(second.world)
    }

    /// The disk will fail: at some operation, or in the middle of something.
    fn strike_disk(&mut self, world: &mut World) {
        let (target, below) = match self.random.below(3) {
            0 => (Target::All, 80),
            1 => (Target::All, 600),
            _ => match self.random.below(PLACES) as usize {
                place @ (0 | 3) => (Target::Place(place), 40),
                place => (Target::Place(place), 3),
            },
        };
        if matches!(target, Target::Place(2..)) {
            world.save_often();
        }
        let number = self.random.below(below);
        self.disk.set_hook(Some(self.strike.fails_from(number, target)));
    }
}

fn sql(text: &str) -> Sql {
    text.into()
}
