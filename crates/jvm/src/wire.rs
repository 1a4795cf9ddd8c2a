//! What the runtime writes besides tables and parameters: numbers and texts, big-endian.

use crate::env::{Java, JavaError};
use lockstep_base::bytes::ByteReader;

/// Reads what the runtime wrote.
pub(crate) struct Reader<'a> {
    bytes: ByteReader<'a>,
}

fn damaged() -> JavaError {
    JavaError::new("the runtime of Java procedures sent less than it should have")
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes: ByteReader::new(bytes) }
    }

    pub(crate) fn i8(&mut self) -> Java<i8> {
        self.bytes.i8().map_err(|_| damaged())
    }

    pub(crate) fn i16(&mut self) -> Java<i16> {
        self.bytes.i16().map_err(|_| damaged())
    }

    pub(crate) fn i32(&mut self) -> Java<i32> {
        self.bytes.i32().map_err(|_| damaged())
    }

    /// A text; `None` for null.
    pub(crate) fn text(&mut self) -> Java<Option<&'a str>> {
        let length = self.i32()?;
        let Ok(length) = usize::try_from(length) else { return Ok(None) };
        let bytes = self.bytes.take(length).map_err(|_| damaged())?;
        std::str::from_utf8(bytes).map(Some).map_err(|_| damaged())
    }

    /// A text that is not null.
    pub(crate) fn owned_text(&mut self) -> Java<String> {
        self.text()?.map(str::to_string).ok_or_else(damaged)
    }

    /// What was not read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.rest()
    }
}

/// Appends a text as the runtime reads it.
pub(crate) fn write_text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Some(text) => {
            out.extend_from_slice(&(text.len() as i32).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
}
