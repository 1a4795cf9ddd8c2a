//! Cuts what a person or a file gives into pieces: SQL statements that end with `;`, and the
//! shell's own commands, which also end with their line.
//!
//! Text comes line by line, so that a terminal and a file are read by the same rules and a large
//! file is never held whole.

use super::command;
use lockstep_sql::{Limits, split_script};

/// A statement of more text than this is refused.
const MAX_PIECE_BYTES: u32 = 64 << 20;

/// A statement or command, without the `;` at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// As it was written.
    pub text: String,
    /// Line of its first character, from 1.
    pub line: u32,
    /// Column of its first character, from 1.
    pub column: u32,
    /// Several statements that a script puts together, to be run as one call.
    pub batch: bool,
}

/// Why the end of the input is no end of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// What is wrong.
    pub message: String,
    /// The statement that it is wrong in.
    pub piece: Piece,
    /// Where in it.
    pub offset: usize,
}

/// Collects lines until statements are complete.
#[derive(Debug)]
pub struct ScriptReader {
    pending: String,
    /// Where the first character of `pending` stands.
    line: u32,
    column: u32,
    lines_read: u32,
    /// The line that ends the batch that is read.
    batch_end: Option<String>,
}

impl Default for ScriptReader {
    fn default() -> Self {
        let (pending, batch_end) = (String::new(), None);
        ScriptReader { pending, line: 1, column: 1, lines_read: 0, batch_end }
    }
}

impl ScriptReader {
    /// True while a statement has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.batch_end.is_some() || !self.pending.trim().is_empty()
    }

    /// Takes a line without its line end; returns what is complete now.
    pub fn push_line(&mut self, line: &str) -> Vec<Piece> {
        self.lines_read += 1;
        if self.batch_end.is_some() {
            return self.push_to_batch(line).into_iter().collect();
        }
        let first = !self.is_open();
        if self.is_directive(first, line) {
            let text = line.trim().trim_end_matches(';').trim_end().to_string();
            let column = (line.len() - line.trim_start().len()) as u32 + 1;
            return vec![Piece { text, line: self.lines_read, column, batch: false }];
        }
        if first && let Some(end) = command::batch_end(line) {
            self.pending.clear();
            (self.line, self.column) = (self.lines_read + 1, 1);
            self.batch_end = Some(end.to_string());
            return Vec::new();
        }
        if first {
            self.pending.clear();
            (self.line, self.column) = (self.lines_read, 1);
            if line.trim_start().starts_with("--") {
                return Vec::new();
            }
        }
        self.pending.push_str(line);
        self.pending.push('\n');
        // Nothing else can end a statement, so lines without these need not be looked at again.
        if first || line.contains(';') || line.contains("*/") {
            self.cut(first)
        } else {
            Vec::new()
        }
    }

    /// Whether a line is a command by itself: at the start of a piece, or a directive between the
    /// lines of a statement, outside of quotes and comments.
    fn is_directive(&self, first: bool, line: &str) -> bool {
        match first {
            true => command::is_whole_line(line),
            false => line.starts_with('\\') && split_script(&self.pending, &limits()).is_ok(),
        }
    }

    /// Takes a line of a batch; the batch, where it ends.
    fn push_to_batch(&mut self, line: &str) -> Option<Piece> {
        if self.batch_end.as_deref() != Some(line.trim()) {
            self.pending.push_str(line);
            self.pending.push('\n');
            return None;
        }
        self.batch_end = None;
        let text = std::mem::take(&mut self.pending);
        let batch = Piece { text, line: self.line, column: self.column, batch: true };
        (!batch.text.trim().is_empty()).then_some(batch)
    }

    /// The input ends: what is left is complete as it stands.
    ///
    /// # Errors
    /// A quote or a comment is still open.
    pub fn finish(&mut self) -> Result<Vec<Piece>, ScriptError> {
        let text = std::mem::take(&mut self.pending);
        if let Some(end) = self.batch_end.take() {
            let message = format!("the batch does not end: there is no line {end}");
            let piece = Piece { text, line: self.line, column: self.column, batch: true };
            return Err(ScriptError { message, piece, offset: 0 });
        }
        match split_script(&text, &limits()) {
            Ok(statements) => {
                Ok(statements.iter().map(|s| self.piece(&text, s.span.range())).collect())
            }
            Err(error) => {
                let piece = self.piece(&text, 0..text.trim_end().len());
                Err(ScriptError {
                    message: error.message,
                    piece,
                    offset: error.span.offset as usize,
                })
            }
        }
    }

    /// Forgets what was begun.
    pub fn abandon(&mut self) {
        self.pending.clear();
        self.batch_end = None;
    }

    fn cut(&mut self, one_line: bool) -> Vec<Piece> {
        let text = std::mem::take(&mut self.pending);
        // An open quote or comment goes on in the next line.
        let Ok(statements) = split_script(&text, &limits()) else {
            self.pending = text;
            return Vec::new();
        };
        let mut pieces = Vec::new();
        for (place, statement) in statements.iter().enumerate() {
            let piece = self.piece(&text, statement.span.range());
            let alone = one_line || place > 0;
            let complete = statement.ended || (alone && command::ends_with_its_line(&piece.text));
            if complete {
                pieces.push(piece);
            } else {
                (self.line, self.column) = (piece.line, piece.column);
                self.pending = text[statement.span.offset as usize..].to_string();
            }
        }
        pieces
    }

    fn piece(&self, text: &str, range: std::ops::Range<usize>) -> Piece {
        let (line, column) = position(text, range.start, self.line, self.column);
        Piece { text: text[range].to_string(), line, column, batch: false }
    }
}

fn limits() -> Limits {
    let most = u32::MAX;
    Limits {
        batch_bytes: MAX_PIECE_BYTES,
        statement_bytes: MAX_PIECE_BYTES,
        statements: most,
        ..Limits::default()
    }
}

/// Line and column of a byte offset in a text that itself begins at `line` and `column`.
pub fn position(text: &str, offset: usize, line: u32, column: u32) -> (u32, u32) {
    let before = &text[..text.floor_char_boundary(offset)];
    match before.rfind('\n') {
        None => (line, column + before.chars().count() as u32),
        Some(last) => {
            let lines = before.matches('\n').count() as u32;
            (line + lines, before[last + 1..].chars().count() as u32 + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every piece as `line:column text`, with `|` for line ends; `...` while something is open.
    fn cut(text: &str) -> Vec<String> {
        let mut reader = ScriptReader::default();
        let mut shown = Vec::new();
        let show = |piece: Piece| {
            format!("{}:{} {}", piece.line, piece.column, piece.text.replace('\n', "|"))
        };
        for line in text.lines() {
            shown.extend(reader.push_line(line).into_iter().map(show));
        }
        if reader.is_open() {
            shown.push("...".to_string());
        }
        match reader.finish() {
            Ok(rest) => shown.extend(rest.into_iter().map(show)),
            Err(error) => shown.push(format!("error: {}", show(error.piece))),
        }
        shown
    }

    #[test]
    fn batches_end_at_their_line() {
        for (text, pieces) in [
            (
                "a;\nFILE -inlinebatch END\nb;\n-- c;\nd\nEND\ne;",
                &["1:1 a", "3:1 b;|-- c;|d|", "7:1 e"][..],
            ),
            ("file -inlinebatch E;\nE\na;", &["3:1 a"]),
            ("file -inlinebatch E\na;", &["...", "error: 2:1 a;|"]),
        ] {
            assert_eq!(cut(text), pieces, "{text}");
        }
    }

    #[test]
    fn statements_end_at_semicolons_and_commands_with_their_line() {
        for (text, pieces) in [
            ("select 1;\n\nselect\n 2;", &["1:1 select 1", "3:1 select| 2"][..]),
            ("select 1; select 2; sel", &["1:1 select 1", "1:11 select 2", "...", "1:21 sel"]),
            ("exec p 1, 'a;b'\nselect 1;", &["1:1 exec p 1, 'a;b'", "2:1 select 1"]),
            ("exec @Ping; exec q 2", &["1:1 exec @Ping", "1:13 exec q 2"]),
            ("show tables\ndescribe t\n", &["1:1 show tables", "2:1 describe t"]),
            ("exec p 1,\n 2;", &["1:1 exec p 1,| 2"]),
            ("-- first\nselect 'a\n;b' ; -- last\n", &["2:1 select 'a|;b'"]),
            ("/* one\n two */ select 1;", &["2:9 select 1"]),
            (
                "create procedure p as begin\n select 1 from t;\n delete from t;\nend;\nselect 3;",
                &[
                    "1:1 create procedure p as begin| select 1 from t;| delete from t;|end",
                    "5:1 select 3",
                ],
            ),
            ("select 1\nfrom t", &["...", "1:1 select 1|from t"]),
            ("\\d t;\n  .tables\nselect 1;", &["1:1 \\d t", "2:3 .tables", "3:1 select 1"]),
            ("select 1\n\\q\n+ .5\n.5;", &["2:1 \\q", "1:1 select 1|+ .5|.5"]),
            ("select '\n\\q\n';", &["1:1 select '|\\q|'"]),
            ("echo it's; so\nselect 1;", &["1:1 echo it's; so", "2:1 select 1"]),
            ("exec p [1,\n2];\nexec q [1", &["1:1 exec p [1,|2]", "3:1 exec q [1"]),
            ("file a.sql; select 1;", &["1:1 file a.sql", "1:13 select 1"]),
            ("select 'é'; select 2;", &["1:1 select 'é'", "1:13 select 2"]),
            ("\n\nselect 'open\nfrom t;", &["...", "error: 3:1 select 'open|from t;"]),
            ("", &[]),
        ] {
            assert_eq!(cut(text), pieces, "{text:?}");
        }
    }
}
