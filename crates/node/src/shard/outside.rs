//! Calls of non-transactional and compound procedures: Java runs them on threads of its own. The
//! calls that they make come back here, and go the way of a connection's calls.

use super::Shard;
use super::calls::Taken;
use super::handed::At;
use crate::mailbox::Bell;
use crate::message::{ForwardedAnswer, HEAVY_WEIGHT, NO_PROCEDURE, Origin};
use crate::options::OptionValue;
use crate::own_call::OwnCall;
use lockstep_base::elapsed::Elapsed;
use lockstep_jvm::nontransactional::{self, Ended, InnerCall, NonTransactionalHost};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Failure, Outcome, ParameterSet, SqlType, Status};
use lockstep_wire_volt::invocation::{self, CallOptions};
use lockstep_wire_volt::topology::{KeyType, partition_keys};
use lockstep_wire_volt::{Invocation, response};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// What procedures have said and the thread has not heard yet.
struct Said {
    messages: Mutex<VecDeque<(u64, Message)>>,
    count: AtomicUsize,
    bell: Arc<Bell>,
}

enum Message {
    Call(InnerCall),
    Ended(Ended),
}

impl Said {
    fn say(&self, call: u64, message: Message) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push_back((call, message));
        self.count.store(messages.len(), Ordering::Release);
        drop(messages);
        self.bell.ring();
    }
}

impl NonTransactionalHost for Said {
    fn make(&self, call: u64, inner: InnerCall) {
        self.say(call, Message::Call(inner));
    }

    fn finish(&self, call: u64, ended: Ended) {
        self.say(call, Message::Ended(ended));
    }
}

/// The calls of such procedures that a thread's connections wait for.
pub(super) struct OutsideCalls {
    said: Arc<Said>,
    calls: BTreeMap<u64, OutsideCall>,
    /// By the handles of the calls that they made: which request, and which of its answers.
    made: BTreeMap<i64, (i64, usize)>,
    requests: BTreeMap<i64, Request>,
    next_handle: i64,
}

struct OutsideCall {
    origin: Origin,
    procedure: String,
    compound: bool,
    until_us: i64,
}

/// What a procedure asked for: a call, or one at each partition.
struct Request {
    call: u64,
    /// Partitions and frames.
    answers: Vec<(i32, Vec<u8>)>,
    missing: usize,
}

impl OutsideCalls {
    pub(super) fn new(bell: Arc<Bell>) -> OutsideCalls {
        let (messages, count) = (Mutex::new(VecDeque::new()), AtomicUsize::new(0));
        OutsideCalls {
            said: Arc::new(Said { messages, count, bell }),
            calls: BTreeMap::new(),
            made: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_handle: 1,
        }
    }

    /// Whether a procedure has said something.
    #[inline]
    pub(super) fn have_said(&self) -> bool {
        self.said.count.load(Ordering::Acquire) > 0
    }

    fn hear(&mut self) -> Option<(u64, Message)> {
        if !self.have_said() {
            return None;
        }
        let mut messages = self.said.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let message = messages.pop_front();
        self.said.count.store(messages.len(), Ordering::Release);
        message
    }

    /// An answer to a call that a procedure made.
    fn answered(&mut self, handle: i64, frame: &[u8]) {
        let Some((number, place)) = self.made.remove(&handle) else { return };
        let Some(request) = self.requests.get_mut(&number) else { return };
        request.answers[place].1 = frame.get(LENGTH_BYTES..).unwrap_or(&[]).to_vec();
        request.missing -= 1;
        if request.missing == 0
            && let Some(request) = self.requests.remove(&number)
        {
            let answers: Vec<(i32, &[u8])> =
                request.answers.iter().map(|(p, bytes)| (*p, bytes.as_slice())).collect();
            nontransactional::answer(number, &answers);
        }
    }

    /// Forgets a call with what it waits for.
    fn forget(&mut self, call: u64) -> Option<OutsideCall> {
        let requests = &mut self.requests;
        requests.retain(|_, request| request.call != call);
        self.made.retain(|_, (request, _)| requests.contains_key(request));
        self.calls.remove(&call)
    }
}

impl Drop for OutsideCalls {
    fn drop(&mut self) {
        for call in self.calls.keys() {
            nontransactional::stop(*call, "the host stops");
        }
    }
}

impl Shard {
    /// A client calls a procedure that is no transaction.
    pub(super) fn call_outside(&mut self, origin: Origin, invocation: &Invocation<'_>) -> Taken {
        let origin = self.count_outstanding(origin, HEAVY_WEIGHT, At::Host(self.facts.host));
        if let Err(failure) = self.begin_outside(origin, invocation) {
            self.refuse_by_message(origin, &failure);
        }
        Taken::Pending
    }

    fn begin_outside(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let options = &self.facts.options;
        let limit = options.max_nontransactional_calls.get();
        if self.outside.calls.len() as u64 >= limit {
            return Err(Failure::new(
                Status::ServerUnavailable,
                format!(
                    "The connections of this thread wait for {limit} calls of non-transactional \
                     procedures already (option max_nontransactional_calls); try again later."
                ),
            ));
        }
        let found = self.catalog.procedure(invocation.procedure);
        let outside = found.and_then(|found| found.outside.as_ref());
        let (Some(found), Some(outside)) = (found, outside) else {
            return Err(lockstep_host::catalog::not_found(invocation.procedure));
        };
        let host: Arc<dyn NonTransactionalHost> = Arc::clone(&self.outside.said) as _;
        let begun = outside.start(host, self.now_us, &invocation.parameters);
        let number = begun.map_err(|error| {
            Failure::unexpected(format!("VOLTDB ERROR: UNEXPECTED FAILURE: {}", error.message))
        })?;
        let limit = options.nontransactional_limit_ms;
        let until_us = limit.map_or(i64::MAX, |limit| self.now_us.saturating_add(limit.us()));
        let compound = found.definition.is_compound();
        let procedure = invocation.procedure.to_string();
        let call = OutsideCall { origin, procedure, compound, until_us };
        self.outside.calls.insert(number, call);
        Ok(())
    }

    /// Does what procedures asked for since the last round.
    pub(super) fn hear_outside(&mut self) {
        // They wait until the log has caught up.
        if self.gates.is_log_behind {
            return;
        }
        while let Some((call, message)) = self.outside.hear() {
            match message {
                Message::Call(inner) => self.call_from_outside(call, inner),
                Message::Ended(ended) => self.end_outside(call, ended),
            }
        }
    }

    fn end_outside(&mut self, call: u64, ended: Ended) {
        let Some(OutsideCall { origin, .. }) = self.outside.forget(call) else { return };
        let Ended { mut outcome, tables } = ended;
        let limit = self.facts.options.max_response_bytes.to_usize();
        if let Err(failure) = response::check_size(tables.len(), limit) {
            outcome = Outcome::failed(failure);
        }
        let mut frame = self.outbox.spare.take();
        let start = response::begin(&mut frame);
        frame.extend_from_slice(&tables);
        let waited = Elapsed::between_us(origin.arrived_us, self.now_us);
        response::finish(&mut frame, start, origin.handle, &outcome, waited);
        let status = outcome.failure.map_or(Status::Success, |failure| failure.status);
        self.answer(origin, status, frame);
    }

    /// Makes a call of a procedure's.
    fn call_from_outside(&mut self, call: u64, inner: InnerCall) {
        let Some(caller) = self.outside.calls.get(&call) else { return };
        let origin = caller.origin;
        let target = self.catalog.procedure(&inner.procedure);
        let nested = caller.compound && target.is_some_and(|t| t.definition.is_compound());
        let integers = (SqlType::BigInt, KeyType::Integer);
        let (key_type, keys) = match target.map(|target| &target.routing) {
            Some(lockstep_host::catalog::Routing::Parameter { column_type, .. }) => {
                match column_type {
                    SqlType::Varchar => (SqlType::Varchar, KeyType::Text),
                    SqlType::Varbinary => (SqlType::Varbinary, KeyType::Bytes),
                    _ => integers,
                }
            }
            _ => integers,
        };
        let mut frames = Vec::new();
        if inner.all_partitions {
            for (partition, key) in (0..).zip(partition_keys(&self.facts.ring, keys)) {
                let parameters = with_key(&inner.parameters, key_type, key);
                frames.push((partition, Some(partition), parameters));
            }
        } else {
            frames.push((0, None, inner.parameters));
        }
        let answers = frames.iter().map(|(partition, _, _)| (*partition, Vec::new())).collect();
        let request = Request { call, answers, missing: frames.len() };
        self.outside.requests.insert(inner.request, request);
        for (place, (_, destination, parameters)) in frames.into_iter().enumerate() {
            let handle = self.outside.next_handle;
            self.outside.next_handle += 1;
            self.outside.made.insert(handle, (inner.request, place));
            let options =
                CallOptions { all_partition_destination: destination, ..CallOptions::default() };
            let mut frame = self.outbox.spare.take();
            invocation::encode(&mut frame, &inner.procedure, handle, &options, &parameters);
            let mut answer = Vec::new();
            let taken = match nested {
                true => {
                    let text = format!(
                        "Compound procedure cannot call compound procedure {}",
                        inner.procedure
                    );
                    let status = Status::GracefulFailure;
                    response::write_simple(&mut answer, handle, status, Some(&text));
                    Taken::Refused
                }
                false => {
                    let body = &frame[LENGTH_BYTES..];
                    self.take_invocation(OwnCall::Procedure.key(), body, &mut answer)
                }
            };
            match taken {
                Taken::Answered(slot) => {
                    let entry = self.replicas[slot].answer_position();
                    self.answer_when_safe((slot, entry), own_answer(origin, handle, answer));
                }
                Taken::Refused => self.forwarded_answer(own_answer(origin, handle, answer)),
                Taken::Pending => {}
            }
            self.outbox.spare.give_back(frame);
        }
    }

    /// The response to a call of a procedure.
    pub(super) fn answer_outside(&mut self, answer: &ForwardedAnswer) {
        self.outside.answered(answer.origin.handle, &answer.frame);
    }

    /// Ends calls whose time is over.
    pub(super) fn expire_outside(&mut self) {
        let now_us = self.now_us;
        let calls = self.outside.calls.iter();
        let late: Vec<u64> =
            calls.filter(|(_, call)| call.until_us <= now_us).map(|(number, _)| *number).collect();
        for number in late {
            let Some(call) = self.outside.forget(number) else { continue };
            let limit = self.facts.options.nontransactional_limit_ms.number();
            let what = format!(
                "Procedure {} took longer than {limit} ms (option nontransactional_limit_ms)",
                call.procedure
            );
            nontransactional::stop(number, &what);
            let failure = match call.compound {
                true => {
                    let text = format!("COMPOUND PROC ERROR: {what}");
                    Failure::new(Status::CompoundTimeout, text)
                }
                false => Failure::graceful(format!("VOLTDB ERROR: USER ABORT {what}")),
            };
            self.answer_failure(call.origin, &failure);
        }
    }
}

/// The answer to a call of a procedure, which was counted when it was given.
fn own_answer(caller: Origin, handle: i64, frame: Vec<u8>) -> ForwardedAnswer {
    let connection = OwnCall::Procedure.key();
    let origin = Origin { connection, handle, procedure: NO_PROCEDURE, weight: 0, ..caller };
    ForwardedAnswer { origin, status: Status::Success, frame }
}

/// A parameter set with a partition's key in front.
fn with_key(parameters: &[u8], key_type: SqlType, key: i32) -> Vec<u8> {
    use lockstep_types::Datum;
    let set = ParameterSet::new(parameters).unwrap_or(ParameterSet::EMPTY);
    let mut writer = ParameterWriter::default();
    match key_type {
        SqlType::Varchar => writer.text(&key.to_string()),
        SqlType::Varbinary => writer.scalar(key_type, Datum::Bytes(&key.to_be_bytes())),
        _ => writer.bigint(key.into()),
    };
    let mut bytes = writer.bytes().to_vec();
    let count = set.count() as i16 + 1;
    bytes[..2].copy_from_slice(&count.to_be_bytes());
    bytes.extend_from_slice(set.bytes());
    bytes
}
