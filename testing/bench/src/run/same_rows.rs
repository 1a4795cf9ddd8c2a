//! What procedures are written in makes no difference: the same calls get the same answers, and
//! leave the same rows.

use super::drive::answer;
use super::workers::WorkerOptions;
use super::{Pace, RunOptions, Server, connect, set_up};
use lockstep_client::{CallOptions, Connection, ParameterWriter, Response, rows};
use lockstep_node::options::Options;
use lockstep_node::{NativeRegistry, ServerConfiguration, TestSettings};
use lockstep_types::Value;
use lockstep_workloads::key_value::{KeyValue, Keys};
use lockstep_workloads::tatp::{AlternateKey, Tatp};
use lockstep_workloads::tpcc::scale::{Delivery, Partitioning, Rules, Scale};
use lockstep_workloads::tpcc::{Tpcc, TpccOptions};
use lockstep_workloads::voter::load::Voter;
use lockstep_workloads::{Form, Verdict, Workload};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn host(sites: u32) -> lockstep_node::Server {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut natives = NativeRegistry::default();
    for procedure in lockstep_workloads::native_procedures() {
        natives.register(procedure);
    }
    let configuration = ServerConfiguration {
        sites,
        for_tests: TestSettings::default(),
        client: any_port,
        admin: any_port,
        options: Options::default(),
        natives,
        pin_to_cores: Vec::new(),
        java_options: Vec::new(),
        data: None,
        cluster: None,
    };
    lockstep_node::Server::start(configuration).expect("a host")
}

/// Values as text; of times, which are those of the run, only whether they are there.
fn shown(row: &[Value]) -> String {
    let value = |value: &Value| match value {
        Value::Timestamp(_) => "a time".to_string(),
        value => format!("{value:?}"),
    };
    row.iter().map(value).collect::<Vec<_>>().join(", ")
}

/// What came of calls.
#[derive(Default)]
struct Left {
    /// Of each call: procedure, whether it did its work, and its tables.
    answers: Vec<String>,
    /// Of each table, its name and its rows in their order as texts.
    rows: Vec<(&'static str, Vec<String>)>,
    /// Transactions that took themselves back.
    aborted: usize,
}

/// Sets a workload up at a host, makes calls one after the other, and reads all tables.
fn run(workload: &mut dyn Workload, sites: u32, transactions: usize) -> Left {
    let server = host(sites);
    let address = server.client_address().to_string();
    let options = RunOptions {
        servers: vec![address.clone()],
        connections: 1,
        clients: 1,
        pace: Pace::Closed,
        burst: 1,
        duration: Duration::ZERO,
        warmup: Duration::ZERO,
        seed: 1,
        no_load: false,
        keep_calls_of: None,
        workers: WorkerOptions::default(),
    };
    let mut database = Server(connect(&address).expect("a connection"));
    let stop = AtomicBool::new(false);
    let made = set_up(&mut database, workload, &options, &address, &stop, &mut |_| ());
    assert!(made.expect("a database").is_some(), "rows are loaded");
    workload.begin(&mut database).expect("it can be asked");
    let mut left = Left::default();
    let connection = &mut database.0;
    for number in 0..3 {
        let mut session = workload.session(number, 5);
        session.first_pause_us();
        for _ in 0..transactions {
            while !left.step(connection, &mut *session) {}
        }
    }
    let filled = workload.tables().into_iter().map(|table| table.name);
    // Voter's run alone gives rows of this one.
    let own = (workload.name() == "voter").then_some("votes");
    for table in filled.chain(own) {
        let found = connection.sql(&format!("SELECT * FROM {table};")).expect("rows");
        let mut rows: Vec<String> = found[0].rows.iter().map(|row| shown(row)).collect();
        rows.sort_unstable();
        left.rows.push((table, rows));
    }
    left
}

impl Left {
    /// Makes a call; whether the transaction has ended with it.
    fn step(
        &mut self,
        connection: &mut Connection,
        session: &mut dyn lockstep_workloads::Session,
    ) -> bool {
        let mut parameters = ParameterWriter::default();
        let call = session.next_call(&mut parameters);
        let options = CallOptions {
            all_partition_destination: session.asked_partition(),
            ..CallOptions::default()
        };
        let answered = connection.call_with(call.procedure, &parameters, &options);
        let response = answered.expect("an answer");
        let view: Response<'_> = response.view();
        let mut text = format!("{} {}", call.procedure, view.status);
        for table in view.tables() {
            let rows = rows::rows(&table.expect("a table")).expect("rows");
            text += &rows.iter().map(|row| format!("\n  {}", shown(row))).collect::<String>();
        }
        self.answers.push(text);
        let next = session.answered(&answer(&view));
        assert_ne!(next.ended, Some(Verdict::Error), "{}: {:?}", call.procedure, view.status_text);
        self.aborted += usize::from(next.ended == Some(Verdict::Aborted));
        next.ended.is_some()
    }
}

fn assert_same_rows(one: &Left, other: &Left) {
    assert_eq!(one.rows.len(), other.rows.len());
    for ((table, left), (_, right)) in one.rows.iter().zip(&other.rows) {
        let differs = left.iter().zip(right).find(|(left, right)| left != right);
        assert_eq!(differs, None, "rows of {table}");
        assert_eq!(left.len(), right.len(), "rows of {table}");
    }
}

/// Our own jar.
fn jar() -> Option<Form> {
    let jar = crate::java::workloads_jar();
    if jar.is_empty() {
        println!("skipped: no JDK");
        return None;
    }
    Some(Form::Java(jar.into()))
}

/// Runs both; the same calls must get the same answers and leave the same rows. Gives what the
/// first one left.
fn assert_same(one: &mut dyn Workload, other: &mut dyn Workload, sites: u32, calls: usize) -> Left {
    let (left, right) = (run(one, sites, calls), run(other, sites, calls));
    let pairs = left.answers.iter().zip(&right.answers);
    pairs.enumerate().for_each(|(number, (left, right))| assert_eq!(left, right, "call {number}"));
    assert_eq!(left.answers.len(), right.answers.len());
    assert_same_rows(&left, &right);
    left
}

fn tpcc_in_both(options: TpccOptions, sites: u32) {
    let Some(Form::Java(jar)) = jar() else { return };
    let mut native = Tpcc::new(options);
    let mut java = native.clone().with_java(jar);
    let left = assert_same(&mut native, &mut java, sites, 200);
    assert!(left.aborted > 0, "no order was taken back");
}

#[test]
fn tpcc_in_java_leaves_what_the_native_one_leaves() {
    let options = TpccOptions {
        scale: Scale::new(2, 100).expect("a scale"),
        partitioning: Partitioning::Warehouse,
        delivery: Delivery::Original,
        remote: true,
        rules: Rules::Spec { waits_percent: 0 },
        exact_money: false,
    };
    tpcc_in_both(options, 1);
}

#[test]
fn tpcc_in_java_leaves_the_same_by_district_at_three_sites() {
    let options = TpccOptions {
        scale: Scale::new(2, 100).expect("a scale"),
        partitioning: Partitioning::District,
        delivery: Delivery::Split,
        remote: true,
        rules: Rules::Spec { waits_percent: 0 },
        exact_money: true,
    };
    tpcc_in_both(options, 3);
}

#[test]
fn tatp_in_sql_leaves_what_native_procedures_leave() {
    for (_, mode) in AlternateKey::NAMES {
        let mut native = Tatp::new(300, mode).expect("a workload");
        let Ok(mut sql) = native.clone().in_form(Form::Sql) else {
            assert_eq!(mode, AlternateKey::GlobalIndex, "only with it a statement is not enough");
            continue;
        };
        let (native_left, sql_left) = (run(&mut native, 3, 400), run(&mut sql, 3, 400));
        assert_same_rows(&native_left, &sql_left);
        assert_eq!(native_left.aborted, sql_left.aborted, "{mode:?}");
        assert!(sql_left.aborted > 0);
    }
}

#[test]
fn tatp_in_java_leaves_what_native_procedures_leave() {
    let Some(java) = jar() else { return };
    for (_, mode) in AlternateKey::NAMES {
        let mut native = Tatp::new(300, mode).expect("a workload");
        let mut java = native.clone().in_form(java.clone()).expect("a workload");
        let left = assert_same(&mut native, &mut java, 3, 400);
        let changed = |what: &str| left.answers.iter().any(|answer| answer.starts_with(what));
        assert!(left.aborted > 0 && changed("UpdateSubscriberData 1"), "{mode:?}");
    }
}

#[test]
fn voter_in_java_leaves_what_the_native_one_leaves() {
    let Some(java) = jar() else { return };
    let left = assert_same(&mut Voter::new(Form::Native), &mut Voter::new(java), 2, 2000);
    // Votes for contestants that do not exist are among them.
    let unknown = left.answers.iter().filter(|answer| answer.ends_with("\n  Int(1)")).count();
    assert!(unknown > 0, "{:?}", left.answers.first());
    assert!(left.rows.iter().any(|(table, rows)| *table == "votes" && rows.len() > 5000));
}

#[test]
fn key_value_gives_the_same_in_all_forms() {
    let workload = KeyValue::new(50, 20, 50, Keys::Zipfian).expect("a workload");
    let in_form = |form| workload.clone().in_form(form);
    for form in [Some(Form::Sql), jar()].into_iter().flatten() {
        let left = assert_same(&mut in_form(Form::Native), &mut in_form(form), 2, 200);
        assert_eq!(left.rows[0].1.len(), 50);
    }
}
