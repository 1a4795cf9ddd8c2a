//! The bank: accounts with several pockets each. Money moves between pockets of one account (one
//! partition) and between accounts (two partitions, or one by chance); some transfers must fail
//! in their second half. Every move counts up a version in the rows that it touches, so a read
//! of all rows tells which moves it has seen.

use crate::census::Totals;
use crate::plans::{Request, Sql, invocation_of};
use crate::world::{BrokenCopies, CopyCounts, Shape, World, followers_of, way_to_stop};
use lockstep_base::bytes::ByteReader;
use lockstep_base::random::SeededRandom;
use lockstep_site::Faults;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Status, TableView};
use std::fmt;

const SCHEMA: &str = "
CREATE TABLE pockets (
  account BIGINT NOT NULL, pocket BIGINT NOT NULL, money BIGINT NOT NULL, version BIGINT NOT NULL,
  PRIMARY KEY (account, pocket)
);
PARTITION TABLE pockets ON COLUMN account;
CREATE TABLE rates (id BIGINT NOT NULL, rate BIGINT NOT NULL, PRIMARY KEY (id));
CREATE PROCEDURE Move AS BEGIN
  UPDATE pockets SET money = money - ?, version = version + 1 WHERE account = ? AND pocket = ?;
  UPDATE pockets SET money = money + ?, version = version + 1 WHERE account = ? AND pocket = ?;
END;
CREATE PROCEDURE Break AS BEGIN
  UPDATE pockets SET money = money - ?, version = version + 1 WHERE account = ? AND pocket = ?;
  INSERT INTO pockets VALUES (?, ?, 0, 0);
END;
CREATE VIEW totals (account, pockets, money) AS
  SELECT account, COUNT(*), SUM(money) FROM pockets GROUP BY account;
";

/// A procedure that fails now and then where it runs first, and never where a follower runs it.
const STALLS: &str = "
CREATE TABLE accounts (account BIGINT NOT NULL, money BIGINT NOT NULL, PRIMARY KEY (account));
PARTITION TABLE accounts ON COLUMN account;
CREATE TABLE moves (
  account BIGINT NOT NULL, number BIGINT NOT NULL, side BIGINT NOT NULL, amount BIGINT NOT NULL,
  PRIMARY KEY (account, number, side)
);
PARTITION TABLE moves ON COLUMN account;
CREATE PROCEDURE PARTITION ON TABLE moves COLUMN account PARAMETER 0 FROM NATIVE Stopped;
";

const POCKETS: i64 = 3;
const MONEY: i64 = 1000;

/// What went wrong, with the seed that shows it again.
#[derive(Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.message)
    }
}

/// What a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Partitions.
    pub partitions: u32,
    /// Calls answered.
    pub calls: usize,
    /// Transfers that were to fail and did.
    pub aborted: usize,
    /// Reads of everything.
    pub reads: usize,
    /// Calls whose leader was lost, with an unknown outcome.
    pub unknown: usize,
    /// Calls and fragments that ran after undecided transactions, and those that ran again.
    pub speculated: u64,
    /// See `speculated`.
    pub repeated: u64,
    /// Messages of transactions over partitions.
    pub messages: Totals,
    /// A hash of everything that happened.
    pub trace: u64,
    /// A hash of what the partitions held at the end.
    pub content: u64,
    /// What their followers did.
    pub copies: CopyCounts,
}

struct Statements {
    take: Sql,
    give: Sql,
    break_key: Sql,
    read_all: Sql,
    read_view: Sql,
    set_rate: Sql,
    read_rates: Sql,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Touches two rows.
    Move,
    /// Takes from one row, then fails.
    Broken,
    ReadAll,
    ReadView,
    SetRate,
    ReadRates,
    /// Reads a row, and fails elsewhere.
    BrokenRead,
    /// May fail or not.
    Stall,
    CountStalls,
}

struct Begun {
    kind: Kind,
    /// Rows touched by moves that were answered before this call began.
    touched_before: i64,
    answered: bool,
}

struct Bank {
    seed: u64,
    world: World,
    accounts: i64,
    statements: Statements,
    calls: Vec<Begun>,
    /// Rows touched by moves that have begun, and that have been answered.
    touched_begun: i64,
    touched_answered: i64,
    outstanding: usize,
    aborted: usize,
    reads: usize,
    /// Calls of [`STALLS`] that succeeded, and those of which nobody knows.
    stalls: i64,
    unknown_stalls: i64,
    /// Calls whose outcome is not known.
    unknown: usize,
}

/// Runs one seed with `calls` calls.
///
/// # Errors
/// The first check that failed.
pub fn run_seed(seed: u64, calls: usize) -> Result<Report, Failure> {
    let followers = followers_of(seed);
    run_shape(seed, calls, Shape { followers, ..Shape::of(1) })
}

/// Runs one seed with this number of followers of each partition, which are broken in some way.
///
/// # Errors
/// The first check that failed.
pub fn run_with_copies(
    seed: u64,
    calls: usize,
    followers: u32,
    broken_copies: BrokenCopies,
) -> Result<Report, Failure> {
    run_shape(seed, calls, Shape { followers, broken_copies, ..Shape::of(1) })
}

/// Runs one seed with a host that is broken in some way.
///
/// # Errors
/// The first check that failed.
pub fn run_with(seed: u64, calls: usize, faults: Faults) -> Result<Report, Failure> {
    run_shape(seed, calls, Shape { faults, ..Shape::of(1) })
}

/// The rest of the shape is drawn.
fn run_shape(seed: u64, calls: usize, shape: Shape) -> Result<Report, Failure> {
    run_moving(seed, calls, shape, 0)
}

/// Runs one seed with followers that take over: leaders are lost or moved on purpose, and
/// coordinators are lost, on average once in this many steps.
///
/// # Errors
/// The first check that failed.
pub fn run_with_takeovers(
    seed: u64,
    calls: usize,
    one_in: u64,
    (broken_copies, faults): (BrokenCopies, Faults),
) -> Result<Report, Failure> {
    let followers = 1 + (seed % 2) as u32;
    run_moving(seed, calls, Shape { followers, broken_copies, faults, ..Shape::of(1) }, one_in)
}

fn run_moving(seed: u64, calls: usize, shape: Shape, one_in: u64) -> Result<Report, Failure> {
    let mut bank = Bank::open(seed, shape);
    let mut moves = SeededRandom::new(seed ^ 0x3055);
    let clients = 1 + bank.world.random.below(12) as usize;
    bank.world.repeat_one_in = [0, 3, 20][bank.world.random.below(3) as usize];
    while bank.calls.len() < calls {
        let begins = bank.outstanding < clients && bank.world.random.chance(1, 3);
        if begins || !bank.world.step() {
            bank.begin_call();
        }
        if one_in > 0 && moves.chance(1, one_in) {
            bank.world.lose_something(&mut moves);
        }
        bank.judge_answers()?;
        bank.check_copies(false)?;
    }
    // Faults stop: everything must be answered and come to rest.
    bank.world.settle();
    bank.judge_answers()?;
    bank.check(bank.outstanding == 0, || {
        format!("{} calls unanswered: {}", bank.outstanding, bank.world.unrest())
    })?;
    bank.check(bank.world.is_idle(), || "the host does not come to rest".to_string())?;
    bank.begin(Kind::ReadAll);
    bank.world.settle();
    if bank.world.shape().followers > 0 {
        bank.judge_answers()?;
        bank.begin(Kind::CountStalls);
        bank.world.settle();
    }
    bank.judge_answers()?;
    bank.check_copies(true)?;
    let hashes = bank.world.content_hashes();
    let messages = bank.world.judge_messages().map_err(|message| Failure { seed, message })?;
    Ok(Report {
        partitions: hashes.len() as u32,
        calls: bank.calls.len(),
        aborted: bank.aborted,
        reads: bank.reads,
        unknown: bank.unknown,
        speculated: bank.world.speculation().speculated,
        repeated: bank.world.speculation().repeated,
        messages,
        trace: bank.world.trace,
        copies: bank.world.copy_counts(),
        content: hashes.iter().fold(0, |sum: u64, hash| sum.rotate_left(7) ^ hash),
    })
}

impl Bank {
    fn check_copies(&self, at_rest: bool) -> Result<(), Failure> {
        let checked = self.world.check_copies(at_rest);
        checked.map_err(|message| Failure { seed: self.seed, message })
    }

    fn open(seed: u64, given: Shape) -> Bank {
        let mut random = SeededRandom::new(seed ^ 0x5eed);
        let mut shape = Shape { partitions: 1 + random.below(7) as u32, ..given };
        shape.active_multi = [1, 3, 64][random.below(3) as usize];
        shape.speculates = random.chance(4, 5);
        if random.chance(1, 10) {
            shape.stop_everything = way_to_stop(seed);
        }
        let mut world = World::new(seed, shape);
        let accounts = 2 + world.random.below(10) as i64;
        world.schema(SCHEMA);
        if shape.followers > 0 {
            world.schema(STALLS);
            world.natives.serve();
        }
        let insert = world.prepare("INSERT INTO pockets VALUES (?, ?, ?, 0)");
        for account in 0..accounts {
            for pocket in 0..POCKETS {
                world.call(0, &[(&insert, &[account, pocket, MONEY])]);
            }
        }
        let insert = world.prepare("INSERT INTO rates VALUES (?, ?)");
        world.call(0, &[(&insert, &[1, 0])]);
        world.settle();
        let loaded = world.take_answers();
        assert!(loaded.iter().all(|answer| answer.outcome.failure.is_none()), "{loaded:?}");
        let change = |sign: &str| {
            format!(
                "UPDATE pockets SET money = money {sign} ?, version = version + 1 \
                 WHERE account = ? AND pocket = ?"
            )
        };
        let statements = Statements {
            take: world.prepare(&change("-")),
            give: world.prepare(&change("+")),
            break_key: world.prepare("INSERT INTO pockets VALUES (?, ?, 0, 0)"),
            read_all: world.prepare("SELECT SUM(money), SUM(version), COUNT(*) FROM pockets"),
            read_view: world.prepare("SELECT SUM(money), SUM(pockets) FROM totals"),
            set_rate: world.prepare("UPDATE rates SET rate = rate + ? WHERE id = 1"),
            read_rates: world.prepare("SELECT rate FROM rates WHERE id = 1"),
        };
        Bank {
            seed,
            world,
            accounts,
            statements,
            calls: Vec::new(),
            touched_begun: 0,
            touched_answered: 0,
            outstanding: 0,
            aborted: 0,
            reads: 0,
            stalls: 0,
            unknown_stalls: 0,
            unknown: 0,
        }
    }

    fn begin_call(&mut self) {
        let kind = match self.world.random.below(20) {
            0..=11 => Kind::Move,
            12..=13 => Kind::Broken,
            14..=15 => Kind::ReadAll,
            16 => Kind::ReadView,
            17..=18 => Kind::SetRate,
            _ => Kind::ReadRates,
        };
        let stalls = self.world.shape().followers > 0 && self.world.random.chance(1, 3);
        let kind = match stalls {
            true if self.world.random.chance(1, 3) => Kind::BrokenRead,
            true => Kind::Stall,
            false => kind,
        };
        self.begin(kind);
    }

    /// A call of a procedure of one round.
    fn call_procedure(&mut self, number: usize, name: &'static str, parameters: &[i64]) {
        let mut writer = ParameterWriter::default();
        parameters.iter().for_each(|value| {
            writer.bigint(*value);
        });
        self.world.request(number, Request::Procedure(invocation_of(name, writer.bytes())));
    }

    fn begin(&mut self, kind: Kind) {
        let number = self.calls.len();
        let random = &mut self.world.random;
        let amount = random.between(1, 50);
        let from = random.below(self.accounts as u64) as i64;
        // One move in three stays within an account.
        let to = match random.chance(1, 3) {
            true => from,
            false => random.below(self.accounts as u64) as i64,
        };
        let pocket = random.below(POCKETS as u64) as i64;
        // Half of them as procedures, whose partitions are known from their parameters.
        let as_procedure = random.chance(1, 2);
        let other = random.below(POCKETS as u64) as i64;
        let statements = &self.statements;
        let take = (&statements.take, &[amount, from, pocket][..]);
        let give = (&statements.give, &[amount, to, other][..]);
        // The key is taken: the insert violates it, after a change that must go back.
        let broken = (&statements.break_key, &[to, other][..]);
        match kind {
            Kind::Move if as_procedure => {
                let parameters = [amount, from, pocket, amount, to, other];
                self.call_procedure(number, "Move", &parameters);
            }
            Kind::Broken if as_procedure => {
                self.call_procedure(number, "Break", &[amount, from, pocket, to, other]);
            }
            Kind::Move => self.world.call(number, &[take, give]),
            Kind::Broken => self.world.call(number, &[take, broken]),
            Kind::ReadAll => self.world.call(number, &[(&statements.read_all, &[])]),
            Kind::ReadView => self.world.call(number, &[(&statements.read_view, &[])]),
            Kind::SetRate => self.world.call(number, &[(&statements.set_rate, &[1])]),
            Kind::BrokenRead => {
                let read = "SELECT money FROM pockets WHERE account = ? AND pocket = ?";
                let read = self.world.prepare(read);
                self.world.call(number, &[(&read, &[from, pocket]), broken]);
            }
            Kind::Stall => self.call_procedure(number, "Stopped", &[from, number as i64, amount]),
            Kind::CountStalls => {
                let count = self.world.prepare("SELECT COUNT(*) FROM moves");
                self.world.call(number, &[(&count, &[])]);
            }
            Kind::ReadRates => self.world.call(number, &[(&statements.read_rates, &[])]),
        }
        let touched_before = self.touched_answered;
        self.calls.push(Begun { kind, touched_before, answered: false });
        if kind == Kind::Move {
            self.touched_begun += 2;
        }
        self.outstanding += 1;
    }

    fn check(&self, holds: bool, message: impl FnOnce() -> String) -> Result<(), Failure> {
        match holds {
            true => Ok(()),
            false => Err(Failure { seed: self.seed, message: message() }),
        }
    }

    fn judge_answers(&mut self) -> Result<(), Failure> {
        for answer in self.world.take_answers() {
            let number = answer.call;
            self.check(!self.calls[number].answered, || format!("call {number} answered twice"))?;
            self.calls[number].answered = true;
            self.outstanding -= 1;
            let failure = answer.outcome.failure.as_ref();
            if failure.is_some_and(|failure| failure.status == Status::ResponseUnknown) {
                self.unknown += 1;
                self.unknown_stalls += i64::from(self.calls[number].kind == Kind::Stall);
                continue;
            }
            let failure = failure.map(|failure| failure.message.clone());
            if matches!(self.calls[number].kind, Kind::Broken | Kind::BrokenRead) {
                self.check(failure.is_some(), || format!("call {number} broke a key and passed"))?;
                self.aborted += 1;
                continue;
            }
            if self.calls[number].kind == Kind::Stall {
                self.stalls += i64::from(failure.is_none());
                continue;
            }
            self.check(failure.is_none(), || format!("call {number} failed: {failure:?}"))?;
            match self.calls[number].kind {
                Kind::Move => self.touched_answered += 2,
                Kind::ReadAll => self.judge_read(number, &numbers(&answer.tables))?,
                Kind::CountStalls => {
                    let (found, done) = (numbers(&answer.tables), self.stalls);
                    let most = done + self.unknown_stalls;
                    let holds = matches!(found[..], [rows] if (done..=most).contains(&rows));
                    self.check(holds, || format!("{done} to {most} calls are {found:?} rows"))?;
                }
                Kind::ReadView => self.judge_view(number, &numbers(&answer.tables))?,
                _ => {}
            }
        }
        Ok(())
    }

    fn judge_read(&mut self, number: usize, found: &[i64]) -> Result<(), Failure> {
        let rows = self.accounts * POCKETS;
        let &[money, versions, count] = found else {
            return self.check(false, || format!("read {number} gave {found:?}"));
        };
        self.reads += 1;
        self.check(money == rows * MONEY && count == rows, || {
            format!(
                "read {number} found {money} in {count} pockets, not {} in {rows}",
                rows * MONEY
            )
        })?;
        let least = self.calls[number].touched_before;
        let most = self.touched_begun;
        self.check((least..=most).contains(&versions) && versions % 2 == 0, || {
            format!("read {number} saw {versions} changes; between {least} and {most} are possible")
        })
    }

    fn judge_view(&mut self, number: usize, found: &[i64]) -> Result<(), Failure> {
        let rows = self.accounts * POCKETS;
        self.reads += 1;
        self.check(found == [rows * MONEY, rows], || {
            format!(
                "the view read by call {number} found {found:?}, not {} in {rows}",
                rows * MONEY
            )
        })
    }
}

/// The integers of the first row of the first table.
fn numbers(tables: &[u8]) -> Vec<i64> {
    let mut reader = ByteReader::new(tables);
    let Ok(table) = TableView::read(&mut reader) else { return Vec::new() };
    let mut values = Vec::new();
    if let Some(Ok(row)) = table.rows().next() {
        let _ = row.read_into(&mut values);
    }
    let number = |value: &Datum<'_>| match value {
        Datum::Int(number) => *number,
        _ => i64::MIN,
    };
    values.iter().map(number).collect()
}
