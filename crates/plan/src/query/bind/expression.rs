//! Scalar expressions: names, conditions, CASE, and where the other forms are bound.

use super::literal::{constant, literal};
use super::{BAD_COMBINATION, BAD_OPERATION, Binder, CAST_NEEDED, is_untyped};
use crate::error::PlanError;
use lockstep_plan_ir::{Comparison, Expression, Function, Node};
use lockstep_sql::ast::{self, CaseBranch, ExpressionKind, Span, TruthValue};
use lockstep_types::{SqlType, Value};

impl Binder<'_> {
    /// Binds an expression. Its type is [`SqlType::Null`] for a parameter or NULL whose type
    /// the surroundings have to decide.
    ///
    /// Number constants in it may be open: the caller settles them.
    pub(super) fn open_expression(
        &mut self,
        expression: &ast::Expression,
    ) -> Result<Expression, PlanError> {
        self.wanted_expression(expression, SqlType::Null)
    }

    /// As [`Binder::open_expression`], for the value of a column of the type `wanted`
    /// ([`SqlType::Null`] for none): parameters whose value becomes the column's by arithmetic,
    /// CASE and such functions hold at least what the column does.
    pub(super) fn wanted_expression(
        &mut self,
        expression: &ast::Expression,
        wanted: SqlType,
    ) -> Result<Expression, PlanError> {
        match self.grouped_subquery(expression) {
            Some(grouped) => Ok(grouped),
            None => self.expression_of_kind(expression, wanted),
        }
    }

    fn expression_of_kind(
        &mut self,
        expression: &ast::Expression,
        wanted: SqlType,
    ) -> Result<Expression, PlanError> {
        let span = expression.span;
        match &expression.kind {
            ExpressionKind::Literal(value) => literal(value, span),
            ExpressionKind::Column(name) => self.column_or_function(name),
            ExpressionKind::Parameter(number) => self.parameter(*number, span),
            ExpressionKind::Default => Err(PlanError::at(span, "unexpected token: DEFAULT")),
            ExpressionKind::Unary { operator, operand } => self.unary(*operator, operand, wanted),
            ExpressionKind::Binary { operator, left, right, .. } => {
                self.binary(*operator, left, right, wanted, span)
            }
            ExpressionKind::And(list) => Ok(boolean(Node::And(self.conditions(list)?))),
            ExpressionKind::Or(list) => Ok(boolean(Node::Or(self.conditions(list)?))),
            ExpressionKind::Not(operand) => {
                let operand = self.condition(operand, BAD_OPERATION)?;
                Ok(negation(operand))
            }
            ExpressionKind::Between { operand, low, high, symmetric, negated } => {
                self.between(operand, low, high, *symmetric, *negated)
            }
            ExpressionKind::InList { operand, list, negated } => {
                self.in_list(operand, list, *negated, span)
            }
            ExpressionKind::InSubquery { operand, query, negated } => {
                self.in_subquery(operand, query, *negated)
            }
            ExpressionKind::InParameter { operand, parameter, negated } => {
                self.in_parameter(operand, parameter, *negated)
            }
            ExpressionKind::Like { operand, pattern, escape, negated } => {
                self.like(operand, pattern, escape.as_deref(), *negated)
            }
            ExpressionKind::StartsWith { operand, prefix, negated } => {
                self.starts_with(operand, prefix, *negated)
            }
            ExpressionKind::IsNull { operand, negated } => {
                let mut operand = self.expression(operand)?;
                self.give_type(&mut operand, SqlType::Varchar);
                Ok(negated_if(*negated, boolean(Node::IsNull(Box::new(operand)))))
            }
            ExpressionKind::IsTruth { operand, value, negated } => {
                self.is_truth(operand, *value, *negated)
            }
            ExpressionKind::IsDistinctFrom { left, right, negated } => {
                let comparison =
                    if *negated { Comparison::NotDistinct } else { Comparison::Distinct };
                self.comparison(comparison, left, right, span)
            }
            ExpressionKind::Exists(query) => self.exists(query),
            ExpressionKind::Quantified { operand, operator, quantifier, query } => {
                self.quantified(operand, *operator, *quantifier, query)
            }
            ExpressionKind::Row(_) => {
                Err(PlanError::at(span, "row expressions are allowed in comparisons only"))
            }
            ExpressionKind::Case { operand, branches, otherwise } => {
                let conditions = self.case_conditions(operand.as_deref(), branches)?;
                let results = self.case_results(branches, otherwise.as_deref(), wanted)?;
                self.searched_case(conditions, results, wanted, span)
            }
            ExpressionKind::Cast { operand, data_type } => self.cast(operand, data_type),
            ExpressionKind::Function(call) => self.call(call, wanted, span),
            ExpressionKind::Subquery(query) => self.scalar_subquery(query, wanted),
        }
    }

    /// A column, or a function that needs no parentheses.
    fn column_or_function(&mut self, name: &ast::ColumnName) -> Result<Expression, PlanError> {
        let resolved = self.resolve(name);
        let (function, sql_type) = match name.name.as_str() {
            "MIN_VALID_TIMESTAMP" => (Function::MinValidTimestamp, SqlType::Timestamp),
            "MAX_VALID_TIMESTAMP" => (Function::MaxValidTimestamp, SqlType::Timestamp),
            "PI" => (Function::Pi, SqlType::Float),
            _ => return resolved,
        };
        let node = Node::Call(function, Vec::new());
        let call = Expression { node, sql_type };
        if name.table.is_none() { resolved.or(Ok(call)) } else { resolved }
    }

    fn parameter(&mut self, number: u32, span: Span) -> Result<Expression, PlanError> {
        if !self.rules.parameters || number as usize >= self.parameters.len() {
            return Err(PlanError::at(
                span,
                "unexpected token: ? (parameters are not allowed here)",
            ));
        }
        Ok(Expression::parameter(number as u16, SqlType::Null))
    }

    /// Binds a condition: what is not BOOLEAN is refused with `message`.
    pub(super) fn condition(
        &mut self,
        expression: &ast::Expression,
        message: &str,
    ) -> Result<Expression, PlanError> {
        let bound = self.expression(expression)?;
        match bound.sql_type {
            SqlType::Boolean => Ok(bound),
            SqlType::Null => Err(PlanError::at(expression.span, CAST_NEEDED)),
            found => Err(super::bad_type(expression.span, message, found, "a condition")),
        }
    }

    fn conditions(&mut self, list: &[ast::Expression]) -> Result<Vec<Expression>, PlanError> {
        list.iter().map(|item| self.condition(item, NOT_BOOLEAN)).collect()
    }

    /// A WHERE, ON or HAVING condition, cut at its ANDs.
    pub(super) fn conjuncts(
        &mut self,
        expression: &ast::Expression,
    ) -> Result<Vec<Expression>, PlanError> {
        match self.condition(expression, NOT_BOOLEAN)? {
            Expression { node: Node::And(list), .. } => {
                let mut flat = Vec::new();
                list.into_iter().for_each(|item| flatten_and(item, &mut flat));
                Ok(flat)
            }
            single => Ok(vec![single]),
        }
    }

    fn is_truth(
        &mut self,
        operand: &ast::Expression,
        value: TruthValue,
        negated: bool,
    ) -> Result<Expression, PlanError> {
        let operand = Box::new(self.condition(operand, BAD_OPERATION)?);
        let test = match value {
            TruthValue::Unknown => boolean(Node::IsNull(operand)),
            TruthValue::True | TruthValue::False => {
                let wanted = Value::Bool(value == TruthValue::True);
                let wanted = Box::new(Expression::literal(wanted, SqlType::Boolean));
                boolean(Node::Compare(Comparison::NotDistinct, operand, wanted))
            }
        };
        Ok(negated_if(negated, test))
    }

    /// The conditions of a CASE; with an operand, that each value equals it.
    fn case_conditions(
        &mut self,
        operand: Option<&ast::Expression>,
        branches: &[CaseBranch],
    ) -> Result<Vec<Expression>, PlanError> {
        let operand = operand.map(|e| self.open_expression(e).map(|b| (b, e.span))).transpose()?;
        let mut conditions = Vec::with_capacity(branches.len());
        for branch in branches {
            conditions.push(match &operand {
                None => self.condition(&branch.condition, NOT_BOOLEAN)?,
                Some((operand, at)) => {
                    let value = self.open_expression(&branch.condition)?;
                    if constant(&value) == Some(&Value::Null) && is_untyped(&value) {
                        return Err(PlanError::at(branch.condition.span, CAST_NEEDED));
                    }
                    self.compare(Comparison::Equal, operand.clone(), value, *at)?
                }
            });
        }
        Ok(conditions)
    }

    fn case_results(
        &mut self,
        branches: &[CaseBranch],
        otherwise: Option<&ast::Expression>,
        wanted: SqlType,
    ) -> Result<Vec<Expression>, PlanError> {
        let results = branches.iter().map(|branch| &branch.result).chain(otherwise);
        results.map(|result| self.wanted_expression(result, wanted)).collect()
    }

    /// A searched CASE of the type that its results' nominal types give; one more result than
    /// conditions is the ELSE.
    pub(super) fn searched_case(
        &mut self,
        conditions: Vec<Expression>,
        mut results: Vec<Expression>,
        wanted: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        self.unify_nominal(&mut results, wanted, span)?;
        self.case_of(conditions, results, wanted, span)
    }

    /// A searched CASE of the type that its results' types give.
    pub(super) fn case_of(
        &mut self,
        conditions: Vec<Expression>,
        mut results: Vec<Expression>,
        wanted: SqlType,
        span: Span,
    ) -> Result<Expression, PlanError> {
        let sql_type = self.unify_open(&mut results, wanted, span)?;
        if sql_type == SqlType::Boolean {
            return Err(PlanError::at(span, BAD_COMBINATION));
        }
        let otherwise = if results.len() > conditions.len() { results.pop() } else { None };
        let branches = conditions.into_iter().zip(results).collect();
        let node = Node::Case { branches, otherwise: otherwise.map(Box::new) };
        Ok(Expression { node, sql_type })
    }
}

/// VoltDB's message for values where a condition belongs.
pub(super) const NOT_BOOLEAN: &str = "data type of expression is not boolean";

fn flatten_and(expression: Expression, into: &mut Vec<Expression>) {
    match expression.node {
        Node::And(list) => list.into_iter().for_each(|item| flatten_and(item, into)),
        node => into.push(Expression { node, sql_type: expression.sql_type }),
    }
}

/// A BOOLEAN node.
pub(super) fn boolean(node: Node) -> Expression {
    Expression { node, sql_type: SqlType::Boolean }
}

/// NOT of a condition.
pub(super) fn negation(condition: Expression) -> Expression {
    boolean(Node::Not(Box::new(condition)))
}

/// NOT of a condition, if asked for.
pub(super) fn negated_if(negated: bool, condition: Expression) -> Expression {
    if negated { negation(condition) } else { condition }
}
