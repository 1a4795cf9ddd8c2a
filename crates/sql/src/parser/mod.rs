//! The grammar: recursive descent over the tokens, one module per kind of statement.
//!
//! What was looked for and not found at the current token is remembered, so that an error can
//! say what would have been accepted without any rule spelling it out twice.

mod alter;
mod data_type;
mod dml;
mod expression;
mod function;
mod name;
mod predicate;
mod procedure;
mod query;
mod statement;
mod stream;
mod table;
mod table_reference;
mod task;

use crate::ast::{Expression, ParsedStatement, Span};
use crate::error::SqlError;
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind, tokenize};
use crate::limits::Limits;

/// What a rule gives.
type Parsed<T> = Result<T, SqlError>;

/// Nesting a query counts as this many levels of expression: its rules take more stack.
const QUERY_LEVELS: u32 = 4;

/// Most alternatives that an error names.
const SHOWN_ALTERNATIVES: usize = 8;

/// Longest piece of a token that an error repeats, in characters.
const SHOWN_TOKEN: usize = 40;

/// The state of a parse.
pub(crate) struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    position: usize,
    limits: &'a Limits,
    /// Levels of nesting that are open now.
    depth: u32,
    /// Height of the tree parsed since the enclosing rule began.
    height: u32,
    /// `?` seen in this statement.
    parameters: u32,
    /// Where the first of them stands.
    first_parameter: Span,
    /// Tables in this statement.
    tables: u32,
    /// What was looked for at token `expected_at`.
    expected: Vec<&'static str>,
    expected_at: usize,
}

/// Parses statements separated by `;`.
pub(crate) fn batch(text: &str, limits: &Limits) -> Parsed<Vec<ParsedStatement>> {
    let tokens = tokenize(text, limits)?;
    let mut parser = Parser::new(text, &tokens, limits);
    let mut statements = Vec::new();
    loop {
        while parser.eat(TokenKind::Semicolon) {}
        if parser.peek() == TokenKind::End {
            return Ok(statements);
        }
        if statements.len() >= limits.statements as usize {
            let what = format!("more than {} statements in one batch", statements.len());
            let span = parser.token().span;
            return Err(SqlError::limit(what, "statements", limits.statements, span));
        }
        statements.push(parser.parsed_statement()?);
        if parser.peek() != TokenKind::End && !parser.eat(TokenKind::Semicolon) {
            return Err(parser.unexpected());
        }
    }
}

/// Parses a text that is one expression.
pub(crate) fn expression(text: &str, limits: &Limits) -> Parsed<Expression> {
    let tokens = tokenize(text, limits)?;
    let mut parser = Parser::new(text, &tokens, limits);
    let expression = parser.expression()?;
    match parser.peek() {
        TokenKind::End => Ok(expression),
        _ => Err(parser.unexpected()),
    }
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, tokens: &'a [Token], limits: &'a Limits) -> Parser<'a> {
        Parser {
            text,
            tokens,
            position: 0,
            limits,
            depth: 0,
            height: 0,
            parameters: 0,
            first_parameter: Span::default(),
            tables: 0,
            expected: Vec::new(),
            expected_at: 0,
        }
    }

    /// The current token.
    fn token(&self) -> Token {
        self.token_ahead(0)
    }

    /// The token `ahead` places on; the end token after the last.
    fn token_ahead(&self, ahead: usize) -> Token {
        let last = self.tokens.len().saturating_sub(1);
        let index = self.position.saturating_add(ahead).min(last);
        match self.tokens.get(index) {
            Some(token) => *token,
            None => Token { kind: TokenKind::End, span: Span::default() },
        }
    }

    fn peek(&self) -> TokenKind {
        self.token().kind
    }

    fn peek_ahead(&self, ahead: usize) -> TokenKind {
        self.token_ahead(ahead).kind
    }

    /// The current token's keyword; [`Keyword::None`] for anything else.
    fn peek_keyword(&self) -> Keyword {
        self.keyword_ahead(0)
    }

    fn keyword_ahead(&self, ahead: usize) -> Keyword {
        match self.peek_ahead(ahead) {
            TokenKind::Word(keyword) => keyword,
            _ => Keyword::None,
        }
    }

    /// The source under a span.
    fn source(&self, span: Span) -> &'a str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// The current token, and goes on to the next.
    fn advance(&mut self) -> Token {
        let token = self.token();
        if token.kind != TokenKind::End {
            self.position += 1;
        }
        token
    }

    /// Where the token before the current one stands.
    fn last_span(&self) -> Span {
        match self.position.checked_sub(1).and_then(|index| self.tokens.get(index)) {
            Some(token) => token.span,
            None => self.token().span,
        }
    }

    /// The stretch from `start` to the last token taken.
    fn since(&self, start: Span) -> Span {
        start.to(self.last_span())
    }

    /// Remembers what would have been accepted at the current token.
    fn expect_also(&mut self, what: &'static str) {
        if self.expected_at != self.position {
            self.expected.clear();
            self.expected_at = self.position;
        }
        if self.expected.len() < SHOWN_ALTERNATIVES && !self.expected.contains(&what) {
            self.expected.push(what);
        }
    }

    /// Remembers what alone would have been accepted, so that an error names it first.
    fn expect_first(&mut self, what: &'static str) {
        if self.expected_at != self.position {
            self.expected.clear();
            self.expected_at = self.position;
        }
        self.expected.retain(|other| *other != what);
        self.expected.insert(0, what);
        self.expected.truncate(SHOWN_ALTERNATIVES);
    }

    fn at(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == kind;
        if !found {
            self.expect_also(symbol_text(kind));
        }
        found
    }

    /// Takes the current token if it is of the given kind.
    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.at(kind);
        if found {
            self.advance();
        }
        found
    }

    /// Takes a token of the given kind, or fails.
    fn require(&mut self, kind: TokenKind) -> Parsed<Span> {
        if self.peek() == kind {
            return Ok(self.advance().span);
        }
        self.expect_first(symbol_text(kind));
        Err(self.unexpected())
    }

    fn at_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.peek_keyword() == keyword;
        if !found {
            self.expect_also(keyword.as_str());
        }
        found
    }

    /// Takes the current token if it is the given keyword.
    fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.at_keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    /// Takes both keywords if they follow one another.
    fn eat_keywords(&mut self, first: Keyword, second: Keyword) -> bool {
        let found = self.at_keyword(first) && self.keyword_ahead(1) == second;
        if found {
            self.advance();
            self.advance();
        }
        found
    }

    /// Takes the given keyword, or fails.
    fn require_keyword(&mut self, keyword: Keyword) -> Parsed<Span> {
        if self.peek_keyword() == keyword {
            return Ok(self.advance().span);
        }
        self.expect_first(keyword.as_str());
        Err(self.unexpected())
    }

    fn require_keywords(&mut self, keywords: &[Keyword]) -> Parsed<()> {
        for keyword in keywords {
            self.require_keyword(*keyword)?;
        }
        Ok(())
    }

    /// The error that the current token does not fit here.
    fn unexpected(&self) -> SqlError {
        let expected = match self.expected_at == self.position {
            true => self.expected.iter().map(|what| (*what).to_string()).collect(),
            false => Vec::new(),
        };
        self.unexpected_at(self.position, expected)
    }

    /// The error that the current token does not fit here, with the one thing that would.
    fn unexpected_instead_of(&self, what: &str) -> SqlError {
        self.unexpected_at(self.position, vec![what.to_string()])
    }

    /// The error about something that the server does not have yet; `what` ends in `is` or `are`.
    fn not_supported(&self, what: &str) -> SqlError {
        let message = format!("{what} not supported yet");
        SqlError { message, expected: Vec::new(), ..self.unexpected() }
    }

    fn unexpected_at(&self, position: usize, expected: Vec<String>) -> SqlError {
        let token = self.token_ahead(position - self.position);
        if matches!(token.kind, TokenKind::End | TokenKind::Semicolon) {
            let message = "unexpected end of statement".to_string();
            return SqlError { message, span: token.span, expected, found: None };
        }
        let source = self.source(token.span);
        let mut found: String = source.chars().take(SHOWN_TOKEN).collect();
        if found.len() < source.len() {
            found.push_str("...");
        }
        if matches!(token.kind, TokenKind::Word(_)) {
            found = found.to_uppercase();
        }
        let message = format!("unexpected token: {found}");
        let found = Some(source.to_string());
        SqlError { message, span: token.span, expected, found }
    }

    /// Opens `levels` of nesting.
    fn enter(&mut self, levels: u32) -> Parsed<()> {
        self.depth += levels;
        match self.depth > self.limits.nesting_depth {
            true => Err(self.too_deep()),
            false => Ok(()),
        }
    }

    /// Closes levels that [`Parser::enter`] opened.
    fn leave(&mut self, levels: u32) {
        self.depth -= levels;
    }

    /// Counts a node on top of what was parsed since the enclosing rule began.
    fn grow(&mut self, levels: u32) -> Parsed<()> {
        self.height += levels;
        match self.height > self.limits.nesting_depth {
            true => Err(self.too_deep()),
            false => Ok(()),
        }
    }

    fn too_deep(&self) -> SqlError {
        let what = "the statement is nested too deeply".to_string();
        SqlError::limit(what, "nesting_depth", self.limits.nesting_depth, self.token().span)
    }

    /// Refuses the `count`-th thing where there are too many.
    fn check_count(&self, count: usize, what: &str, name: &str, most: u32) -> Parsed<()> {
        match count > most as usize {
            true => {
                let what = format!("{count} {what} or more");
                Err(SqlError::limit(what, name, most, self.token().span))
            }
            false => Ok(()),
        }
    }

    /// One or more things separated by commas, at most as many as a table has columns.
    fn list<T>(
        &mut self,
        what: &str,
        mut element: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut elements = vec![element(self)?];
        while self.eat(TokenKind::Comma) {
            elements.push(element(self)?);
            self.check_count(elements.len(), what, "columns", self.limits.columns)?;
        }
        Ok(elements)
    }

    /// A list in parentheses.
    fn list_in_parentheses<T>(
        &mut self,
        what: &str,
        element: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.require(TokenKind::LeftParenthesis)?;
        let elements = self.list(what, element)?;
        self.require(TokenKind::RightParenthesis)?;
        Ok(elements)
    }
}

/// How an error names a kind of token.
fn symbol_text(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Word(keyword) => keyword.as_str(),
        TokenKind::Quoted => "a quoted name",
        TokenKind::Number => "a number",
        TokenKind::String => "a string",
        TokenKind::Hex => "X'...'",
        TokenKind::Parameter => "?",
        TokenKind::LeftParenthesis => "'('",
        TokenKind::RightParenthesis => "')'",
        TokenKind::Comma => "','",
        TokenKind::Semicolon => "';'",
        TokenKind::Dot => "'.'",
        TokenKind::Star => "'*'",
        TokenKind::Plus => "'+'",
        TokenKind::Minus => "'-'",
        TokenKind::Slash => "'/'",
        TokenKind::Percent => "'%'",
        TokenKind::Concat => "'||'",
        TokenKind::Equal => "'='",
        TokenKind::NotEqual => "<>",
        TokenKind::Less => "<",
        TokenKind::LessOrEqual => "<=",
        TokenKind::Greater => ">",
        TokenKind::GreaterOrEqual => ">=",
        TokenKind::At => "@",
        TokenKind::Other | TokenKind::End => "the end of the statement",
    }
}
