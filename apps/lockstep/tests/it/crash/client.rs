//! A client whose calls have growing numbers: it notes which were answered, and knows what must
//! be there then.

use lockstep_client::Connection;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType, Value};
use lockstep_wire_volt::invocation::CallOptions;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// What a client's calls have left in the database, as pairs of numbers.
pub type Model = BTreeMap<i64, i64>;

/// The call with a number: its procedure and parameters.
type MakeCall = Box<dyn Fn(i64) -> (&'static str, ParameterWriter) + Send + Sync>;
/// What a call with a number changes.
type Apply = Box<dyn Fn(&mut Model, i64) + Send + Sync>;
/// What is in the database.
type Find = Box<dyn Fn(&mut Connection) -> Model + Send + Sync>;

pub struct Client {
    pub what: String,
    in_flight: i64,
    call: MakeCall,
    /// Each call whose number the first divides fails, with the second as its status; 0: none.
    fails: (i64, i8),
    apply: Apply,
    find: Find,
    /// What it begins with.
    initial: Model,
    /// The effect of the first calls, N.
    known: Mutex<(i64, Model)>,
    /// Up to here calls were answered.
    answered: AtomicI64,
    /// Up to here they were sent.
    sent: AtomicI64,
}

impl Client {
    pub fn new(
        what: &str,
        in_flight: i64,
        fails: (i64, i8),
        call: impl Fn(i64) -> (&'static str, ParameterWriter) + Send + Sync + 'static,
        apply: impl Fn(&mut Model, i64) + Send + Sync + 'static,
        find: impl Fn(&mut Connection) -> Model + Send + Sync + 'static,
    ) -> Client {
        Client {
            what: what.to_string(),
            in_flight,
            call: Box::new(call),
            fails,
            apply: Box::new(apply),
            find: Box::new(find),
            initial: Model::new(),
            known: Mutex::default(),
            answered: AtomicI64::new(0),
            sent: AtomicI64::new(0),
        }
    }

    /// A client that begins with something in the database.
    pub fn begins_with(self, model: Model) -> Client {
        *self.known.lock().expect("nobody panics with it") = (0, model.clone());
        Client { initial: model, ..self }
    }

    /// Calls that were answered, and that were sent.
    pub fn numbers(&self) -> (i64, i64) {
        (self.answered(), self.sent.load(Ordering::SeqCst))
    }

    /// From now on another past counts: with N calls answered, and N sent.
    pub fn go_back_to(&self, (answered, sent): (i64, i64)) {
        *self.known.lock().expect("nobody panics with it") = (0, self.initial.clone());
        self.answered.store(answered, Ordering::SeqCst);
        self.sent.store(sent, Ordering::SeqCst);
    }

    fn succeeds(&self, n: i64) -> bool {
        self.fails.0 == 0 || n % self.fails.0 != 0
    }

    /// Calls that were answered so far.
    pub fn answered(&self) -> i64 {
        self.answered.load(Ordering::SeqCst)
    }

    /// Makes calls until the host is gone.
    pub fn run(&self, mut connection: Connection) {
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

    /// What is there is the effect of the first calls, N: at least those that were
    /// answered, at most those that were sent. From here the client goes on.
    pub fn check(&self, connection: &mut Connection) {
        let found = (self.find)(connection);
        let (answered, sent) = (self.answered(), self.sent.load(Ordering::SeqCst));
        let mut known = self.known.lock().expect("nobody panics with it");
        let (last, model) = &mut *known;
        let mut least = None;
        loop {
            if *last >= answered {
                if *model == found {
                    break;
                }
                least.get_or_insert_with(|| model.clone());
            }
            if *last >= sent {
                let least = least.expect("the answered calls were looked at");
                let lost = differences(&least, &found);
                let strange = differences(&found, model);
                panic!(
                    "{}: {answered} calls were answered and {sent} sent. Answered, and not so: \
                     {lost}. There, and not even sent: {strange}",
                    self.what
                );
            }
            *last += 1;
            if self.succeeds(*last) {
                (self.apply)(model, *last);
            }
        }
        self.answered.store(*last, Ordering::SeqCst);
        self.sent.store(*last, Ordering::SeqCst);
    }
}

/// The first pairs that one has and the other does not have so, and how many there are.
fn differences(one: &Model, other: &Model) -> String {
    let differ = one.iter().filter(|(key, value)| other.get(key) != Some(value));
    let all: Vec<_> = differ.collect();
    format!("{} of {}, {:?}", all.len(), one.len(), &all[..all.len().min(5)])
}

/// Parameters that all are numbers.
pub fn numbers(values: &[i64]) -> ParameterWriter {
    let mut writer = ParameterWriter::default();
    for value in values {
        writer.scalar(SqlType::BigInt, Datum::Int(*value));
    }
    writer
}

/// SQL text as the parameter of `@AdHoc`.
pub fn sql_text(text: &str) -> ParameterWriter {
    let mut writer = ParameterWriter::default();
    writer.scalar(SqlType::Varchar, Datum::Text(text));
    writer
}

/// The rows of a query of numbers.
pub fn rows(connection: &mut Connection, sql: &str) -> Vec<Vec<i64>> {
    let tables = connection.sql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let number = |value: &Value| match value {
        Value::Int(number) => *number,
        Value::Null => i64::MIN,
        other => panic!("{sql}: {other:?}"),
    };
    tables[0].rows.iter().map(|row| row.iter().map(number).collect()).collect()
}

/// The rows of a query of two numbers; the first is there once.
pub fn pairs(connection: &mut Connection, sql: &str) -> Model {
    let rows = rows(connection, sql);
    let count = rows.len();
    let pairs: Model = rows.into_iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(pairs.len(), count, "{sql}: a key is there twice");
    pairs
}
