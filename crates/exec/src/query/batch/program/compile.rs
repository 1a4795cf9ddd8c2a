//! Compiles expressions for the slots that frames have.

use super::membership::Membership;
use super::pattern::Pattern;
use super::{Code, Node};
use crate::convert::array_elements;
use crate::query::Run;
use crate::query::batch::frames::Frames;
use crate::query::batch::vector::{Kind, Vector};
use lockstep_plan_ir::Node as Plan;
use lockstep_plan_ir::expression::Quantifier;
use lockstep_plan_ir::expression::{Arithmetic, Comparison, Expression, Subquery};
use lockstep_types::{Datum, SqlType};

/// The longest list that is searched for each value.
const LIST_LIMIT: usize = 64;

/// Compiles an expression for frames with these slots; `kind` is of the column that is wanted.
pub(in crate::query::batch) fn compile<'a>(
    run: &Run<'_, 'a>,
    frames: &Frames<'a>,
    expression: &'a Expression,
    kind: Kind,
) -> Node<'a> {
    let compiler = Compiler { run, frames };
    match compiler.node(expression).and_then(|node| as_kind(node, kind)) {
        Some(node) => node,
        None => row_by_row(expression, kind),
    }
}

fn row_by_row(expression: &Expression, kind: Kind) -> Node<'_> {
    Node { code: Code::RowByRow(expression), out: Vector::new(kind), fallible: true }
}

fn node<'a>(code: Code<'a>, kind: Kind, fallible: bool) -> Node<'a> {
    Node { code, out: Vector::new(kind), fallible }
}

/// The node as another kind of number, as CASE and comparisons widen; `None` where nothing does.
fn as_kind(inner: Node<'_>, kind: Kind) -> Option<Node<'_>> {
    let fallible = inner.fallible;
    match (inner.kind(), kind) {
        (from, to) if from == to => Some(inner),
        (_, to) if inner.is_constant() && inner.out.is_null(0) => {
            let mut out = Vector::new(to);
            out.push_nulls(1);
            Some(Node { code: Code::Constant, out, fallible: false })
        }
        (Kind::Int | Kind::Decimal, Kind::Float) | (Kind::Int, Kind::Decimal) => {
            let constant = inner.is_constant();
            let mut converted = node(Code::Convert(Box::new(inner)), kind, fallible);
            if let (true, Code::Convert(inner)) = (constant, &converted.code) {
                super::convert(&inner.out, &mut converted.out);
                converted.code = Code::Constant;
            }
            Some(converted)
        }
        _ => None,
    }
}

struct Compiler<'c, 'e, 'a> {
    run: &'c Run<'e, 'a>,
    frames: &'c Frames<'a>,
}

impl<'a> Compiler<'_, '_, 'a> {
    /// An operand: what has no column form is evaluated row by row, unless it makes text, which
    /// would pile up.
    fn operand(&self, expression: &'a Expression) -> Option<Node<'a>> {
        self.node(expression).or_else(|| {
            let kind = Kind::of(expression.sql_type)?;
            (!kind.is_variable()).then(|| row_by_row(expression, kind))
        })
    }

    fn node(&self, expression: &'a Expression) -> Option<Node<'a>> {
        if let Plan::Column { slot, column } = expression.node
            && let Some(place) = self.frames.place_of(slot)
        {
            let kind = self.frames.kind(place, column)?;
            let code = Code::Column { place, column: column.into() };
            return Some(node(code, kind, false));
        }
        if self.is_fixed(expression) {
            return self.constant(expression);
        }
        match &expression.node {
            Plan::And(parts) => self.logic(false, parts),
            Plan::Or(parts) => self.logic(true, parts),
            Plan::Not(inner) => self.test(inner, Some(Kind::Bool), Code::Not),
            Plan::IsNull(inner) => self.test(inner, None, Code::IsNull),
            Plan::Compare(comparison, left, right) => self.compare(*comparison, left, right),
            Plan::Arithmetic(operator, left, right) => {
                self.arithmetic(*operator, left, right, expression.sql_type)
            }
            Plan::Negate(inner) => {
                let inner = self.operand(inner)?;
                let (kind, fallible) = (inner.kind(), inner.fallible);
                let is_number = matches!(kind, Kind::Int | Kind::Float | Kind::Decimal);
                is_number.then(|| node(Code::Negate(Box::new(inner)), kind, fallible))
            }
            Plan::Case { branches, otherwise } => {
                self.case(branches, otherwise.as_deref(), Kind::of(expression.sql_type)?)
            }
            Plan::InList { value, list } => self.in_list(value, list),
            Plan::InArray { value, parameter } => {
                let array = self.run.context.parameters.get(usize::from(*parameter))?;
                self.in_values(value, array_elements(*array))
            }
            Plan::Like { value, pattern, escape } => self.like(value, pattern, *escape),
            Plan::Cast { value, .. } => self.cast(value, expression.sql_type),
            Plan::Quantified { comparison, quantifier, row, subquery } => {
                let is_negated = match (comparison, quantifier) {
                    (Comparison::Equal, Quantifier::Any) => false,
                    (Comparison::NotEqual, Quantifier::All) => true,
                    _ => return None,
                };
                self.in_rows(row, subquery, is_negated)
            }
            _ => None,
        }
    }

    /// Whether the expression is the same for all frames.
    fn is_fixed(&self, expression: &'a Expression) -> bool {
        let mut fixed = true;
        crate::analysis::walk(expression, &mut |part| match part.node {
            Plan::Column { slot, .. } => fixed &= self.frames.place_of(slot).is_none(),
            Plan::ScalarSubquery(_) | Plan::Exists(_) | Plan::Quantified { .. } => fixed = false,
            _ => {}
        });
        fixed
    }

    /// An expression that fails has no constant: it fails where a row needs it.
    fn constant(&self, expression: &'a Expression) -> Option<Node<'a>> {
        let value = self.run.value(expression).ok()?;
        let kind = match value {
            Datum::Null => Kind::of(expression.sql_type).unwrap_or(Kind::Int),
            value => Kind::of(value.natural_type())?,
        };
        let mut out = Vector::new(kind);
        out.push(value).then_some(Node { code: Code::Constant, out, fallible: false })
    }

    fn test(
        &self,
        inner: &'a Expression,
        kind: Option<Kind>,
        code: fn(Box<Node<'a>>) -> Code<'a>,
    ) -> Option<Node<'a>> {
        let inner = self.operand(inner)?;
        let fallible = inner.fallible;
        let fits = kind.is_none_or(|kind| kind == inner.kind());
        fits.then(|| node(code(Box::new(inner)), Kind::Bool, fallible))
    }

    fn logic(&self, is_or: bool, parts: &'a [Expression]) -> Option<Node<'a>> {
        let parts: Vec<Node<'a>> = parts
            .iter()
            .map(|part| self.operand(part).and_then(|part| as_kind(part, Kind::Bool)))
            .collect::<Option<_>>()?;
        let fallible = parts.iter().any(Node::is_fallible);
        Some(node(Code::Logic { is_or, parts }, Kind::Bool, fallible))
    }

    fn compare(
        &self,
        comparison: Comparison,
        left: &'a Expression,
        right: &'a Expression,
    ) -> Option<Node<'a>> {
        if matches!(comparison, Comparison::Distinct | Comparison::NotDistinct) {
            return None;
        }
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        let is_integer = |kind| matches!(kind, Kind::Int | Kind::Timestamp);
        let kind = match (left.kind(), right.kind()) {
            (Kind::Bool, _) | (_, Kind::Bool) => return None,
            (a, b) if a == b => a,
            // Compared as they are.
            (a, b) if is_integer(a) && is_integer(b) => {
                return Some(self.comparison(comparison, left, right));
            }
            (Kind::Int | Kind::Decimal, Kind::Float) | (Kind::Float, _) => Kind::Float,
            (Kind::Int, Kind::Decimal) | (Kind::Decimal, Kind::Int) => Kind::Decimal,
            (a, _) if right.is_constant() && right.out.is_null(0) => a,
            _ => return None,
        };
        let (left, right) = (as_kind(left, kind)?, as_kind(right, kind)?);
        Some(self.comparison(comparison, left, right))
    }

    fn comparison(&self, comparison: Comparison, left: Node<'a>, right: Node<'a>) -> Node<'a> {
        let fallible = left.fallible || right.fallible;
        node(Code::Compare(comparison, Box::new((left, right))), Kind::Bool, fallible)
    }

    fn arithmetic(
        &self,
        operator: Arithmetic,
        left: &'a Expression,
        right: &'a Expression,
        sql_type: SqlType,
    ) -> Option<Node<'a>> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        let kind = Kind::of(sql_type)?;
        let of_integers = |node: &Node<'_>| matches!(node.kind(), Kind::Int | Kind::Timestamp);
        let (left, right) = match kind {
            Kind::Int if left.kind() == Kind::Int && right.kind() == Kind::Int => (left, right),
            Kind::Timestamp if of_integers(&left) && of_integers(&right) => (left, right),
            Kind::Float | Kind::Decimal => (as_kind(left, kind)?, as_kind(right, kind)?),
            _ => return None,
        };
        let range = sql_type.integer_range().unwrap_or((-i64::MAX, i64::MAX));
        let code = Code::Arithmetic(operator, range, Box::new((left, right)));
        Some(node(code, kind, true))
    }

    fn case(
        &self,
        branches: &'a [(Expression, Expression)],
        otherwise: Option<&'a Expression>,
        kind: Kind,
    ) -> Option<Node<'a>> {
        let result = |result| self.operand(result).and_then(|result| as_kind(result, kind));
        let branches: Vec<(Node<'a>, Node<'a>)> = branches
            .iter()
            .map(|(condition, value)| {
                let condition = self.operand(condition)?;
                Some((as_kind(condition, Kind::Bool)?, result(value)?))
            })
            .collect::<Option<_>>()?;
        let otherwise = match otherwise {
            Some(otherwise) => Some(Box::new(result(otherwise)?)),
            None => None,
        };
        let fallible = branches.iter().any(|(a, b)| a.fallible || b.fallible)
            || otherwise.as_ref().is_some_and(|node| node.fallible);
        Some(node(Code::Case { branches, otherwise }, kind, fallible))
    }

    fn in_list(&self, value: &'a Expression, list: &'a [Expression]) -> Option<Node<'a>> {
        if list.len() > LIST_LIMIT || !list.iter().all(|item| self.is_fixed(item)) {
            return None;
        }
        let items: Option<Vec<Datum<'a>>> =
            list.iter().map(|item| self.run.value(item).ok()).collect();
        self.in_values(value, items?.into_iter())
    }

    fn in_values(
        &self,
        value: &'a Expression,
        items: impl Iterator<Item = Datum<'a>>,
    ) -> Option<Node<'a>> {
        let value = self.operand(value)?;
        if !matches!(value.kind(), Kind::Int | Kind::Timestamp | Kind::Text) {
            return None;
        }
        let mut list = Vector::new(value.kind());
        // A NULL in the list equals nothing.
        for item in items.filter(|item| !item.is_null()) {
            if list.len() == LIST_LIMIT || !list.push(item) {
                return None;
            }
        }
        let fallible = value.fallible;
        Some(node(Code::InList(Box::new(value), list), Kind::Bool, fallible))
    }

    fn like(
        &self,
        value: &'a Expression,
        pattern: &'a Expression,
        escape: Option<char>,
    ) -> Option<Node<'a>> {
        if !self.is_fixed(pattern) {
            return None;
        }
        let Ok(Datum::Text(pattern)) = self.run.value(pattern) else { return None };
        let value = self.operand(value)?;
        let fallible = value.fallible;
        (value.kind() == Kind::Text).then(|| {
            let pattern = Pattern::new(pattern, escape);
            node(Code::Like(Box::new(value), pattern), Kind::Bool, fallible)
        })
    }

    fn in_rows(
        &self,
        row: &'a [Expression],
        subquery: &'a Subquery,
        is_negated: bool,
    ) -> Option<Node<'a>> {
        let ([value], [output]) = (row, subquery.output.as_slice()) else { return None };
        let value = self.operand(value)?;
        let kind = value.kind();
        let is_plain = matches!(kind, Kind::Int | Kind::Timestamp | Kind::Text | Kind::Decimal);
        if !is_plain || !subquery.uncorrelated || Kind::of(output.sql_type) != Some(kind) {
            return None;
        }
        let rows = Membership::new(subquery, is_negated);
        // The subquery may fail, or never be asked.
        Some(node(Code::InRows(Box::new(value), rows), Kind::Bool, true))
    }

    /// Casts that only widen.
    fn cast(&self, value: &'a Expression, to: SqlType) -> Option<Node<'a>> {
        let from = value.sql_type;
        let widens = match (from.integer_range(), to.integer_range()) {
            (Some(from), Some(to)) => to.0 <= from.0 && from.1 <= to.1,
            (Some(_), None) => matches!(to, SqlType::Float | SqlType::Decimal),
            _ => from == to,
        };
        if !widens {
            return None;
        }
        as_kind(self.operand(value)?, Kind::of(to)?)
    }
}
