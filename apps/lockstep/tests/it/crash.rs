//! The real process under load, killed without warning and started again: everything that was
//! answered is there once, and no half of a transaction is.
//!
//! `CRASH_ROUNDS` says how often, `CRASH_SEED` with which random numbers.

use super::process::Host;
use super::{lockstep, text};
use lockstep_base::random::SeededRandom;
use lockstep_client::Connection;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, HashRing, SqlType, Value};
use lockstep_wire_volt::invocation::CallOptions;
use lockstep_workloads::bank;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SITES: u32 = 2;
/// Clients that each write numbers in order at one partition, many calls in flight.
const WRITERS: i64 = 3;
const ACCOUNTS: i64 = 20;
const BALANCE: i64 = 1_000;
/// A host that answers so few calls for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// The client of SQL text changes the catalog with every call of such a number.
const CHANGE_EVERY: i64 = 16;

const SCHEMA: &str = "\
CREATE TABLE written (writer BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (writer, n));
PARTITION TABLE written ON COLUMN writer;
CREATE TABLE everywhere (n BIGINT NOT NULL, PRIMARY KEY (n));
CREATE TABLE texts (n BIGINT NOT NULL, PRIMARY KEY (n));
PARTITION TABLE texts ON COLUMN n;
CREATE TABLE pairs (half BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (half, n));
PARTITION TABLE pairs ON COLUMN half;
CREATE PROCEDURE WritePair
  PARTITION ON TABLE pairs COLUMN half PARAMETER 0 AND ON TABLE pairs COLUMN half PARAMETER 2
  AS BEGIN
    INSERT INTO pairs VALUES (?, ?);
    INSERT INTO pairs VALUES (?, ?);
  END;
";

fn numbers(values: &[i64]) -> ParameterWriter {
    let mut writer = ParameterWriter::default();
    for value in values {
        writer.scalar(SqlType::BigInt, Datum::Int(*value));
    }
    writer
}

/// The call with a number: its procedure and parameters.
type MakeCall = Box<dyn Fn(i64) -> (&'static str, ParameterWriter) + Sync>;

/// A client whose calls have growing numbers, and how far it has come.
struct Client {
    what: String,
    in_flight: i64,
    call: MakeCall,
    /// Each call whose number this divides fails, with this status; 0: none does.
    fails: (i64, i8),
    /// Up to here calls were answered.
    answered: AtomicI64,
    /// Up to here they were sent.
    sent: AtomicI64,
}

impl Client {
    fn new(what: &str, in_flight: i64, fails: (i64, i8), call: MakeCall) -> Client {
        let (answered, sent) = (AtomicI64::new(0), AtomicI64::new(0));
        Client { what: what.to_string(), in_flight, call, fails, answered, sent }
    }

    fn succeeds(&self, n: i64) -> bool {
        self.fails.0 == 0 || n % self.fails.0 != 0
    }

    /// Makes calls until the host is gone.
    fn run(&self, mut connection: Connection) {
        let mut waiting = VecDeque::new();
        loop {
            while (waiting.len() as i64) < self.in_flight {
                let n = self.sent.load(Ordering::SeqCst) + 1;
                let (procedure, parameters) = (self.call)(n);
                self.sent.store(n, Ordering::SeqCst);
                let options = CallOptions::default();
                match connection.submit(procedure, parameters.bytes(), &options) {
                    Ok(handle) => waiting.push_back((handle, n)),
                    Err(_) => return,
                }
            }
            let (handle, n) = waiting.pop_front().expect("some are in flight");
            let Ok(response) = connection.wait(handle) else { return };
            let expected = if self.succeeds(n) { 1 } else { self.fails.1 };
            let said = response.view().status_text.map(str::to_string);
            assert_eq!(response.view().status, expected, "{} {n}: {said:?}", self.what);
            self.answered.store(n, Ordering::SeqCst);
        }
    }

    /// What is there is the effect of the first calls, so many: at least those that were
    /// answered, at most those that were sent. From here the client goes on.
    fn check<T: PartialEq + std::fmt::Debug>(&self, found: &T, effect: impl Fn(i64) -> T) {
        let answered = self.answered.load(Ordering::SeqCst);
        let sent = self.sent.load(Ordering::SeqCst);
        let last = (answered..=sent).find(|last| effect(*last) == *found);
        let Some(last) = last else {
            panic!(
                "{}: {answered} calls were answered and {sent} sent. There is {found:?}, and \
                 should be at least {:?}",
                self.what,
                effect(answered)
            );
        };
        self.answered.store(last, Ordering::SeqCst);
        self.sent.store(last, Ordering::SeqCst);
    }

    /// The numbers of calls that succeeded are there, each once.
    fn check_numbers(&self, found: &[i64]) {
        let effect = |last| (1..=last).filter(|n| self.succeeds(*n)).collect::<Vec<_>>();
        self.check(&found.to_vec(), effect);
    }
}

fn integers(connection: &mut Connection, sql: &str) -> Vec<i64> {
    let tables = connection.sql(sql).expect("the query runs");
    let number = |value: &Value| match value {
        Value::Int(number) => *number,
        other => panic!("{sql}: {other:?}"),
    };
    tables[0].rows.iter().flatten().map(number).collect()
}

/// A transfer: from, to, and how much. Each fifth is for more than there is.
fn transfer(n: i64) -> [i64; 3] {
    [n % ACCOUNTS, (n * 7 + 3) % ACCOUNTS, if n % 5 == 0 { 1 << 40 } else { 1 }]
}

/// The balances behind so many transfers.
fn balances(last: i64) -> Vec<i64> {
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    for n in (1..=last).filter(|n| n % 5 != 0) {
        let [from, to, amount] = transfer(n);
        balances[from as usize] -= amount;
        balances[to as usize] += amount;
    }
    balances
}

/// SQL text: rows, and now and then a change of the catalog.
fn sql_text(n: i64) -> String {
    match (n % CHANGE_EVERY, n / CHANGE_EVERY % 2) {
        (0, 1) => "CREATE TABLE made (a BIGINT NOT NULL PRIMARY KEY)".to_string(),
        (0, _) => "DROP TABLE made".to_string(),
        _ => format!("INSERT INTO texts VALUES ({n})"),
    }
}

struct Clients {
    writers: Vec<Client>,
    everywhere: Client,
    pairs: Client,
    transfers: Client,
    texts: Client,
}

/// Two keys that live at different partitions.
fn halves() -> [i64; 2] {
    let ring = HashRing::new(SITES);
    let place = |key: i64| ring.partition_of(Datum::Int(key));
    let other = (1..100).find(|key| place(*key) != place(0)).expect("some key lives elsewhere");
    [0, other]
}

impl Clients {
    fn new() -> Clients {
        // A failing call repeats the row before.
        let again = |n: i64, every: i64| if n % every == 0 { n - 1 } else { n };
        let writer = |writer: i64| {
            let call = move |n| ("WRITTEN.insert", numbers(&[writer, again(n, 11)]));
            Client::new(&format!("writer {writer}"), 32, (11, -2), Box::new(call))
        };
        let [first, second] = halves();
        let pair = move |n| ("WritePair", numbers(&[first, n, second, again(n, 7)]));
        let text = |n| {
            let mut parameters = ParameterWriter::default();
            parameters.scalar(SqlType::Varchar, Datum::Text(&sql_text(n)));
            ("@AdHoc", parameters)
        };
        let everywhere = |n| ("EVERYWHERE.insert", numbers(&[n]));
        let transfers = |n| ("TransferAnywhere", numbers(&transfer(n)));
        Clients {
            writers: (0..WRITERS).map(writer).collect(),
            everywhere: Client::new("replicated", 1, (0, 0), Box::new(everywhere)),
            pairs: Client::new("pairs", 8, (7, -2), Box::new(pair)),
            transfers: Client::new("transfers", 1, (5, -1), Box::new(transfers)),
            texts: Client::new("SQL text", 1, (0, 0), Box::new(text)),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Client> {
        let others = [&self.everywhere, &self.pairs, &self.transfers, &self.texts];
        self.writers.iter().chain(others)
    }

    fn answered(&self) -> i64 {
        self.all().map(|client| client.answered.load(Ordering::SeqCst)).sum()
    }

    fn check(&self, host: &Host) {
        let mut connection = host.connect();
        for (number, client) in self.writers.iter().enumerate() {
            let sql = format!("SELECT n FROM written WHERE writer = {number} ORDER BY n");
            client.check_numbers(&integers(&mut connection, &sql));
        }
        let everywhere = integers(&mut connection, "SELECT n FROM everywhere ORDER BY n");
        self.everywhere.check_numbers(&everywhere);
        let [first, second] = halves().map(|half| {
            integers(
                &mut connection,
                &format!("SELECT n FROM pairs WHERE half = {half} ORDER BY n"),
            )
        });
        assert_eq!(first, second, "a pair is whole or not there");
        self.pairs.check_numbers(&first);
        let found = integers(&mut connection, "SELECT balance FROM accounts ORDER BY id");
        assert_eq!(found.iter().sum::<i64>(), ACCOUNTS * BALANCE, "a transfer is whole");
        self.transfers.check(&found, balances);
        let texts = integers(&mut connection, "SELECT n FROM texts ORDER BY n");
        let has_made = connection.sql("SELECT COUNT(*) FROM made").is_ok();
        self.texts.check(&(texts, has_made), |last| {
            let rows = (1..=last).filter(|n| n % CHANGE_EVERY != 0).collect();
            (rows, last / CHANGE_EVERY % 2 == 1)
        });
    }

    /// Loads the host until so many more calls are answered, and kills it.
    fn load_and_kill(&self, host: &mut Host, calls: i64) {
        let enough = self.answered() + calls;
        let ended = AtomicUsize::new(0);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for client in self.all() {
                let (connection, ended) = (host.connect(), &ended);
                scope.spawn(move || {
                    let _ended = CountedAtEnd(ended);
                    client.run(connection);
                });
            }
            while self.answered() < enough
                && ended.load(Ordering::SeqCst) == 0
                && begun.elapsed() < PATIENCE
            {
                std::thread::yield_now();
            }
            let early = ended.load(Ordering::SeqCst);
            host.kill();
            assert_eq!(early, 0, "clients ended before the host was killed");
        });
        assert!(begun.elapsed() < PATIENCE, "the host is stuck");
    }
}

/// Counts a client that has ended, in whatever way.
struct CountedAtEnd<'a>(&'a AtomicUsize);

impl Drop for CountedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn new_directory() -> PathBuf {
    let directory = std::env::temp_dir().join(format!("lockstep-crash-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let shown = directory.to_str().expect("a path of text");
    let made = lockstep(&["init", "--dir", shown, "--sites", &SITES.to_string()], "");
    assert!(made.status.success(), "{}", text(&made.stderr));
    directory
}

fn from_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(number) => number.parse().expect("it is a number"),
        Err(_) => default,
    }
}

#[test]
fn whatever_was_answered_is_there_after_kill_9() {
    let rounds = from_environment("CRASH_ROUNDS", 3);
    let mut random = SeededRandom::new(from_environment("CRASH_SEED", 1));
    let directory = new_directory();
    let clients = Clients::new();
    for round in 0..rounds {
        let mut host = Host::start(&directory);
        if round == 0 {
            let mut connection = host.connect();
            for script in [SCHEMA, bank::SCHEMA, bank::NATIVE_SCHEMA] {
                connection.sql(script).expect("the schema is made");
            }
            for account in 0..ACCOUNTS {
                let row = numbers(&[account, BALANCE]);
                connection.call("ACCOUNTS.insert", &row).expect("an account is made");
            }
        }
        clients.check(&host);
        clients.load_and_kill(&mut host, 1 + random.below(3_000) as i64);
    }
    let host = Host::start(&directory);
    clients.check(&host);
    let inspected = lockstep(&["log", "inspect", directory.to_str().expect("text")], "");
    assert!(text(&inspected.stdout).contains("sound"), "{}", text(&inspected.stdout));
    drop(host);
    for client in clients.all() {
        println!("{}: {} answered", client.what, client.answered.load(Ordering::SeqCst));
    }
    println!("{rounds} rounds of kill -9, {} answered calls", clients.answered());
    std::fs::remove_dir_all(&directory).expect("the directory is ours");
}
