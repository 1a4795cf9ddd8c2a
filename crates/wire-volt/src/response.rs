//! Responses: written around tables that already stand in the send buffer, and read in place.
//!
//! ```text
//! i32 length | i8 version 0 | i64 handle | i8 fields present | i8 status | [string status text] |
//! i8 application status | [string application text] | i32 round trip ms | i16 tables | tables
//! ```
//!
//! A response without texts, the common one, has a prefix of [`PREFIX_BYTES`] bytes. [`begin`]
//! reserves it, the executor appends its tables after it, [`finish`] fills it in.

use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes};
use lockstep_base::elapsed::Elapsed;
use lockstep_types::outcome::NO_APPLICATION_STATUS;
use lockstep_types::table::DecodeError;
use lockstep_types::{Failure, Outcome, Status, TableView};
use std::fmt;

/// Bytes in front of the tables of a response without texts, its length included.
pub const PREFIX_BYTES: usize = 22;
/// The greatest response that clients accept, in bytes, and the default limit.
pub const MAX_RESPONSE_BYTES: usize = 52_428_800;
/// The greatest status text: clients refuse longer strings. Longer ones are cut.
pub const MAX_TEXT_BYTES: usize = 1_048_576;

const STATUS_TEXT: u8 = 0x20;
const APPLICATION_TEXT: u8 = 0x80;
const EXCEPTION: u8 = 0x40;
const HASHES: u8 = 0x10;
/// Where the status byte stands, from the start of the frame.
const STATUS_AT: usize = 14;
const APPLICATION_STATUS_AT: usize = 15;

/// Reserves a response's prefix at the end of `out`; tables are appended after it. Returns the
/// position for [`finish`].
#[inline]
pub fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    start
}

/// Completes the response that [`begin`] started at `start`: a success keeps the tables after
/// the prefix, a failure drops them.
#[inline]
pub fn finish(
    out: &mut Vec<u8>,
    start: usize,
    client_handle: i64,
    outcome: &Outcome,
    round_trip: Elapsed,
) {
    if outcome.failure.is_some() || outcome.application_text.is_some() {
        return finish_with_text(out, start, client_handle, outcome, None, round_trip);
    }
    let length = body_length(out.len() - start);
    let prefix = &mut out[start..start + PREFIX_BYTES];
    prefix[..4].copy_from_slice(&length.to_be_bytes());
    prefix[4] = 0;
    prefix[5..13].copy_from_slice(&client_handle.to_be_bytes());
    prefix[13] = 0;
    prefix[STATUS_AT] = Status::Success.code() as u8;
    prefix[APPLICATION_STATUS_AT] = outcome.application_status as u8;
    prefix[16..20].copy_from_slice(&round_trip.ms_i32().to_be_bytes());
    prefix[20..].copy_from_slice(&outcome.table_count.to_be_bytes());
}

/// As [`finish`], for outcomes with texts. `success_text` is the status text of a success; a
/// failure's own message takes its place.
pub fn finish_with_text(
    out: &mut Vec<u8>,
    start: usize,
    client_handle: i64,
    outcome: &Outcome,
    success_text: Option<&str>,
    round_trip: Elapsed,
) {
    let failure = outcome.failure.as_ref();
    if failure.is_some() {
        out.truncate(start + PREFIX_BYTES);
    }
    let status_text = failure.map(|f| f.message.as_str()).or(success_text).map(clipped);
    let application_text = outcome.application_text.as_deref().map(clipped);
    let mut prefix = Vec::with_capacity(
        PREFIX_BYTES + 8 + status_text.map_or(0, str::len) + application_text.map_or(0, str::len),
    );
    let present =
        status_text.map_or(0, |_| STATUS_TEXT) | application_text.map_or(0, |_| APPLICATION_TEXT);
    prefix.put_i32(0);
    prefix.put_i8(0);
    prefix.put_i64(client_handle);
    prefix.put_u8(present);
    prefix.put_i8(failure.map_or(Status::Success, |f| f.status).code());
    if let Some(text) = status_text {
        prefix.put_sized(Some(text.as_bytes()));
    }
    prefix.put_i8(outcome.application_status);
    if let Some(text) = application_text {
        prefix.put_sized(Some(text.as_bytes()));
    }
    prefix.put_i32(round_trip.ms_i32());
    let tables = if failure.is_some() { 0 } else { outcome.table_count };
    prefix.extend_from_slice(&tables.to_be_bytes());
    out.splice(start..start + PREFIX_BYTES, prefix);
    let length = body_length(out.len() - start);
    out.patch_i32(start, length);
}

/// Appends a whole response without tables.
pub fn write_simple(out: &mut Vec<u8>, client_handle: i64, status: Status, text: Option<&str>) {
    let text = text.map(clipped);
    let start = out.len();
    out.put_i32(0);
    out.put_i8(0);
    out.put_i64(client_handle);
    out.put_u8(text.map_or(0, |_| STATUS_TEXT));
    out.put_i8(status.code());
    if let Some(text) = text {
        out.put_sized(Some(text.as_bytes()));
    }
    out.put_i8(NO_APPLICATION_STATUS);
    out.put_i32(0);
    out.put_i16(0);
    let length = body_length(out.len() - start);
    out.patch_i32(start, length);
}

/// Whether a response of `bytes` bytes (as it stands in the buffer) may be sent. Asked while
/// tables grow and before the transaction commits, so that a result over the limit undoes it.
#[inline]
pub fn check_size(bytes: usize, limit_bytes: usize) -> Result<(), Failure> {
    if bytes <= limit_bytes {
        return Ok(());
    }
    Err(Failure::graceful(format!(
        "VOLTDB ERROR: the result of {bytes} bytes is over the limit of {limit_bytes} bytes; \
         use LIMIT or fewer columns"
    )))
}

#[inline]
fn body_length(frame_bytes: usize) -> i32 {
    i32::try_from(frame_bytes - 4).expect("responses are held to their limit while they grow")
}

/// The text, cut at a character's start if it is too long for clients.
fn clipped(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Why bytes are no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseError {
    /// The bytes end early or a length is negative.
    Truncated,
    /// A version other than 0.
    UnknownVersion(i8),
    /// A text is not UTF-8.
    InvalidText,
}

impl From<EndOfBytes> for ResponseError {
    fn from(_: EndOfBytes) -> Self {
        ResponseError::Truncated
    }
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseError::Truncated => f.write_str("the response ends early"),
            ResponseError::UnknownVersion(version) => {
                write!(f, "response version {version} is unknown")
            }
            ResponseError::InvalidText => f.write_str("a status text is not valid UTF-8"),
        }
    }
}

impl std::error::Error for ResponseError {}

/// A response read in place.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// The call's handle.
    pub client_handle: i64,
    /// The status code; 1 is success, see [`Status`].
    pub status: i8,
    /// The server's text.
    pub status_text: Option<&'a str>,
    /// What the procedure set, [`NO_APPLICATION_STATUS`] when nothing.
    pub application_status: i8,
    /// The procedure's text.
    pub application_text: Option<&'a str>,
    /// The server's own measure of the call, in milliseconds.
    pub round_trip_ms: i32,
    /// Number of tables.
    pub table_count: u16,
    tables: &'a [u8],
}

impl<'a> Response<'a> {
    /// Reads a frame's body. The tables are read by [`Response::tables`].
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Response<'a>, ResponseError> {
        match Response::decode_plain(body) {
            Some(response) => Ok(response),
            None => Response::decode_any(body),
        }
    }

    /// Reads a response without texts.
    #[inline]
    fn decode_plain(body: &'a [u8]) -> Option<Response<'a>> {
        let (prefix, tables) = body.split_first_chunk::<{ PREFIX_BYTES - 4 }>()?;
        // The version and the fields present.
        if prefix[0] != 0 || prefix[9] != 0 {
            return None;
        }
        let [_, handle @ .., _, status, application_status, m0, m1, m2, m3, t0, t1] = *prefix;
        Some(Response {
            client_handle: i64::from_be_bytes(handle),
            status: status as i8,
            status_text: None,
            application_status: application_status as i8,
            application_text: None,
            round_trip_ms: i32::from_be_bytes([m0, m1, m2, m3]),
            table_count: u16::try_from(i16::from_be_bytes([t0, t1])).ok()?,
            tables,
        })
    }

    fn decode_any(body: &'a [u8]) -> Result<Response<'a>, ResponseError> {
        let mut reader = ByteReader::new(body);
        let version = reader.i8()?;
        if version != 0 {
            return Err(ResponseError::UnknownVersion(version));
        }
        let client_handle = reader.i64()?;
        let present = reader.u8()?;
        let status = reader.i8()?;
        let status_text = text_if(&mut reader, present & STATUS_TEXT != 0)?;
        let application_status = reader.i8()?;
        let application_text = text_if(&mut reader, present & APPLICATION_TEXT != 0)?;
        let round_trip_ms = reader.i32()?;
        if present & (EXCEPTION | HASHES) != 0 {
            skip_internal_fields(&mut reader, present)?;
        }
        let table_count = u16::try_from(reader.i16()?).map_err(|_| ResponseError::Truncated)?;
        Ok(Response {
            client_handle,
            status,
            status_text,
            application_status,
            application_text,
            round_trip_ms,
            table_count,
            tables: reader.rest(),
        })
    }

    /// Whether the call did its work.
    #[inline]
    pub fn is_success(&self) -> bool {
        self.status == Status::Success.code()
    }

    /// The tables as they came, one after the other.
    #[inline]
    pub fn table_bytes(&self) -> &'a [u8] {
        self.tables
    }

    /// The tables, in order. Stops after the first error.
    #[inline]
    pub fn tables(&self) -> Tables<'a> {
        Tables { reader: ByteReader::new(self.tables), left: self.table_count }
    }
}

#[inline]
fn text_if<'a>(
    reader: &mut ByteReader<'a>,
    present: bool,
) -> Result<Option<&'a str>, ResponseError> {
    if !present {
        return Ok(None);
    }
    let bytes = reader.sized()?.unwrap_or_default();
    std::str::from_utf8(bytes).map(Some).map_err(|_| ResponseError::InvalidText)
}

/// Steps over what servers exchange among themselves and old ones sent to clients.
#[cold]
fn skip_internal_fields(reader: &mut ByteReader<'_>, present: u8) -> Result<(), ResponseError> {
    if present & EXCEPTION != 0 {
        reader.sized()?;
    }
    if present & HASHES != 0 {
        let count = usize::try_from(reader.i16()?).map_err(|_| ResponseError::Truncated)?;
        reader.take(count * 4)?;
    }
    Ok(())
}

/// Iterates over a response's tables.
#[derive(Debug, Clone)]
pub struct Tables<'a> {
    reader: ByteReader<'a>,
    left: u16,
}

impl<'a> Iterator for Tables<'a> {
    type Item = Result<TableView<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let table = TableView::read(&mut self.reader);
        if table.is_err() {
            self.left = 0;
        }
        Some(table)
    }
}
