//! A lexer that knows just enough Rust to tell code from comments and literals.
//!
//! It masks: the answer has the same bytes at the same places, with comments and the contents of
//! literals blanked. Braces in a mask are braces of the language, words in it are words of code.

/// A source text in two layers.
pub struct Masked {
    /// The code: comments, strings and characters are blanks; line breaks are kept.
    pub code: String,
    /// The comments: everything else is blanks; line breaks are kept.
    pub comments: String,
}

/// Splits `source` into code and comments.
pub fn mask(source: &str) -> Masked {
    let mut scanner = Scanner {
        bytes: source.as_bytes(),
        at: 0,
        code: Vec::with_capacity(source.len()),
        comments: Vec::with_capacity(source.len()),
    };
    scanner.run();
    Masked { code: into_text(scanner.code), comments: into_text(scanner.comments) }
}

/// Layers hold whole characters or blanks, so the lossy path never changes anything.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

#[derive(Clone, Copy, PartialEq)]
enum Layer {
    Code,
    Comment,
    Literal,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    code: Vec<u8>,
    comments: Vec<u8>,
}

impl Scanner<'_> {
    fn run(&mut self) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'/' if self.peek(1) == Some(b'/') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => self.block_comment(),
                b'"' => self.string(),
                b'\'' => self.character_or_lifetime(),
                b'r' | b'b' | b'c' if !self.inside_word() => self.maybe_prefixed_literal(),
                _ => self.take(Layer::Code),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn inside_word(&self) -> bool {
        self.at > 0 && is_word(self.bytes[self.at - 1])
    }

    /// Moves one byte into its layer and a blank into the other.
    fn take(&mut self, layer: Layer) {
        let Some(byte) = self.peek(0) else { return };
        self.at += 1;
        let both = byte == b'\n';
        self.code.push(if both || layer == Layer::Code { byte } else { b' ' });
        self.comments.push(if both || layer == Layer::Comment { byte } else { b' ' });
    }

    fn take_many(&mut self, layer: Layer, count: usize) {
        for _ in 0..count {
            self.take(layer);
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.take(Layer::Comment);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    self.take_many(Layer::Comment, 2);
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.take_many(Layer::Comment, 2);
                }
                (Some(_), _) => self.take(Layer::Comment),
                (None, _) => return,
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take(Layer::Literal);
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.take_many(Layer::Literal, 2),
                b'"' => return self.take(Layer::Literal),
                _ => self.take(Layer::Literal),
            }
        }
    }

    /// `'a'` and `'\n'` are characters, `'a` is a lifetime or a label.
    fn character_or_lifetime(&mut self) {
        if self.peek(1) == Some(b'\\') {
            self.take_many(Layer::Literal, 3);
            while self.peek(0).is_some_and(|byte| byte != b'\'' && byte != b'\n') {
                self.take(Layer::Literal);
            }
            return self.take(Layer::Literal);
        }
        let width = match self.peek(1) {
            Some(byte) if byte >= 0xf0 => 4,
            Some(byte) if byte >= 0xe0 => 3,
            Some(byte) if byte >= 0xc0 => 2,
            _ => 1,
        };
        if self.peek(1 + width) == Some(b'\'') {
            self.take_many(Layer::Literal, width + 2);
        } else {
            self.take(Layer::Code);
        }
    }

    /// `r"…"`, `r#"…"#`, `b"…"`, `br#"…"#`, `c"…"` and `b'x'`; anything else is a word.
    fn maybe_prefixed_literal(&mut self) {
        let mut prefix = 1;
        let mut raw = self.peek(0) == Some(b'r');
        if !raw && self.peek(1) == Some(b'r') {
            raw = true;
            prefix = 2;
        }
        let mut hashes = 0;
        while raw && self.peek(prefix + hashes) == Some(b'#') {
            hashes += 1;
        }
        match self.peek(prefix + hashes) {
            Some(b'"') if raw => {
                self.take_many(Layer::Literal, prefix + hashes + 1);
                self.raw_string_rest(hashes);
            }
            Some(b'"') => {
                self.take_many(Layer::Literal, prefix);
                self.string();
            }
            Some(b'\'') if self.peek(0) == Some(b'b') && !raw => {
                self.take(Layer::Literal);
                self.character_or_lifetime();
            }
            _ => self.take(Layer::Code),
        }
    }

    fn raw_string_rest(&mut self, hashes: usize) {
        while let Some(byte) = self.peek(0) {
            let closes = byte == b'"' && (1..=hashes).all(|i| self.peek(i) == Some(b'#'));
            if closes {
                return self.take_many(Layer::Literal, 1 + hashes);
            }
            self.take(Layer::Literal);
        }
    }
}

/// Whether `byte` can stand inside an identifier.
pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Positions at which `word` stands alone in `text`, not as a part of a longer identifier.
pub fn word_positions<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let bytes = text.as_bytes();
        let end = at + word.len();
        (at == 0 || !is_word(bytes[at - 1])) && bytes.get(end).is_none_or(|&b| !is_word(b))
    })
}

/// The line of byte `at`, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count()
}

/// The position of the bracket that closes the one at `open`, if the text is balanced.
pub fn matching(code: &str, open: usize) -> Option<usize> {
    let bytes = code.as_bytes();
    let (opening, closing) = match bytes.get(open)? {
        b'{' => (b'{', b'}'),
        b'(' => (b'(', b')'),
        b'[' => (b'[', b']'),
        _ => return None,
    };
    let mut depth = 0usize;
    for (offset, &byte) in bytes[open..].iter().enumerate() {
        if byte == opening {
            depth += 1;
        } else if byte == closing {
            depth -= 1;
            if depth == 0 {
                return Some(open + offset);
            }
        }
    }
    None
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of the word `fn`, from 1.
    pub line: usize,
    /// Lines from that one to the closing brace, both counted.
    pub lines: usize,
    /// Where the word `fn` stands, in bytes.
    pub at: usize,
    /// Where its body opens.
    pub body: usize,
}

/// All functions of masked code that have a body, nested ones too.
pub fn functions(code: &str) -> Vec<Function> {
    word_positions(code, "fn").filter_map(|at| function_at(code, at)).collect()
}

fn function_at(code: &str, at: usize) -> Option<Function> {
    let rest = code[at + 2..].trim_start();
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    if name.is_empty() {
        return None; // a function pointer type or a macro's `fn $name`
    }
    let bytes = code.as_bytes();
    let mut cursor = at + 2;
    loop {
        match bytes.get(cursor)? {
            b'(' | b'[' => cursor = matching(code, cursor)? + 1,
            b';' => return None,
            b'{' => break,
            _ => cursor += 1,
        }
    }
    let end = matching(code, cursor)?;
    let line = line_of(code, at);
    Some(Function { name, line, lines: line_of(code, end) - line + 1, at, body: cursor })
}

/// Ranges of bytes that only tests compile: items under `#[cfg(test)]` or `#[test]`.
pub fn test_ranges(code: &str) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    for (at, _) in code.match_indices("#[") {
        let Some(close) = matching(code, at + 1) else { continue };
        let attribute = &code[at + 2..close];
        let is_test = attribute.trim() == "test"
            || (attribute.trim_start().starts_with("cfg")
                && !attribute.contains("not(")
                && word_positions(attribute, "test").next().is_some());
        if is_test {
            ranges.push(at..item_end(code, close + 1));
        }
    }
    ranges
}

/// The end of the item that starts at `from`: its closing brace or its semicolon.
fn item_end(code: &str, from: usize) -> usize {
    let bytes = code.as_bytes();
    let mut cursor = from;
    while let Some(byte) = bytes.get(cursor) {
        match byte {
            b'(' | b'[' => cursor = matching(code, cursor).unwrap_or(code.len()),
            b'{' => return matching(code, cursor).unwrap_or(code.len()),
            b';' => return cursor,
            _ => {}
        }
        cursor += 1;
    }
    code.len()
}

#[cfg(test)]
mod tests;
