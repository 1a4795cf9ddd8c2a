//! Functions that users wrote: their types, and their code, which is the user's.
//! The planner gets it with the function's name, and the executor calls it.

use lockstep_types::{Datum, Failure, SqlType};
use std::fmt;
use std::sync::Arc;

/// A scalar function of users.
#[derive(Debug, Clone)]
pub struct UserFunction {
    /// Its name, in upper case.
    pub name: String,
    /// What it takes. Values come in these types.
    pub parameters: Vec<SqlType>,
    /// What it gives.
    pub sql_type: SqlType,
    /// What computes it.
    pub code: Arc<dyn FunctionCode>,
}

impl PartialEq for UserFunction {
    fn eq(&self, other: &UserFunction) -> bool {
        Arc::ptr_eq(&self.code, &other.code)
    }
}

/// Computes a scalar function, on any thread.
pub trait FunctionCode: fmt::Debug + Send + Sync {
    /// Calls it with values of the declared types or NULL, and `take` once with what it gives.
    ///
    /// # Errors
    /// The function failed: its own text, which names it.
    fn call(&self, arguments: &[Datum<'_>], take: &mut dyn FnMut(Datum<'_>))
    -> Result<(), Failure>;
}

/// An aggregate function of users.
#[derive(Debug, Clone)]
pub struct UserAggregate {
    /// Its name, in upper case.
    pub name: String,
    /// What it takes.
    pub parameter: SqlType,
    /// What it gives.
    pub sql_type: SqlType,
    /// What computes it.
    pub code: Arc<dyn AggregateCode>,
}

impl PartialEq for UserAggregate {
    fn eq(&self, other: &UserAggregate) -> bool {
        Arc::ptr_eq(&self.code, &other.code)
    }
}

/// Computes an aggregate function, on any thread.
pub trait AggregateCode: fmt::Debug + Send + Sync {
    /// Begins a group: before its first value. It stays on the calling thread.
    ///
    /// # Errors
    /// As for [`FunctionCode::call`].
    fn begin(&self) -> Result<Box<dyn AggregateGroup>, Failure>;
}

/// What an aggregate function keeps of one group's values.
pub trait AggregateGroup: fmt::Debug {
    /// One more value, of the declared type or NULL.
    ///
    /// # Errors
    /// As for [`FunctionCode::call`]; it may be that of an earlier value.
    fn add(&mut self, value: Datum<'_>) -> Result<(), Failure>;

    /// What [`AggregateGroup::part`] gave for other values of the group.
    ///
    /// # Errors
    /// As for [`FunctionCode::call`].
    fn combine(&mut self, part: &[u8]) -> Result<(), Failure>;

    /// Gives what is kept as bytes, to be combined elsewhere.
    ///
    /// # Errors
    /// As for [`FunctionCode::call`].
    fn part(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<(), Failure>;

    /// Gives the aggregate of the values so far.
    ///
    /// # Errors
    /// As for [`FunctionCode::call`].
    fn end(&mut self, take: &mut dyn FnMut(Datum<'_>)) -> Result<(), Failure>;
}
