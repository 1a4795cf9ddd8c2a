//! The paths whose instructions are counted. Each sets up its data, encodes its calls beforehand
//! and then runs them in [`measured_calls`] or [`measured_transactions`], the only functions in
//! which callgrind collects.

use lockstep_bench::run::embedded::EmbeddedDatabase;
use lockstep_bench::voter::{Form, VoterLoad, procedure_statements, schema_statements};
use lockstep_client::{CallOptions, ParameterWriter};
use lockstep_sim::world::{Shape, World};
use lockstep_types::Status;
use lockstep_wire_volt::invocation;
use lockstep_workloads::tpcc::scale::{Delivery, Partitioning, Rules, Scale};
use lockstep_workloads::tpcc::{Tpcc, TpccOptions, session};
use lockstep_workloads::{Workload, voter};
use std::sync::Arc;

/// A path: its name in the file of limits, what it is, and what runs it.
pub struct CountedPath {
    /// Its name.
    pub name: &'static str,
    /// What a call does.
    pub about: &'static str,
    /// Runs N calls under measurement.
    pub run: fn(u64) -> Result<(), String>,
}

/// All paths, in the order of reports.
pub const PATHS: [CountedPath; 6] = [
    CountedPath {
        name: "voter",
        about: "Vote of voter, native, from the frame's body to the answer",
        run: vote,
    },
    CountedPath {
        name: "tpcc_new_order",
        about: "New-Order of TPC-C, native, one warehouse",
        run: |calls| tpcc(session::NEW_ORDER, calls),
    },
    CountedPath {
        name: "tpcc_payment",
        about: "Payment of TPC-C, native, one warehouse",
        run: |calls| tpcc(session::PAYMENT, calls),
    },
    CountedPath {
        name: "point_select",
        about: "an SQL procedure that selects a row by its primary key",
        run: point_select,
    },
    CountedPath {
        name: "two_partition_transfer",
        about: "two UPDATEs at two partitions, through coordinator and sites in the simulator",
        run: transfer,
    },
    CountedPath {
        name: "global_index_insert",
        about: "an INSERT with a global unique index, through coordinator and sites likewise",
        run: insert,
    },
];

/// Calls before the measured ones: caches of statements and buffers are filled.
const WARM_UP_CALLS: u64 = 500;
/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;
/// Rows of the tables that paths of one statement use.
const ROWS: i64 = 2_000;
/// The seed of everything that is drawn.
const SEED: u64 = 1;

/// Encoded invocations, each without its length.
#[derive(Default)]
struct Frames {
    bodies: Vec<Vec<u8>>,
    frame: Vec<u8>,
}

impl Frames {
    fn push(&mut self, procedure: &str, parameters: &[u8]) {
        self.frame.clear();
        invocation::encode(&mut self.frame, procedure, 0, &CallOptions::default(), parameters);
        self.bodies.push(self.frame[LENGTH_BYTES..].to_vec());
    }

    /// Runs the first of them as a warm-up, the others measured.
    fn run(&self, database: &mut EmbeddedDatabase, may_abort: bool) -> Result<(), String> {
        let mut response = Vec::new();
        let (warm_up, measured) = self.bodies.split_at(WARM_UP_CALLS as usize);
        let mut failed = unmeasured_calls(database, warm_up, &mut response, may_abort);
        failed += measured_calls(database, measured, &mut response, may_abort);
        if failed == 0 { Ok(()) } else { Err(format!("{failed} calls failed")) }
    }
}

/// Runs encoded calls; returns how many failed.
#[inline(never)]
fn measured_calls(
    database: &mut EmbeddedDatabase,
    bodies: &[Vec<u8>],
    response: &mut Vec<u8>,
    may_abort: bool,
) -> usize {
    unmeasured_calls(database, bodies, response, may_abort)
}

#[inline(always)]
fn unmeasured_calls(
    database: &mut EmbeddedDatabase,
    bodies: &[Vec<u8>],
    response: &mut Vec<u8>,
    may_abort: bool,
) -> usize {
    let mut failed = 0;
    for body in bodies {
        response.clear();
        let status = database.call(body, response);
        let as_meant = status == Status::Success || may_abort && status == Status::UserAbort;
        failed += usize::from(!as_meant);
    }
    failed
}

fn vote(calls: u64) -> Result<(), String> {
    let mut database = EmbeddedDatabase::new()?;
    for statement in schema_statements().iter().chain(&procedure_statements(Form::Native)) {
        database.execute(statement)?;
    }
    let mut load = VoterLoad::new(SEED, voter::CONTESTANTS, Form::Native);
    let mut frames = Frames::default();
    let mut parameters = Vec::new();
    for _ in 0..calls + WARM_UP_CALLS {
        parameters.clear();
        let procedure = lockstep_bench::driver::Workload::next_call(&mut load, 0, &mut parameters);
        frames.push(procedure, &parameters);
    }
    frames.run(&mut database, false)
}

fn tpcc(kind: usize, calls: u64) -> Result<(), String> {
    // Small, as loading is simulated, too; the trees are two levels high all the same.
    let options = TpccOptions {
        scale: Scale::new(1, 50)?,
        partitioning: Partitioning::Warehouse,
        delivery: Delivery::Original,
        remote: false,
        rules: Rules::Py,
        exact_money: false,
    };
    let workload = Tpcc::new(options);
    let mut database = EmbeddedDatabase::new()?;
    database.set_up(&workload, &mut |_| {})?;
    let mut session = workload.session(0, SEED);
    let mut frames = Frames::default();
    let mut parameters = ParameterWriter::default();
    while (frames.bodies.len() as u64) < calls + WARM_UP_CALLS {
        // Draws the kind of the next call.
        session.first_pause_us();
        parameters.clear();
        let next = session.next_call(&mut parameters);
        if next.transaction == kind {
            frames.push(next.procedure, parameters.bytes());
        }
    }
    // One New-Order in a hundred is meant to take itself back.
    frames.run(&mut database, kind == session::NEW_ORDER)
}

fn point_select(calls: u64) -> Result<(), String> {
    let mut database = EmbeddedDatabase::new()?;
    database.execute(
        "CREATE TABLE item (id BIGINT NOT NULL, name VARCHAR(20), price FLOAT, PRIMARY KEY (id));
         PARTITION TABLE item ON COLUMN id;
         CREATE PROCEDURE FindItem PARTITION ON TABLE item COLUMN id AS
           SELECT name, price FROM item WHERE id = ?;",
    )?;
    let mut frames = Frames::default();
    let mut parameters = ParameterWriter::default();
    for id in 0..ROWS {
        database.execute(&format!("INSERT INTO item VALUES ({id}, 'item {id}', {id}.5);"))?;
    }
    for call in 0..calls + WARM_UP_CALLS {
        parameters.clear();
        parameters.bigint((call as i64 * 7919) % ROWS);
        frames.push("FindItem", parameters.bytes());
    }
    frames.run(&mut database, false)
}

/// A transaction of the simulator: statements with their parameters.
type Statements = Vec<(Arc<str>, Vec<i64>)>;

/// Runs transactions one after the other, to the last message of each; returns how many failed.
#[inline(never)]
fn measured_transactions(world: &mut World, transactions: &[Statements]) -> usize {
    run_transactions(world, transactions)
}

#[inline(always)]
fn run_transactions(world: &mut World, transactions: &[Statements]) -> usize {
    let mut failed = 0;
    for (number, statements) in transactions.iter().enumerate() {
        let request: Vec<_> = statements.iter().map(|(sql, list)| (sql, &list[..])).collect();
        world.call(number, &request);
        world.settle();
        failed += world.take_answers().iter().filter(|a| a.outcome.failure.is_some()).count();
    }
    failed
}

fn run_simulated(world: &mut World, transactions: &[Statements]) -> Result<(), String> {
    let (warm_up, measured) = transactions.split_at(WARM_UP_CALLS as usize);
    let failed = run_transactions(world, warm_up) + measured_transactions(world, measured);
    if failed == 0 { Ok(()) } else { Err(format!("{failed} transactions failed")) }
}

/// Two keys that live at different partitions, the same ones for the same `number`.
fn two_keys(world: &World, number: i64) -> (i64, i64) {
    let from = (number * 7919) % ROWS;
    let elsewhere = |key: &i64| world.partition_of(*key) != world.partition_of(from);
    let to = (from + 1..ROWS).chain(0..from).find(elsewhere).unwrap_or(from);
    (from, to)
}

fn transfer(calls: u64) -> Result<(), String> {
    let mut world = World::new(SEED, Shape::of(2));
    world.skip_checks();
    world.schema(
        "CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));
         PARTITION TABLE accounts ON COLUMN id;",
    );
    let fill = world.prepare("INSERT INTO accounts VALUES (?, 1000)");
    let change = world.prepare("UPDATE accounts SET balance = balance + ? WHERE id = ?");
    let rows: Vec<Statements> = (0..ROWS).map(|id| vec![(fill.clone(), vec![id])]).collect();
    if run_transactions(&mut world, &rows) > 0 {
        return Err("the accounts cannot be filled".to_string());
    }
    let transactions: Vec<Statements> = (0..(calls + WARM_UP_CALLS) as i64)
        .map(|number| {
            let (from, to) = two_keys(&world, number);
            vec![(change.clone(), vec![-1, from]), (change.clone(), vec![1, to])]
        })
        .collect();
    run_simulated(&mut world, &transactions)
}

fn insert(calls: u64) -> Result<(), String> {
    let mut world = World::new(SEED, Shape::of(2));
    world.skip_checks();
    world.schema(
        "CREATE TABLE indexed (id BIGINT NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (id));
         PARTITION TABLE indexed ON COLUMN id;
         CREATE GLOBAL UNIQUE INDEX numbers ON indexed (number);",
    );
    let insert = world.prepare("INSERT INTO indexed VALUES (?, ?)");
    let transactions: Vec<Statements> = (0..(calls + WARM_UP_CALLS) as i64)
        .map(|id| {
            // The entry lives elsewhere than the row.
            let home = world.partition_of(id);
            let number = (0..ROWS).map(|step| id + step * 1_000_000);
            let number = number.into_iter().find(|key| world.partition_of(*key) != home);
            vec![(insert.clone(), vec![id, number.unwrap_or(id)])]
        })
        .collect();
    run_simulated(&mut world, &transactions)
}
