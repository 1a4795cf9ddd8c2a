//! Scalar and boolean expressions.

use super::{DataType, Name, OrderItem, Query, Span};

/// An expression and where it stands.
#[derive(Clone, Debug)]
pub struct Expression {
    /// What it is.
    pub kind: ExpressionKind,
    /// Where it stands. Parentheses around it are not part of it.
    pub span: Span,
}

/// The forms of an expression.
#[derive(Clone, Debug)]
pub enum ExpressionKind {
    /// A constant.
    Literal(Literal),
    /// A column, maybe qualified.
    Column(Box<ColumnName>),
    /// `?`, numbered from 0 in the order they stand in the statement.
    Parameter(u32),
    /// DEFAULT, only as an INSERT or SET value.
    Default,
    /// `-a`, `+a`.
    Unary {
        /// Which.
        operator: UnaryOperator,
        /// The operand.
        operand: Box<Expression>,
    },
    /// Arithmetic, `||` and comparisons.
    Binary {
        /// Which.
        operator: BinaryOperator,
        /// Where the operator stands.
        operator_span: Span,
        /// Left operand.
        left: Box<Expression>,
        /// Right operand.
        right: Box<Expression>,
    },
    /// `a AND b AND ...`: two operands or more, in order, nested ANDs of a chain flattened.
    And(Vec<Expression>),
    /// `a OR b OR ...`: two operands or more.
    Or(Vec<Expression>),
    /// `NOT a`.
    Not(Box<Expression>),
    /// `a [NOT] BETWEEN [SYMMETRIC] low AND high`.
    Between {
        /// The tested value.
        operand: Box<Expression>,
        /// Lower bound.
        low: Box<Expression>,
        /// Upper bound.
        high: Box<Expression>,
        /// SYMMETRIC: the bounds may stand in either order.
        symmetric: bool,
        /// NOT BETWEEN.
        negated: bool,
    },
    /// `a [NOT] IN (x, y, ...)`: one element or more.
    InList {
        /// The tested value; may be a row.
        operand: Box<Expression>,
        /// The elements.
        list: Vec<Expression>,
        /// NOT IN.
        negated: bool,
    },
    /// `a [NOT] IN (SELECT ...)`.
    InSubquery {
        /// The tested value; may be a row.
        operand: Box<Expression>,
        /// The subquery.
        query: Box<Query>,
        /// NOT IN.
        negated: bool,
    },
    /// `a [NOT] IN ?`: the parameter is an array.
    InParameter {
        /// The tested value.
        operand: Box<Expression>,
        /// The parameter: always [`ExpressionKind::Parameter`].
        parameter: Box<Expression>,
        /// NOT IN.
        negated: bool,
    },
    /// `a [NOT] LIKE pattern [ESCAPE c]`.
    Like {
        /// The tested value.
        operand: Box<Expression>,
        /// The pattern.
        pattern: Box<Expression>,
        /// The escape character.
        escape: Option<Box<Expression>>,
        /// NOT LIKE.
        negated: bool,
    },
    /// `a [NOT] STARTS WITH prefix`.
    StartsWith {
        /// The tested value.
        operand: Box<Expression>,
        /// The prefix.
        prefix: Box<Expression>,
        /// NOT STARTS WITH.
        negated: bool,
    },
    /// `a IS [NOT] NULL`.
    IsNull {
        /// The tested value.
        operand: Box<Expression>,
        /// IS NOT NULL.
        negated: bool,
    },
    /// `a IS [NOT] TRUE`, FALSE, UNKNOWN.
    IsTruth {
        /// The tested condition.
        operand: Box<Expression>,
        /// What it is compared with.
        value: TruthValue,
        /// IS NOT.
        negated: bool,
    },
    /// `a IS [NOT] DISTINCT FROM b`.
    IsDistinctFrom {
        /// Left operand.
        left: Box<Expression>,
        /// Right operand.
        right: Box<Expression>,
        /// IS NOT DISTINCT FROM.
        negated: bool,
    },
    /// `EXISTS (SELECT ...)`.
    Exists(Box<Query>),
    /// `a < ANY (SELECT ...)`.
    Quantified {
        /// Left operand; may be a row.
        operand: Box<Expression>,
        /// A comparison.
        operator: BinaryOperator,
        /// ANY (SOME) or ALL.
        quantifier: Quantifier,
        /// The subquery.
        query: Box<Query>,
    },
    /// `(a, b, ...)`: two elements or more.
    Row(Vec<Expression>),
    /// CASE in both forms.
    Case {
        /// The value compared with each WHEN; none for `CASE WHEN condition`.
        operand: Option<Box<Expression>>,
        /// The WHENs: one or more.
        branches: Vec<CaseBranch>,
        /// ELSE.
        otherwise: Option<Box<Expression>>,
    },
    /// `CAST(a AS type)`.
    Cast {
        /// The value.
        operand: Box<Expression>,
        /// The target.
        data_type: DataType,
    },
    /// A function, aggregate or window function call.
    Function(Box<FunctionCall>),
    /// `(SELECT ...)` as a value or a row.
    Subquery(Box<Query>),
}

/// A constant, as written. The text of numbers has no sign (a sign is a [`UnaryOperator`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Boolean(bool),
    /// Digits only: an integer if it fits BIGINT, else a DECIMAL.
    Integer(String),
    /// With a decimal point, without exponent.
    Decimal(String),
    /// With an exponent.
    Float(String),
    /// `'...'`, quotes removed.
    String(String),
    /// `X'...'`: the hexadecimal digits as written (an even number of them is not checked).
    Hex(String),
    /// `TIMESTAMP '...'`: the text between the quotes.
    Timestamp(String),
    /// `DATE '...'`: the text between the quotes.
    Date(String),
}

/// A column reference.
#[derive(Clone, Debug)]
pub struct ColumnName {
    /// The table name or alias before the point.
    pub table: Option<Name>,
    /// The column, or an alias of the select list.
    pub name: Name,
}

/// Sign operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOperator {
    /// `-`
    Minus,
    /// `+`
    Plus,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `||`
    Concat,
    /// `=`
    Equal,
    /// `<>` and `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl BinaryOperator {
    /// The operator's text.
    pub fn as_str(self) -> &'static str {
        match self {
            BinaryOperator::Add => "+",
            BinaryOperator::Subtract => "-",
            BinaryOperator::Multiply => "*",
            BinaryOperator::Divide => "/",
            BinaryOperator::Modulo => "%",
            BinaryOperator::Concat => "||",
            BinaryOperator::Equal => "=",
            BinaryOperator::NotEqual => "<>",
            BinaryOperator::Less => "<",
            BinaryOperator::LessOrEqual => "<=",
            BinaryOperator::Greater => ">",
            BinaryOperator::GreaterOrEqual => ">=",
        }
    }

    /// Whether it compares its operands.
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            BinaryOperator::Equal
                | BinaryOperator::NotEqual
                | BinaryOperator::Less
                | BinaryOperator::LessOrEqual
                | BinaryOperator::Greater
                | BinaryOperator::GreaterOrEqual
        )
    }
}

/// How a comparison with a subquery's rows counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// ANY or SOME.
    Any,
    /// ALL.
    All,
}

/// What IS compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TruthValue {
    /// TRUE.
    True,
    /// FALSE.
    False,
    /// UNKNOWN.
    Unknown,
}

/// WHEN condition THEN result.
#[derive(Clone, Debug)]
pub struct CaseBranch {
    /// The condition, or the value compared with the CASE's operand.
    pub condition: Expression,
    /// The result.
    pub result: Expression,
}

/// A call, or a function name that needs no parentheses (NOW, CURRENT_TIMESTAMP).
///
/// Special syntaxes are brought into plain argument order: `SUBSTRING(s FROM i FOR n)` is
/// `[s, i, n]`; `POSITION(a IN s)` is `[a, s]`; `OVERLAY(s PLACING r FROM i FOR n)` is
/// `[s, r, i, n]`; `TRIM(LEADING c FROM s)` is `[s, c]` with [`FunctionKeyword::Leading`];
/// `EXTRACT(f FROM t)` and `EXTRACT(f, t)` are `[t]` with `unit`.
#[derive(Clone, Debug)]
pub struct FunctionCall {
    /// The function's name.
    pub name: Name,
    /// The time unit that stands as a keyword before the other arguments.
    pub unit: Option<FunctionUnit>,
    /// A keyword among the arguments.
    pub keyword: Option<FunctionKeyword>,
    /// COUNT(*).
    pub star: bool,
    /// DISTINCT before the argument.
    pub distinct: bool,
    /// The arguments in plain order.
    pub arguments: Vec<Expression>,
    /// Whether parentheses were written.
    pub parentheses: bool,
    /// FILTER (WHERE ...).
    pub filter: Option<Expression>,
    /// OVER (...).
    pub over: Option<Window>,
}

/// A time unit as a function argument.
#[derive(Clone, Copy, Debug)]
pub struct FunctionUnit {
    /// Which.
    pub unit: TimeUnit,
    /// Where it stands.
    pub span: Span,
}

/// Units of DATEADD, DATEDIFF, TRUNCATE, SINCE_EPOCH, TO_TIMESTAMP, TIME_WINDOW and fields of
/// EXTRACT. Which function takes which is the binder's to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// YEAR
    Year,
    /// QUARTER
    Quarter,
    /// MONTH
    Month,
    /// WEEK
    Week,
    /// DAY
    Day,
    /// HOUR
    Hour,
    /// MINUTE
    Minute,
    /// SECOND
    Second,
    /// MILLISECOND or MILLIS
    Millisecond,
    /// MICROSECOND or MICROS
    Microsecond,
    /// DAY_OF_WEEK
    DayOfWeek,
    /// DAY_OF_MONTH
    DayOfMonth,
    /// DAY_OF_YEAR
    DayOfYear,
    /// WEEK_OF_YEAR
    WeekOfYear,
    /// WEEKDAY
    Weekday,
}

impl TimeUnit {
    /// The unit's first name, in upper case.
    pub fn as_str(self) -> &'static str {
        match self {
            TimeUnit::Year => "YEAR",
            TimeUnit::Quarter => "QUARTER",
            TimeUnit::Month => "MONTH",
            TimeUnit::Week => "WEEK",
            TimeUnit::Day => "DAY",
            TimeUnit::Hour => "HOUR",
            TimeUnit::Minute => "MINUTE",
            TimeUnit::Second => "SECOND",
            TimeUnit::Millisecond => "MILLISECOND",
            TimeUnit::Microsecond => "MICROSECOND",
            TimeUnit::DayOfWeek => "DAY_OF_WEEK",
            TimeUnit::DayOfMonth => "DAY_OF_MONTH",
            TimeUnit::DayOfYear => "DAY_OF_YEAR",
            TimeUnit::WeekOfYear => "WEEK_OF_YEAR",
            TimeUnit::Weekday => "WEEKDAY",
        }
    }
}

/// Keywords among a function's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKeyword {
    /// TRIM(BOTH ...), also when nothing is written.
    Both,
    /// TRIM(LEADING ...).
    Leading,
    /// TRIM(TRAILING ...).
    Trailing,
    /// TIME_WINDOW(..., START).
    Start,
    /// TIME_WINDOW(..., END).
    End,
}

/// OVER (...).
#[derive(Clone, Debug)]
pub struct Window {
    /// PARTITION BY.
    pub partition_by: Vec<Expression>,
    /// ORDER BY.
    pub order_by: Vec<OrderItem>,
    /// ROWS, RANGE or GROUPS.
    pub frame: Option<WindowFrame>,
    /// Where it stands.
    pub span: Span,
}

/// The rows around the current one that a window function sees.
#[derive(Clone, Debug)]
pub struct WindowFrame {
    /// What bounds count.
    pub unit: FrameUnit,
    /// Where the frame starts.
    pub start: FrameBound,
    /// Where it ends; CURRENT ROW when only the start was written.
    pub end: FrameBound,
    /// EXCLUDE.
    pub exclusion: FrameExclusion,
    /// Where it stands.
    pub span: Span,
}

/// What frame bounds count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    /// Rows.
    Rows,
    /// Values of the ordering expression.
    Range,
    /// Groups of peers.
    Groups,
}

/// EXCLUDE of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameExclusion {
    /// NO OTHERS, or nothing written.
    NoOthers,
    /// CURRENT ROW.
    CurrentRow,
    /// GROUP.
    Group,
    /// TIES.
    Ties,
}

/// One end of a frame.
#[derive(Clone, Debug)]
pub enum FrameBound {
    /// UNBOUNDED PRECEDING.
    UnboundedPreceding,
    /// n PRECEDING.
    Preceding(Box<Expression>),
    /// CURRENT ROW.
    CurrentRow,
    /// n FOLLOWING.
    Following(Box<Expression>),
    /// UNBOUNDED FOLLOWING.
    UnboundedFollowing,
}
