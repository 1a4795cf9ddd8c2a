//! What an expression reaches besides the frame: parameters, time, memory for text that it
//! makes, and the executor for subqueries.

use crate::arena::Arena;
use crate::error::SqlError;
use crate::frame::Frame;
use lockstep_plan_ir::Comparison;
use lockstep_plan_ir::expression::{Quantifier, Subquery};
use lockstep_types::Datum;

/// What is the same for all expressions of one execution of a statement.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The statement's parameters, converted to their declared types. An array parameter is
    /// `Datum::Bytes`: the element type's wire code, then the wire encoding of the elements one
    /// after the other (see `types::table::write_datum`); `convert::array_elements` reads it.
    pub parameters: &'a [Datum<'a>],
    /// Memory for computed text and rows; lives until the statement ends.
    pub arena: &'a Arena,
    /// The transaction's time, microseconds since 1970: NOW.
    pub now_us: i64,
    /// Runs subqueries.
    pub subqueries: &'a dyn Subqueries<'a>,
}

/// Runs the subqueries that an expression meets. The frame's slots that the surrounding query has
/// bound stay bound; the subquery binds its own in the same frame.
pub trait Subqueries<'a> {
    /// The value of a subquery of one column; NULL for no row, an error for more than one.
    fn scalar(
        &self,
        context: &Context<'a>,
        subquery: &'a Subquery,
        frame: &Frame<'a>,
    ) -> Result<Datum<'a>, SqlError>;

    /// Whether the subquery has a row.
    fn exists(
        &self,
        context: &Context<'a>,
        subquery: &'a Subquery,
        frame: &Frame<'a>,
    ) -> Result<bool, SqlError>;

    /// `row comparison ANY|ALL (subquery)`: a truth value or NULL.
    fn quantified(
        &self,
        context: &Context<'a>,
        quantified: Quantified<'a, '_>,
        frame: &Frame<'a>,
    ) -> Result<Datum<'a>, SqlError>;
}

/// A quantified comparison, its left side evaluated.
pub struct Quantified<'a, 'r> {
    /// The comparison.
    pub comparison: Comparison,
    /// How the rows decide.
    pub quantifier: Quantifier,
    /// The values on the left.
    pub row: &'r [Datum<'a>],
    /// The subquery.
    pub subquery: &'a Subquery,
}

/// For places where no subquery can stand (index keys, view definitions, defaults): meeting one
/// is an error.
pub struct NoSubqueries;

impl<'a> Subqueries<'a> for NoSubqueries {
    fn scalar(
        &self,
        _: &Context<'a>,
        _: &'a Subquery,
        _: &Frame<'a>,
    ) -> Result<Datum<'a>, SqlError> {
        Err(refused())
    }

    fn exists(&self, _: &Context<'a>, _: &'a Subquery, _: &Frame<'a>) -> Result<bool, SqlError> {
        Err(refused())
    }

    fn quantified(
        &self,
        _: &Context<'a>,
        _: Quantified<'a, '_>,
        _: &Frame<'a>,
    ) -> Result<Datum<'a>, SqlError> {
        Err(refused())
    }
}

fn refused() -> SqlError {
    SqlError::sql("a subquery cannot stand in an index, a view or a default")
}
