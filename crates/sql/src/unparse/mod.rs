//! Trees back to text: one canonical spelling for each, which parses to the same tree.
//!
//! Views, EXPLAIN and messages show it; two expressions are written alike exactly if they have
//! the same canonical text.

mod query;

use crate::ast::{
    BinaryOperator, ColumnName, DataType, Expression, ExpressionKind, FrameBound, FrameExclusion,
    FrameUnit, FunctionCall, FunctionKeyword, LengthUnit, Literal, Name, Quantifier, TruthValue,
    UnaryOperator, Window,
};
use crate::keyword::Keyword;
use core::fmt::{self, Display, Formatter, Write};

/// How tightly an expression holds together; what holds less than its place asks for gets
/// parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Or,
    And,
    Not,
    Predicate,
    Sum,
    Product,
    Sign,
    Operand,
}

fn strength(expression: &Expression) -> Strength {
    match &expression.kind {
        ExpressionKind::Or(_) => Strength::Or,
        ExpressionKind::And(_) => Strength::And,
        ExpressionKind::Not(_) => Strength::Not,
        ExpressionKind::Binary { operator, .. } => match operator {
            BinaryOperator::Add | BinaryOperator::Subtract | BinaryOperator::Concat => {
                Strength::Sum
            }
            BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo => {
                Strength::Product
            }
            _ => Strength::Predicate,
        },
        ExpressionKind::Between { .. }
        | ExpressionKind::InList { .. }
        | ExpressionKind::InSubquery { .. }
        | ExpressionKind::InParameter { .. }
        | ExpressionKind::Like { .. }
        | ExpressionKind::StartsWith { .. }
        | ExpressionKind::IsNull { .. }
        | ExpressionKind::IsTruth { .. }
        | ExpressionKind::IsDistinctFrom { .. }
        | ExpressionKind::Quantified { .. } => Strength::Predicate,
        ExpressionKind::Unary { .. } => Strength::Sign,
        _ => Strength::Operand,
    }
}

/// An expression in a place that asks for some strength.
struct Placed<'a>(&'a Expression, Strength);

impl Display for Placed<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match strength(self.0) < self.1 {
            true => write!(formatter, "({})", self.0),
            false => self.0.fmt(formatter),
        }
    }
}

/// An operand of a predicate.
fn term(expression: &Expression) -> Placed<'_> {
    Placed(expression, Strength::Sum)
}

/// Things with something between them.
struct Joined<'a, T>(&'a [T], &'static str);

impl<T: Display> Display for Joined<'_, T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for (index, element) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(self.1)?;
            }
            element.fmt(formatter)?;
        }
        Ok(())
    }
}

/// `text` if it applies, else nothing.
fn when(applies: bool, text: &'static str) -> &'static str {
    if applies { text } else { "" }
}

impl Display for Name {
    /// In quotes only where it would not be read as the same name without.
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let keyword = Keyword::of(&self.text);
        let special = matches!(
            keyword,
            Keyword::Null
                | Keyword::True
                | Keyword::False
                | Keyword::Default
                | Keyword::End
                | Keyword::Now
                | Keyword::CurrentTimestamp
                | Keyword::Migrating
        );
        let plain = |(index, byte): (usize, u8)| match byte {
            b'A'..=b'Z' | b'_' => true,
            b'0'..=b'9' | b'$' => index > 0,
            _ => false,
        };
        let bare = !self.text.is_empty() && self.text.bytes().enumerate().all(plain);
        match bare && !special && !keyword.is_reserved() {
            true => formatter.write_str(&self.text),
            false => write!(formatter, "\"{}\"", self.text.replace('"', "\"\"")),
        }
    }
}

impl Display for ColumnName {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match &self.table {
            Some(table) => write!(formatter, "{table}.{}", self.name),
            None => self.name.fmt(formatter),
        }
    }
}

impl Display for DataType {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name.as_str())?;
        match (self.length, self.unit) {
            (None, _) => Ok(()),
            (Some(length), LengthUnit::Characters) => write!(formatter, "({length})"),
            (Some(length), LengthUnit::Bytes) => write!(formatter, "({length} BYTES)"),
        }
    }
}

impl Display for Literal {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let quoted = |formatter: &mut Formatter<'_>, kind: &str, text: &str| {
            write!(formatter, "{kind}'{}'", text.replace('\'', "''"))
        };
        match self {
            Literal::Null => formatter.write_str("NULL"),
            Literal::Boolean(true) => formatter.write_str("TRUE"),
            Literal::Boolean(false) => formatter.write_str("FALSE"),
            Literal::Integer(text) | Literal::Decimal(text) => formatter.write_str(text),
            Literal::Float(text) => formatter.write_str(&text.to_uppercase()),
            Literal::String(text) => quoted(formatter, "", text),
            Literal::Hex(text) => quoted(formatter, "X", &text.to_uppercase()),
            Literal::Timestamp(text) => quoted(formatter, "TIMESTAMP ", text),
            Literal::Date(text) => quoted(formatter, "DATE ", text),
        }
    }
}

impl Display for Expression {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExpressionKind::Literal(literal) => literal.fmt(formatter),
            ExpressionKind::Column(column) => column.fmt(formatter),
            ExpressionKind::Parameter(_) => formatter.write_char('?'),
            ExpressionKind::Default => formatter.write_str("DEFAULT"),
            ExpressionKind::Unary { operator, operand } => {
                let sign = match operator {
                    UnaryOperator::Minus => '-',
                    UnaryOperator::Plus => '+',
                };
                // A sign after a sign would begin a comment.
                write!(formatter, "{sign}{}", Placed(operand, Strength::Operand))
            }
            ExpressionKind::Binary { operator, left, right, .. } => {
                let (own, above) = match strength(self) {
                    Strength::Sum => (Strength::Sum, Strength::Product),
                    Strength::Product => (Strength::Product, Strength::Sign),
                    _ => (Strength::Sum, Strength::Sum),
                };
                let (left, right) = (Placed(left, own), Placed(right, above));
                write!(formatter, "{left} {} {right}", operator.as_str())
            }
            ExpressionKind::And(operands) => chain(formatter, operands, " AND ", Strength::Not),
            ExpressionKind::Or(operands) => chain(formatter, operands, " OR ", Strength::And),
            ExpressionKind::Not(operand) => {
                write!(formatter, "NOT {}", Placed(operand, Strength::Not))
            }
            ExpressionKind::Exists(query) => write!(formatter, "EXISTS ({query})"),
            ExpressionKind::Row(elements) => write!(formatter, "({})", Joined(elements, ", ")),
            ExpressionKind::Case { .. } => case(formatter, &self.kind),
            ExpressionKind::Cast { operand, data_type } => {
                write!(formatter, "CAST({operand} AS {data_type})")
            }
            ExpressionKind::Function(call) => function(formatter, call),
            ExpressionKind::Subquery(query) => write!(formatter, "({query})"),
            _ => predicate(formatter, &self.kind),
        }
    }
}

fn chain(
    formatter: &mut Formatter<'_>,
    operands: &[Expression],
    separator: &str,
    least: Strength,
) -> fmt::Result {
    for (index, operand) in operands.iter().enumerate() {
        if index > 0 {
            formatter.write_str(separator)?;
        }
        Placed(operand, least).fmt(formatter)?;
    }
    Ok(())
}

fn predicate(formatter: &mut Formatter<'_>, kind: &ExpressionKind) -> fmt::Result {
    let not = |negated| when(negated, "NOT ");
    match kind {
        ExpressionKind::Between { operand, low, high, symmetric, negated } => {
            let (operand, low, high) = (term(operand), term(low), term(high));
            let symmetric = when(*symmetric, "SYMMETRIC ");
            write!(formatter, "{operand} {}BETWEEN {symmetric}{low} AND {high}", not(*negated))
        }
        ExpressionKind::InList { operand, list, negated } => {
            let operand = term(operand);
            write!(formatter, "{operand} {}IN ({})", not(*negated), Joined(list, ", "))
        }
        ExpressionKind::InSubquery { operand, query, negated } => {
            write!(formatter, "{} {}IN ({query})", term(operand), not(*negated))
        }
        ExpressionKind::InParameter { operand, parameter, negated } => {
            write!(formatter, "{} {}IN {parameter}", term(operand), not(*negated))
        }
        ExpressionKind::Like { operand, pattern, escape, negated } => {
            write!(formatter, "{} {}LIKE {}", term(operand), not(*negated), term(pattern))?;
            match escape {
                Some(escape) => write!(formatter, " ESCAPE {}", term(escape)),
                None => Ok(()),
            }
        }
        ExpressionKind::StartsWith { operand, prefix, negated } => {
            let (operand, prefix) = (term(operand), term(prefix));
            write!(formatter, "{operand} {}STARTS WITH {prefix}", not(*negated))
        }
        ExpressionKind::IsNull { operand, negated } => {
            write!(formatter, "{} IS {}NULL", term(operand), not(*negated))
        }
        ExpressionKind::IsTruth { operand, value, negated } => {
            let value = match value {
                TruthValue::True => "TRUE",
                TruthValue::False => "FALSE",
                TruthValue::Unknown => "UNKNOWN",
            };
            write!(formatter, "{} IS {}{value}", term(operand), not(*negated))
        }
        ExpressionKind::IsDistinctFrom { left, right, negated } => {
            let (left, right) = (term(left), term(right));
            write!(formatter, "{left} IS {}DISTINCT FROM {right}", not(*negated))
        }
        ExpressionKind::Quantified { operand, operator, quantifier, query } => {
            let quantifier = match quantifier {
                Quantifier::Any => "ANY",
                Quantifier::All => "ALL",
            };
            let operator = operator.as_str();
            write!(formatter, "{} {operator} {quantifier} ({query})", term(operand))
        }
        _ => Ok(()),
    }
}

fn case(formatter: &mut Formatter<'_>, kind: &ExpressionKind) -> fmt::Result {
    let ExpressionKind::Case { operand, branches, otherwise } = kind else { return Ok(()) };
    formatter.write_str("CASE")?;
    if let Some(operand) = operand {
        write!(formatter, " {operand}")?;
    }
    for branch in branches {
        write!(formatter, " WHEN {} THEN {}", branch.condition, branch.result)?;
    }
    if let Some(otherwise) = otherwise {
        write!(formatter, " ELSE {otherwise}")?;
    }
    formatter.write_str(" END")
}

fn function(formatter: &mut Formatter<'_>, call: &FunctionCall) -> fmt::Result {
    formatter.write_str(&call.name.text)?;
    if !call.parentheses {
        return Ok(());
    }
    formatter.write_char('(')?;
    let arguments = Joined(&call.arguments, ", ");
    match (call.keyword, call.unit, call.arguments.as_slice()) {
        (_, Some(unit), [time]) if call.name.text == "EXTRACT" => {
            write!(formatter, "{} FROM {time}", unit.unit.as_str())?;
        }
        (Some(FunctionKeyword::Both), None, [text]) => text.fmt(formatter)?,
        (Some(side), None, [text, rest @ ..]) => {
            let side = match side {
                FunctionKeyword::Leading => "LEADING",
                FunctionKeyword::Trailing => "TRAILING",
                _ => "BOTH",
            };
            write!(formatter, "{side} ")?;
            for character in rest {
                write!(formatter, "{character} ")?;
            }
            write!(formatter, "FROM {text}")?;
        }
        (_, _, [needle, text]) if call.name.text == "POSITION" => {
            write!(formatter, "{} IN {text}", term(needle))?;
        }
        (keyword, Some(unit), arguments_given) => {
            let comma = when(!arguments_given.is_empty(), ", ");
            write!(formatter, "{}{comma}{arguments}", unit.unit.as_str())?;
            match keyword {
                Some(FunctionKeyword::Start) => formatter.write_str(", START")?,
                Some(FunctionKeyword::End) => formatter.write_str(", END")?,
                _ => {}
            }
        }
        _ => {
            let distinct = when(call.distinct, "DISTINCT ");
            write!(formatter, "{}{distinct}{arguments}", when(call.star, "*"))?;
        }
    }
    formatter.write_char(')')?;
    if let Some(filter) = &call.filter {
        write!(formatter, " FILTER (WHERE {filter})")?;
    }
    match &call.over {
        Some(over) => write!(formatter, " OVER ({over})"),
        None => Ok(()),
    }
}

impl Display for Window {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let mut space = "";
        if !self.partition_by.is_empty() {
            write!(formatter, "PARTITION BY {}", Joined(&self.partition_by, ", "))?;
            space = " ";
        }
        if !self.order_by.is_empty() {
            write!(formatter, "{space}ORDER BY {}", Joined(&self.order_by, ", "))?;
            space = " ";
        }
        let Some(frame) = &self.frame else { return Ok(()) };
        let unit = match frame.unit {
            FrameUnit::Rows => "ROWS",
            FrameUnit::Range => "RANGE",
            FrameUnit::Groups => "GROUPS",
        };
        write!(formatter, "{space}{unit} BETWEEN {} AND {}", frame.start, frame.end)?;
        formatter.write_str(match frame.exclusion {
            FrameExclusion::NoOthers => "",
            FrameExclusion::CurrentRow => " EXCLUDE CURRENT ROW",
            FrameExclusion::Group => " EXCLUDE GROUP",
            FrameExclusion::Ties => " EXCLUDE TIES",
        })
    }
}

impl Display for FrameBound {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FrameBound::UnboundedPreceding => formatter.write_str("UNBOUNDED PRECEDING"),
            FrameBound::Preceding(count) => write!(formatter, "{} PRECEDING", term(count)),
            FrameBound::CurrentRow => formatter.write_str("CURRENT ROW"),
            FrameBound::Following(count) => write!(formatter, "{} FOLLOWING", term(count)),
            FrameBound::UnboundedFollowing => formatter.write_str("UNBOUNDED FOLLOWING"),
        }
    }
}
