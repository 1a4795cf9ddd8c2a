//! Calls of non-transactional and compound procedures: Java runs them on threads of its own, and
//! asks the host for the calls that they make. Nothing here waits.

use crate::calls::call_record;
use crate::classes::JavaClasses;
use crate::env::{Env, JavaError};
use crate::wire::Reader;
use jni_sys::{JNIEnv, jbyteArray, jclass, jint, jlong, jobject, jstring, jvalue};
use lockstep_plan_ir::ProcedureDefinition;
use lockstep_types::{Failure, Outcome, ParameterSet, PartitionId, Status};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A call that a procedure makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerCall {
    /// What [`answer`] names it by.
    pub request: i64,
    /// At each partition instead of where the procedure's parameters say.
    pub all_partitions: bool,
    /// What is called.
    pub procedure: String,
    /// The parameters, encoded.
    pub parameters: Vec<u8>,
}

/// What procedures ask of their host, on threads of Java.
pub trait NonTransactionalHost: Send + Sync {
    /// A call that the call `call` makes; [`answer`] has it go on.
    fn make(&self, call: u64, inner: InnerCall);
    /// The end of a call.
    fn finish(&self, call: u64, ended: Ended);
}

/// How a call ended.
#[derive(Debug)]
pub struct Ended {
    /// For the client.
    pub outcome: Outcome,
    /// The result tables, encoded.
    pub tables: Vec<u8>,
}

/// A procedure that is no transaction, ready to run.
pub struct JavaNonTransactional {
    classes: Arc<JavaClasses>,
    /// The runtime's object, a lasting reference.
    procedure: jobject,
}

// SAFETY: the reference is a global one, which all threads may use.
unsafe impl Send for JavaNonTransactional {}
// SAFETY: as above.
unsafe impl Sync for JavaNonTransactional {}

impl fmt::Debug for JavaNonTransactional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JavaNonTransactional").finish_non_exhaustive()
    }
}

impl Drop for JavaNonTransactional {
    fn drop(&mut self) {
        if let Ok(env) = self.classes.machine().env() {
            // SAFETY: its only owner goes; calls in progress have references of their own.
            unsafe { env.let_go(self.procedure) };
        }
    }
}

/// The hosts of the calls in progress, of all hosts of the process.
static CALLS: Mutex<BTreeMap<u64, Arc<dyn NonTransactionalHost>>> = Mutex::new(BTreeMap::new());
static NEXT_CALL: AtomicU64 = AtomicU64::new(1);

fn calls() -> MutexGuard<'static, BTreeMap<u64, Arc<dyn NonTransactionalHost>>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl JavaNonTransactional {
    /// Makes a procedure ready.
    ///
    /// # Errors
    /// Java refuses its class.
    pub fn new(
        classes: &Arc<JavaClasses>,
        class: &str,
        definition: &ProcedureDefinition,
    ) -> Result<JavaNonTransactional, JavaError> {
        let procedure = classes.bound(class, definition)?;
        Ok(JavaNonTransactional { classes: Arc::clone(classes), procedure })
    }

    /// Begins a call; gives its number, which no other call of the process has.
    ///
    /// # Errors
    /// Java cannot begin it: then nothing of it is left.
    pub fn start(
        &self,
        host: Arc<dyn NonTransactionalHost>,
        time_us: i64,
        parameters: &ParameterSet<'_>,
    ) -> Result<u64, JavaError> {
        let machine = self.classes.machine();
        let call = NEXT_CALL.fetch_add(1, Ordering::Relaxed);
        let mut record = Vec::new();
        let id = i64::try_from(call).unwrap_or(i64::MAX);
        call_record(&mut record, id, time_us, PartitionId::MULTI, parameters);
        calls().insert(call, host);
        let begun = machine.env().and_then(|env| {
            env.frame(|env| {
                let arguments = [
                    jvalue { l: self.procedure },
                    jvalue { j: id },
                    jvalue { l: env.new_bytes(&record)? },
                ];
                let runtime = &machine.runtime;
                let (class, start) = (runtime.nontransactional, runtime.nontransactional_start);
                // SAFETY: the method is the class's, of that signature.
                unsafe { env.call_static_void(class, start, &arguments) }
            })
        });
        if begun.is_err() {
            forget(call);
        }
        begun.map(|()| call)
    }
}

/// Gives a procedure the answers of a call that it made: of each, the partition and the response
/// from its version byte on.
pub fn answer(request: i64, responses: &[(i32, &[u8])]) {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(responses.len() as i16).to_be_bytes());
    for (partition, response) in responses {
        bytes.extend_from_slice(&partition.to_be_bytes());
        bytes.extend_from_slice(&(response.len() as i32).to_be_bytes());
        bytes.extend_from_slice(response);
    }
    let Some(machine) = crate::machine::running() else { return };
    let answered = machine.env().and_then(|env| {
        env.frame(|env| {
            let arguments = [jvalue { j: request }, jvalue { l: env.new_bytes(&bytes)? }];
            let (class, method) =
                (machine.runtime.nontransactional, machine.runtime.nontransactional_complete);
            // SAFETY: the method is the class's, of that signature.
            unsafe { env.call_static_void(class, method, &arguments) }
        })
    });
    if let Err(error) = answered {
        tracing::warn!(%error, "an answer to a procedure in Java was lost");
    }
}

/// Stops a call that somebody else has answered: its code is interrupted, and what it asks for
/// refused.
pub fn stop(call: u64, reason: &str) {
    forget(call);
    let Some(machine) = crate::machine::running() else { return };
    let stopped = machine.env().and_then(|env| {
        env.frame(|env| {
            let arguments = [
                jvalue { j: i64::try_from(call).unwrap_or(i64::MAX) },
                jvalue { l: env.new_string(reason)? },
            ];
            let (class, method) =
                (machine.runtime.nontransactional, machine.runtime.nontransactional_stop);
            // SAFETY: the method is the class's, of that signature.
            unsafe { env.call_static_void(class, method, &arguments) }
        })
    });
    if let Err(error) = stopped {
        tracing::warn!(%error, "a call in Java was not stopped");
    }
}

fn forget(call: u64) {
    calls().remove(&call);
}

fn host_of(call: jlong) -> Option<(u64, Arc<dyn NonTransactionalHost>)> {
    let call = u64::try_from(call).ok()?;
    let host = calls().get(&call).cloned();
    host.map(|host| (call, host))
}

/// `NativeCalls.startCall`: a procedure makes a call.
pub(crate) extern "system" fn start_call(
    env: *mut JNIEnv,
    _class: jclass,
    call: jlong,
    request: jlong,
    mode: jint,
    procedure: jstring,
    parameters: jbyteArray,
) {
    // SAFETY: the JVM gives each native the table of its thread, and what was passed.
    let (env, procedure, parameters) = unsafe {
        let env = Env::new(env);
        (env, env.string(procedure), env.bytes(parameters))
    };
    match host_of(call) {
        Some((call, host)) => {
            let all_partitions = mode != 0;
            host.make(call, InnerCall { request, all_partitions, procedure, parameters });
        }
        None => env.throw("the procedure's call is over: its time was, or the host stops"),
    }
}

/// `NativeCalls.finishCall`: a call has ended.
pub(crate) extern "system" fn finish_call(
    env: *mut JNIEnv,
    _class: jclass,
    call: jlong,
    outcome: jbyteArray,
) {
    // SAFETY: the JVM gives each native the table of its thread, and what was passed.
    let outcome = unsafe { Env::new(env).bytes(outcome) };
    let Some((call, host)) = host_of(call) else { return };
    forget(call);
    let ended = read(&outcome).unwrap_or_else(|error| {
        let text = format!("VOLTDB ERROR: UNEXPECTED FAILURE: {}", error.message);
        Ended { outcome: Outcome::failed(Failure::unexpected(text)), tables: Vec::new() }
    });
    host.finish(call, ended);
}

fn read(bytes: &[u8]) -> Result<Ended, JavaError> {
    let mut reader = Reader::new(bytes);
    let status = reader.i8()?;
    let application_status = reader.i8()?;
    let application_text = reader.text()?.map(str::to_string);
    if status == Status::Success.code() {
        let table_count = reader.i16()?.max(0) as u16;
        let tables = reader.rest().to_vec();
        let outcome = Outcome { failure: None, table_count, application_status, application_text };
        return Ok(Ended { outcome, tables });
    }
    reader.i8()?;
    reader.text()?;
    reader.text()?;
    let text = reader.text()?.unwrap_or("").to_string();
    let status = Status::from_code(status).unwrap_or(Status::UnexpectedFailure);
    let failure = Some(Failure::new(status, text));
    let outcome = Outcome { failure, table_count: 0, application_status, application_text };
    Ok(Ended { outcome, tables: Vec::new() })
}
