//! Scalar expressions over the slots of a frame and the statement's parameters.

use crate::function::Function;
use crate::relation::Relation;
use crate::user::UserFunction;
use lockstep_types::{SqlType, Value};
use std::sync::Arc;

/// An expression with its static type.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    /// What it computes.
    pub node: Node,
    /// The type of its value; [`SqlType::Null`] only for the bare literal NULL.
    pub sql_type: SqlType,
}

/// The kinds of expressions. Three-valued logic throughout: a BOOLEAN may be NULL.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A constant.
    Literal(Value),
    /// The statement's parameter, numbered from 0; converted to this type before execution.
    Parameter(u16),
    /// A column of the row in a slot.
    Column {
        /// The slot.
        slot: u16,
        /// The column, from 0.
        column: u16,
    },
    /// AND of two or more.
    And(Vec<Expression>),
    /// OR of two or more.
    Or(Vec<Expression>),
    /// NOT.
    Not(Box<Expression>),
    /// A comparison of two values of the same kind (numbers of any type are one kind).
    Compare(Comparison, Box<Expression>, Box<Expression>),
    /// `IS NULL`.
    IsNull(Box<Expression>),
    /// Arithmetic in the result's type: BIGINT or narrower integers, DECIMAL or FLOAT. Operands
    /// may still be of a narrower number type and are widened.
    Arithmetic(Arithmetic, Box<Expression>, Box<Expression>),
    /// Unary minus, in the operand's type.
    Negate(Box<Expression>),
    /// A searched CASE; a simple one, COALESCE, NULLIF and DECODE are lowered to it.
    Case {
        /// Conditions with their results, tried in order; NULL is not true.
        branches: Vec<(Expression, Expression)>,
        /// The result when no condition is true; NULL when absent.
        otherwise: Option<Box<Expression>>,
    },
    /// `value IN (a, b, ...)`.
    InList {
        /// The value looked for.
        value: Box<Expression>,
        /// The list.
        list: Vec<Expression>,
    },
    /// `value IN ?`: the parameter is an array.
    InArray {
        /// The value looked for.
        value: Box<Expression>,
        /// The array parameter's number.
        parameter: u16,
    },
    /// `value LIKE pattern [ESCAPE c]`.
    Like {
        /// The text that is matched.
        value: Box<Expression>,
        /// The pattern.
        pattern: Box<Expression>,
        /// The escape character.
        escape: Option<char>,
    },
    /// `value STARTS WITH prefix`.
    StartsWith(Box<Expression>, Box<Expression>),
    /// CAST to the expression's type. `length` is the declared length of a VARCHAR (characters,
    /// or bytes if `length_in_bytes`) or VARBINARY target, 0 for none.
    Cast {
        /// The value.
        value: Box<Expression>,
        /// Greatest length.
        length: u32,
        /// Whether a VARCHAR's length counts bytes.
        length_in_bytes: bool,
    },
    /// A built-in function.
    Call(Function, Vec<Expression>),
    /// A function of users; the arguments are of the types that it declares.
    UserCall(Arc<UserFunction>, Vec<Expression>),
    /// The value of a subquery that gives at most one row; NULL when it gives none.
    ScalarSubquery(Box<Subquery>),
    /// Whether a subquery gives any row.
    Exists(Box<Subquery>),
    /// `row op ANY|ALL (subquery)` and `row op (subquery)`; IN is `= ANY`.
    Quantified {
        /// The comparison.
        comparison: Comparison,
        /// How the rows of the subquery decide.
        quantifier: Quantifier,
        /// The values on the left, as many as the subquery has columns.
        row: Vec<Expression>,
        /// The subquery.
        subquery: Box<Subquery>,
    },
    /// A comparison of two rows of values, column by column from the left.
    CompareRows(Comparison, Vec<Expression>, Vec<Expression>),
}

/// How the rows of a subquery decide a comparison with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantifier {
    /// True if it is for any row, false for no rows.
    Any,
    /// True if it is for all rows, also for no rows.
    All,
    /// The comparison with the only row, NULL for no rows; more rows are an error.
    Single,
}

/// A query inside an expression. It may read slots that the query around it has bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Subquery {
    /// The rows.
    pub relation: Relation,
    /// The columns, over the relation's frame.
    pub output: Vec<Expression>,
    /// True when it reads no slot of the query around it, so that one evaluation serves all rows
    /// of a statement.
    pub uncorrelated: bool,
    /// A number unique within the statement, for keeping the rows of uncorrelated subqueries.
    pub number: u16,
}

/// Comparison operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `IS DISTINCT FROM`: never NULL, NULL is equal to NULL.
    Distinct,
    /// `IS NOT DISTINCT FROM`: never NULL, NULL is equal to NULL.
    NotDistinct,
}

/// Arithmetic operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`: truncates toward zero between integers.
    Divide,
    /// `%` and MOD.
    Remainder,
}

impl Expression {
    /// A constant of a type.
    pub fn literal(value: Value, sql_type: SqlType) -> Expression {
        Expression { node: Node::Literal(value), sql_type }
    }

    /// A column of a slot.
    pub fn column(slot: u16, column: u16, sql_type: SqlType) -> Expression {
        Expression { node: Node::Column { slot, column }, sql_type }
    }

    /// A parameter.
    pub fn parameter(number: u16, sql_type: SqlType) -> Expression {
        Expression { node: Node::Parameter(number), sql_type }
    }
}
