//! List-append: every transaction appends numbers to lists and reads lists, at one partition or
//! at several, as ad hoc statements or as a procedure of some rounds; one of the lists is
//! replicated. From what the reads saw and the lists at the end follows which transaction came
//! before which; together with who was answered before whom began, that must have no cycle:
//! strict serializability. (The method is that of Elle: Kingsbury and Alvaro, "Elle: Inferring
//! Isolation Anomalies from Experimental Observations", PVLDB 14, 2020.)
//!
//! Meanwhile the schema changes, the coordinator fails with everything that it has in progress,
//! rounds run out of time, and clients go away. Whatever fails leaves no trace; what nobody
//! heard of happened wholly or not at all; the partitions' copies are the same.

use crate::bank::Failure;
use crate::census::Totals;
use crate::plans::{Request, Sql, invocation_of};
use crate::walk::{GROWING_SCHEMA, INDEXED_SCHEMA, SCHEMA, Step};
use crate::world::{ChangeNumber, CopyCounts, Shape, World, followers_of, way_to_stop};
use lockstep_base::random::SeededRandom;
use lockstep_site::Faults;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType};
use std::collections::BTreeMap;

mod answers;
mod changes;
mod growth;
mod judge;
mod renaming;
mod takeovers;

pub(crate) use answers::items;
use answers::{reads, same_keys};
use changes::{Beside, Requested};
use growth::Put;
pub(crate) use judge::cycle;
pub use takeovers::run_with_takeovers;

/// Appended after the schema: a change of it, and the one that takes it back. The third fails
/// wherever there are two lists.
const CHANGES: [&str; 3] = [
    "CREATE INDEX lists_by_items ON lists (k, items);",
    "ALTER TABLE lists ADD COLUMN extra BIGINT DEFAULT 7;",
    "ALTER TABLE same ADD UNIQUE (v);",
];
const CHANGES_BACK: [&str; 2] =
    ["DROP INDEX lists_by_items;", "ALTER TABLE lists DROP COLUMN extra;"];
/// A table that refuses the third change.
const SAME: &str = "
CREATE TABLE same (k BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (k));
";

/// The entries of the index, in the order of the keys.
const ENTRIES: &str = "SELECT * FROM \"LISTS_K#ENTRIES\" ORDER BY k";
/// Ids of rows that a global index finds are no keys of theirs.
const FIRST_ID: i64 = 1_000_000;
/// The place of an insert that a taken key refuses.
const NO_ID: i64 = -1;

/// The procedures of calls of one round.
const ONE_ROUND: [&str; 4] = ["AppendRead", "ReadAppend", "ReadRead", "AppendBreak"];

/// What the lists are found by, and what goes on beside transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Their partitioning column.
    Keyed,
    /// A global index.
    Indexed,
    /// The same, and more lists and indexes come.
    Growing,
}

/// How a transaction travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    AdHoc,
    Walk,
    /// Declares the partitions of two lists.
    Declared(i64, i64),
    /// Runs at the partition of a list.
    Here(i64),
    /// A list of statements whose partitions are known from their parameters.
    OneRound(&'static str),
    /// A walk over lists that a global index finds.
    Indexed,
    /// Runs where the global index says that a list is.
    Led(i64),
    /// The same, and changes entries of the index.
    LedChange(i64),
    /// Reads all lists and all entries of their global index, and of the second one if it is
    /// there.
    Snapshot {
        second: bool,
    },
    /// Puts lists with keys of their own.
    Put(Put),
    /// Inserts a row of a table whose global index comes and goes.
    Grow,
}

/// How a transaction may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Commit,
    Abort,
    Either,
}

/// A transaction, with when it was sent and answered, in steps of the world.
#[derive(Debug, Clone)]
struct Transaction {
    form: Form,
    steps: Vec<Step>,
    expected: Expected,
    begun: u64,
    answered: Option<u64>,
    /// The client has gone away: it never hears of the outcome.
    gone: bool,
    /// Nobody has answered it yet.
    open: bool,
    committed: bool,
    failure: Option<String>,
    /// Per read, what it saw; the replicated list has a key of its own.
    reads: Vec<(i64, Vec<i64>)>,
}

struct Lists {
    world: World,
    append: Sql,
    read: Sql,
    insert: Sql,
    read_shared: Sql,
    append_shared: Sql,
    keys: i64,
    transactions: Vec<Transaction>,
    time: u64,
    next_value: i64,
    /// A global index finds the lists.
    indexed: bool,
    /// Lists are added, and a second index is built and dropped.
    grows: bool,
    snapshots: usize,
    built: usize,
    /// What goes on beside transactions, in this run.
    changes_schema: bool,
    fails: bool,
    expires: bool,
    /// Which change of the schema is in force.
    changed: Option<usize>,
    /// The changes in progress.
    requested: BTreeMap<ChangeNumber, Requested>,
    beside: Beside,
    /// Leaders move, as this draws.
    moves: Option<SeededRandom>,
    /// Builds of global indexes find now and then that the host takes no more data.
    refuses_intake: bool,
    schema_changes: usize,
    fell_over: usize,
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Transactions that committed.
    pub committed: usize,
    /// Transactions that were to fail and did.
    pub aborted: usize,
    /// Transactions that ended with the coordinator or ran out of time.
    pub cut_off: usize,
    /// Transactions whose client went away.
    pub gone: usize,
    /// Changes of the schema, those that failed included.
    pub schema_changes: usize,
    /// Calls that a schema change overtook.
    pub planned_again: usize,
    /// Reads of all lists and of their index.
    pub snapshots: usize,
    /// Transactions that looked one list up by the index, at two partitions at most.
    pub lookups: usize,
    /// Transactions that the index led to a list.
    pub led: usize,
    /// How often they were handed on.
    pub hops: usize,
    /// Those that ended because the list moved too often.
    pub given_up: usize,
    /// Lists that were added.
    pub put: usize,
    /// Additions that a taken key refused.
    pub refused: usize,
    /// Global indexes that were built in steps, to their end.
    pub built: usize,
    /// Changes beside those: made, refused as they must be, and builds that were given up.
    pub beside: [usize; 3],
    /// Calls of one round.
    pub one_round: u64,
    /// Edges of the graph that was looked at.
    pub edges: usize,
    /// Messages of its transactions.
    pub messages: Totals,
    /// What followers did.
    pub copies: CopyCounts,
    /// A hash of everything that happened.
    pub trace: u64,
}

/// Runs one seed with N transactions.
///
/// # Errors
/// The first check that failed.
pub fn run_seed(seed: u64, transactions: usize, faults: Faults) -> Result<Report, Failure> {
    run(Lists::open(seed, faults, Kind::Keyed), seed, transactions)
}

/// The same with lists that are partitioned by something else and found by a global unique index
/// of their keys. They move; the index always has what the table has, and no key twice.
///
/// # Errors
/// The first check that failed.
pub fn run_indexed(seed: u64, transactions: usize, faults: Faults) -> Result<Report, Failure> {
    run(Lists::open(seed, faults, Kind::Indexed), seed, transactions)
}

/// The same with lists that are added by calls that know the entry of the index from their
/// parameters, some with keys that are taken, and with a second global index that is built in
/// steps beside all this, and dropped.
///
/// # Errors
/// The first check that failed.
pub fn run_growing(seed: u64, transactions: usize, faults: Faults) -> Result<Report, Failure> {
    run(Lists::open(seed, faults, Kind::Growing), seed, transactions)
}

fn run(mut lists: Lists, seed: u64, transactions: usize) -> Result<Report, Failure> {
    let fail = |message| Failure { seed, message };
    if lists.grows {
        lists.prepare_refusals();
    }
    let clients = 2 + lists.world.random.below(10) as usize;
    lists.world.repeat_one_in = [0, 5][lists.world.random.below(2) as usize];
    while lists.transactions.len() < transactions {
        let outstanding = lists.transactions.iter().filter(|t| t.open && !t.gone).count();
        let begins = outstanding < clients && lists.world.random.chance(1, 3);
        if begins || !lists.world.step() {
            lists.begin();
        }
        lists.disturb();
        lists.take_answers().map_err(fail)?;
        lists.world.check_indexes().map_err(fail)?;
        lists.world.check_copies(false).map_err(fail)?;
    }
    lists.world.settle();
    lists.take_answers().map_err(fail)?;
    lists.world.check_indexes().map_err(fail)?;
    lists.world.check_copies(true).map_err(fail)?;
    lists.judge().map_err(fail)
}

impl Lists {
    fn open(seed: u64, faults: Faults, kind: Kind) -> Lists {
        let (indexed, grows) = (kind != Kind::Keyed, kind == Kind::Growing);
        let mut random = SeededRandom::new(seed ^ 0x115f);
        let mut shape = Shape::of(1 + random.below(6) as u32);
        shape.active_multi = [1, 2, 64][random.below(3) as usize];
        shape.speculates = random.chance(5, 6);
        if random.chance(1, 12) {
            shape.stop_everything = way_to_stop(seed);
        }
        shape.faults = faults;
        if faults == Faults::default() {
            shape.followers = followers_of(seed);
        }
        let mut world = World::new(seed, shape);
        let keys = 2 + random.below(6) as i64;
        world.schema(if indexed { INDEXED_SCHEMA } else { SCHEMA });
        world.schema(SAME);
        if grows {
            world.schema(GROWING_SCHEMA);
        }
        let insert = world.prepare(match indexed {
            true => "INSERT INTO lists (id, k, items) VALUES (?, ?, '')",
            false => "INSERT INTO lists (k, items) VALUES (?, '')",
        });
        for key in 0..keys {
            let both = [FIRST_ID + key, key];
            world.call(0, &[(&insert, if indexed { &both } else { &both[1..] })]);
        }
        let insert_shared = world.prepare("INSERT INTO shared VALUES (1, '')");
        let insert_same = world.prepare("INSERT INTO same VALUES (?, 1)");
        world.call(0, &[(&insert_shared, &[]), (&insert_same, &[1]), (&insert_same, &[2])]);
        world.settle();
        let loaded = world.take_answers();
        assert!(loaded.iter().all(|answer| answer.outcome.failure.is_none()), "{loaded:?}");
        let append = |table: &str, condition: &str| {
            format!(
                "UPDATE {table} SET items = items || CAST(CAST(? AS BIGINT) AS VARCHAR) || ',' \
                 WHERE {condition}"
            )
        };
        world.census.forget_visits();
        world.max_index_lookups = [1, 8][random.below(2) as usize];
        Lists {
            append: world.prepare(&append("lists", "k = ?")),
            read: world.prepare("SELECT items FROM lists WHERE k = ?"),
            insert,
            read_shared: world.prepare("SELECT items FROM shared WHERE id = 1"),
            append_shared: world.prepare(&append("shared", "id = 1")),
            world,
            keys,
            transactions: Vec::new(),
            time: 0,
            next_value: 1,
            indexed,
            grows,
            snapshots: 0,
            built: 0,
            changes_schema: grows || random.chance(1, 3),
            fails: random.chance(1, 3),
            expires: random.chance(1, 4),
            changed: None,
            requested: BTreeMap::new(),
            beside: Beside::default(),
            moves: None,
            refuses_intake: false,
            schema_changes: 0,
            fell_over: 0,
        }
    }

    /// What goes on beside transactions.
    fn disturb(&mut self) {
        self.move_leader();
        let grows = self.grows;
        if grows {
            self.build_or_drop();
            self.change_beside();
        } else if self.changes_schema {
            self.toggle();
        }
        if self.fails && self.world.random.chance(1, 150) {
            self.fell_over += 1;
            self.world.fail_all();
        }
        if self.expires && self.world.random.chance(1, 10) {
            self.world.expire();
        }
        if self.world.random.chance(1, 200)
            && let Some(open) = self.transactions.iter_mut().find(|t| t.open && !t.gone)
        {
            open.gone = true;
        }
    }

    fn begin(&mut self) {
        let form = self.form();
        let steps = self.steps(form);
        let number = self.transactions.len();
        let expected = self.expected(form, &steps);
        match form {
            Form::AdHoc => self.call(number, &steps),
            Form::Walk => self.walk(number, "Walk", &[], &steps),
            Form::Declared(a, b) => self.walk(number, "WalkDeclared", &[a, b], &steps),
            Form::Here(key) => self.walk(number, "WalkHere", &[key], &steps),
            Form::Indexed => self.walk(number, "WalkIndexed", &[], &steps),
            Form::Led(key) => self.walk(number, "WalkLed", &[key], &steps),
            Form::LedChange(key) => self.walk(number, "WalkLedChange", &[key], &steps),
            Form::OneRound(name) => self.call_in_one_round(number, name, &steps),
            Form::Snapshot { second } => {
                let mut texts = vec!["SELECT k, id FROM lists ORDER BY k", ENTRIES];
                if second {
                    texts.extend(growth::SECOND);
                }
                let prepare = |text: &&str| (self.world.prepare(text), vec![]);
                let statements = texts.iter().map(prepare).collect();
                self.world.request(number, Request::Statements(statements));
            }
            Form::Put(put) => self.put(number, put),
            Form::Grow => self.grow(number),
        }
        self.time += 1;
        self.transactions.push(Transaction {
            form,
            steps,
            expected,
            begun: self.time,
            answered: None,
            gone: false,
            open: true,
            committed: false,
            failure: None,
            reads: Vec::new(),
        });
    }

    fn form(&mut self) -> Form {
        let keys = self.keys as u64;
        let random = &mut self.world.random;
        let kind = random.below(10);
        let (a, b) = (random.below(keys) as i64, random.below(keys) as i64);
        if self.grows && random.chance(1, 3) {
            return Form::Put(Put::draw(random));
        }
        if self.grows && random.chance(1, 2) {
            return Form::Grow;
        }
        if self.indexed {
            return match kind {
                0..=2 => Form::AdHoc,
                3 => Form::Snapshot { second: self.has_second() },
                // With an index that has the items such calls need its partition, too.
                4..=5 if !self.grows => Form::Led(a),
                6 => Form::LedChange(a),
                _ => Form::Indexed,
            };
        }
        match kind {
            0..=1 => Form::AdHoc,
            2..=3 => Form::OneRound(ONE_ROUND[random.below(ONE_ROUND.len() as u64) as usize]),
            4..=6 => Form::Walk,
            7..=8 => Form::Declared(a, b),
            _ => Form::Here(a),
        }
    }

    fn steps(&mut self, form: Form) -> Vec<Step> {
        if matches!(form, Form::Snapshot { .. } | Form::Put(_) | Form::Grow) {
            return Vec::new();
        }
        if let Form::OneRound(name) = form {
            return self.steps_of_one_round(name);
        }
        let count = 1 + self.world.random.below(if form == Form::AdHoc { 4 } else { 7 });
        let mut steps = Vec::new();
        for _ in 0..count {
            let random = &mut self.world.random;
            let any = random.below(self.keys as u64) as i64;
            let key = match form {
                Form::Here(key) | Form::Led(key) | Form::LedChange(key) => key,
                Form::Declared(a, b) if random.chance(29, 30) => [a, b][random.below(2) as usize],
                _ => any,
            };
            let kind = random.below(64);
            self.next_value += 1;
            let value = self.next_value;
            steps.push(match (kind, form) {
                (0, Form::Led(_) | Form::LedChange(_)) => Step::Abort,
                (0, _) => Step::Break(key),
                (1..=2, Form::AdHoc | Form::Walk | Form::Indexed) => Step::AppendShared(value),
                (4..=8, _) => Step::ReadShared,
                (9..=20, Form::Walk | Form::Declared(..) | Form::Here(_)) => Step::Round,
                (21, Form::Walk | Form::Declared(..) | Form::Here(_)) => Step::Abort,
                (9..=20, Form::Indexed | Form::Led(_) | Form::LedChange(_)) => Step::Round,
                (21, Form::Indexed | Form::Led(_) | Form::LedChange(_)) => Step::Abort,
                (22..=25, Form::Indexed) => Step::Hop(key, value),
                (26..=29, Form::Indexed) => Step::Move(key, 2 * FIRST_ID + value),
                (22..=25, Form::Walk) => Step::Hop(key, value),
                (22, Form::Declared(..)) => Step::Hop(key, value),
                (26..=45, _) => Step::Append(key, value),
                _ => Step::Read(key),
            });
        }
        self.rename(form, &mut steps);
        // Nothing to execute is no transaction.
        if steps.iter().all(|step| matches!(step, Step::Round)) {
            steps.push(Step::Read(match form {
                Form::Here(key)
                | Form::Led(key)
                | Form::LedChange(key)
                | Form::Declared(key, _) => key,
                _ => 0,
            }));
        }
        steps
    }

    /// One step for each statement of a procedure.
    fn steps_of_one_round(&mut self, name: &str) -> Vec<Step> {
        let (first, second) = (self.draw_key(), self.draw_key());
        self.next_value += 1;
        let value = self.next_value;
        match name {
            "AppendRead" => vec![Step::Append(first, value), Step::Read(second)],
            "ReadAppend" => vec![Step::Read(first), Step::Append(second, value)],
            "ReadRead" => vec![Step::Read(first), Step::Read(second)],
            _ => vec![Step::Append(first, value), Step::Break(second)],
        }
    }

    fn draw_key(&mut self) -> i64 {
        self.world.random.below(self.keys as u64) as i64
    }

    fn call_in_one_round(&mut self, number: usize, name: &'static str, steps: &[Step]) {
        let mut writer = ParameterWriter::default();
        for step in steps {
            match *step {
                Step::Append(key, value) => writer.bigint(value).bigint(key),
                Step::Read(key) | Step::Break(key) => writer.bigint(key),
                _ => unreachable!("there are no other statements"),
            };
        }
        self.world.request(number, Request::Procedure(invocation_of(name, writer.bytes())));
    }

    /// How it must end, as far as its steps say.
    fn expected(&self, form: Form, steps: &[Step]) -> Expected {
        if steps.iter().any(|step| matches!(step, Step::Break(_) | Step::Abort)) {
            return Expected::Abort;
        }
        if matches!(form, Form::Put(_)) {
            return Expected::Either;
        }
        let Form::Declared(a, b) = form else { return Expected::Commit };
        let place = |key: i64| self.world.partition_of(key);
        let declared = [place(a), place(b)];
        // Every transaction has all partitions where everything stops for it.
        let mut expected = match self.world.shape().stop_everything.is_on() {
            true => return Expected::Either,
            false => Expected::Commit,
        };
        for step in steps {
            let stays = match *step {
                Step::Append(key, _) | Step::Read(key) => declared.contains(&place(key)),
                Step::Hop(..) => {
                    expected = Expected::Either;
                    true
                }
                _ => true,
            };
            if !stays {
                return Expected::Abort;
            }
        }
        expected
    }

    fn call(&mut self, number: usize, steps: &[Step]) {
        let statements = steps
            .iter()
            .map(|step| match *step {
                Step::Append(key, value) => (self.append.clone(), vec![value, key]),
                Step::Read(key) => (self.read.clone(), vec![key]),
                Step::Break(key) if self.indexed => (self.insert.clone(), vec![NO_ID, key]),
                Step::Break(key) => (self.insert.clone(), vec![key]),
                Step::AppendShared(value) => (self.append_shared.clone(), vec![value]),
                Step::ReadShared => (self.read_shared.clone(), vec![]),
                _ => unreachable!("only procedures have such steps"),
            })
            .collect();
        self.world.request(number, Request::Statements(statements));
    }

    fn walk(&mut self, number: usize, name: &'static str, keys: &[i64], steps: &[Step]) {
        let mut writer = ParameterWriter::default();
        writer.bigint(keys.first().copied().unwrap_or(0));
        writer.bigint(keys.last().copied().unwrap_or(0));
        writer.bigint(self.keys);
        let numbers: Vec<Datum<'_>> =
            steps.iter().flat_map(|step| step.encode()).map(Datum::Int).collect();
        writer.array(SqlType::BigInt, &numbers);
        self.world.request(number, Request::Procedure(invocation_of(name, writer.bytes())));
    }

    fn take_answers(&mut self) -> Result<(), String> {
        while let Some(answer) = self.world.take_change_answer() {
            self.change_ended(answer)?;
        }
        for answer in self.world.take_answers() {
            self.time += 1;
            let number = answer.call;
            let transaction = &mut self.transactions[number];
            if !transaction.open {
                return Err(format!("transaction {number} was answered twice"));
            }
            transaction.open = false;
            transaction.gone |= takeovers::is_unknown(&answer);
            if transaction.gone {
                continue;
            }
            transaction.answered = Some(self.time);
            transaction.committed = answer.outcome.failure.is_none();
            if let Some(failure) = answer.outcome.failure {
                transaction.failure = Some(failure.message);
                continue;
            }
            if let Form::Snapshot { .. } = transaction.form {
                same_keys(&answer.tables, self.keys)
                    .and_then(growth::same_rows)
                    .map_err(|what| format!("snapshot {number}: {what}"))?;
                self.snapshots += 1;
                continue;
            }
            transaction.reads = reads(transaction, &answer.tables);
        }
        Ok(())
    }
}
