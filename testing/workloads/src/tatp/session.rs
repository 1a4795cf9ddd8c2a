//! What clients of TATP call: seven transactions in their mix, four of which know a subscriber's
//! id and three only its number.

use super::schema::AlternateKey;
use crate::distribution::digits;
use crate::workload::{Answer, Next, NextCall, Session, Verdict};
use lockstep_base::random::SeededRandom;
use lockstep_types::Status;
use lockstep_types::parameter::ParameterWriter;
use std::fmt::Write;
use std::sync::Arc;

/// The kinds of transactions.
pub const TRANSACTIONS: [&str; 7] = [
    "GET_SUBSCRIBER_DATA",
    "GET_NEW_DESTINATION",
    "GET_ACCESS_DATA",
    "UPDATE_SUBSCRIBER_DATA",
    "UPDATE_LOCATION",
    "INSERT_CALL_FORWARDING",
    "DELETE_CALL_FORWARDING",
];
const SUBSCRIBER_DATA: usize = 0;
const NEW_DESTINATION: usize = 1;
const ACCESS_DATA: usize = 2;
const UPDATE_SUBSCRIBER: usize = 3;
const UPDATE_LOCATION: usize = 4;
const INSERT_FORWARDING: usize = 5;
const DELETE_FORWARDING: usize = 6;

/// Of a hundred transactions, by kind.
pub const MIX: [u64; 7] = [35, 10, 35, 2, 14, 2, 2];

/// Of a hundred transactions of a kind, how many find what they look for, by the definition; for
/// destinations by its rows and parameters: a facility is there (62.5 %) and active (85 %), and of
/// its forwardings at 0, 8 and 16 one began in time and ends later. With the first rows that makes
/// 14.8 %, and 15.8 % when forwardings have come and gone; the 23.9 % that the definition states do
/// not follow.
pub const FOUND_PERCENT: [f64; 7] = [100.0, 15.3, 62.5, 62.5, 100.0, 31.25, 31.25];

/// What sessions count: forwardings inserted and deleted, with those that nobody answered, and
/// after them transactions and successes by kind.
pub const COUNTERS: [&str; 18] = [
    "inserted",
    "maybe inserted",
    "deleted",
    "maybe deleted",
    "subscriber data",
    "new destination",
    "access data",
    "update subscriber",
    "update location",
    "insert forwarding",
    "delete forwarding",
    "subscriber data found",
    "new destination found",
    "access data found",
    "update subscriber done",
    "update location done",
    "insert forwarding done",
    "delete forwarding done",
];
/// Where the counts by kind begin in [`COUNTERS`].
pub const BY_KIND: usize = 4;

/// The number of a subscriber.
pub fn number_of(id: u64, out: &mut String) {
    out.clear();
    let written = write!(out, "{id:015}");
    assert!(written.is_ok(), "a string takes what is written");
}

/// The constant of the non-uniform draw of subscribers.
fn skew(subscribers: u64) -> i64 {
    match subscribers {
        0..=1_000_000 => 65_535,
        1_000_001..=10_000_000 => 1_048_575,
        _ => 2_097_151,
    }
}

/// Where a transaction by number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The subscriber is looked for at partitions, this one next.
    Asking(usize),
    /// The subscriber is looked for by one call.
    Finding,
    /// The transaction's own call is made.
    Doing,
}

/// One client.
pub struct Client {
    mode: AlternateKey,
    /// Its procedures are statements alone, with parameters in their order.
    is_sql: bool,
    subscribers: u64,
    random: SeededRandom,
    /// A key of each partition.
    partition_keys: Arc<[i64]>,
    kind: usize,
    stage: Stage,
    subscriber: u64,
    found: Option<i64>,
    facility: i32,
    start: i32,
    /// Of the subscriber, and of where calls are forwarded to.
    number: String,
    target: String,
    counts: [u64; 18],
}

impl Client {
    /// A client that draws subscribers from 1 to N.
    pub fn new(
        (mode, is_sql): (AlternateKey, bool),
        subscribers: u64,
        random: SeededRandom,
        partition_keys: Arc<[i64]>,
    ) -> Client {
        let mut client = Client {
            mode,
            is_sql,
            subscribers,
            random,
            partition_keys,
            kind: SUBSCRIBER_DATA,
            stage: Stage::Doing,
            subscriber: 1,
            found: None,
            facility: 1,
            start: 0,
            number: String::new(),
            target: String::new(),
            counts: [0; 18],
        };
        client.draw();
        client
    }

    /// The next transaction.
    fn draw(&mut self) {
        let mut left = self.random.below(100);
        self.kind = MIX
            .iter()
            .position(|share| {
                let is_it = left < *share;
                left = left.saturating_sub(*share);
                is_it
            })
            .unwrap_or(SUBSCRIBER_DATA);
        let most = self.subscribers as i64;
        let or = self.random.between(0, skew(self.subscribers)) | self.random.between(1, most);
        self.subscriber = (or % most + 1) as u64;
        self.facility = self.random.between(1, 4) as i32;
        self.start = 8 * self.random.between(0, 2) as i32;
        self.found = None;
        let by_number = self.kind >= UPDATE_LOCATION;
        self.stage = match (by_number, self.mode) {
            (true, AlternateKey::AskAll) => Stage::Asking(0),
            (true, AlternateKey::ReadAll | AlternateKey::Lookup) => Stage::Finding,
            _ => Stage::Doing,
        };
        if by_number {
            number_of(self.subscriber, &mut self.number);
        }
    }

    /// Whether the transaction's own call takes the number.
    fn calls_by_number(&self) -> bool {
        matches!(self.mode, AlternateKey::UpdateAll | AlternateKey::GlobalIndex)
    }

    fn by_id(&mut self, parameters: &mut ParameterWriter) -> &'static str {
        let id = self.subscriber as i64;
        match self.kind {
            SUBSCRIBER_DATA => {
                parameters.bigint(id);
                "GetSubscriberData"
            }
            NEW_DESTINATION => {
                parameters.bigint(id).integer(self.facility).integer(self.start);
                parameters.integer(self.random.between(1, 24) as i32);
                "GetNewDestination"
            }
            ACCESS_DATA => {
                parameters.bigint(id).integer(self.facility);
                "GetAccessData"
            }
            _ => {
                let bit = self.random.between(0, 1) as i32;
                let (facility, data) = (self.facility, self.random.between(0, 255) as i32);
                match self.is_sql {
                    false => parameters.bigint(id).integer(bit).integer(facility).integer(data),
                    // What its two statements take, one after the other.
                    true => {
                        parameters.integer(bit).bigint(id).bigint(id).integer(facility);
                        parameters.integer(data).bigint(id).integer(facility)
                    }
                };
                "UpdateSubscriberData"
            }
        }
    }

    /// Writes who is meant: by number or by the id that was found.
    fn write_who(&self, parameters: &mut ParameterWriter) {
        match self.found {
            Some(id) if !self.calls_by_number() => parameters.bigint(id),
            _ => parameters.text(&self.number),
        };
    }

    fn by_number(&mut self, parameters: &mut ParameterWriter) -> &'static str {
        let whole = self.calls_by_number();
        match self.kind {
            UPDATE_LOCATION => {
                parameters.bigint(self.random.between(0, i64::from(u32::MAX)));
                self.write_who(parameters);
                if whole { "UpdateLocationByNumber" } else { "UpdateLocation" }
            }
            INSERT_FORWARDING => {
                self.target.clear();
                digits(&mut self.random, 15, &mut self.target);
                let end = self.start + self.random.between(1, 8) as i32;
                if self.is_sql {
                    parameters.integer(self.start).integer(end).text(&self.target);
                    self.write_who(parameters);
                    parameters.integer(self.facility);
                } else {
                    self.write_who(parameters);
                    parameters.integer(self.facility).integer(self.start);
                    parameters.integer(end).text(&self.target);
                }
                if whole { "InsertCallForwardingByNumber" } else { "InsertCallForwarding" }
            }
            _ => {
                self.write_who(parameters);
                parameters.integer(self.facility).integer(self.start);
                if whole { "DeleteCallForwardingByNumber" } else { "DeleteCallForwarding" }
            }
        }
    }

    /// Takes what a look for the subscriber gave; what comes next.
    fn take_found(&mut self, answer: &Answer<'_>) -> Next {
        if let Some(id) = answer.number(0) {
            self.found = Some(id);
        }
        self.stage = match self.stage {
            Stage::Asking(place) if place + 1 < self.partition_keys.len() => {
                Stage::Asking(place + 1)
            }
            _ => Stage::Doing,
        };
        // All subscribers are there.
        if !answer.is_success() || self.stage == Stage::Doing && self.found.is_none() {
            return self.end(Verdict::Error);
        }
        Next::go_on()
    }

    fn end(&mut self, verdict: Verdict) -> Next {
        if verdict != Verdict::Error {
            self.counts[BY_KIND + self.kind] += 1;
        }
        if verdict == Verdict::Good {
            self.counts[BY_KIND + 7 + self.kind] += 1;
            match self.kind {
                INSERT_FORWARDING => self.counts[0] += 1,
                DELETE_FORWARDING => self.counts[2] += 1,
                _ => {}
            }
        }
        self.draw();
        Next::end(verdict)
    }

    fn judge(&self, answer: &Answer<'_>) -> Verdict {
        let is_violation = answer.status == Status::GracefulFailure.code()
            && answer.status_text.is_some_and(|text| text.contains("CONSTRAINT VIOLATION"));
        if !answer.is_success() {
            let is_meant = match self.kind {
                UPDATE_SUBSCRIBER => answer.is_abort(),
                INSERT_FORWARDING => answer.is_abort() || is_violation,
                _ => false,
            };
            return if is_meant { Verdict::Aborted } else { Verdict::Error };
        }
        let changed = || answer.number(0) == Some(1);
        let (found, must) = match self.kind {
            SUBSCRIBER_DATA => (answer.row_count(0) == Some(1), true),
            NEW_DESTINATION | ACCESS_DATA => (answer.row_count(0) > Some(0), false),
            UPDATE_LOCATION => (changed(), true),
            DELETE_FORWARDING => (changed(), false),
            // Statements have nothing to take themselves back with: they change nothing.
            _ => (changed(), !self.is_sql),
        };
        match (found, must) {
            (true, _) => Verdict::Good,
            (false, false) => Verdict::Aborted,
            (false, true) => Verdict::Error,
        }
    }
}

impl Session for Client {
    fn asked_partition(&self) -> Option<i32> {
        match self.stage {
            Stage::Asking(place) => i32::try_from(place).ok(),
            Stage::Finding | Stage::Doing => None,
        }
    }

    fn next_call(&mut self, parameters: &mut ParameterWriter) -> NextCall {
        let procedure = match self.stage {
            Stage::Asking(place) => {
                if !self.is_sql {
                    parameters.bigint(self.partition_keys.get(place).copied().unwrap_or(0));
                }
                parameters.text(&self.number);
                "SubscriberAtPartition"
            }
            Stage::Finding => {
                parameters.text(&self.number);
                "FindSubscriber"
            }
            Stage::Doing if self.kind >= UPDATE_LOCATION => self.by_number(parameters),
            Stage::Doing => self.by_id(parameters),
        };
        NextCall { transaction: self.kind, procedure }
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Next {
        match self.stage {
            Stage::Doing => {
                let verdict = self.judge(answer);
                self.end(verdict)
            }
            _ => self.take_found(answer),
        }
    }

    fn lost(&mut self) {
        match (self.stage, self.kind) {
            (Stage::Doing, INSERT_FORWARDING) => self.counts[1] += 1,
            (Stage::Doing, DELETE_FORWARDING) => self.counts[3] += 1,
            _ => {}
        }
        self.draw();
    }

    fn counts(&self) -> &[u64] {
        &self.counts
    }
}
