//! INSERT, UPSERT, UPDATE, DELETE, TRUNCATE and MIGRATE.

use super::{Parsed, Parser};
use crate::ast::{
    Assignment, Delete, Expression, ExpressionKind, Insert, InsertSource, Migrate, Name, Update,
};
use crate::error::SqlError;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// INSERT INTO and UPSERT INTO.
    pub(super) fn insert(&mut self) -> Parsed<Insert> {
        let upsert = self.advance().kind == TokenKind::Word(Keyword::Upsert);
        self.require_keyword(Keyword::Into)?;
        let table = self.table_name()?;
        // A parenthesis opens the column list unless a query stands in it.
        let listed = self.peek() == TokenKind::LeftParenthesis
            && !matches!(self.peek_ahead(1), TokenKind::LeftParenthesis)
            && !self.keyword_ahead(1).begins_query();
        let columns = match listed {
            true => Some(self.names_in_parentheses()?),
            false => {
                self.expect_also("(");
                None
            }
        };
        let source = match self.eat_keyword(Keyword::Values) {
            true => InsertSource::Values(self.rows()?),
            false => {
                self.expect_also("SELECT");
                let begins =
                    self.peek() == TokenKind::LeftParenthesis || self.peek_keyword().begins_query();
                if !begins {
                    return Err(self.unexpected());
                }
                InsertSource::Query(Box::new(self.query()?))
            }
        };
        self.refuse_dml_tail()?;
        Ok(Insert { with: None, upsert, table, columns, source })
    }

    /// `(e, ...), (e, ...)`, or one expression alone, which is a row of one value.
    pub(super) fn rows(&mut self) -> Parsed<Vec<Vec<Expression>>> {
        if self.begins_lone_value() {
            return Ok(vec![vec![self.value()?]]);
        }
        let mut rows = Vec::new();
        loop {
            let row = self.list_in_parentheses("values", |parser| match parser.peek() {
                // The list ended too early: not a matter of a missing expression.
                TokenKind::End | TokenKind::Semicolon | TokenKind::RightParenthesis => {
                    Err(parser.unexpected_instead_of("an expression"))
                }
                _ => parser.value(),
            })?;
            rows.push(row);
            let most = self.limits.in_list;
            self.check_count(rows.len(), "rows of VALUES", "in_list", most)?;
            if !self.eat(TokenKind::Comma) {
                return Ok(rows);
            }
        }
    }

    /// Whether a row of VALUES is a constant or parameter without parentheses.
    fn begins_lone_value(&self) -> bool {
        match self.peek() {
            TokenKind::Parameter | TokenKind::Number | TokenKind::String | TokenKind::Hex => true,
            TokenKind::Minus => self.peek_ahead(1) == TokenKind::Number,
            _ => self.peek_keyword() == Keyword::Null,
        }
    }

    /// An expression or DEFAULT.
    fn value(&mut self) -> Parsed<Expression> {
        let ends = matches!(
            self.peek_ahead(1),
            TokenKind::Comma
                | TokenKind::RightParenthesis
                | TokenKind::End
                | TokenKind::Semicolon
                | TokenKind::Word(Keyword::Where | Keyword::Order | Keyword::Limit)
        );
        if self.peek_keyword() == Keyword::Default && ends {
            let span = self.advance().span;
            return Ok(Expression { kind: ExpressionKind::Default, span });
        }
        self.expression()
    }

    /// UPDATE t SET ...
    pub(super) fn update(&mut self) -> Parsed<Update> {
        self.advance();
        let table = self.table_name()?;
        let alias = self.optional_alias()?;
        self.require_keyword(Keyword::Set)?;
        let assignments = self.list("assignments", |parser| {
            let start = parser.token().span;
            let column = parser.column_name()?;
            parser.require(TokenKind::Equal)?;
            let value = parser.value()?;
            Ok(Assignment { column, value, span: parser.since(start) })
        })?;
        let selection = self.optional_clause(Keyword::Where)?;
        let order_by = self.order_by()?;
        let limit = self.limit_clause()?;
        self.refuse_dml_tail()?;
        Ok(Update { with: None, table, alias, assignments, selection, order_by, limit })
    }

    /// DELETE FROM t ...
    pub(super) fn delete(&mut self) -> Parsed<Delete> {
        self.advance();
        self.require_keyword(Keyword::From)?;
        let table = self.table_name()?;
        let alias = self.optional_alias()?;
        let selection = self.optional_clause(Keyword::Where)?;
        let order_by = self.order_by()?;
        let limit = self.limit_clause()?;
        self.refuse_dml_tail()?;
        Ok(Delete { with: None, table, alias, selection, order_by, limit })
    }

    /// Names the clauses after a change that the server does not have.
    fn refuse_dml_tail(&self) -> Parsed<()> {
        match (self.peek_keyword(), self.keyword_ahead(1)) {
            (Keyword::Returning, _) => Err(self.not_supported("RETURNING is")),
            (Keyword::On, Keyword::Conflict) => {
                let message = "ON CONFLICT is not supported: UPSERT inserts or updates by the \
                               primary key";
                let (message, expected) = (message.to_string(), Vec::new());
                Err(SqlError { message, expected, ..self.unexpected() })
            }
            _ => Ok(()),
        }
    }

    /// TRUNCATE TABLE t
    pub(super) fn truncate(&mut self) -> Parsed<Name> {
        self.advance();
        self.require_keyword(Keyword::Table)?;
        self.table_name()
    }

    /// MIGRATE FROM t [WHERE ...]
    pub(super) fn migrate(&mut self) -> Parsed<Migrate> {
        self.advance();
        self.require_keyword(Keyword::From)?;
        let table = self.name("a table name")?;
        let selection = self.optional_clause(Keyword::Where)?;
        Ok(Migrate { table, selection })
    }
}
