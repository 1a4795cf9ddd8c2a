//! The classes and methods of the runtime (`java/runtime`) that the host calls, found once.

use crate::calls;
use crate::env::{Env, Java};
use crate::machine::JavaSettings;
use crate::nontransactional;
use jni_sys::{JNINativeMethod, jclass, jfieldID, jint, jmethodID, jvalue};
use std::ffi::{CStr, c_void};
use std::time::Duration;

/// The runtime as a jar; empty when this was built without a JDK.
pub(crate) static RUNTIME_JAR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runtime.jar"));

/// What the host calls. Methods are named `class_method`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runtime {
    pub(crate) jars: jclass,
    pub(crate) jars_merge: jmethodID,
    pub(crate) class_space: jclass,
    pub(crate) class_space_new: jmethodID,
    pub(crate) class_space_list: jmethodID,
    pub(crate) class_space_initialize: jmethodID,
    pub(crate) class_space_procedure: jmethodID,
    pub(crate) class_space_close: jmethodID,
    pub(crate) procedure_describe: jmethodID,
    pub(crate) procedure_bind: jmethodID,
    pub(crate) procedure_new_instance: jmethodID,
    pub(crate) instance_invoke: jmethodID,
    pub(crate) nontransactional: jclass,
    pub(crate) nontransactional_start: jmethodID,
    pub(crate) nontransactional_complete: jmethodID,
    pub(crate) nontransactional_stop: jmethodID,
    pub(crate) class_space_function: jmethodID,
    pub(crate) function_describe: jmethodID,
    pub(crate) function_new_instance: jmethodID,
    pub(crate) function_invoke: jmethodID,
    pub(crate) class_space_aggregate: jmethodID,
    pub(crate) aggregate_describe: jmethodID,
    pub(crate) aggregate_new_instance: jmethodID,
    pub(crate) group: GroupMethods,
    pub(crate) engine: jclass,
    pub(crate) engine_new: jmethodID,
    pub(crate) engine_to_java: jfieldID,
    pub(crate) engine_from_java: jfieldID,
}

/// The methods of one group of an aggregate function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupMethods {
    pub(crate) start: jmethodID,
    pub(crate) assemble: jmethodID,
    pub(crate) serialize: jmethodID,
    pub(crate) combine: jmethodID,
    pub(crate) end: jmethodID,
}

macro_rules! named {
    ($class:literal) => {
        concat!("org/lockstepdb/procedure/", $class)
    };
}

/// A C text of pieces that are put together when this is compiled.
macro_rules! c {
    ($($part:expr),*) => {
        match CStr::from_bytes_with_nul(concat!($($part,)* "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("a zero in a name"),
        }
    };
}

const JARS: &CStr = c!(named!("Jars"));
const SPACE: &CStr = c!(named!("ClassSpace"));
const PROCEDURE: &CStr = c!(named!("Procedure"));
const INSTANCE: &CStr = c!(named!("ProcedureInstance"));
const ENGINE: &CStr = c!(named!("NativeEngine"));
const NEW_INSTANCE: &CStr = c!("(L", named!("Engine"), ";)L", named!("ProcedureInstance"), ";");
const OF_CLASS: &CStr = c!("(Ljava/lang/String;)L", named!("Procedure"), ";");
const BUFFER: &CStr = c"Ljava/nio/ByteBuffer;";
const OF_METHOD: &CStr =
    c!("(Ljava/lang/String;Ljava/lang/String;)L", named!("ScalarFunction"), ";");
const OF_AGGREGATE: &CStr = c!("(Ljava/lang/String;)L", named!("AggregateFunction"), ";");
const NEW_FUNCTION: &CStr =
    c!("(L", named!("Engine"), ";)L", named!("ScalarFunction$Instance"), ";");
const NEW_GROUP: &CStr =
    c!("(L", named!("Engine"), ";)L", named!("AggregateFunction$Instance"), ";");
const START: &CStr = c!("(L", named!("Procedure"), ";J[B)V");

impl Runtime {
    /// Finds everything, binds the natives, and starts the watchdog.
    pub(crate) fn find(env: Env, settings: &JavaSettings) -> Java<Runtime> {
        let nontransactional = env.lasting_class(c!(named!("NonTransactional")))?;
        let function = env.lasting_class(c!(named!("ScalarFunction")))?;
        let function_instance = env.lasting_class(c!(named!("ScalarFunction$Instance")))?;
        let aggregate = env.lasting_class(c!(named!("AggregateFunction")))?;
        let group = env.lasting_class(c!(named!("AggregateFunction$Instance")))?;
        let jars = env.lasting_class(JARS)?;
        let class_space = env.lasting_class(SPACE)?;
        let procedure = env.lasting_class(PROCEDURE)?;
        let instance = env.lasting_class(INSTANCE)?;
        let engine = env.lasting_class(ENGINE)?;
        let runtime = Runtime {
            jars,
            jars_merge: env.static_method(jars, c"merge", c"([B[BLjava/lang/String;)[B")?,
            class_space,
            class_space_new: env.method(class_space, c"<init>", c"([B)V")?,
            class_space_list: env.method(class_space, c"list", c"()[B")?,
            class_space_initialize: env.method(class_space, c"initialize", c"([B)V")?,
            class_space_procedure: env.method(class_space, c"procedure", OF_CLASS)?,
            class_space_close: env.method(class_space, c"close", c"()V")?,
            procedure_describe: env.method(procedure, c"describe", c"()[B")?,
            procedure_bind: env.method(procedure, c"bind", c"([B)V")?,
            procedure_new_instance: env.method(procedure, c"newInstance", NEW_INSTANCE)?,
            instance_invoke: env.method(instance, c"invoke", c"(I)I")?,
            nontransactional,
            nontransactional_start: env.static_method(nontransactional, c"start", START)?,
            nontransactional_complete: env.static_method(
                nontransactional,
                c"complete",
                c"(J[B)V",
            )?,
            nontransactional_stop: env.static_method(
                nontransactional,
                c"stop",
                c"(JLjava/lang/String;)V",
            )?,
            class_space_function: env.method(class_space, c"function", OF_METHOD)?,
            function_describe: env.method(function, c"describe", c"()[B")?,
            function_new_instance: env.method(function, c"newInstance", NEW_FUNCTION)?,
            function_invoke: env.method(function_instance, c"invoke", c"(I)I")?,
            class_space_aggregate: env.method(class_space, c"aggregate", OF_AGGREGATE)?,
            aggregate_describe: env.method(aggregate, c"describe", c"()[B")?,
            aggregate_new_instance: env.method(aggregate, c"newInstance", NEW_GROUP)?,
            group: GroupMethods {
                start: env.method(group, c"start", c"()I")?,
                assemble: env.method(group, c"assemble", c"(I)I")?,
                serialize: env.method(group, c"serialize", c"()I")?,
                combine: env.method(group, c"combine", c"(I)I")?,
                end: env.method(group, c"end", c"()I")?,
            },
            engine,
            engine_new: env.method(
                engine,
                c"<init>",
                c"(JLjava/nio/ByteBuffer;Ljava/nio/ByteBuffer;Z)V",
            )?,
            engine_to_java: env.field(engine, c"toJava", BUFFER)?,
            engine_from_java: env.field(engine, c"fromJava", BUFFER)?,
        };
        register_natives(env, engine)?;
        start_watchdog(env, settings)?;
        configure_threads(env, nontransactional, settings)?;
        limit_batches(env, instance, settings)?;
        Ok(runtime)
    }
}

fn register_natives(env: Env, engine: jclass) -> Java<()> {
    let execute: *mut c_void = calls::execute as *mut c_void;
    let grow: *mut c_void = calls::grow as *mut c_void;
    let stuck: *mut c_void = calls::stuck as *mut c_void;
    let natives = [
        native(c"execute", c"(JI)I", execute),
        native(c"grow", c"(JII)V", grow),
        native(c"stuck", c"(JLjava/lang/String;)V", stuck),
    ];
    let start: *mut c_void = nontransactional::start_call as *mut c_void;
    let finish: *mut c_void = nontransactional::finish_call as *mut c_void;
    let of_calls = [
        native(c"startCall", c"(JJILjava/lang/String;[B)V", start),
        native(c"finishCall", c"(J[B)V", finish),
    ];
    let calls = env.lasting_class(c!(named!("NativeCalls")))?;
    // SAFETY: all functions have the types that their signatures state.
    unsafe {
        env.register(engine, &natives)?;
        env.register(calls, &of_calls)
    }
}

/// Says how many procedures that are no transactions run at a time.
fn configure_threads(env: Env, class: jclass, settings: &JavaSettings) -> Java<()> {
    let configure = env.static_method(class, c"configure", c"(I)V")?;
    let threads = jint::try_from(settings.nontransactional_threads_max).unwrap_or(jint::MAX);
    // SAFETY: the method is the class's, and takes an int.
    unsafe { env.call_static_void(class, configure, &[jvalue { i: threads.max(1) }]) }
}

/// States how much a batch may hold.
fn limit_batches(env: Env, class: jclass, settings: &JavaSettings) -> Java<()> {
    let limit = env.static_method(class, c"limitBatches", c"(I)V")?;
    let bytes = jint::try_from(settings.batch_bytes_max).unwrap_or(jint::MAX);
    // SAFETY: the method is the class's, and takes an int.
    unsafe { env.call_static_void(class, limit, &[jvalue { i: bytes }]) }
}

fn native(name: &CStr, signature: &CStr, function: *mut c_void) -> JNINativeMethod {
    JNINativeMethod {
        name: name.as_ptr().cast_mut(),
        signature: signature.as_ptr().cast_mut(),
        fnPtr: function,
    }
}

/// Has calls stopped that stay in Java code for too long, and reported those that do not stop.
fn start_watchdog(env: Env, settings: &JavaSettings) -> Java<()> {
    let class = env.lasting_class(c!(named!("Watchdog")))?;
    let start = env.static_method(class, c"start", c"(II)V")?;
    // In milliseconds; 0 is no limit.
    let limit =
        |limit: Duration| jvalue { i: jint::try_from(limit.as_millis()).unwrap_or(jint::MAX) };
    let limits = [limit(settings.call_limit.unwrap_or_default()), limit(settings.stuck_limit)];
    // SAFETY: the method is the class's, and takes two ints.
    unsafe { env.call_static_void(class, start, &limits) }
}
