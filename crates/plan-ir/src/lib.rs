//! Physical plans: everything that the planner tells the executor, and nothing else that the two
//! share.
//!
//! A [`Statement`] is one planned SQL statement. What it does at one partition is an
//! [`Operation`]: a query or a change of rows found by a [`Relation`].
//!
//! **Frame and slots.** A relation produces *frames*. A frame has numbered slots; each slot holds
//! one current row: either a row of a table (bound by a [`Relation::Scan`]) or a computed row
//! (bound by a projection, an aggregation, received rows). Every relation that binds a row names
//! its slot, slots are unique within a statement, and an [`Expression`] names a column as (slot,
//! column). A join simply leaves both sides' slots bound; a correlated subquery reads the slots
//! that the query around it has bound. [`Statement::slot_count`] is the number of slots.
//!
//! **Types.** Every expression carries its static type. The planner has checked them: the
//! executor may rely on operands being of the kind the node asks for, and inserts no conversions
//! of its own except the *assignment* to a column (see [`statement::Insert`]).
//!
//! Invariant: nothing here names a catalog, a parser or a storage type.

// Plans are made once, kept in an Arc and read by reference: their size matters less than
// plain pattern matching on them.
#![allow(clippy::large_enum_variant)]

pub mod change;
pub mod expiry;
pub mod expression;
pub mod function;
pub mod lookup;
pub mod procedure;
pub mod relation;
pub mod schema;
pub mod statement;
pub mod user;

pub use change::StorageChange;
pub use expiry::ExpiringTable;
pub use expression::{Comparison, Expression, Node};
pub use function::{AggregateFunction, Function};
pub use lookup::Lookup;
pub use procedure::{ProcedureDefinition, ProcedureKind};
pub use relation::{Access, Relation, Scan};
pub use schema::{ColumnDefinition, IndexDefinition, TableDefinition, ViewDefinition};
pub use statement::{Execution, Operation, Statement};
pub use user::{UserAggregate, UserFunction};
