//! Text to tokens: `sqlparser`'s tokenizer with our dialect, brought into compact tokens.
//!
//! The text is first cut at every `;` outside quotes and comments, so that the tokenizer's
//! bulky tokens exist for one piece at a time; what stays are 20 bytes a token.

use crate::ast::Span;
use crate::error::SqlError;
use crate::keyword::Keyword;
use crate::limits::Limits;
use sqlparser::dialect::Dialect;
use sqlparser::tokenizer::{Token as RawToken, TokenWithSpan, Tokenizer, TokenizerError};

/// What a token is. Its text is the source under its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An unquoted word.
    Word(Keyword),
    /// `"..."`
    Quoted,
    /// Digits, with a point or an exponent.
    Number,
    /// `'...'`
    String,
    /// `X'...'`
    Hex,
    /// `?`
    Parameter,
    /// `(`
    LeftParenthesis,
    /// `)`
    RightParenthesis,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `.`
    Dot,
    /// `*`
    Star,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `/`
    Slash,
    /// `%`
    Percent,
    /// `||`
    Concat,
    /// `=`
    Equal,
    /// `<>` or `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `@`
    At,
    /// Anything that VoltDB's SQL does not use.
    Other,
    /// After the last token.
    End,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    /// What it is.
    pub(crate) kind: TokenKind,
    /// Where it stands.
    pub(crate) span: Span,
}

/// VoltDB's lexical rules, in the tokenizer's terms.
#[derive(Debug)]
struct VoltDialect;

impl Dialect for VoltDialect {
    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '"'
    }
}

/// Follows the text beside the tokenizer, which tells lines and columns but no byte offsets.
struct Cursor<'a> {
    rest: core::str::Chars<'a>,
    offset: u32,
    /// Position in the whole text.
    line: u32,
    column: u32,
    /// Position as the tokenizer counts it, from the start of the piece.
    piece_line: u64,
    piece_column: u64,
}

impl Cursor<'_> {
    /// Goes on to a position that the tokenizer reported.
    fn advance_to(&mut self, line: u64, column: u64) {
        while self.piece_line < line || (self.piece_line == line && self.piece_column < column) {
            let Some(ch) = self.rest.next() else { return };
            self.offset += ch.len_utf8() as u32;
            if ch == '\n' {
                self.line += 1;
                self.column = 1;
                self.piece_line += 1;
                self.piece_column = 1;
            } else {
                self.column += 1;
                self.piece_column += 1;
            }
        }
    }

    fn span(&self) -> Span {
        Span { offset: self.offset, length: 0, line: self.line, column: self.column }
    }
}

/// Cuts a text into tokens; the last one is always [`TokenKind::End`].
pub(crate) fn tokenize(text: &str, limits: &Limits) -> Result<Vec<Token>, SqlError> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    if length > limits.batch_bytes {
        let span = Span { offset: 0, length: 0, line: 1, column: 1 };
        let what = format!("the text is {} bytes long", text.len());
        return Err(SqlError::limit(what, "statement_bytes", limits.batch_bytes, span));
    }
    let mut tokens = Vec::with_capacity(text.len() / 4 + 2);
    let mut raw = Vec::new();
    let mut start = Span { offset: 0, length: 0, line: 1, column: 1 };
    let mut from = 0;
    loop {
        let (to, more) = piece_end(text, from);
        let piece = &text[from..to];
        start = tokenize_piece(text, piece, start, limits, &mut raw, &mut tokens)?;
        if !more {
            break;
        }
        tokens.push(Token { kind: TokenKind::Semicolon, span: Span { length: 1, ..start } });
        start.offset += 1;
        start.column += 1;
        from = to + 1;
    }
    tokens.push(Token { kind: TokenKind::End, span: start });
    Ok(tokens)
}

/// The end of the piece that starts at `from`, and whether a `;` stands there.
fn piece_end(text: &str, from: usize) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut at = from;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        at = match byte {
            b';' => return (at, true),
            b'\'' | b'"' => skip_past(bytes, at + 1, &[byte]),
            b'-' if next == Some(b'-') => skip_past(bytes, at + 2, b"\n"),
            b'/' if next == Some(b'*') => skip_past(bytes, at + 2, b"*/"),
            _ => at + 1,
        };
    }
    (bytes.len(), false)
}

/// The position after the next occurrence of `end`, or the end of the text.
fn skip_past(bytes: &[u8], from: usize, end: &[u8]) -> usize {
    let mut at = from;
    while at < bytes.len() {
        if bytes[at..].starts_with(end) {
            return at + end.len();
        }
        at += 1;
    }
    bytes.len()
}

/// Adds the tokens of one piece; gives the position after it.
fn tokenize_piece(
    text: &str,
    piece: &str,
    start: Span,
    limits: &Limits,
    raw: &mut Vec<TokenWithSpan>,
    tokens: &mut Vec<Token>,
) -> Result<Span, SqlError> {
    if piece.len() > limits.statement_bytes as usize {
        let what = format!("a statement is {} bytes long", piece.len());
        return Err(SqlError::limit(what, "statement_bytes", limits.statement_bytes, start));
    }
    let mut cursor = Cursor {
        rest: piece.chars(),
        offset: start.offset,
        line: start.line,
        column: start.column,
        piece_line: 1,
        piece_column: 1,
    };
    raw.clear();
    let dialect = VoltDialect;
    let done = Tokenizer::new(&dialect, piece)
        .with_unescape(false)
        .tokenize_with_location_into_buf_with_mapper(raw, |token| {
            cursor.advance_to(token.span.start.line, token.span.start.column);
            let span = cursor.span();
            cursor.advance_to(token.span.end.line, token.span.end.column);
            let span = Span { length: cursor.offset - span.offset, ..span };
            if !matches!(token.token, RawToken::Whitespace(_)) {
                let kind = kind_of(&token.token, &text[span.range()]);
                tokens.push(Token { kind, span });
            }
            // The tokenizer keeps what this returns: hand back something small.
            TokenWithSpan { token: RawToken::EOF, span: token.span }
        });
    if let Err(error) = done {
        return Err(tokenizer_error(&error, cursor));
    }
    cursor.advance_to(u64::MAX, 0);
    Ok(cursor.span())
}

/// A quote or comment without end, or a character that begins no token.
fn tokenizer_error(error: &TokenizerError, mut cursor: Cursor<'_>) -> SqlError {
    cursor.advance_to(error.location.line, error.location.column);
    let rest = cursor.rest.as_str();
    let (message, expected) = if rest.starts_with('"') {
        ("malformed quoted name: it does not end", "a closing \"")
    } else if rest.starts_with(['\'', 'x', 'X', 'n', 'N']) {
        ("malformed string: it does not end", "a closing '")
    } else if error.message.contains("comment") {
        ("unexpected end of statement: a comment does not end", "a closing */")
    } else {
        ("unexpected end of statement", "a token")
    };
    SqlError {
        message: message.to_string(),
        span: cursor.span(),
        expected: vec![expected.to_string()],
        found: None,
    }
}

/// Brings a token of the tokenizer into ours.
fn kind_of(token: &RawToken, text: &str) -> TokenKind {
    match token {
        RawToken::Word(word) if word.quote_style.is_some() => TokenKind::Quoted,
        RawToken::Word(_) => TokenKind::Word(Keyword::of(text)),
        // `10L` is one token to the tokenizer, and nothing in SQL.
        RawToken::Number(_, long) => match long {
            false => TokenKind::Number,
            true => TokenKind::Other,
        },
        RawToken::SingleQuotedString(_) => TokenKind::String,
        // `0x1F` comes as the same token.
        RawToken::HexStringLiteral(_) if text.ends_with('\'') => TokenKind::Hex,
        RawToken::Placeholder(_) if text == "?" => TokenKind::Parameter,
        RawToken::LParen => TokenKind::LeftParenthesis,
        RawToken::RParen => TokenKind::RightParenthesis,
        RawToken::Comma => TokenKind::Comma,
        RawToken::SemiColon => TokenKind::Semicolon,
        RawToken::Period => TokenKind::Dot,
        RawToken::Mul => TokenKind::Star,
        RawToken::Plus => TokenKind::Plus,
        RawToken::Minus => TokenKind::Minus,
        RawToken::Div => TokenKind::Slash,
        RawToken::Mod => TokenKind::Percent,
        RawToken::StringConcat => TokenKind::Concat,
        RawToken::Eq => TokenKind::Equal,
        RawToken::Neq => TokenKind::NotEqual,
        RawToken::Lt => TokenKind::Less,
        RawToken::LtEq => TokenKind::LessOrEqual,
        RawToken::Gt => TokenKind::Greater,
        RawToken::GtEq => TokenKind::GreaterOrEqual,
        RawToken::AtSign => TokenKind::At,
        _ => TokenKind::Other,
    }
}
