//! Comparisons, IS, IN, BETWEEN, LIKE, STARTS WITH and quantified comparisons.

use super::expression::Binding;
use super::{Parsed, Parser};
use crate::ast::{BinaryOperator, Expression, ExpressionKind, Quantifier, TruthValue};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// The predicate whose left operand was just read.
    pub(super) fn predicate(&mut self, left: Expression) -> Parsed<Expression> {
        let start = left.span;
        let operand = Box::new(left);
        if let Some(operator) = comparison(self.peek()) {
            return self.comparison(operand, operator);
        }
        if self.peek_keyword() == Keyword::Is {
            return self.is(operand);
        }
        let negated = self.peek_keyword() == Keyword::Not;
        if negated {
            self.advance();
        }
        let kind = match self.advance().kind {
            TokenKind::Word(Keyword::In) => self.in_predicate(operand, negated)?,
            TokenKind::Word(Keyword::Between) => {
                let symmetric = self.eat_keyword(Keyword::Symmetric);
                if !symmetric {
                    self.eat_keyword(Keyword::Asymmetric);
                }
                let low = Box::new(self.operators(Binding::Sum)?);
                self.require_keyword(Keyword::And)?;
                let high = Box::new(self.operators(Binding::Sum)?);
                ExpressionKind::Between { operand, low, high, symmetric, negated }
            }
            TokenKind::Word(Keyword::Like) => {
                let pattern = Box::new(self.operators(Binding::Sum)?);
                let escape = match self.eat_keyword(Keyword::Escape) {
                    true => Some(Box::new(self.operators(Binding::Sum)?)),
                    false => None,
                };
                ExpressionKind::Like { operand, pattern, escape, negated }
            }
            _ => {
                self.require_keyword(Keyword::With)?;
                let prefix = Box::new(self.operators(Binding::Sum)?);
                ExpressionKind::StartsWith { operand, prefix, negated }
            }
        };
        Ok(Expression { kind, span: self.since(start) })
    }

    fn comparison(
        &mut self,
        left: Box<Expression>,
        operator: BinaryOperator,
    ) -> Parsed<Expression> {
        let start = left.span;
        let operator_span = self.advance().span;
        let quantifier = match self.peek_keyword() {
            _ if self.peek_ahead(1) != TokenKind::LeftParenthesis => None,
            Keyword::Any | Keyword::Some => Some(Quantifier::Any),
            Keyword::All => Some(Quantifier::All),
            _ => None,
        };
        let kind = match quantifier {
            Some(quantifier) if self.peek_ahead(2) == TokenKind::Parameter => {
                self.advance();
                self.quantified_parameter(left, operator, quantifier)?
            }
            Some(quantifier) => {
                self.advance();
                let query = Box::new(self.query_in_parentheses()?);
                ExpressionKind::Quantified { operand: left, operator, quantifier, query }
            }
            None => {
                let right = Box::new(self.operators(Binding::Sum)?);
                ExpressionKind::Binary { operator, operator_span, left, right }
            }
        };
        Ok(Expression { kind, span: self.since(start) })
    }

    /// `= ANY (?)` and `<> ALL (?)`: IN and NOT IN over an array.
    fn quantified_parameter(
        &mut self,
        operand: Box<Expression>,
        operator: BinaryOperator,
        quantifier: Quantifier,
    ) -> Parsed<ExpressionKind> {
        let negated = match (operator, quantifier) {
            (BinaryOperator::Equal, Quantifier::Any) => false,
            (BinaryOperator::NotEqual, Quantifier::All) => true,
            _ => {
                self.advance();
                return Err(self.unexpected_instead_of("SELECT"));
            }
        };
        self.require(TokenKind::LeftParenthesis)?;
        let parameter = Box::new(self.parameter()?);
        self.require(TokenKind::RightParenthesis)?;
        Ok(ExpressionKind::InParameter { operand, parameter, negated })
    }

    /// `IS [NOT] NULL | TRUE | FALSE | UNKNOWN | DISTINCT FROM b`
    fn is(&mut self, operand: Box<Expression>) -> Parsed<Expression> {
        let start = operand.span;
        self.advance();
        let negated = self.eat_keyword(Keyword::Not);
        let truth = |operand, value| ExpressionKind::IsTruth { operand, value, negated };
        let kind = if self.eat_keyword(Keyword::Null) {
            ExpressionKind::IsNull { operand, negated }
        } else if self.eat_keyword(Keyword::Distinct) {
            self.require_keyword(Keyword::From)?;
            let right = Box::new(self.operators(Binding::Sum)?);
            ExpressionKind::IsDistinctFrom { left: operand, right, negated }
        } else if self.eat_keyword(Keyword::True) {
            truth(operand, TruthValue::True)
        } else if self.eat_keyword(Keyword::False) {
            truth(operand, TruthValue::False)
        } else if self.eat_keyword(Keyword::Unknown) {
            truth(operand, TruthValue::Unknown)
        } else {
            return Err(self.unexpected());
        };
        Ok(Expression { kind, span: self.since(start) })
    }

    /// What follows IN: a parameter, a list or a subquery.
    fn in_predicate(&mut self, operand: Box<Expression>, negated: bool) -> Parsed<ExpressionKind> {
        if self.peek() == TokenKind::Parameter {
            let parameter = Box::new(self.parameter()?);
            return Ok(ExpressionKind::InParameter { operand, parameter, negated });
        }
        self.require(TokenKind::LeftParenthesis)?;
        if self.peek_keyword().begins_query() {
            let query = Box::new(self.query()?);
            self.require(TokenKind::RightParenthesis)?;
            return Ok(ExpressionKind::InSubquery { operand, query, negated });
        }
        let first = self.expression()?;
        if matches!(first.kind, ExpressionKind::Subquery(_)) {
            return self.in_subquery(operand, first, negated);
        }
        let list = self.in_list(first)?;
        Ok(ExpressionKind::InList { operand, list, negated })
    }

    /// `IN ((SELECT ...))`, `IN ((SELECT ...) UNION ...)` or a list that begins with a scalar
    /// subquery.
    fn in_subquery(
        &mut self,
        operand: Box<Expression>,
        first: Expression,
        negated: bool,
    ) -> Parsed<ExpressionKind> {
        if self.peek() == TokenKind::Comma {
            let list = self.in_list(first)?;
            return Ok(ExpressionKind::InList { operand, list, negated });
        }
        let ExpressionKind::Subquery(branch) = first.kind else {
            return Err(self.unexpected());
        };
        let query = match self.at_query_continuation() {
            true => Box::new(self.query_from_branch(branch)?),
            false => branch,
        };
        self.require(TokenKind::RightParenthesis)?;
        Ok(ExpressionKind::InSubquery { operand, query, negated })
    }

    fn in_list(&mut self, first: Expression) -> Parsed<Vec<Expression>> {
        let mut list = vec![first];
        while self.eat(TokenKind::Comma) {
            list.push(self.expression()?);
            let most = self.limits.in_list;
            self.check_count(list.len(), "elements of an IN list", "in_list", most)?;
        }
        self.require(TokenKind::RightParenthesis)?;
        Ok(list)
    }
}

/// The comparison that a token spells.
fn comparison(kind: TokenKind) -> Option<BinaryOperator> {
    match kind {
        TokenKind::Equal => Some(BinaryOperator::Equal),
        TokenKind::NotEqual => Some(BinaryOperator::NotEqual),
        TokenKind::Less => Some(BinaryOperator::Less),
        TokenKind::LessOrEqual => Some(BinaryOperator::LessOrEqual),
        TokenKind::Greater => Some(BinaryOperator::Greater),
        TokenKind::GreaterOrEqual => Some(BinaryOperator::GreaterOrEqual),
        _ => None,
    }
}
