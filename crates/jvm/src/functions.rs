//! Functions of users in Java, as statements call them: a crossing for each call of a scalar
//! function, and for each few hundred values of an aggregate function's group.

use crate::classes::JavaClasses;
use crate::engine::{self, Engine, Instances};
use crate::env::{Env, Java, JavaError};
use crate::machine::Machine;
use crate::wire::Reader;
use jni_sys::{jint, jmethodID, jobject, jvalue};
use lockstep_base::bytes::ByteReader;
use lockstep_plan_ir::user::{AggregateCode, AggregateGroup, FunctionCode};
use lockstep_plan_ir::{UserAggregate, UserFunction};
use lockstep_types::table::{read_datum, write_datum};
use lockstep_types::{Datum, Failure, SqlType, Status};
use std::fmt;
use std::sync::Arc;

/// Values of a group that cross together.
const GATHERED_VALUES: i16 = 256;
/// Bytes of values of a group that cross at the latest.
const GATHERED_BYTES: usize = 32 << 10;

/// The scalar function that is a method of a class.
///
/// # Errors
/// There is none, or it breaks a rule: the text for the user.
pub fn scalar_function(
    classes: &Arc<JavaClasses>,
    name: &str,
    class: &str,
    method: &str,
) -> Result<UserFunction, JavaError> {
    let (function, codes) = classes.function(class, method)?;
    // Owns the reference from here on.
    let mut code = ScalarCode {
        owned: Owned { classes: Arc::clone(classes), object: function },
        instances: Instances::new(),
        name: name.to_string(),
        parameters: Vec::new(),
        sql_type: SqlType::Null,
    };
    let mut types = types_of(&codes)?;
    code.sql_type = types.pop().unwrap_or(SqlType::Null);
    code.parameters = types.clone();
    let sql_type = code.sql_type;
    Ok(UserFunction { name: name.to_string(), parameters: types, sql_type, code: Arc::new(code) })
}

/// The aggregate function that a class is.
///
/// # Errors
/// As for [`scalar_function`].
pub fn aggregate_function(
    classes: &Arc<JavaClasses>,
    name: &str,
    class: &str,
) -> Result<UserAggregate, JavaError> {
    let (object, codes) = classes.aggregate(class)?;
    let owned = Arc::new(Owned { classes: Arc::clone(classes), object });
    let types = types_of(&codes)?;
    let [parameter, sql_type] = types[..] else {
        return Err(JavaError::new("the runtime described an aggregate function in part only"));
    };
    let code = Arc::new(GroupCode { owned, name: name.to_string(), parameter, sql_type });
    Ok(UserAggregate { name: name.to_string(), parameter, sql_type, code })
}

fn types_of(codes: &[i8]) -> Java<Vec<SqlType>> {
    let known = |code: &i8| {
        SqlType::from_code(*code).ok_or_else(|| {
            JavaError::new("types of geography are not supported yet: a parameter or the result")
        })
    };
    codes.iter().map(known).collect()
}

/// A lasting reference with the classes that it needs.
struct Owned {
    classes: Arc<JavaClasses>,
    object: jobject,
}

// SAFETY: the reference is a global one, which all threads may use.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Ok(env) = self.classes.machine().env() {
            // SAFETY: its only owner goes.
            unsafe { env.let_go(self.object) };
        }
    }
}

/// The code of a scalar function.
struct ScalarCode {
    owned: Owned,
    instances: Instances,
    name: String,
    parameters: Vec<SqlType>,
    sql_type: SqlType,
}

// SAFETY: the references in `instances` are global ones; the list of them has a lock.
unsafe impl Send for ScalarCode {}
// SAFETY: as above.
unsafe impl Sync for ScalarCode {}

impl fmt::Debug for ScalarCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScalarCode").field("name", &self.name).finish()
    }
}

impl Drop for ScalarCode {
    fn drop(&mut self) {
        if let Ok(env) = self.owned.classes.machine().env() {
            // SAFETY: nothing calls the function any more: this is its last owner.
            unsafe { self.instances.let_go(env) };
        }
    }
}

impl FunctionCode for ScalarCode {
    fn call(
        &self,
        arguments: &[Datum<'_>],
        take: &mut dyn FnMut(Datum<'_>),
    ) -> Result<(), Failure> {
        let machine = self.owned.classes.machine();
        let answer = Call::begin(machine).and_then(|call| {
            // SAFETY: the engine is this thread's, and no other reference to it is held.
            let engine = unsafe { &mut *call.engine };
            let method = machine.runtime.function_new_instance;
            let make = |object| make_instance(call.env, self.owned.object, method, object);
            let instance = self.instances.get(engine, make)?;
            engine.scratch.clear();
            engine.scratch.extend_from_slice(&(arguments.len() as i16).to_be_bytes());
            for (value, sql_type) in arguments.iter().zip(&self.parameters) {
                engine.scratch.push(sql_type.code() as u8);
                write_datum(&mut engine.scratch, *sql_type, *value);
            }
            let length = engine.hand_over(machine, call.env)?;
            // SAFETY: the method is the object's and takes an int.
            unsafe { call.run(instance, machine.runtime.function_invoke, Some(length)) }
        });
        take_value(&self.name, answer, self.sql_type, take)
    }
}

/// An object of the runtime for the calls of one thread, given its engine's object.
fn make_instance(env: Env, maker: jobject, method: jmethodID, engine: jobject) -> Java<jobject> {
    env.frame(|env| {
        // SAFETY: the method is the maker's, and takes an engine.
        let instance = unsafe { env.call_object(maker, method, &[jvalue { l: engine }])? };
        env.lasting(instance)
    })
}

/// What a call needs that the thread has.
struct Call {
    env: Env,
    engine: *mut Engine,
}

impl Call {
    #[inline]
    fn begin(machine: &'static Machine) -> Java<Call> {
        let env = machine.env()?;
        Ok(Call { env, engine: engine::of_functions(machine, env)? })
    }

    /// Calls a method; what it wrote.
    ///
    /// # Safety
    /// The method is the object's, and takes an int if there is one. No reference to the engine is
    /// held while it runs.
    unsafe fn run(
        &self,
        object: jobject,
        method: jmethodID,
        length: Option<jint>,
    ) -> Java<&'static [u8]> {
        let argument = [jvalue { i: length.unwrap_or(0) }];
        let arguments = if length.is_some() { &argument[..] } else { &[] };
        // SAFETY: the caller's promise; the engine lives as long as the thread, and what is in its
        // buffer until the next call.
        unsafe {
            let written = self.env.call_int(object, method, arguments)?;
            (*self.engine).written(written)
        }
    }
}

impl Engine {
    /// Copies what was put together into the buffer to Java; its length.
    fn hand_over(&mut self, machine: &Machine, env: Env) -> Java<jint> {
        let length = self.scratch.len();
        self.room_to_java(machine, env, length)?;
        self.to_java[..length].copy_from_slice(&self.scratch);
        jint::try_from(length).map_err(|_| JavaError::new("the values are too long for Java"))
    }
}

fn broken(name: &str, error: &JavaError) -> Failure {
    let message = format!("VOLTDB ERROR: user-defined function {name}: {}", error.message);
    Failure::unexpected(message)
}

/// What is after the status of an answer.
fn succeeded<'b>(name: &str, answer: Java<&'b [u8]>) -> Result<&'b [u8], Failure> {
    let answer = answer.map_err(|error| broken(name, &error))?;
    match answer {
        [1, rest @ ..] => Ok(rest),
        _ => Err(failure(name, answer).unwrap_or_else(|error| broken(name, &error))),
    }
}

#[cold]
fn failure(name: &str, answer: &[u8]) -> Java<Failure> {
    let mut reader = Reader::new(answer);
    let status = reader.i8()?;
    reader.i8()?;
    reader.text()?;
    reader.i8()?;
    reader.text()?;
    reader.text()?;
    let text = reader.owned_text()?;
    let status = match status == Status::UserAbort.code() {
        true => Status::UserAbort,
        false => Status::GracefulFailure,
    };
    Ok(Failure::new(status, format!("user-defined function {name} failed: {text}")))
}

/// Gives the typed value of an answer, as the declared type.
fn take_value(
    name: &str,
    answer: Java<&[u8]>,
    declared: SqlType,
    take: &mut dyn FnMut(Datum<'_>),
) -> Result<(), Failure> {
    let answer = succeeded(name, answer)?;
    let unreadable = |what: &dyn fmt::Display| {
        Failure::graceful(format!("user-defined function {name} gave an unusable value: {what}"))
    };
    let mut reader = ByteReader::new(answer);
    let code = reader.i8().map_err(|error| unreadable(&error))?;
    let sql_type =
        SqlType::from_code(code).ok_or_else(|| unreadable(&format!("type code {code}")))?;
    let value = read_datum(&mut reader, sql_type).map_err(|error| unreadable(&error))?;
    take(match (value, declared.integer_range()) {
        // The value that stands for NULL in a narrow type.
        (Datum::Int(value), Some((low, _))) if value < low => Datum::Null,
        _ => value,
    });
    Ok(())
}

/// The code of an aggregate function.
struct GroupCode {
    owned: Arc<Owned>,
    name: String,
    parameter: SqlType,
    sql_type: SqlType,
}

impl fmt::Debug for GroupCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCode").field("name", &self.name).finish()
    }
}

impl AggregateCode for GroupCode {
    fn begin(&self) -> Result<Box<dyn AggregateGroup>, Failure> {
        let machine = self.owned.classes.machine();
        let made = Call::begin(machine).and_then(|call| {
            let method = machine.runtime.aggregate_new_instance;
            // SAFETY: the engine is this thread's, and lives as long as it.
            let object = unsafe { (*call.engine).object };
            let instance = make_instance(call.env, self.owned.object, method, object)?;
            let owned = Arc::clone(&self.owned);
            Ok((call, Instance { owned, object: instance }))
        });
        let (call, instance) = made.map_err(|error| broken(&self.name, &error))?;
        // SAFETY: the method is the object's and takes nothing.
        let started = unsafe { call.run(instance.object, machine.runtime.group.start, None) };
        succeeded(&self.name, started)?;
        Ok(Box::new(Group {
            instance,
            name: self.name.clone(),
            parameter: self.parameter,
            sql_type: self.sql_type,
            gathered: Vec::new(),
            count: 0,
        }))
    }
}

/// A group's object.
struct Instance {
    /// Its function, which outlives it.
    owned: Arc<Owned>,
    object: jobject,
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Ok(env) = self.owned.classes.machine().env() {
            // SAFETY: its only owner goes.
            unsafe { env.let_go(self.object) };
        }
    }
}

/// A group's values: those that Java has, and those that are to cross with the next.
struct Group {
    instance: Instance,
    name: String,
    parameter: SqlType,
    sql_type: SqlType,
    gathered: Vec<u8>,
    count: i16,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("name", &self.name).finish()
    }
}

impl Group {
    /// Calls a method with some bytes, or with nothing.
    fn call(&self, method: jmethodID, bytes: Option<[&[u8]; 2]>) -> Java<&'static [u8]> {
        let machine = self.instance.owned.classes.machine();
        let call = Call::begin(machine)?;
        let length = match bytes {
            None => None,
            Some(parts) => {
                // SAFETY: the engine is this thread's, and no other reference to it is held.
                let engine = unsafe { &mut *call.engine };
                engine.scratch.clear();
                parts.iter().for_each(|part| engine.scratch.extend_from_slice(part));
                Some(engine.hand_over(machine, call.env)?)
            }
        };
        // SAFETY: the callers name methods of the group that take what they give.
        unsafe { call.run(self.instance.object, method, length) }
    }

    fn methods(&self) -> &'static crate::runtime::GroupMethods {
        &self.instance.owned.classes.machine().runtime.group
    }

    /// Has the gathered values cross.
    fn flush(&mut self) -> Result<(), Failure> {
        if self.count == 0 {
            return Ok(());
        }
        let count = self.count.to_be_bytes();
        let answer = self.call(self.methods().assemble, Some([&count, &self.gathered]));
        self.count = 0;
        self.gathered.clear();
        succeeded(&self.name, answer).map(|_| ())
    }
}

impl AggregateGroup for Group {
    fn add(&mut self, value: Datum<'_>) -> Result<(), Failure> {
        self.gathered.push(self.parameter.code() as u8);
        write_datum(&mut self.gathered, self.parameter, value);
        self.count += 1;
        match self.count < GATHERED_VALUES && self.gathered.len() < GATHERED_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    fn combine(&mut self, part: &[u8]) -> Result<(), Failure> {
        self.flush()?;
        let answer = self.call(self.methods().combine, Some([part, &[]]));
        succeeded(&self.name, answer).map(|_| ())
    }

    fn part(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        self.flush()?;
        let answer = self.call(self.methods().serialize, None);
        let answer = succeeded(&self.name, answer)?;
        let part = ByteReader::new(answer).sized().ok().flatten();
        take(part.ok_or_else(|| {
            broken(&self.name, &JavaError::new("the runtime gave no bytes of a group"))
        })?);
        Ok(())
    }

    fn end(&mut self, take: &mut dyn FnMut(Datum<'_>)) -> Result<(), Failure> {
        self.flush()?;
        let answer = self.call(self.methods().end, None);
        take_value(&self.name, answer, self.sql_type, take)
    }
}
