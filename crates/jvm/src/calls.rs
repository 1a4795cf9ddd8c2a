//! Calls of Java procedures: one crossing into Java each, and one back for each batch.
//!
//! Each thread that runs procedures has an [`Engine`]: two buffers that both sides see, and the
//! call that runs. The host writes a call into the one, Java its batches into the other; the
//! results go back through the first. The layout is in `java/runtime/README.md`.

use crate::classes::{JavaClasses, write_failure};
use crate::env::{Env, Java, JavaError};
use crate::machine::Machine;
use crate::wire::Reader;
use jni_sys::{JNIEnv, jclass, jint, jlong, jobject, jstring, jvalue};
use lockstep_exec::error::{ErrorKind, state};
use lockstep_exec::procedure::{HostedProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::ProcedureDefinition;
use lockstep_types::{Failure, PartitionId, Status};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that the buffers of a thread begin with.
const FIRST_BYTES: usize = 64 << 10;
/// Bytes of a buffer that are kept from one call to the next.
const KEPT_BYTES: usize = 4 << 20;
/// Stack that a batch needs: Java code that left less may not execute one.
const STACK_OF_BATCH: usize = 1 << 20;
/// Procedures whose instances a thread finds at once; a power of two.
const CACHED_INSTANCES: usize = 256;
/// Of a call's record, what is in front of the parameters.
const CALL_PREFIX_BYTES: usize = 28;

/// The exit status of a host that a call made useless: an internal error in `sysexits.h`.
const EXIT_STUCK: libc::c_int = 70;

/// A procedure in Java, ready to run.
pub struct JavaProcedure {
    classes: Arc<JavaClasses>,
    /// Never given again to another one.
    id: u64,
    /// The runtime's object, a lasting reference.
    procedure: jobject,
    /// Per thread, by the number of its engine, the instance there: lasting references.
    instances: Mutex<Vec<(u64, jobject)>>,
}

// SAFETY: the references are global ones, which all threads may use; the list has a lock.
unsafe impl Send for JavaProcedure {}
// SAFETY: as above.
unsafe impl Sync for JavaProcedure {}

impl fmt::Debug for JavaProcedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JavaProcedure").field("id", &self.id).finish()
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

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
        Ok(JavaProcedure {
            classes: Arc::clone(classes),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            procedure,
            instances: Mutex::new(Vec::new()),
        })
    }

    /// The instance of a thread that has not used the procedure lately.
    #[cold]
    fn find_instance(&self, env: Env, engine: &Engine) -> Java<jobject> {
        let mut instances = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, instance)) = instances.iter().find(|(number, _)| *number == engine.number) {
            return Ok(*instance);
        }
        let method = self.classes.machine().runtime.procedure_new_instance;
        let instance = env.frame(|env| {
            let engine = [jvalue { l: engine.object }];
            // SAFETY: the method is the object's and takes an engine.
            let instance = unsafe { env.call_object(self.procedure, method, &engine)? };
            env.lasting(instance)
        })?;
        instances.push((engine.number, instance));
        Ok(instance)
    }
}

impl Drop for JavaProcedure {
    fn drop(&mut self) {
        let Ok(env) = self.classes.machine().env() else { return };
        let instances = self.instances.get_mut().unwrap_or_else(PoisonError::into_inner);
        for instance in instances.drain(..).map(|(_, instance)| instance).chain([self.procedure]) {
            // SAFETY: nothing calls the procedure any more: this is its last owner. Threads that
            // remember an instance do so under a number that no other procedure gets.
            unsafe { env.let_go(instance) };
        }
    }
}

/// A thread's side of calls.
struct Engine {
    /// Never given again to another thread.
    number: u64,
    /// The runtime's object for it, a lasting reference.
    object: jobject,
    to_java: Box<[u8]>,
    from_java: Box<[u8]>,
    /// The call that runs; null between calls.
    context: *mut ProcedureContext<'static>,
    /// The lowest address of the thread's stack that batches may begin at.
    stack_limit: usize,
    instances: [(u64, jobject); CACHED_INSTANCES],
}

thread_local! {
    static ENGINE: RefCell<Option<OwnedEngine>> = const { RefCell::new(None) };
    /// The engine above, for the natives: null when there is none.
    static CURRENT: Cell<*mut Engine> = const { Cell::new(ptr::null_mut()) };
}

/// Owns a thread's engine: it ends with the thread.
struct OwnedEngine {
    machine: &'static Machine,
    engine: *mut Engine,
}

impl Drop for OwnedEngine {
    fn drop(&mut self) {
        CURRENT.set(ptr::null_mut());
        // SAFETY: it was made by `Box::into_raw`; the thread ends, so that no call of Java can
        // use its buffers any more: the natives ask for `CURRENT` first.
        let engine = unsafe { Box::from_raw(self.engine) };
        if let Ok(env) = self.machine.env() {
            // SAFETY: a lasting reference that nothing uses from here on.
            unsafe { env.let_go(engine.object) };
        }
    }
}

/// The calling thread's engine, which is made at its first call.
fn engine(machine: &'static Machine, env: Env) -> Java<*mut Engine> {
    let engine = CURRENT.get();
    match engine.is_null() {
        false => Ok(engine),
        true => make_engine(machine, env),
    }
}

#[cold]
fn make_engine(machine: &'static Machine, env: Env) -> Java<*mut Engine> {
    let engine = Box::into_raw(Box::new(Engine {
        number: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        object: ptr::null_mut(),
        to_java: vec![0; FIRST_BYTES].into(),
        from_java: vec![0; FIRST_BYTES].into(),
        context: ptr::null_mut(),
        stack_limit: stack_bottom().saturating_add(STACK_OF_BATCH),
        instances: [(0, ptr::null_mut()); CACHED_INSTANCES],
    }));
    let runtime = &machine.runtime;
    let object = env.frame(|env| {
        // SAFETY: the engine was made right above, and lives until its thread ends; its buffers
        // until others take their place in the Java object. The constructor has that signature.
        unsafe {
            let to_java = env.direct_buffer((*engine).to_java.as_mut_ptr(), FIRST_BYTES)?;
            let from_java = env.direct_buffer((*engine).from_java.as_mut_ptr(), FIRST_BYTES)?;
            let arguments =
                [jvalue { j: engine as jlong }, jvalue { l: to_java }, jvalue { l: from_java }];
            let object = env.new_object(runtime.engine, runtime.engine_new, &arguments)?;
            env.lasting(object)
        }
    });
    match object {
        Ok(object) => {
            // SAFETY: as above; nobody else has the pointer yet.
            unsafe { (*engine).object = object };
            CURRENT.set(engine);
            ENGINE.with(|owner| *owner.borrow_mut() = Some(OwnedEngine { machine, engine }));
            Ok(engine)
        }
        Err(error) => {
            // SAFETY: it was made above and given to nobody.
            drop(unsafe { Box::from_raw(engine) });
            Err(error)
        }
    }
}

/// The lowest address of the calling thread's stack; 0 where it is not known.
#[cfg(target_os = "linux")]
fn stack_bottom() -> usize {
    // SAFETY: the attributes are initialized by the first call and destroyed by the last; all
    // pointers are to variables of this function.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return 0;
        }
        let (mut bottom, mut bytes) = (ptr::null_mut(), 0);
        let known = libc::pthread_attr_getstack(&attributes, &mut bottom, &mut bytes) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        if known { bottom as usize } else { 0 }
    }
}

#[cfg(not(target_os = "linux"))]
fn stack_bottom() -> usize {
    0
}

fn unexpected(error: JavaError) -> ProcedureError {
    ProcedureError::Unexpected(error.message)
}

impl HostedProcedure for JavaProcedure {
    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let machine = self.classes.machine();
        let env = machine.env().map_err(unexpected)?;
        let engine = engine(machine, env).map_err(unexpected)?;
        // SAFETY: the engine is this thread's and lives until the thread ends. No reference to it
        // is held while Java runs: the natives below use it then.
        let (instance, length) = unsafe {
            let engine = &mut *engine;
            let slot = self.id as usize % CACHED_INSTANCES;
            let (id, instance) = engine.instances[slot];
            let instance = match id == self.id {
                true => instance,
                false => {
                    let instance = self.find_instance(env, engine).map_err(unexpected)?;
                    engine.instances[slot] = (self.id, instance);
                    instance
                }
            };
            (instance, engine.write_call(machine, env, context).map_err(unexpected)?)
        };
        let invoke = machine.runtime.instance_invoke;
        // SAFETY: the context outlives the invocation, and is put away behind it; its lifetime is
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
        let outcome = engine.outcome(length)?;
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
        let partition = context.partition();
        let multi = partition == PartitionId::MULTI;
        let (prefix, rest) = self.to_java.split_at_mut(CALL_PREFIX_BYTES);
        prefix[0..8].copy_from_slice(&context.transaction_id().0.to_be_bytes());
        let time_ms = context.transaction_time_us().div_euclid(1000);
        prefix[8..16].copy_from_slice(&time_ms.to_be_bytes());
        prefix[16..20].copy_from_slice(&partition.0.to_be_bytes());
        prefix[20..24].copy_from_slice(&0i32.to_be_bytes());
        prefix[24..28].copy_from_slice(&i32::from(multi).to_be_bytes());
        rest[0..2].copy_from_slice(&(given.count() as i16).to_be_bytes());
        rest[2..2 + given.bytes().len()].copy_from_slice(given.bytes());
        jint::try_from(length).map_err(|_| JavaError::new("the parameters are too long for Java"))
    }

    /// Makes room for so many bytes in the buffer to Java; what is in it is lost.
    #[inline]
    fn room_to_java(&mut self, machine: &Machine, env: Env, bytes: usize) -> Java<()> {
        match bytes <= self.to_java.len() {
            true => Ok(()),
            false => self.replace_to_java(machine, env, bytes.next_power_of_two()),
        }
    }

    #[cold]
    fn replace_to_java(&mut self, machine: &Machine, env: Env, bytes: usize) -> Java<()> {
        let mut larger: Box<[u8]> = vec![0; bytes].into();
        // SAFETY: the new buffer takes the old one's place in the Java object before that is
        // freed, and the runtime gets it from there at each use.
        env.frame(|env| unsafe {
            let buffer = env.direct_buffer(larger.as_mut_ptr(), bytes)?;
            env.set_object(self.object, machine.runtime.engine_to_java, buffer);
            Ok(())
        })?;
        self.to_java = larger;
        Ok(())
    }

    /// As [`Engine::replace_to_java`], keeping the first bytes.
    fn replace_from_java(
        &mut self,
        machine: &Machine,
        env: Env,
        bytes: usize,
        kept: usize,
    ) -> Java<()> {
        let mut larger: Box<[u8]> = vec![0; bytes].into();
        let kept = kept.min(self.from_java.len()).min(bytes);
        larger[..kept].copy_from_slice(&self.from_java[..kept]);
        // SAFETY: as in `replace_to_java`.
        env.frame(|env| unsafe {
            let buffer = env.direct_buffer(larger.as_mut_ptr(), bytes)?;
            env.set_object(self.object, machine.runtime.engine_from_java, buffer);
            Ok(())
        })?;
        self.from_java = larger;
        Ok(())
    }

    /// Gives back what an unusual call needed.
    fn shrink(&mut self, machine: &Machine, env: Env) {
        if self.to_java.len() > KEPT_BYTES {
            let _ = self.replace_to_java(machine, env, FIRST_BYTES);
        }
        if self.from_java.len() > KEPT_BYTES {
            let _ = self.replace_from_java(machine, env, FIRST_BYTES, 0);
        }
    }

    fn outcome(&self, length: jint) -> Result<&[u8], ProcedureError> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.from_java.get(..length).ok_or_else(|| {
            unexpected(JavaError::new("the runtime of Java procedures stated a wrong length"))
        })
    }
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

/// The calling thread's engine, if it is the one that Java names and a call runs.
fn current(handle: jlong) -> Option<&'static mut Engine> {
    let engine = CURRENT.get();
    if engine.is_null() || engine as jlong != handle {
        return None;
    }
    // SAFETY: it is this thread's, and lives until the thread ends; the caller of Java code holds
    // no reference to it while that runs.
    let engine = unsafe { &mut *engine };
    (!engine.context.is_null()).then_some(engine)
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
    let (Some(engine), Some(machine)) = (current(handle), crate::machine::running()) else {
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
