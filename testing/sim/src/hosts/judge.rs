//! What must hold for the calls of clients: a bank whose moves between accounts each leave two
//! rows.

use super::Answer;
use super::aging::Aging;
use super::codes::Code;
use super::lists::Lists;
use super::tpcc::Wholesale;
use crate::plans::{Request, Sql, invocation_of};
use lockstep_base::bytes::ByteReader;
use lockstep_base::random::SeededRandom;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Status, TableView};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const SCHEMA: &str = "
CREATE TABLE accounts (id BIGINT NOT NULL, money BIGINT NOT NULL, version BIGINT NOT NULL,
  PRIMARY KEY (id));
PARTITION TABLE accounts ON COLUMN id;
CREATE TABLE moves (id BIGINT NOT NULL, number BIGINT NOT NULL, side BIGINT NOT NULL);
PARTITION TABLE moves ON COLUMN id;
CREATE PROCEDURE Move AS BEGIN
  UPDATE accounts SET money = money - ?, version = version + 1 WHERE id = ?;
  INSERT INTO moves VALUES (?, ?, ?);
  UPDATE accounts SET money = money + ?, version = version + 1 WHERE id = ?;
  INSERT INTO moves VALUES (?, ?, ?);
END;
CREATE PROCEDURE Touch PARTITION ON TABLE accounts COLUMN id PARAMETER 0 AS BEGIN
  UPDATE accounts SET version = version + 2 WHERE id = ?;
  INSERT INTO moves VALUES (?, ?, ?);
  INSERT INTO moves VALUES (?, ?, ?);
END;
";

const MONEY: i64 = 1000;
/// Clocks of hosts go wrong by less than one part in this.
const DRIFT_DIVISOR: u64 = 50;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Schema,
    Load,
    /// Of the schema, among calls.
    Change,
    /// Of an account's code, by number.
    ChangeCode(i64, i64),
    /// By account and number: the row of a code, which had changed as often at least.
    ReadCode(i64, i64, i64),
    /// Between two accounts.
    Move(i64, i64),
    /// Appends to lists and reads them.
    Lists,
    /// Inserts rows that go when their time is over, and reads them.
    Aging,
    /// A transaction of TPC-C.
    Wholesale,
    /// Changes one account, and then breaks a key of another one.
    Broken,
    ReadOne(i64),
    ReadAll,
    ReadMoves,
    /// Of one account.
    ReadMovesOf(i64),
}

/// What became of the reads of an account at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Read,
    /// Its partition cannot be served.
    Refused,
    Failed,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Failed,
    Unknown,
}

struct Call {
    kind: Kind,
    /// By account, the version that a read that begins now finds at least.
    least: Vec<i64>,
    end: Option<End>,
    /// It was refused because a partition cannot be served.
    is_unavailable: bool,
}

/// The calls and what was found.
pub(super) struct Judge {
    accounts: i64,
    calls: Vec<Call>,
    /// By account: changes that were answered, changes that have begun, and the last version that
    /// a read has found.
    answered: Vec<i64>,
    begun: Vec<i64>,
    seen: Vec<i64>,
    /// By account, when the changes were answered.
    answered_us: Vec<Vec<u64>>,
    /// When what is judged was answered.
    pub(super) now_us: u64,
    /// What reads of all accounts have found, by the sum of versions.
    found: BTreeMap<i64, Vec<i64>>,
    /// By account.
    pub(super) codes: Vec<Code>,
    /// By read of a code that found one, the account.
    pub(super) found_codes: BTreeMap<usize, i64>,
    /// Where the run has lists, what was done to them.
    pub(super) lists: Option<Lists>,
    /// Where the run has rows that go, what is known of them.
    pub(super) aging: Option<Aging>,
    /// Where the run has TPC-C, its transactions.
    pub(super) wholesale: Option<Wholesale>,
    /// By account, the moves that were read of it alone.
    moves: BTreeMap<i64, Vec<Vec<i64>>>,
    pub(super) outstanding: usize,
    /// Why the last call failed that did.
    pub(super) why: String,
    /// Calls that were answered with success, that failed, and whose outcome is not known.
    pub(super) ended: [u64; 3],
}

impl Judge {
    pub(super) fn new(accounts: i64, lists: Option<Lists>) -> Judge {
        let zeros = vec![0; accounts as usize];
        Judge {
            accounts,
            calls: Vec::new(),
            answered: zeros.clone(),
            begun: zeros.clone(),
            seen: zeros,
            answered_us: vec![Vec::new(); accounts as usize],
            now_us: 0,
            found: BTreeMap::new(),
            codes: vec![Code::default(); accounts as usize],
            found_codes: BTreeMap::new(),
            lists,
            aging: None,
            wholesale: None,
            moves: BTreeMap::new(),
            outstanding: 0,
            why: String::new(),
            ended: [0; 3],
        }
    }

    pub(super) fn begin(&mut self, kind: Kind) -> usize {
        let least = self.answered.iter().zip(&self.seen).map(|(a, b)| *a.max(b)).collect();
        self.calls.push(Call { kind, least, end: None, is_unavailable: false });
        if let Kind::Move(from, to) = kind {
            self.begun[from as usize] += 1;
            self.begun[to as usize] += 1;
        }
        self.outstanding += 1;
        self.calls.len() - 1
    }

    /// The change of the schema.
    pub(super) fn schema(&mut self) -> usize {
        self.begin(Kind::Schema)
    }

    /// A change of the schema while clients call.
    pub(super) fn change(&mut self) -> usize {
        self.begin(Kind::Change)
    }

    /// How many changes have been made at least, and at most.
    pub(super) fn changes(&self) -> (u64, u64) {
        let ended = |end| {
            let is_it = |call: &&Call| call.kind == Kind::Change && call.end == Some(end);
            self.calls.iter().filter(is_it).count() as u64
        };
        (ended(End::Done), ended(End::Done) + ended(End::Unknown))
    }

    /// The calls that load the rows.
    pub(super) fn load(&mut self) -> Vec<(usize, Request)> {
        let insert: Sql = "INSERT INTO accounts (id, money, version) VALUES (?, ?, 0)".into();
        let accounts = self.accounts;
        let one = |account| {
            let call = self.begin(Kind::Load);
            (call, Request::Statements(vec![(insert.clone(), vec![account, MONEY])]))
        };
        (0..accounts).map(one).collect()
    }

    /// Whether all calls from one on succeeded.
    pub(super) fn are_done_since(&self, first: usize) -> bool {
        self.calls[first..].iter().all(|call| call.end == Some(End::Done))
    }

    /// Whether the last call succeeded.
    pub(super) fn is_last_done(&self) -> bool {
        self.calls.last().is_some_and(|call| call.end == Some(End::Done))
    }

    /// The number of the next call.
    pub(super) fn next_call(&self) -> usize {
        self.calls.len()
    }

    /// A call of a client.
    pub(super) fn call(&mut self, random: &mut SeededRandom) -> (usize, Request) {
        if let Some(call) = self.call_more(random) {
            return call;
        }
        let mut account = || random.below(self.accounts as u64) as i64;
        let (from, to) = (account(), account());
        let amount = random.between(1, 50);
        match random.below(23) {
            0..=5 => self.touch(from),
            6..=9 if random.chance(1, 2) => self.transfer(amount, from, to),
            6..=9 => {
                let call = self.begin(Kind::Move(from, to));
                (call, move_of(&given_of(call, amount, from, to)))
            }
            10 => {
                let call = self.begin(Kind::Broken);
                let take = "UPDATE accounts SET money = money - ?, version = version + 1 \
                            WHERE id = ?";
                let insert = "INSERT INTO accounts (id, money, version) VALUES (?, 0, 0)";
                let statements = vec![(take.into(), vec![amount, from]), (insert.into(), vec![to])];
                (call, Request::Statements(statements))
            }
            20..=22 => self.call_code(from, random),
            11..=16 => {
                let read = "SELECT id, money, version FROM accounts WHERE id = ?";
                let call = self.begin(Kind::ReadOne(from));
                (call, Request::Statements(vec![(read.into(), vec![from])]))
            }
            _ => self.read_all(),
        }
    }

    /// A call of what a run has beside the bank, where it is the turn of that.
    fn call_more(&mut self, random: &mut SeededRandom) -> Option<(usize, Request)> {
        let call = self.call_lists(random).or_else(|| self.call_aging(random));
        call.or_else(|| self.call_wholesale(random))
    }

    /// A change of one account.
    pub(super) fn touch(&mut self, account: i64) -> (usize, Request) {
        let call = self.begin(Kind::Move(account, account));
        let number = call as i64;
        let given = [account, account, number, 0, account, number, 1];
        (call, procedure("Touch", &given))
    }

    /// A call of the procedure that moves money.
    pub(super) fn transfer(&mut self, amount: i64, from: i64, to: i64) -> (usize, Request) {
        let call = self.begin(Kind::Move(from, to));
        (call, procedure("Move", &given_of(call, amount, from, to)))
    }

    pub(super) fn read_all(&mut self) -> (usize, Request) {
        let read = "SELECT id, money, version FROM accounts ORDER BY id";
        let call = self.begin(Kind::ReadAll);
        (call, Request::Statements(vec![(read.into(), Vec::new())]))
    }

    /// The read of all moves at the end.
    pub(super) fn read_moves(&mut self) -> (usize, Request) {
        let read = "SELECT id, number, side FROM moves ORDER BY number, side";
        let call = self.begin(Kind::ReadMoves);
        (call, Request::Statements(vec![(read.into(), Vec::new())]))
    }

    pub(super) fn accounts(&self) -> std::ops::Range<i64> {
        0..self.accounts
    }

    /// The reads of an account at the end, where others cannot be read.
    pub(super) fn read_left(&mut self, account: i64) -> [(usize, Request); 2] {
        let one = "SELECT id, money, version FROM accounts WHERE id = ?";
        let moves = "SELECT id, number, side FROM moves WHERE id = ? ORDER BY number, side";
        let given = |sql: &str| Request::Statements(vec![(sql.into(), vec![account])]);
        [
            (self.begin(Kind::ReadOne(account)), given(one)),
            (self.begin(Kind::ReadMovesOf(account)), given(moves)),
        ]
    }

    /// What became of the last two calls.
    pub(super) fn left(&self) -> Left {
        let last = &self.calls[self.calls.len() - 2..];
        if last.iter().all(|call| call.end == Some(End::Done)) {
            return Left::Read;
        }
        match last.iter().all(|call| call.is_unavailable) {
            true => Left::Refused,
            false => Left::Failed,
        }
    }

    /// The moves of these accounts are as they must be.
    pub(super) fn judge_left(&self, readable: &BTreeSet<i64>) -> Result<(), String> {
        let read = self.moves.iter().filter(|(account, _)| readable.contains(account));
        let rows: Vec<Vec<i64>> = read.flat_map(|(_, rows)| rows.clone()).collect();
        self.judge_moves(&rows, |account| readable.contains(&account))
    }

    fn end(&mut self, call: usize, end: End) -> Result<(), String> {
        let known = &mut self.calls[call].end;
        if let Some(before) = known {
            return Err(format!("call {call} ended twice, {before:?} and {end:?}"));
        }
        *known = Some(end);
        self.outstanding -= 1;
        self.ended[end as usize] += 1;
        match self.calls[call].kind {
            Kind::ChangeCode(account, number) => self.code_changed(account, number, end),
            Kind::Lists => self.lists_ended(call, end),
            Kind::Aging => self.aging_ended(call, end),
            Kind::Wholesale => self.wholesale_ended(call, end),
            _ => {}
        }
        Ok(())
    }

    /// A call was answered.
    pub(super) fn answer(&mut self, answer: &Answer) -> Result<(), String> {
        let call = answer.call;
        let kind = self.calls[call].kind;
        if let Some(failure) = &answer.outcome.failure {
            let end = match failure.status == Status::ResponseUnknown {
                true => End::Unknown,
                false => End::Failed,
            };
            self.why.clone_from(&failure.message);
            self.calls[call].is_unavailable = failure.message.contains("cannot be served");
            return match kind {
                Kind::Schema | Kind::Load => Err(format!("call {call} failed: {failure:?}")),
                _ => self.end(call, end),
            };
        }
        self.end(call, End::Done)?;
        let rows = || rows(&answer.tables);
        match kind {
            Kind::Schema | Kind::Load | Kind::Change => Ok(()),
            Kind::Broken => Err(format!("call {call} broke a key and passed")),
            Kind::Move(from, to) => {
                for account in [from as usize, to as usize] {
                    self.answered[account] += 1;
                    self.answered_us[account].push(self.now_us);
                }
                Ok(())
            }
            Kind::ReadOne(account) => {
                if let Some(staleness_us) = answer.staleness_us {
                    self.allow_stale(call, account as usize, staleness_us);
                }
                self.judge_versions(call, &rows(), &[account])
            }
            Kind::ReadAll => {
                let (rows, all) = (rows(), (0..self.accounts).collect::<Vec<i64>>());
                self.judge_versions(call, &rows, &all)?;
                self.judge_whole(call, &rows)
            }
            Kind::ReadMoves => self.judge_moves(&rows(), |_| true),
            Kind::ChangeCode(..) => Ok(()),
            Kind::Lists => self.lists_answered(call, &answer.tables),
            Kind::Aging => self.aging_answered(call, &answer.tables),
            Kind::Wholesale => self.wholesale_answered(call, &answer.tables),
            Kind::ReadCode(account, number, least) => {
                self.judge_code(call, (account, number, least), &rows())
            }
            Kind::ReadMovesOf(account) => {
                self.moves.insert(account, rows());
                Ok(())
            }
        }
    }

    /// A copy has answered just now, whose data may be as old as this by the clock of its host: it
    /// has what was answered before.
    fn allow_stale(&mut self, call: usize, account: usize, staleness_us: u64) {
        let since_us = self.now_us.saturating_sub(staleness_us + staleness_us / DRIFT_DIVISOR + 1);
        let before = self.answered_us[account].partition_point(|at_us| *at_us < since_us);
        self.calls[call].least[account] = before as i64;
    }

    fn judge_versions(
        &mut self,
        call: usize,
        rows: &[Vec<i64>],
        expected: &[i64],
    ) -> Result<(), String> {
        let found: Vec<i64> = rows.iter().map(|row| row[0]).collect();
        if found != expected {
            return Err(format!("read {call} found accounts {found:?}, not {expected:?}"));
        }
        for row in rows {
            let (account, version) = (row[0] as usize, row[2]);
            let (least, most) = (self.calls[call].least[account], self.begun[account]);
            if !(least..=most).contains(&version) {
                return Err(format!(
                    "read {call} found version {version} of account {account}; {least} to {most} \
                     are possible"
                ));
            }
            self.seen[account] = version.max(self.seen[account]);
        }
        Ok(())
    }

    fn judge_whole(&mut self, call: usize, rows: &[Vec<i64>]) -> Result<(), String> {
        let money: i64 = rows.iter().map(|row| row[1]).sum();
        let versions: Vec<i64> = rows.iter().map(|row| row[2]).collect();
        let sum: i64 = versions.iter().sum();
        if money != self.accounts * MONEY || sum % 2 != 0 {
            return Err(format!("read {call} found {money} in all accounts, and {sum} changes"));
        }
        let before = self.found.range(..=sum).next_back();
        let after = self.found.range(sum..).next();
        let is_below = |a: &[i64], b: &[i64]| a.iter().zip(b).all(|(a, b)| a <= b);
        let fits = before.is_none_or(|(_, it)| is_below(it, &versions))
            && after.is_none_or(|(_, it)| is_below(&versions, it));
        if !fits {
            return Err(format!(
                "read {call} found versions {versions:?}; other reads found {before:?} and \
                 {after:?}"
            ));
        }
        self.found.insert(sum, versions);
        Ok(())
    }

    /// Each change that was answered is there once, one that failed is not, and one of which
    /// nobody knows is there once and whole, or not at all.
    fn judge_moves(
        &self,
        rows: &[Vec<i64>],
        is_readable: impl Fn(i64) -> bool,
    ) -> Result<(), String> {
        let mut sides: BTreeMap<usize, Vec<(i64, i64)>> = BTreeMap::new();
        for row in rows {
            sides.entry(row[1] as usize).or_default().push((row[2], row[0]));
        }
        for (number, call) in self.calls.iter().enumerate() {
            let Kind::Move(from, to) = call.kind else { continue };
            let mut found = sides.remove(&number).unwrap_or_default();
            found.sort_unstable();
            let mut whole = vec![(0, from), (1, to)];
            whole.retain(|(_, account)| is_readable(*account));
            let is_whole = found == whole;
            let holds = match call.end {
                Some(End::Done) => is_whole,
                Some(End::Failed) => found.is_empty(),
                Some(End::Unknown) => is_whole || found.is_empty(),
                None => false,
            };
            if !holds {
                return Err(format!(
                    "call {number} between accounts {from} and {to} ended as {:?}, and left \
                     {found:?}",
                    call.end
                ));
            }
        }
        match sides.is_empty() {
            true => Ok(()),
            false => Err(format!("moves that nobody made: {sides:?}")),
        }
    }
}

/// The parameters of a move.
fn given_of(call: usize, amount: i64, from: i64, to: i64) -> [i64; 10] {
    let number = call as i64;
    [amount, from, from, number, 0, amount, to, to, number, 1]
}

fn procedure(name: &str, given: &[i64]) -> Request {
    let mut writer = ParameterWriter::default();
    given.iter().for_each(|value| {
        writer.bigint(*value);
    });
    Request::Procedure(invocation_of(name, writer.bytes()))
}

fn move_of(given: &[i64; 10]) -> Request {
    let change = |sign| {
        format!("UPDATE accounts SET money = money {sign} ?, version = version + 1 WHERE id = ?")
    };
    let insert: Sql = "INSERT INTO moves VALUES (?, ?, ?)".into();
    Request::Statements(vec![
        (change("-").into(), given[..2].to_vec()),
        (insert.clone(), given[2..5].to_vec()),
        (change("+").into(), given[5..7].to_vec()),
        (insert, given[7..].to_vec()),
    ])
}

/// The integers of the first table.
pub(super) fn rows(tables: &[u8]) -> Vec<Vec<i64>> {
    let mut reader = ByteReader::new(tables);
    let number = |value: &Datum<'_>| match value {
        Datum::Int(number) => *number,
        _ => i64::MIN,
    };
    TableView::read(&mut reader).map_or(Vec::new(), |table| rows_of(&table, number))
}

/// All tables, as numbers: decimals in hundredths, times in microseconds, all else as the least.
pub(super) fn read_tables(tables: &[u8]) -> Result<Vec<Vec<Vec<i64>>>, String> {
    const CENT_UNITS: i128 = lockstep_types::decimal::ONE / 100;
    let number = |value: &Datum<'_>| match value {
        Datum::Int(number) | Datum::Timestamp(number) => *number,
        Datum::Decimal(decimal) => (decimal.units() / CENT_UNITS) as i64,
        _ => i64::MIN,
    };
    let (mut reader, mut all) = (ByteReader::new(tables), Vec::new());
    while reader.remaining() > 0 {
        let table = TableView::read(&mut reader);
        let table = table.map_err(|error| format!("tables that cannot be read: {error}"))?;
        all.push(rows_of(&table, number));
    }
    Ok(all)
}

fn rows_of(table: &TableView<'_>, number: impl Fn(&Datum<'_>) -> i64) -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    for row in table.rows().flatten() {
        let mut values = Vec::new();
        if row.read_into(&mut values).is_ok() {
            all.push(values.iter().map(&number).collect());
        }
    }
    all
}
