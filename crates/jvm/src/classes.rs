//! The classes that users load: a jar of all of them, in a class loader of its own. Each
//! change makes a new one beside the old, which lives for as long as something uses it.

use crate::env::{Env, Java, JavaError};
use crate::machine::{self, JavaSettings, Machine};
use crate::wire::{Reader, write_text};
use jni_sys::{jobject, jvalue};
use lockstep_plan_ir::ProcedureDefinition;
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::SqlType;
use std::fmt;
use std::sync::Arc;

/// What a class is to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassKind {
    /// A helper.
    Other,
    /// A transactional procedure.
    Procedure,
    /// A non-transactional procedure.
    NonTransactional,
    /// A compound procedure.
    Compound,
    /// An aggregate function.
    Aggregate,
}

impl ClassKind {
    fn from_code(code: i8) -> ClassKind {
        match code {
            1 => ClassKind::Procedure,
            2 => ClassKind::NonTransactional,
            3 => ClassKind::Compound,
            4 => ClassKind::Aggregate,
            _ => ClassKind::Other,
        }
    }
}

/// A class that was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JavaClass {
    /// Its name, with dots.
    pub name: String,
    /// What it is.
    pub kind: ClassKind,
}

/// A statement of a procedure's class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JavaStatement {
    /// The field that holds it.
    pub name: String,
    /// Its SQL.
    pub text: String,
    /// The order of joins that it asks for.
    pub join_order: Option<String>,
}

/// A procedure's class as far as planning is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JavaDescription {
    /// What it is.
    pub kind: ClassKind,
    /// Its name without packages: the procedure's name if none is given.
    pub simple_name: String,
    /// Its statements, in the order that the runtime numbers them.
    pub statements: Vec<JavaStatement>,
    /// The parameters of `run`; `None` for one that is a table.
    pub parameters: Vec<Option<ProcedureParameter>>,
}

/// All classes that are loaded at one time.
pub struct JavaClasses {
    machine: &'static Machine,
    jar: Arc<[u8]>,
    space: jobject,
    list: Vec<JavaClass>,
}

// SAFETY: `space` is a global reference, which all threads may use; the rest is plain data.
unsafe impl Send for JavaClasses {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for JavaClasses {}

impl fmt::Debug for JavaClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JavaClasses").field("jar_bytes", &self.jar.len()).finish()
    }
}

impl Drop for JavaClasses {
    fn drop(&mut self) {
        let close = |env: Env| {
            // SAFETY: the method is the object's; nothing uses the reference from here on.
            unsafe {
                let closed = env.call_void(self.space, self.machine.runtime.class_space_close, &[]);
                env.let_go(self.space);
                closed
            }
        };
        if let Err(error) = self.machine.env().and_then(|env| env.frame(close)) {
            tracing::warn!(%error, "classes that are no longer used could not be closed");
        }
    }
}

impl JavaClasses {
    /// The classes that there are when a jar is added to those that are there, after the removal
    /// of those that the patterns name (separated by commas; `**` for any number of packages).
    ///
    /// # Errors
    /// There is no usable Java, or the jar is none.
    pub fn change(
        settings: &JavaSettings,
        present: Option<&JavaClasses>,
        jar: Option<&[u8]>,
        removed: Option<&str>,
    ) -> Result<JavaClasses, JavaError> {
        let machine = machine::machine(settings)?;
        let env = machine.env()?;
        let runtime = &machine.runtime;
        env.frame(|env| {
            let present = present.map(|present| &*present.jar);
            let arguments = [
                jvalue { l: optional_bytes(env, present)? },
                jvalue { l: optional_bytes(env, jar)? },
                jvalue {
                    l: removed.map_or(Ok(std::ptr::null_mut()), |text| env.new_string(text))?,
                },
            ];
            // SAFETY: the methods have the signatures that `Runtime::find` asked for.
            unsafe {
                let merged =
                    env.call_static_object(runtime.jars, runtime.jars_merge, &arguments)?;
                let jar = env.bytes(merged);
                let merged = [jvalue { l: merged }];
                let space =
                    env.new_object(runtime.class_space, runtime.class_space_new, &merged)?;
                let list = env.call_object(space, runtime.class_space_list, &[])?;
                let list = read_list(&env.bytes(list))?;
                let space = env.lasting(space)?;
                Ok(JavaClasses { machine, jar: jar.into(), space, list })
            }
        })
        .map_err(own_words)
    }

    /// Runs the static initializers of the classes of a jar that is among these, to learn whether
    /// one fails. It may take as long as they do, within the limit of calls for each.
    ///
    /// # Errors
    /// One fails: the text names its class.
    pub fn initialize(&self, added: &[u8]) -> Result<(), JavaError> {
        let method = self.machine.runtime.class_space_initialize;
        let run = |env: Env| {
            let jar = [jvalue { l: env.new_bytes(added)? }];
            // SAFETY: the method is the object's and takes a `byte[]`.
            unsafe { env.call_void(self.space, method, &jar) }
        };
        self.machine.env()?.frame(run).map_err(own_words)
    }

    /// The jar of all classes.
    pub fn jar(&self) -> &Arc<[u8]> {
        &self.jar
    }

    /// The classes, in order.
    pub fn list(&self) -> &[JavaClass] {
        &self.list
    }

    /// Examines a procedure's class.
    ///
    /// # Errors
    /// There is none of that name, or it breaks a rule: the text of the failed statement.
    pub fn describe(&self, class: &str) -> Result<JavaDescription, JavaError> {
        let runtime = &self.machine.runtime;
        let described = self.machine.env()?.frame(|env| {
            let procedure = self.procedure(env, class)?;
            // SAFETY: the method is the object's and gives a `byte[]`.
            unsafe {
                let described = env.call_object(procedure, runtime.procedure_describe, &[])?;
                Ok(env.bytes(described))
            }
        });
        read_description(&described.map_err(own_words)?)
    }

    /// The runtime's object for a procedure whose statements are planned, as a lasting reference.
    pub(crate) fn bound(&self, class: &str, definition: &ProcedureDefinition) -> Java<jobject> {
        let runtime = &self.machine.runtime;
        self.machine.env()?.frame(|env| {
            let procedure = self.procedure(env, class)?;
            let found = env.new_bytes(&planned(definition))?;
            // SAFETY: the method is the object's and takes a `byte[]`.
            unsafe { env.call_void(procedure, runtime.procedure_bind, &[jvalue { l: found }])? };
            env.lasting(procedure)
        })
    }

    /// The runtime's object for a method that is a scalar function, as a lasting reference, with
    /// the codes of the types that it takes and, at the end, gives.
    pub(crate) fn function(&self, class: &str, method: &str) -> Java<(jobject, Vec<i8>)> {
        let runtime = &self.machine.runtime;
        let found = self.machine.env()?.frame(|env| {
            let names =
                [jvalue { l: env.new_string(class)? }, jvalue { l: env.new_string(method)? }];
            // SAFETY: the methods are the objects', of those signatures.
            let (function, described) = unsafe {
                let function = env.call_object(self.space, runtime.class_space_function, &names)?;
                let described = env.call_object(function, runtime.function_describe, &[])?;
                (function, env.bytes(described))
            };
            let mut reader = Reader::new(&described);
            let result = reader.i8()?;
            let mut codes = Vec::new();
            for _ in 0..reader.i16()? {
                codes.push(reader.i8()?);
            }
            codes.push(result);
            Ok((env.lasting(function)?, codes))
        });
        found.map_err(own_words)
    }

    /// The runtime's object for a class that is an aggregate function, as a lasting reference,
    /// with the codes of the types that it takes and gives.
    pub(crate) fn aggregate(&self, class: &str) -> Java<(jobject, Vec<i8>)> {
        let runtime = &self.machine.runtime;
        let found = self.machine.env()?.frame(|env| {
            let name = [jvalue { l: env.new_string(class)? }];
            // SAFETY: the methods are the objects', of those signatures.
            let (aggregate, described) = unsafe {
                let found = env.call_object(self.space, runtime.class_space_aggregate, &name)?;
                let described = env.call_object(found, runtime.aggregate_describe, &[])?;
                (found, env.bytes(described))
            };
            let mut reader = Reader::new(&described);
            let result = reader.i8()?;
            let codes = vec![reader.i8()?, result];
            Ok((env.lasting(aggregate)?, codes))
        });
        found.map_err(own_words)
    }

    /// The JVM that they are in.
    pub(crate) fn machine(&self) -> &'static Machine {
        self.machine
    }

    fn procedure(&self, env: Env, class: &str) -> Java<jobject> {
        let name = [jvalue { l: env.new_string(class)? }];
        // SAFETY: the method is the object's and takes a string.
        unsafe { env.call_object(self.space, self.machine.runtime.class_space_procedure, &name) }
    }
}

fn optional_bytes(env: Env, bytes: Option<&[u8]>) -> Java<jobject> {
    bytes.map_or(Ok(std::ptr::null_mut()), |bytes| env.new_bytes(bytes))
}

/// The runtime's refusals are made for users: their class says nothing.
fn own_words(error: JavaError) -> JavaError {
    let message = error.message.strip_prefix("org.lockstepdb.procedure.DescribeException: ");
    match message {
        Some(message) => JavaError::new(message),
        None => error,
    }
}

fn read_list(bytes: &[u8]) -> Java<Vec<JavaClass>> {
    let mut reader = Reader::new(bytes);
    let mut list = Vec::new();
    for _ in 0..reader.i32()? {
        let name = reader.owned_text()?;
        list.push(JavaClass { name, kind: ClassKind::from_code(reader.i8()?) });
    }
    Ok(list)
}

fn read_description(bytes: &[u8]) -> Java<JavaDescription> {
    let mut reader = Reader::new(bytes);
    let kind = ClassKind::from_code(reader.i8()?);
    reader.owned_text()?;
    let simple_name = reader.owned_text()?;
    let mut statements = Vec::new();
    for _ in 0..reader.i16()? {
        statements.push(JavaStatement {
            name: reader.owned_text()?,
            text: reader.owned_text()?,
            join_order: reader.text()?.map(str::to_string),
        });
    }
    let mut parameters = Vec::new();
    for _ in 0..reader.i16()? {
        let (code, array) = (reader.i8()?, reader.i8()?);
        reader.text()?;
        let sql_type = SqlType::from_code(code);
        parameters
            .push(sql_type.map(|sql_type| ProcedureParameter { sql_type, is_array: array != 0 }));
    }
    Ok(JavaDescription { kind, simple_name, statements, parameters })
}

/// What the planner found, for the runtime.
fn planned(definition: &ProcedureDefinition) -> Vec<u8> {
    let mut out = (definition.statements.len() as i16).to_be_bytes().to_vec();
    for (_, statement) in &definition.statements {
        out.push(u8::from(statement.read_only));
        out.extend_from_slice(&(statement.parameters.len() as i16).to_be_bytes());
        for parameter in statement.parameters.iter() {
            let code = parameter.sql_type.code();
            out.push(if parameter.is_array { -code } else { code } as u8);
        }
    }
    out
}

/// A failure of a batch as the runtime reads it.
pub(crate) fn write_failure(out: &mut Vec<u8>, kind: i8, state: Option<&str>, message: &str) {
    out.push(kind as u8);
    write_text(out, state);
    write_text(out, Some(message));
}
