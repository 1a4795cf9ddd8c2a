//! What a thread needs to call Java: two buffers that both sides see, and the objects of the
//! runtime that are its own. Functions have an engine apart: they are called while a procedure's
//! batch is in its buffers.

use crate::env::{Env, Java, JavaError};
use crate::machine::Machine;
use jni_sys::{jint, jlong, jobject, jvalue};
use lockstep_exec::procedure::ProcedureContext;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that the buffers of a thread begin with.
pub(crate) const FIRST_BYTES: usize = 64 << 10;
/// Bytes of a buffer that are kept from one call to the next.
const KEPT_BYTES: usize = 4 << 20;
/// Stack that a batch needs: Java code that left less may not execute one.
const STACK_OF_BATCH: usize = 1 << 20;
/// Procedures or functions whose instances a thread finds at once; a power of two.
const CACHED_INSTANCES: usize = 256;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// What a thread's engine is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Procedures,
    Functions,
}

/// The objects of one procedure or function: one for each thread that calls it.
pub(crate) struct Instances {
    /// Never given again to another one.
    id: u64,
    /// By the number of the thread's engine: lasting references.
    made: Mutex<Vec<(u64, jobject)>>,
}

impl Instances {
    pub(crate) fn new() -> Instances {
        Instances { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), made: Mutex::new(Vec::new()) }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The calling thread's.
    #[inline]
    pub(crate) fn get(
        &self,
        engine: &mut Engine,
        make: impl FnOnce(jobject) -> Java<jobject>,
    ) -> Java<jobject> {
        let slot = self.id as usize % CACHED_INSTANCES;
        let (id, instance) = engine.instances[slot];
        if id == self.id {
            return Ok(instance);
        }
        let instance = self.find(engine, make)?;
        engine.instances[slot] = (self.id, instance);
        Ok(instance)
    }

    /// The instance of a thread that has not used it lately.
    #[cold]
    fn find(&self, engine: &Engine, make: impl FnOnce(jobject) -> Java<jobject>) -> Java<jobject> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, instance)) = made.iter().find(|(number, _)| *number == engine.number) {
            return Ok(*instance);
        }
        let instance = make(engine.object)?;
        made.push((engine.number, instance));
        Ok(instance)
    }

    /// Gives all references up.
    ///
    /// # Safety
    /// Nothing calls the procedure or function any more. Threads that remember an instance do so
    /// under a number that nothing else gets.
    pub(crate) unsafe fn let_go(&mut self, env: Env) {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, instance) in made.drain(..) {
            // SAFETY: the caller's promise.
            unsafe { env.let_go(instance) };
        }
    }
}

/// A thread's side of calls.
pub(crate) struct Engine {
    /// Never given again to another thread.
    number: u64,
    /// The runtime's object for it, a lasting reference.
    pub(crate) object: jobject,
    pub(crate) to_java: Box<[u8]>,
    pub(crate) from_java: Box<[u8]>,
    /// The call that runs; null between calls, and where functions are called.
    pub(crate) context: *mut ProcedureContext<'static>,
    /// The lowest address of the thread's stack that batches may begin at.
    pub(crate) stack_limit: usize,
    /// Where a function's values are put together.
    pub(crate) scratch: Vec<u8>,
    instances: [(u64, jobject); CACHED_INSTANCES],
}

thread_local! {
    static OWNED: RefCell<Vec<OwnedEngine>> = const { RefCell::new(Vec::new()) };
    /// The engine of procedures, also for the natives: null when there is none.
    static OF_PROCEDURES: Cell<*mut Engine> = const { Cell::new(ptr::null_mut()) };
    /// Whether the engines that the thread makes have limits.
    static HAS_LIMITS: Cell<bool> = const { Cell::new(true) };
    /// The engine of functions.
    static OF_FUNCTIONS: Cell<*mut Engine> = const { Cell::new(ptr::null_mut()) };
}

/// From now on what the calling thread runs in Java has no limits of time and size: it replays a
/// log. To be called before anything else in Java.
pub fn lift_limits() {
    assert!(OF_PROCEDURES.get().is_null(), "the thread has run nothing in Java yet");
    HAS_LIMITS.set(false);
}

/// Owns a thread's engine: it ends with the thread.
struct OwnedEngine {
    machine: &'static Machine,
    engine: *mut Engine,
}

impl Drop for OwnedEngine {
    fn drop(&mut self) {
        OF_PROCEDURES.set(ptr::null_mut());
        OF_FUNCTIONS.set(ptr::null_mut());
        // SAFETY: it was made by `Box::into_raw`; the thread ends, so that no call of Java can
        // use its buffers any more: the natives look for it in the cells above first.
        let engine = unsafe { Box::from_raw(self.engine) };
        if let Ok(env) = self.machine.env() {
            // SAFETY: a lasting reference that nothing uses from here on.
            unsafe { env.let_go(engine.object) };
        }
    }
}

/// The calling thread's engine for calls of procedures, which is made at its first call.
#[inline]
pub(crate) fn of_procedures(machine: &'static Machine, env: Env) -> Java<*mut Engine> {
    let engine = OF_PROCEDURES.get();
    match engine.is_null() {
        false => Ok(engine),
        true => make_engine(machine, env, Purpose::Procedures),
    }
}

/// The calling thread's engine for calls of functions, which is made at its first call.
#[inline]
pub(crate) fn of_functions(machine: &'static Machine, env: Env) -> Java<*mut Engine> {
    let engine = OF_FUNCTIONS.get();
    match engine.is_null() {
        false => Ok(engine),
        true => make_engine(machine, env, Purpose::Functions),
    }
}

#[cold]
fn make_engine(machine: &'static Machine, env: Env, purpose: Purpose) -> Java<*mut Engine> {
    let engine = Box::into_raw(Box::new(Engine {
        number: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        object: ptr::null_mut(),
        to_java: vec![0; FIRST_BYTES].into(),
        from_java: vec![0; FIRST_BYTES].into(),
        context: ptr::null_mut(),
        stack_limit: stack_bottom().saturating_add(STACK_OF_BATCH),
        scratch: Vec::new(),
        instances: [(0, ptr::null_mut()); CACHED_INSTANCES],
    }));
    let runtime = &machine.runtime;
    let object = env.frame(|env| {
        // SAFETY: the engine was made right above, and lives until its thread ends; its buffers
        // until others take their place in the Java object. The constructor has that signature.
        unsafe {
            let to_java = env.direct_buffer((*engine).to_java.as_mut_ptr(), FIRST_BYTES)?;
            let from_java = env.direct_buffer((*engine).from_java.as_mut_ptr(), FIRST_BYTES)?;
            let arguments = [
                jvalue { j: engine as jlong },
                jvalue { l: to_java },
                jvalue { l: from_java },
                jvalue { z: u8::from(HAS_LIMITS.get()) },
            ];
            let object = env.new_object(runtime.engine, runtime.engine_new, &arguments)?;
            env.lasting(object)
        }
    });
    match object {
        Ok(object) => {
            // SAFETY: as above; nobody else has the pointer yet.
            unsafe { (*engine).object = object };
            match purpose {
                Purpose::Procedures => OF_PROCEDURES.set(engine),
                Purpose::Functions => OF_FUNCTIONS.set(engine),
            }
            OWNED.with(|owned| owned.borrow_mut().push(OwnedEngine { machine, engine }));
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

impl Engine {
    /// Makes room for N bytes in the buffer to Java; what is in it is lost.
    #[inline]
    pub(crate) fn room_to_java(&mut self, machine: &Machine, env: Env, bytes: usize) -> Java<()> {
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
    pub(crate) fn replace_from_java(
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
    pub(crate) fn shrink(&mut self, machine: &Machine, env: Env) {
        if self.to_java.len() > KEPT_BYTES {
            let _ = self.replace_to_java(machine, env, FIRST_BYTES);
        }
        if self.from_java.len() > KEPT_BYTES {
            let _ = self.replace_from_java(machine, env, FIRST_BYTES, 0);
        }
    }

    /// What Java wrote: N bytes of its buffer.
    #[inline]
    pub(crate) fn written(&self, length: jint) -> Java<&[u8]> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.from_java
            .get(..length)
            .ok_or_else(|| JavaError::new("the runtime of Java procedures stated a wrong length"))
    }
}

/// The calling thread's engine of procedures, if it is the one that Java names and a call runs.
pub(crate) fn current(handle: jlong) -> Option<&'static mut Engine> {
    let engine = named(handle)?;
    (!engine.context.is_null()).then_some(engine)
}

/// The calling thread's engine that Java names.
pub(crate) fn named(handle: jlong) -> Option<&'static mut Engine> {
    let mut engines = [OF_PROCEDURES.get(), OF_FUNCTIONS.get()].into_iter();
    let engine = engines.find(|engine| !engine.is_null() && *engine as jlong == handle)?;
    // SAFETY: it is this thread's, and lives until the thread ends; the caller of Java code holds
    // no reference to it while that runs.
    Some(unsafe { &mut *engine })
}
