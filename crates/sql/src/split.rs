//! Where statements end, without parsing them: for tools that read scripts and send statements
//! one by one, among them commands of their own (`exec ...`) that are no SQL.

use crate::ast::Span;
use crate::error::SqlError;
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind, tokenize};
use crate::limits::Limits;

/// A piece of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptStatement {
    /// Where it stands, without its `;`.
    pub span: Span,
    /// Whether a `;` ends it. A shell reads on while the last statement is not ended.
    pub ended: bool,
}

/// Cuts a script at every `;` outside quotes, comments and the BEGIN ... END of a procedure.
/// Empty statements are left out.
///
/// # Errors
/// The text is too long, or a quote or comment in it does not end.
pub fn split_script(text: &str, limits: &Limits) -> Result<Vec<ScriptStatement>, SqlError> {
    let tokens = tokenize(text, limits)?;
    let mut statements = Vec::new();
    let mut body = Body::None;
    let mut begin = 0;
    for (index, token) in tokens.iter().enumerate() {
        body = body.after(*token, &tokens[begin..index]);
        let ended = token.kind == TokenKind::Semicolon && !matches!(body, Body::Open(_));
        if !ended && token.kind != TokenKind::End {
            continue;
        }
        if let [first, .., last] | [first @ last] = &tokens[begin..index] {
            statements.push(ScriptStatement { span: first.span.to(last.span), ended });
        }
        begin = index + 1;
        body = Body::None;
    }
    Ok(statements)
}

/// Whether the body of a procedure is open.
#[derive(Clone, Copy)]
enum Body {
    /// No BEGIN yet.
    None,
    /// Between BEGIN and END, with N CASEs that have not ended.
    Open(u32),
    /// After END.
    Closed,
}

impl Body {
    /// The state after a token, given the tokens of its statement before it.
    fn after(self, token: Token, before: &[Token]) -> Body {
        let is = |token: Option<&Token>, keyword| {
            token.is_some_and(|token| token.kind == TokenKind::Word(keyword))
        };
        match (self, token.kind) {
            (Body::None, TokenKind::Word(Keyword::Begin)) => {
                let creates = is(before.first(), Keyword::Create)
                    && before.iter().take(3).any(|token| is(Some(token), Keyword::Procedure))
                    && is(before.last(), Keyword::As);
                if creates { Body::Open(0) } else { Body::None }
            }
            (Body::Open(cases), TokenKind::Word(Keyword::Case)) => {
                Body::Open(cases.saturating_add(1))
            }
            (Body::Open(0), TokenKind::Word(Keyword::End)) => Body::Closed,
            (Body::Open(cases), TokenKind::Word(Keyword::End)) => Body::Open(cases - 1),
            (state, _) => state,
        }
    }
}
