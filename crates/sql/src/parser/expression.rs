//! Expressions by precedence climbing: OR, AND, NOT, predicates, sums, products, signs.

use super::{Parsed, Parser};
use crate::ast::{
    BinaryOperator, CaseBranch, ColumnName, Expression, ExpressionKind, Literal, Span,
    UnaryOperator,
};
use crate::error::SqlError;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// How tightly an operator binds; higher is tighter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binding {
    Or,
    And,
    Not,
    Predicate,
    Sum,
    Product,
    Sign,
}

impl Parser<'_> {
    /// An expression of any kind.
    pub(super) fn expression(&mut self) -> Parsed<Expression> {
        self.operators(Binding::Or)
    }

    /// An item of a select list, which may have ended too early: the error is about that then.
    pub(super) fn expression_or_end(&mut self) -> Parsed<Expression> {
        match self.peek() {
            TokenKind::End
            | TokenKind::Semicolon
            | TokenKind::Comma
            | TokenKind::RightParenthesis => Err(self.unexpected_instead_of("an expression")),
            _ => self.expression(),
        }
    }

    fn no_expression(&self) -> SqlError {
        let error = self.unexpected_instead_of("an expression");
        let message = match error.found.as_deref() {
            // No statement has these anywhere: they are no tokens of SQL.
            Some(found) if found.starts_with(['@', '$', '{', '}', '#', '!', '`', '\\']) => {
                format!("unknown token: {found}")
            }
            _ => format!("{}, expression not found", error.message),
        };
        SqlError { message, ..error }
    }

    /// An expression whose operators all bind at least as tightly as `least`. Every recursion
    /// of the grammar passes through here (or through a query), so depth and height are kept
    /// here: depth counts calls that are open, height the nodes on top of one another.
    pub(super) fn operators(&mut self, least: Binding) -> Parsed<Expression> {
        self.enter(1)?;
        let beside = core::mem::replace(&mut self.height, 0);
        let mut left = self.prefix(least)?;
        while let Some(binding) = self.operator_ahead() {
            if binding < least {
                break;
            }
            left = match binding {
                Binding::Or => self.chain(left, Keyword::Or)?,
                Binding::And => self.chain(left, Keyword::And)?,
                Binding::Predicate => self.predicate(left)?,
                _ => self.arithmetic(left, binding)?,
            };
            self.grow(1)?;
            if binding == Binding::Predicate && self.at_second_predicate() {
                return Err(self.unexpected());
            }
        }
        self.expect_also("an operator");
        self.height = self.height.max(beside);
        self.leave(1);
        Ok(left)
    }

    /// How tightly the operator at the current token binds, if there is one.
    fn operator_ahead(&self) -> Option<Binding> {
        match self.peek() {
            TokenKind::Plus | TokenKind::Minus | TokenKind::Concat => Some(Binding::Sum),
            TokenKind::Star | TokenKind::Slash | TokenKind::Percent => Some(Binding::Product),
            TokenKind::Equal
            | TokenKind::NotEqual
            | TokenKind::Less
            | TokenKind::LessOrEqual
            | TokenKind::Greater
            | TokenKind::GreaterOrEqual => Some(Binding::Predicate),
            TokenKind::Word(keyword) => match keyword {
                Keyword::Or => Some(Binding::Or),
                Keyword::And => Some(Binding::And),
                Keyword::Is | Keyword::In | Keyword::Between | Keyword::Like => {
                    Some(Binding::Predicate)
                }
                Keyword::Not => match self.keyword_ahead(1) {
                    Keyword::In | Keyword::Between | Keyword::Like | Keyword::Starts => {
                        Some(Binding::Predicate)
                    }
                    _ => None,
                },
                Keyword::Starts if self.keyword_ahead(1) == Keyword::With => {
                    Some(Binding::Predicate)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a predicate follows a predicate (`a = b = c`), which has no meaning. IS may.
    fn at_second_predicate(&self) -> bool {
        self.operator_ahead() == Some(Binding::Predicate) && self.peek_keyword() != Keyword::Is
    }

    /// `left AND b AND c ...`: one node for the whole chain, so that it may be long.
    fn chain(&mut self, left: Expression, keyword: Keyword) -> Parsed<Expression> {
        let start = left.span;
        let tighter = if keyword == Keyword::Or { Binding::And } else { Binding::Not };
        let mut operands = match (left.kind, keyword) {
            (ExpressionKind::And(operands), Keyword::And)
            | (ExpressionKind::Or(operands), Keyword::Or) => operands,
            (kind, _) => vec![Expression { kind, span: left.span }],
        };
        while self.peek_keyword() == keyword {
            self.advance();
            operands.push(self.operators(tighter)?);
        }
        let kind = match keyword {
            Keyword::Or => ExpressionKind::Or(operands),
            _ => ExpressionKind::And(operands),
        };
        Ok(Expression { kind, span: self.since(start) })
    }

    fn arithmetic(&mut self, left: Expression, binding: Binding) -> Parsed<Expression> {
        let token = self.advance();
        let operator = match token.kind {
            TokenKind::Plus => BinaryOperator::Add,
            TokenKind::Minus => BinaryOperator::Subtract,
            TokenKind::Concat => BinaryOperator::Concat,
            TokenKind::Star => BinaryOperator::Multiply,
            TokenKind::Slash => BinaryOperator::Divide,
            _ => BinaryOperator::Modulo,
        };
        let tighter = if binding == Binding::Sum { Binding::Product } else { Binding::Sign };
        let right = self.operators(tighter)?;
        let span = left.span.to(right.span);
        let kind = ExpressionKind::Binary {
            operator,
            operator_span: token.span,
            left: Box::new(left),
            right: Box::new(right),
        };
        Ok(Expression { kind, span })
    }

    /// What stands before any operator: NOT, a sign, or an operand.
    fn prefix(&mut self, least: Binding) -> Parsed<Expression> {
        let token = self.token();
        let expression = match token.kind {
            TokenKind::Word(Keyword::Not) if least <= Binding::Not => {
                self.advance();
                let operand = self.operators(Binding::Not)?;
                let span = token.span.to(operand.span);
                Expression { kind: ExpressionKind::Not(Box::new(operand)), span }
            }
            TokenKind::Minus | TokenKind::Plus => {
                self.advance();
                let operator = match token.kind {
                    TokenKind::Minus => UnaryOperator::Minus,
                    _ => UnaryOperator::Plus,
                };
                let operand = Box::new(self.operators(Binding::Sign)?);
                let span = token.span.to(operand.span);
                Expression { kind: ExpressionKind::Unary { operator, operand }, span }
            }
            TokenKind::LeftParenthesis => self.parenthesized()?,
            TokenKind::Parameter => self.parameter()?,
            TokenKind::Number => self.number()?,
            TokenKind::String => {
                self.advance();
                literal(Literal::String(self.string_of(token)), token.span)
            }
            TokenKind::Hex => {
                self.advance();
                let source = self.source(token.span);
                let digits = source.get(2..source.len().saturating_sub(1)).unwrap_or("");
                literal(Literal::Hex(digits.to_string()), token.span)
            }
            TokenKind::Quoted => self.column()?,
            TokenKind::Word(keyword) => self.word(keyword)?,
            _ => return Err(self.no_expression()),
        };
        self.grow(1)?;
        Ok(expression)
    }

    /// `?`
    pub(super) fn parameter(&mut self) -> Parsed<Expression> {
        let span = self.require(TokenKind::Parameter)?;
        let number = self.parameters;
        if number == 0 {
            self.first_parameter = span;
        }
        self.parameters += 1;
        self.check_count(
            self.parameters as usize,
            "parameters",
            "parameters",
            self.limits.parameters,
        )?;
        Ok(Expression { kind: ExpressionKind::Parameter(number), span })
    }

    fn number(&mut self) -> Parsed<Expression> {
        let token = self.advance();
        let next = self.token();
        let is_number = match next.kind {
            TokenKind::Number => true,
            // A number ends before a word, but an exponent has digits.
            TokenKind::Word(_) => self.source(next.span).starts_with(['e', 'E']),
            _ => false,
        };
        if next.span.offset == token.span.end() && is_number {
            let span = token.span.to(next.span);
            let found = self.source(span).to_string();
            let message = format!("malformed numeric constant: {found}");
            return Err(SqlError { message, span, expected: Vec::new(), found: Some(found) });
        }
        let text = self.source(token.span).to_string();
        let value = if text.contains(['e', 'E']) {
            Literal::Float(text)
        } else if text.contains('.') {
            Literal::Decimal(text)
        } else {
            Literal::Integer(text)
        };
        Ok(literal(value, token.span))
    }

    /// A word that begins an operand: a keyword with a syntax of its own, a function, a column.
    fn word(&mut self, keyword: Keyword) -> Parsed<Expression> {
        let next = self.peek_ahead(1);
        match keyword {
            Keyword::Null if next != TokenKind::Dot => Ok(self.constant(Literal::Null)),
            Keyword::True if next != TokenKind::Dot => Ok(self.constant(Literal::Boolean(true))),
            Keyword::False if next != TokenKind::Dot => Ok(self.constant(Literal::Boolean(false))),
            Keyword::Case => self.case(),
            Keyword::Cast if next == TokenKind::LeftParenthesis => self.cast(),
            Keyword::Exists if next == TokenKind::LeftParenthesis => self.exists(),
            Keyword::Timestamp | Keyword::Date if next == TokenKind::String => self.dated(keyword),
            _ if next == TokenKind::LeftParenthesis && self.is_function(keyword) => {
                self.function_call()
            }
            Keyword::Now | Keyword::CurrentTimestamp | Keyword::Migrating
                if next != TokenKind::Dot =>
            {
                self.bare_function()
            }
            _ => self.column(),
        }
    }

    fn constant(&mut self, value: Literal) -> Expression {
        let span = self.advance().span;
        literal(value, span)
    }

    /// `TIMESTAMP '...'`, `DATE '...'`
    fn dated(&mut self, keyword: Keyword) -> Parsed<Expression> {
        let start = self.advance().span;
        let token = self.advance();
        let text = self.string_of(token);
        let value = match keyword {
            Keyword::Timestamp => Literal::Timestamp(text),
            _ => Literal::Date(text),
        };
        Ok(literal(value, start.to(token.span)))
    }

    fn column(&mut self) -> Parsed<Expression> {
        // END closes a CASE or a body; a column of that name can be written with its table.
        let ends = self.peek_keyword() == Keyword::End && self.peek_ahead(1) != TokenKind::Dot;
        if !self.at_name() || ends {
            return Err(self.unexpected_instead_of("an expression"));
        }
        let start = self.token().span;
        let ColumnName { table, name } = self.column_name()?;
        let kind = ExpressionKind::Column(Box::new(ColumnName { table, name }));
        Ok(Expression { kind, span: self.since(start) })
    }

    /// `(expression)`, a row, or a subquery.
    fn parenthesized(&mut self) -> Parsed<Expression> {
        let start = self.require(TokenKind::LeftParenthesis)?;
        if self.peek_keyword().begins_query() {
            let query = self.query()?;
            self.require(TokenKind::RightParenthesis)?;
            let kind = ExpressionKind::Subquery(Box::new(query));
            return Ok(Expression { kind, span: self.since(start) });
        }
        let first = self.expression()?;
        if matches!(first.kind, ExpressionKind::Subquery(_)) && self.at_query_continuation() {
            return self.continued_subquery(first, start);
        }
        if !self.at(TokenKind::Comma) {
            self.require(TokenKind::RightParenthesis)?;
            return Ok(first);
        }
        let mut elements = vec![first];
        while self.eat(TokenKind::Comma) {
            elements.push(self.expression()?);
            let most = self.limits.columns;
            self.check_count(elements.len(), "elements of a row", "columns", most)?;
        }
        self.require(TokenKind::RightParenthesis)?;
        Ok(Expression { kind: ExpressionKind::Row(elements), span: self.since(start) })
    }

    /// `((SELECT ...) UNION ...)`: what looked like a scalar subquery was the first branch.
    fn continued_subquery(&mut self, first: Expression, start: Span) -> Parsed<Expression> {
        let ExpressionKind::Subquery(branch) = first.kind else {
            return Err(self.unexpected());
        };
        let query = self.query_from_branch(branch)?;
        self.require(TokenKind::RightParenthesis)?;
        let kind = ExpressionKind::Subquery(Box::new(query));
        Ok(Expression { kind, span: self.since(start) })
    }

    fn exists(&mut self) -> Parsed<Expression> {
        let start = self.advance().span;
        let query = self.query_in_parentheses()?;
        let kind = ExpressionKind::Exists(Box::new(query));
        Ok(Expression { kind, span: self.since(start) })
    }

    fn cast(&mut self) -> Parsed<Expression> {
        let start = self.advance().span;
        self.require(TokenKind::LeftParenthesis)?;
        let operand = Box::new(self.expression()?);
        self.require_keyword(Keyword::As)?;
        let data_type = self.data_type()?;
        self.require(TokenKind::RightParenthesis)?;
        let kind = ExpressionKind::Cast { operand, data_type };
        Ok(Expression { kind, span: self.since(start) })
    }

    fn case(&mut self) -> Parsed<Expression> {
        let start = self.advance().span;
        let operand = match self.at_keyword(Keyword::When) {
            true => None,
            false => Some(Box::new(self.expression()?)),
        };
        let mut branches = Vec::new();
        while self.at_keyword(Keyword::When) {
            self.advance();
            let condition = self.expression()?;
            self.require_keyword(Keyword::Then)?;
            let result = self.expression()?;
            branches.push(CaseBranch { condition, result });
            let most = self.limits.in_list;
            self.check_count(branches.len(), "branches of a CASE", "in_list", most)?;
        }
        if branches.is_empty() {
            return Err(self.unexpected());
        }
        let otherwise = match self.eat_keyword(Keyword::Else) {
            true => Some(Box::new(self.expression()?)),
            false => None,
        };
        self.require_keyword(Keyword::End)?;
        let kind = ExpressionKind::Case { operand, branches, otherwise };
        Ok(Expression { kind, span: self.since(start) })
    }
}

/// A constant as an expression.
pub(super) fn literal(value: Literal, span: Span) -> Expression {
    Expression { kind: ExpressionKind::Literal(value), span }
}
