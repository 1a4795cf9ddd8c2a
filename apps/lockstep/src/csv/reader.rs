//! Reads records of comma-separated values from a stream, whatever the stream holds.
//!
//! A record ends with its line, unless the line's end is quoted. A record that is malformed is
//! reported with its line and column, and reading goes on after the first line of it: an open
//! quote then costs one line and not the rest of the file.

use super::Dialect;
use std::io::{self, Read};

/// First size of the buffer.
const BUFFER_BYTES: usize = 256 * 1024;
/// A byte order mark, which is no data.
const UTF8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// A record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Line of the place, from 1.
    pub line: u64,
    /// Column of the place in characters, from 1.
    pub column: u64,
    /// What is wrong.
    pub reason: String,
    /// The first line of the record, or the beginning of it.
    pub text: Vec<u8>,
}

/// A value's place.
#[derive(Debug, Clone, Copy)]
struct Field {
    start: u32,
    end: u32,
    /// Where it begins in the record, its quote included.
    opened: u32,
    quoted: bool,
    /// The place is one in the bytes without escapes, else in the record.
    unescaped: bool,
}

/// A value of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a> {
    /// Its bytes, without quotes and escapes.
    pub bytes: &'a [u8],
    /// Whether it was quoted.
    pub quoted: bool,
}

/// A record.
pub struct Record<'a> {
    /// The line that it begins in, from 1.
    pub line: u64,
    /// As it was read, without the end of its line.
    pub text: &'a [u8],
    fields: &'a [Field],
    unescaped: &'a [u8],
}

impl<'a> Record<'a> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// A value, below [`Record::len`].
    #[inline]
    pub fn value(&self, place: usize) -> Value<'a> {
        let field = self.fields[place];
        let from = if field.unescaped { self.unescaped } else { self.text };
        Value { bytes: &from[field.start as usize..field.end as usize], quoted: field.quoted }
    }

    /// Line and column of a value.
    pub fn position(&self, place: usize) -> (u64, u64) {
        let at = self.fields[place].opened as usize;
        position(self.text, at, self.line)
    }
}

/// Line and column of a byte in text that begins at the start of a line.
fn position(text: &[u8], at: usize, line: u64) -> (u64, u64) {
    let before = &text[..at.min(text.len())];
    let lines = before.iter().filter(|byte| **byte == b'\n').count() as u64;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    // Bytes that begin a character.
    let characters = before[start..].iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64;
    (line + lines, characters + 1)
}

/// What a look at the buffered bytes came to.
enum Scan {
    /// A record of N bytes, its line end of N included.
    Whole { bytes: usize, line_end: usize },
    /// It goes on after the buffered bytes; where the open quote is, if one is.
    GoesOn(Option<usize>),
    /// It is wrong at a byte.
    Wrong(usize, &'static str),
}

/// Reads records.
pub struct Reader<R> {
    source: R,
    dialect: Dialect,
    max_record_bytes: usize,
    buffer: Vec<u8>,
    /// What is read and not yet consumed: `buffer[start..end]`.
    start: usize,
    end: usize,
    at_end: bool,
    begun: bool,
    /// The line at `start`.
    line: u64,
    consumed: u64,
    /// Bytes that may end an unquoted value, or be wrong in it.
    special: [bool; 256],
    fields: Vec<Field>,
    unescaped: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// A reader at the start of a stream. A record of more than `max_record_bytes` is malformed.
    pub fn new(source: R, dialect: Dialect, max_record_bytes: usize) -> Reader<R> {
        let mut special = [false; 256];
        for byte in [Some(dialect.delimiter), dialect.quote, Some(b'\n'), Some(b'\r')] {
            special[usize::from(byte.unwrap_or(b'\n'))] = true;
        }
        Reader {
            source,
            dialect,
            max_record_bytes: max_record_bytes.min(u32::MAX as usize / 2),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            at_end: false,
            begun: false,
            line: 1,
            consumed: 0,
            special,
            fields: Vec::new(),
            unescaped: Vec::new(),
        }
    }

    /// Bytes of records read so far.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The line of the next record, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Leaves lines out, whatever is in them.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn skip_lines(&mut self, lines: u64) -> io::Result<()> {
        self.begin()?;
        for _ in 0..lines {
            self.skip_line()?;
        }
        Ok(())
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// The stream cannot be read. A malformed record is the inner error.
    pub fn next(&mut self) -> io::Result<Option<Result<Record<'_>, Malformed>>> {
        self.begin()?;
        loop {
            if self.start == self.end && !self.fill()? {
                return Ok(None);
            }
            match self.scan() {
                Scan::Whole { bytes, .. } if bytes > self.max_record_bytes + 2 => {
                    let limit = self.max_record_bytes;
                    let reason =
                        format!("the record has more than {limit} bytes (--max-record-bytes)");
                    return self.malformed(0, reason).map(|error| Some(Err(error)));
                }
                Scan::Whole { bytes, line_end } => return Ok(Some(Ok(self.take(bytes, line_end)))),
                Scan::Wrong(at, reason) => {
                    return self.malformed(at, reason.to_string()).map(|error| Some(Err(error)));
                }
                Scan::GoesOn(quote) => {
                    let held = self.end - self.start;
                    if held > self.max_record_bytes {
                        let limit = self.max_record_bytes;
                        let reason = match quote {
                            Some(_) => format!(
                                "the quote that opens here does not end within {limit} bytes \
                                 (--max-record-bytes)"
                            ),
                            None => {
                                format!(
                                    "the record has more than {limit} bytes (--max-record-bytes)"
                                )
                            }
                        };
                        let at = quote.unwrap_or(0);
                        return self.malformed(at, reason).map(|error| Some(Err(error)));
                    }
                    self.fill()?;
                }
            }
        }
    }

    /// Skips a mark at the stream's start; one of UTF-16 is an error.
    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        while self.end - self.start < UTF8_MARK.len() && self.fill()? {}
        let bytes = &self.buffer[self.start..self.end];
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            let text = "the text is UTF-16; convert it to UTF-8 first";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if bytes.starts_with(UTF8_MARK) {
            self.start += UTF8_MARK.len();
            self.consumed += UTF8_MARK.len() as u64;
        }
        Ok(())
    }

    /// Reads more; false at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at_end {
            return Ok(false);
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            let larger = self.buffer.len() * 2;
            self.buffer.resize(larger, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.at_end = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn consume(&mut self, bytes: usize, lines: u64) {
        self.start += bytes;
        self.consumed += bytes as u64;
        self.line += lines;
    }

    fn take(&mut self, bytes: usize, line_end: usize) -> Record<'_> {
        let (start, line) = (self.start, self.line);
        let text = start..start + bytes - line_end;
        // Most records are one line: only quoted values can hold a line end.
        let inner = match self.fields.iter().any(|field| field.quoted) {
            true => self.buffer[text.clone()].iter().filter(|byte| **byte == b'\n').count(),
            false => 0,
        };
        self.consume(bytes, inner as u64 + 1);
        let (fields, unescaped) = (&self.fields[..], &self.unescaped[..]);
        Record { line, text: &self.buffer[text], fields, unescaped }
    }

    fn malformed(&mut self, at: usize, reason: String) -> io::Result<Malformed> {
        // The rest of the line is wanted as well.
        while self.end - self.start <= self.max_record_bytes
            && !self.buffer[self.start..self.end].contains(&b'\n')
            && self.fill()?
        {}
        let held = &self.buffer[self.start..self.end];
        let (line, column) = position(held, at, self.line);
        let first = held.iter().position(|byte| *byte == b'\n').unwrap_or(held.len());
        let text = held[..first].strip_suffix(b"\r").unwrap_or(&held[..first]).to_vec();
        self.skip_line()?;
        Ok(Malformed { line, column, reason, text })
    }

    /// Skips to after the next line end.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let held = &self.buffer[self.start..self.end];
            if let Some(at) = held.iter().position(|byte| *byte == b'\n') {
                self.consume(at + 1, 1);
                return Ok(());
            }
            let length = held.len();
            self.consume(length, 0);
            if !self.fill()? {
                return Ok(());
            }
        }
    }

    /// Finds the values of the record at the start of what is held.
    fn scan(&mut self) -> Scan {
        self.fields.clear();
        self.unescaped.clear();
        let bytes = &self.buffer[self.start..self.end];
        let mut at = 0;
        loop {
            let quoted =
                self.dialect.quote.is_some() && bytes.get(at) == self.dialect.quote.as_ref();
            let open = at;
            if quoted {
                let scanned =
                    quoted_value(bytes, at, self.dialect, &mut self.fields, &mut self.unescaped);
                match scanned {
                    Some(behind) => at = behind,
                    None if self.at_end => return Scan::Wrong(open, "this quote does not end"),
                    None => return Scan::GoesOn(Some(open)),
                }
            } else {
                loop {
                    while at < bytes.len() && !self.special[usize::from(bytes[at])] {
                        at += 1;
                    }
                    match bytes.get(at) {
                        // Only in front of a line feed is it part of a line end.
                        Some(b'\r') if bytes.get(at + 1).is_some_and(|next| *next != b'\n') => {
                            at += 1;
                        }
                        quote @ Some(_) if quote == self.dialect.quote.as_ref() => {
                            return Scan::Wrong(
                                at,
                                "a quote within a value that does not begin with one",
                            );
                        }
                        _ => break,
                    }
                }
                let (start, end) = (open as u32, at as u32);
                let (quoted, unescaped) = (false, false);
                self.fields.push(Field { start, end, opened: start, quoted, unescaped });
            }
            match (bytes.get(at), bytes.get(at + 1)) {
                (Some(byte), _) if *byte == self.dialect.delimiter => at += 1,
                (Some(b'\n'), _) => return Scan::Whole { bytes: at + 1, line_end: 1 },
                (Some(b'\r'), Some(b'\n')) => return Scan::Whole { bytes: at + 2, line_end: 2 },
                (None, _) if self.at_end => return Scan::Whole { bytes: at, line_end: 0 },
                (Some(b'\r'), None) if self.at_end => {
                    return Scan::Whole { bytes: at + 1, line_end: 1 };
                }
                (None | Some(b'\r'), None) => return Scan::GoesOn(None),
                _ => return Scan::Wrong(at, "text after the quote that ends the value"),
            }
        }
    }
}

/// Finds the end of the quoted value that begins at `open`, and keeps the value. Gives the place
/// after its last quote; `None` if that is not among the bytes.
fn quoted_value(
    bytes: &[u8],
    open: usize,
    dialect: Dialect,
    fields: &mut Vec<Field>,
    unescaped: &mut Vec<u8>,
) -> Option<usize> {
    let quote = bytes[open];
    let escape = dialect.escape.unwrap_or(quote);
    let first = unescaped.len();
    let mut escaped = false;
    let (mut from, mut at) = (open + 1, open + 1);
    loop {
        at += bytes[at..].iter().position(|byte| *byte == quote || *byte == escape)?;
        let next = bytes.get(at + 1);
        let is_escape = match dialect.escape {
            Some(escape) if bytes[at] == escape => {
                // The character after it may still be on its way.
                next?;
                true
            }
            Some(_) => false,
            None => next == Some(&quote),
        };
        if !is_escape {
            break;
        }
        escaped = true;
        unescaped.extend_from_slice(&bytes[from..at]);
        (from, at) = (at + 1, at + 2);
    }
    let (start, end) = match escaped {
        false => (open + 1, at),
        true => {
            unescaped.extend_from_slice(&bytes[from..at]);
            (first, unescaped.len())
        }
    };
    let (start, end, opened) = (start as u32, end as u32, open as u32);
    fields.push(Field { start, end, opened, quoted: true, unescaped: escaped });
    Some(at + 1)
}

#[cfg(test)]
mod tests;
