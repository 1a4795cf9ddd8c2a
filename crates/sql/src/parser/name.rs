//! Names, with their folding, and small numbers.

use super::{Parsed, Parser};
use crate::ast::{CaseName, ColumnName, Name};
use crate::error::SqlError;
use crate::lexer::{Token, TokenKind};

impl Parser<'_> {
    /// Whether the current token can be a name.
    pub(super) fn at_name(&self) -> bool {
        self.is_name_ahead(0)
    }

    /// Whether the token `ahead` places on can be a name.
    pub(super) fn is_name_ahead(&self, ahead: usize) -> bool {
        match self.peek_ahead(ahead) {
            TokenKind::Quoted => true,
            TokenKind::Word(keyword) => !keyword.is_reserved(),
            _ => false,
        }
    }

    /// A name; `what` says of what, for the error.
    pub(super) fn name(&mut self, what: &'static str) -> Parsed<Name> {
        match self.at_name() {
            true => {
                let token = self.advance();
                self.name_of(token)
            }
            false => {
                self.expect_also(what);
                Err(self.unexpected())
            }
        }
    }

    /// The name that a token spells; reserved words are the caller's business.
    pub(super) fn name_of(&self, token: Token) -> Parsed<Name> {
        let source = self.source(token.span);
        if token.kind != TokenKind::Quoted {
            let text = source.to_uppercase();
            return Ok(Name { text, quoted: false, span: token.span });
        }
        let inner = source.get(1..source.len().saturating_sub(1)).unwrap_or("");
        if inner.is_empty() {
            let message = "unexpected token: \"\"".to_string();
            let expected = vec!["a name between the quotes".to_string()];
            let found = Some(source.to_string());
            return Err(SqlError { message, span: token.span, expected, found });
        }
        Ok(Name { text: inner.replace("\"\"", "\""), quoted: true, span: token.span })
    }

    /// `(name, name, ...)`
    pub(super) fn names_in_parentheses(&mut self) -> Parsed<Vec<Name>> {
        self.list_in_parentheses("column names", |parser| parser.name("a column name"))
    }

    /// `(name, ...)` if there is one, else an empty list.
    pub(super) fn optional_names(&mut self) -> Parsed<Vec<Name>> {
        match self.at(TokenKind::LeftParenthesis) {
            true => self.names_in_parentheses(),
            false => Ok(Vec::new()),
        }
    }

    /// `[PUBLIC.]table`: there is one schema, and its name says nothing.
    pub(super) fn table_name(&mut self) -> Parsed<Name> {
        let name = self.name("a table name")?;
        if self.peek() != TokenKind::Dot {
            return Ok(name);
        }
        if name.text != "PUBLIC" {
            let message = format!("schema not found: {}", name.text);
            let found = Some(self.source(name.span).to_string());
            let expected = vec!["a table name without a schema".to_string()];
            return Err(SqlError { message, span: name.span, expected, found });
        }
        self.advance();
        self.name("a table name")
    }

    /// `[[PUBLIC.]table.]column`
    pub(super) fn column_name(&mut self) -> Parsed<ColumnName> {
        let first = self.name("a column name")?;
        if self.peek() != TokenKind::Dot {
            return Ok(ColumnName { table: None, name: first });
        }
        self.advance();
        let start = first.span;
        let mut table = first;
        let mut name = self.name("a column name")?;
        if self.peek() == TokenKind::Dot && table.text == "PUBLIC" {
            self.advance();
            table = core::mem::replace(&mut name, self.name("a column name")?);
        }
        if self.peek() != TokenKind::Dot {
            return Ok(ColumnName { table: Some(table), name });
        }
        while self.peek() == TokenKind::Dot {
            self.advance();
            self.name("a column name")?;
        }
        let span = self.since(start);
        let found = self.source(span).to_string();
        let message = format!("object not found: {}", found.to_uppercase());
        let expected = vec!["column or table.column".to_string()];
        Err(SqlError { message, span, expected, found: Some(found) })
    }

    /// A name that keeps its case; any word will do.
    pub(super) fn case_name(&mut self, what: &'static str) -> Parsed<CaseName> {
        match self.peek() {
            TokenKind::Word(_) | TokenKind::Quoted => {
                let token = self.advance();
                let source = self.source(token.span);
                let text = match token.kind {
                    TokenKind::Quoted => self.name_of(token)?.text,
                    _ => source.to_string(),
                };
                Ok(CaseName { text, span: token.span })
            }
            _ => {
                self.expect_also(what);
                Err(self.unexpected())
            }
        }
    }

    /// `[@]word.word...`, as written.
    pub(super) fn dotted_name(&mut self, what: &'static str) -> Parsed<CaseName> {
        let start = self.token().span;
        let mut text = String::new();
        if self.peek() == TokenKind::At {
            self.advance();
            text.push('@');
        }
        text.push_str(&self.case_name(what)?.text);
        while self.eat(TokenKind::Dot) {
            text.push('.');
            text.push_str(&self.case_name(what)?.text);
        }
        Ok(CaseName { text, span: self.since(start) })
    }

    /// A number without point, sign or exponent.
    pub(super) fn unsigned(&mut self, what: &'static str) -> Parsed<u64> {
        if self.peek() == TokenKind::Number
            && let Ok(value) = self.source(self.token().span).parse()
        {
            self.advance();
            return Ok(value);
        }
        Err(self.unexpected_instead_of(what))
    }

    /// A number as [`Parser::unsigned`] takes, but not 0.
    pub(super) fn positive(&mut self, what: &'static str) -> Parsed<u64> {
        let place = self.position;
        match self.unsigned(what)? {
            0 => {
                self.position = place;
                Err(self.unexpected_instead_of(what))
            }
            value => Ok(value),
        }
    }

    /// The text of a string literal's token, without its quotes.
    pub(super) fn string_of(&self, token: Token) -> String {
        let source = self.source(token.span);
        let inner = source.get(1..source.len().saturating_sub(1)).unwrap_or("");
        match inner.contains('\'') {
            true => inner.replace("''", "'"),
            false => inner.to_string(),
        }
    }
}
