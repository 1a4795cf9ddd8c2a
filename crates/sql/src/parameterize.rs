//! Constants out of an ad hoc statement, so that statements that differ only in them share a
//! plan: a pass over the tokens, without a tree.
//!
//! A constant is taken out only where it is compared with, assigned or inserted as a whole. What
//! stands in arithmetic or function calls may be part of an indexed expression, patterns decide
//! how a scan is bounded, and constants of the select list, ORDER BY, GROUP BY and limits say
//! what the result is: those stay in the text.

use crate::ast::{Literal, Span};
use crate::error::SqlError;
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind, tokenize};
use crate::limits::Limits;

/// A statement's text without some of its constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameterized {
    /// The text in a normal form: one space between tokens, unquoted names in upper case, no
    /// comments, `?integer`, `?decimal`, `?float` and `?string` where constants were. Equal for
    /// two statements only if they differ in nothing but the values taken out and in layout.
    pub key: String,
    /// The constants, in the order they stand.
    pub literals: Vec<ExtractedLiteral>,
}

/// A constant that was taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractedLiteral {
    /// Its value; never negative, a sign before it stays in the text.
    pub literal: Literal,
    /// Where it stands: the same place as in the statement's syntax tree.
    pub span: Span,
}

/// Takes the constants out of a query or a DML statement. Gives nothing for other statements,
/// for several in one text, and for statements that have parameters already. The text is not
/// checked: what is no SQL gets a key that no plan has.
///
/// # Errors
/// The text is too long, or a quote or comment in it does not end.
pub fn parameterize(text: &str, limits: &Limits) -> Result<Option<Parameterized>, SqlError> {
    let tokens = tokenize(text, limits)?;
    let Some(tokens) = single_statement(&tokens) else { return Ok(None) };
    let mut pass = Pass {
        text,
        tokens,
        open: Vec::new(),
        frame: Frame::default(),
        out: Parameterized { key: String::with_capacity(text.len() + 16), literals: Vec::new() },
    };
    for index in 0..tokens.len() {
        if !pass.step(index, limits) {
            return Ok(None);
        }
    }
    Ok(Some(pass.out))
}

/// The tokens of the only statement, if it is a query or DML.
fn single_statement(tokens: &[Token]) -> Option<&[Token]> {
    let ends = |token: &Token| matches!(token.kind, TokenKind::End | TokenKind::Semicolon);
    let end = tokens.iter().position(ends)?;
    let (statement, rest) = tokens.split_at(end);
    let takes_part = matches!(
        statement.first()?.kind,
        TokenKind::Word(
            Keyword::Select
                | Keyword::With
                | Keyword::Insert
                | Keyword::Upsert
                | Keyword::Update
                | Keyword::Delete
        )
    );
    (takes_part && rest.iter().all(ends)).then_some(statement)
}

/// What is known inside a pair of parentheses.
#[derive(Clone, Copy, Default)]
struct Frame {
    /// In WHERE, ON, HAVING, SET or VALUES.
    conditions: bool,
    /// Between the parentheses of IN or VALUES: elements stand alone.
    list: bool,
    /// A BETWEEN whose AND has not come yet.
    between: bool,
    /// VALUES came last, so that the next parenthesis is a row of it.
    values: bool,
}

struct Pass<'a> {
    text: &'a str,
    tokens: &'a [Token],
    open: Vec<Frame>,
    frame: Frame,
    out: Parameterized,
}

impl Pass<'_> {
    /// One token; false if the statement cannot be parameterized.
    fn step(&mut self, index: usize, limits: &Limits) -> bool {
        let token = self.tokens[index];
        let source = self.text.get(token.span.range()).unwrap_or("");
        if index > 0 {
            self.out.key.push(' ');
        }
        match token.kind {
            TokenKind::Parameter => return false,
            TokenKind::LeftParenthesis => {
                if self.open.len() > limits.nesting_depth as usize {
                    return false;
                }
                let before = self.kind_before(index, 1);
                self.open.push(self.frame);
                self.frame.list = self.frame.values || before == TokenKind::Word(Keyword::In);
                self.frame.between = false;
                self.frame.values = false;
            }
            TokenKind::RightParenthesis => self.frame = self.open.pop().unwrap_or_default(),
            TokenKind::Word(keyword) => self.clause(keyword),
            TokenKind::Number | TokenKind::String if self.stands_alone(index) => {
                if let Some((literal, mark)) = constant(token.kind, source) {
                    self.out.literals.push(ExtractedLiteral { literal, span: token.span });
                    self.out.key.push_str(mark);
                    return true;
                }
            }
            _ => {}
        }
        match token.kind {
            TokenKind::Word(_) => self.out.key.extend(source.chars().flat_map(char::to_uppercase)),
            _ => self.out.key.push_str(source),
        }
        true
    }

    fn clause(&mut self, keyword: Keyword) {
        match keyword {
            Keyword::Where | Keyword::On | Keyword::Having | Keyword::Set => {
                self.frame.conditions = true;
            }
            Keyword::Values => {
                self.frame.conditions = true;
                self.frame.values = true;
            }
            Keyword::Between => self.frame.between = true,
            Keyword::Select
            | Keyword::From
            | Keyword::Group
            | Keyword::Order
            | Keyword::Limit
            | Keyword::Offset
            | Keyword::Fetch
            | Keyword::Over
            | Keyword::Union
            | Keyword::Intersect
            | Keyword::Except
            | Keyword::Minus => {
                self.frame.conditions = false;
                self.frame.list = false;
            }
            _ => {}
        }
    }

    fn kind_before(&self, index: usize, back: usize) -> TokenKind {
        match index.checked_sub(back).and_then(|at| self.tokens.get(at)) {
            Some(token) => token.kind,
            None => TokenKind::End,
        }
    }

    /// Whether the constant at `index` is the whole of what is compared, assigned or inserted.
    fn stands_alone(&mut self, index: usize) -> bool {
        if !self.frame.conditions {
            return false;
        }
        let mut before = self.kind_before(index, 1);
        if matches!(before, TokenKind::Minus) {
            before = self.kind_before(index, 2);
        }
        let begins = match before {
            TokenKind::Equal
            | TokenKind::NotEqual
            | TokenKind::Less
            | TokenKind::LessOrEqual
            | TokenKind::Greater
            | TokenKind::GreaterOrEqual
            | TokenKind::Word(Keyword::Between) => true,
            TokenKind::Word(Keyword::And) => core::mem::take(&mut self.frame.between),
            TokenKind::LeftParenthesis | TokenKind::Comma => self.frame.list,
            _ => false,
        };
        begins
            && match self.tokens.get(index + 1).map(|token| token.kind) {
                None | Some(TokenKind::RightParenthesis | TokenKind::Comma) => true,
                Some(TokenKind::Word(keyword)) => keyword.is_reserved() || keyword.ends_item(),
                _ => false,
            }
    }
}

/// The constant that a token spells and its mark in the key; none for integers beyond BIGINT,
/// whose type depends on their value.
fn constant(kind: TokenKind, source: &str) -> Option<(Literal, &'static str)> {
    if kind == TokenKind::String {
        let inner = source.get(1..source.len().saturating_sub(1))?;
        return Some((Literal::String(inner.replace("''", "'")), "?string"));
    }
    if source.contains(['e', 'E']) {
        return Some((Literal::Float(source.to_string()), "?float"));
    }
    if source.contains('.') {
        return Some((Literal::Decimal(source.to_string()), "?decimal"));
    }
    let fits = source.parse::<i64>().is_ok();
    fits.then(|| (Literal::Integer(source.to_string()), "?integer"))
}
