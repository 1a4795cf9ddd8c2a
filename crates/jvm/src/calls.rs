//! Calls of Java procedures: one crossing into Java each, and one back for each batch.
//!
//! The host writes a call into the one buffer of the thread's [`Engine`], Java its batches into the
//! other; the results go back through the first. The layout is in `java/runtime/README.md`.

use crate::classes::{JavaClasses, write_failure};
use crate::engine::{self, Engine, FIRST_BYTES, Instances, current};
use crate::env::{Env, Java, JavaError};
use crate::machine::Machine;
use crate::wire::Reader;
use jni_sys::{JNIEnv, jclass, jint, jlong, jobject, jstring, jvalue};
use lockstep_exec::error::{ErrorKind, state};
use lockstep_exec::procedure::{HostedProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::ProcedureDefinition;
use lockstep_types::{Failure, ParameterSet, PartitionId, Status};
use std::fmt;
use std::io::Write;
use std::ptr;
use std::sync::Arc;

/// Of a call's record, what is in front of the parameters.
const CALL_PREFIX_BYTES: usize = 28;

/// The exit status of a host that a call made useless: an internal error in `sysexits.h`.
const EXIT_STUCK: libc::c_int = 70;

/// A procedure in Java, ready to run.
pub struct JavaProcedure {
    classes: Arc<JavaClasses>,
    /// The runtime's object, a lasting reference.
    procedure: jobject,
    instances: Instances,
}

// SAFETY: the references are global ones, which all threads may use; the list has a lock.
unsafe impl Send for JavaProcedure {}
// SAFETY: as above.
unsafe impl Sync for JavaProcedure {}

impl fmt::Debug for JavaProcedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JavaProcedure").field("id", &self.instances.id()).finish()
    }
}

impl JavaProcedure {
    /// Makes a planned procedure ready.
    ///
    /// # Errors
    /// Java refuses its class.
    pub fn new(
        classes: &Arc<JavaClasses>,
        class: &str,
        definition: &ProcedureDefinition,
    ) -> Result<JavaProcedure, JavaError> {
        let procedure = classes.bound(class, definition)?;
        Ok(JavaProcedure { classes: Arc::clone(classes), procedure, instances: Instances::new() })
    }

    /// An instance for a thread, given its engine's object.
    fn make_instance(&self, env: Env, engine: jobject) -> Java<jobject> {
        let method = self.classes.machine().runtime.procedure_new_instance;
        env.frame(|env| {
            // SAFETY: the method is the object's and takes an engine.
            let instance =
                unsafe { env.call_object(self.procedure, method, &[jvalue { l: engine }])? };
            env.lasting(instance)
        })
    }
}

impl Drop for JavaProcedure {
    fn drop(&mut self) {
        let Ok(env) = self.classes.machine().env() else { return };
        // SAFETY: nothing calls the procedure any more: this is its last owner.
        unsafe {
            self.instances.let_go(env);
            env.let_go(self.procedure);
        }
    }
}

fn unexpected(error: JavaError) -> ProcedureError {
    ProcedureError::Unexpected(error.message)
}

impl HostedProcedure for JavaProcedure {
    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let machine = self.classes.machine();
        let env = machine.env().map_err(unexpected)?;
        let engine = engine::of_procedures(machine, env).map_err(unexpected)?;
        // SAFETY: the engine is this thread's and lives until the thread ends. No reference to it
        // is held while Java runs: the natives below use it then.
        let (instance, length) = unsafe {
            let engine = &mut *engine;
            let make = |object| self.make_instance(env, object);
            let instance = self.instances.get(engine, make).map_err(unexpected)?;
            (instance, engine.write_call(machine, env, context).map_err(unexpected)?)
        };
        let invoke = machine.runtime.instance_invoke;
        // SAFETY: the context outlives the invocation, and is put away after it; its lifetime is
        // widened for that time only. The method is the object's and takes an int.
        let answered = unsafe {
            let context: *mut ProcedureContext<'_> = context;
            (*engine).context = context.cast();
            let answered = env.call_int(instance, invoke, &[jvalue { i: length }]);
            (*engine).context = ptr::null_mut();
            answered
        };
        let length = answered.map_err(unexpected)?;
        // SAFETY: Java has returned; this is the only use of the engine now.
        let engine = unsafe { &mut *engine };
        let outcome = engine.written(length).map_err(unexpected)?;
        let ended = read_outcome(outcome, context);
        engine.shrink(machine, env);
        ended
    }
}

impl Engine {
    /// Writes a call's record; gives its length.
    fn write_call(
        &mut self,
        machine: &Machine,
        env: Env,
        context: &ProcedureContext<'_>,
    ) -> Java<jint> {
        let given = context.given();
        let length = CALL_PREFIX_BYTES + 2 + given.bytes().len();
        self.room_to_java(machine, env, length)?;
        let (prefix, rest) = self.to_java.split_at_mut(CALL_PREFIX_BYTES);
        let id = context.transaction_id().0 as i64;
        write_prefix(prefix, id, context.transaction_time_us(), context.partition());
        rest[0..2].copy_from_slice(&(given.count() as i16).to_be_bytes());
        rest[2..2 + given.bytes().len()].copy_from_slice(given.bytes());
        jint::try_from(length).map_err(|_| JavaError::new("the parameters are too long for Java"))
    }
}

/// Fills in what a call's record has in front of the parameters.
fn write_prefix(prefix: &mut [u8], id: i64, time_us: i64, partition: PartitionId) {
    prefix[0..8].copy_from_slice(&id.to_be_bytes());
    prefix[8..16].copy_from_slice(&time_us.div_euclid(1000).to_be_bytes());
    prefix[16..20].copy_from_slice(&partition.0.to_be_bytes());
    prefix[20..24].copy_from_slice(&0i32.to_be_bytes());
    prefix[24..28].copy_from_slice(&i32::from(partition == PartitionId::MULTI).to_be_bytes());
}

/// Appends a call's record.
pub(crate) fn call_record(
    out: &mut Vec<u8>,
    id: i64,
    time_us: i64,
    partition: PartitionId,
    parameters: &ParameterSet<'_>,
) {
    let start = out.len();
    out.resize(start + CALL_PREFIX_BYTES, 0);
    write_prefix(&mut out[start..], id, time_us, partition);
    out.extend_from_slice(&(parameters.count() as i16).to_be_bytes());
    out.extend_from_slice(parameters.bytes());
}

/// Takes what a procedure left.
fn read_outcome(bytes: &[u8], context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
    let mut reader = Reader::new(bytes);
    let mut read = || -> Java<(i8, i8, Option<String>)> {
        Ok((reader.i8()?, reader.i8()?, reader.text()?.map(str::to_string)))
    };
    let (status, application_status, application_text) = read().map_err(unexpected)?;
    context.set_application_status(application_status, application_text);
    if status == Status::Success.code() {
        let count = reader.i16().map_err(unexpected)?;
        let tables = reader.rest();
        if let Some(limit) = context.result_limit_bytes()
            && tables.len() > limit
        {
            return Err(ProcedureError::Failed(Failure::graceful(format!(
                "VOLTDB ERROR: SQL ERROR the result tables of procedure {} have {} bytes; the \
                 option max_response_bytes allows {limit}",
                context.procedure_name(),
                tables.len()
            ))));
        }
        context.return_encoded(count.max(0) as u16, tables);
        return Ok(());
    }
    Err(read_failure(status, &mut reader).unwrap_or_else(unexpected))
}

#[cold]
fn read_failure(status: i8, reader: &mut Reader<'_>) -> Java<ProcedureError> {
    reader.i8()?;
    reader.text()?;
    reader.text()?;
    let text = reader.owned_text()?;
    let status = [Status::UserAbort, Status::GracefulFailure]
        .into_iter()
        .find(|known| known.code() == status)
        .unwrap_or(Status::UnexpectedFailure);
    Ok(ProcedureError::Failed(Failure::new(status, text)))
}

const MISUSED: &str = "a batch can be executed by the thread of its transaction only";

/// `NativeEngine.execute`: executes the batch in the first bytes of the buffer from Java.
pub(crate) extern "system" fn execute(
    env: *mut JNIEnv,
    _class: jclass,
    handle: jlong,
    length: jint,
) -> jint {
    // SAFETY: the JVM gives each native the table of its thread.
    let env = unsafe { Env::new(env) };
    let (Some(engine), Some(machine)) = (current(handle), crate::machine::running()) else {
        env.throw(MISUSED);
        return 0;
    };
    let result = match engine.execute_batch(machine, env, length) {
        Ok(length) => Ok(length),
        Err(error) => engine.write_error(machine, env, error).map(|length| -length),
    };
    result.unwrap_or_else(|error| {
        env.throw(&error.message);
        0
    })
}

/// `NativeEngine.grow`: a larger buffer from Java, with the first bytes of the old one.
pub(crate) extern "system" fn grow(
    env: *mut JNIEnv,
    _object: jobject,
    handle: jlong,
    minimum: jint,
    kept: jint,
) {
    // SAFETY: the JVM gives each native the table of its thread.
    let env = unsafe { Env::new(env) };
    let (Some(engine), Some(machine)) = (engine::named(handle), crate::machine::running()) else {
        return env.throw(MISUSED);
    };
    let bytes = usize::try_from(minimum).unwrap_or(0).next_power_of_two().max(FIRST_BYTES);
    let kept = usize::try_from(kept).unwrap_or(0);
    if let Err(error) = engine.replace_from_java(machine, env, bytes.min(i32::MAX as usize), kept) {
        env.throw(&error.message);
    }
}

/// `NativeEngine.stuck`: a call was told to stop and does not, because it is in code of the JDK
/// that never looks. Its site is lost, and only the end of the process frees it.
pub(crate) extern "system" fn stuck(
    env: *mut JNIEnv,
    _class: jclass,
    _handle: jlong,
    what: jstring,
) {
    // SAFETY: the JVM gives each native the table of its thread, and the text that was passed.
    let what = unsafe { Env::new(env).string(what) };
    tracing::error!(what, "a call in Java cannot be stopped: the host stops");
    let mut last = std::io::stderr().lock();
    let _ = writeln!(last, "lockstep: a call in Java cannot be stopped, so the host stops: {what}");
    // SAFETY: ends the process at once, without what would wait for the lost thread.
    unsafe { libc::_exit(EXIT_STUCK) }
}

impl Engine {
    /// Executes a batch; the results are in the buffer to Java, of the length that this gives.
    fn execute_batch(
        &mut self,
        machine: &Machine,
        env: Env,
        length: jint,
    ) -> Result<jint, ProcedureError> {
        let here = 0u8;
        if (&raw const here) as usize <= self.stack_limit {
            return Err(ProcedureError::Unexpected(
                "the procedure has nested its calls too deeply to execute a batch".to_string(),
            ));
        }
        let length = usize::try_from(length).unwrap_or(0).min(self.from_java.len());
        // SAFETY: the batch's bytes stay where they are until this returns, because only Java code
        // of this thread replaces the buffer; and the context forgets the queue, which borrows
        // them, when it executes it or `clear_queue` is called. The context is alive while its
        // call runs.
        let (batch, context) = unsafe {
            let batch = std::slice::from_raw_parts(self.from_java.as_ptr(), length);
            (batch, &mut *self.context)
        };
        if let Err(error) = queue(batch, context) {
            context.clear_queue();
            return Err(error);
        }
        let results = context.execute()?;
        let parts = results.parts();
        let bytes: usize = parts.clone().map(<[u8]>::len).sum();
        self.room_to_java(machine, env, bytes).map_err(unexpected)?;
        let mut place = 0;
        for part in parts {
            self.to_java[place..place + part.len()].copy_from_slice(part);
            place += part.len();
        }
        jint::try_from(bytes)
            .map_err(|_| unexpected(JavaError::new("the results are too long for Java")))
    }

    /// Writes why a batch failed into the buffer to Java; gives the length.
    #[cold]
    fn write_error(&mut self, machine: &Machine, env: Env, error: ProcedureError) -> Java<jint> {
        const CONSTRAINT: i8 = 1;
        const SQL: i8 = 2;
        const STOPPED: i8 = 3;
        const UNEXPECTED: i8 = 4;
        let (kind, state) = match &error {
            ProcedureError::Sql(error) => match error.kind() {
                ErrorKind::Constraint => (CONSTRAINT, Some(error.state().to_string())),
                _ if error.state() == state::STOPPED => (STOPPED, None),
                _ => (SQL, Some(error.state().to_string())),
            },
            ProcedureError::Abort(_) => (SQL, None),
            ProcedureError::Failed(failure) if failure.status == Status::GracefulFailure => {
                let constraint = failure.message.starts_with("VOLTDB ERROR: CONSTRAINT VIOLATION");
                (if constraint { CONSTRAINT } else { SQL }, None)
            }
            _ => (UNEXPECTED, None),
        };
        let mut record = Vec::new();
        write_failure(&mut record, kind, state.as_deref(), &error.into_failure().message);
        self.room_to_java(machine, env, record.len())?;
        self.to_java[..record.len()].copy_from_slice(&record);
        jint::try_from(record.len()).map_err(|_| JavaError::new("the failure's text is too long"))
    }
}

/// Queues the statements of a batch.
fn queue(
    batch: &'static [u8],
    context: &mut ProcedureContext<'static>,
) -> Result<(), ProcedureError> {
    let short = || unexpected(JavaError::new("the batch is shorter than it says"));
    let (_flags, rest) = batch.split_first_chunk::<4>().ok_or_else(short)?;
    let (count, mut rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    for _ in 0..i32::from_be_bytes(*count) {
        let (index, parameters) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let index = i32::from_be_bytes(*index);
        rest = context.queue_encoded(usize::try_from(index).unwrap_or(usize::MAX), parameters)?;
    }
    Ok(())
}
