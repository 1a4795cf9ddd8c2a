//! Invocations: a procedure call as clients send it, decoded in place.
//!
//! ```text
//! version 0: string procedure | i64 handle | parameters
//! version 1: i8 -1, or i8 1 and i32 timeout ms | string procedure | i64 handle | parameters
//! version 2: string procedure | i64 handle | i8 count, extensions | parameters
//! extension: i8 type | i8 size code (0: no bytes, n: 2^(n-1) bytes) | bytes
//! ```

use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes, text};
use lockstep_types::ParameterSet;
use lockstep_types::parameter::ParameterWriter;
use std::fmt;

/// The greatest number of extensions of one invocation.
pub const MAX_EXTENSIONS: i8 = 30;

const BATCH_TIMEOUT: i8 = 1;
const ALL_PARTITION: i8 = 2;
const PARTITION_DESTINATION: i8 = 3;
const BATCH_CALL: i8 = 4;
const REQUEST_PRIORITY: i8 = 5;
const REQUEST_TIMEOUT: i8 = 6;

/// One call, borrowed from the read buffer.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// The procedure's name; never empty.
    pub procedure: &'a str,
    /// The client's number for the call, echoed in its response.
    pub client_handle: i64,
    /// The parameters, undecoded.
    pub parameters: ParameterSet<'a>,
    /// The client's own limit for queries, in milliseconds, not negative; 0 is no limit.
    pub query_timeout_ms: Option<i32>,
    /// One part of an all-partition call.
    pub all_partition: bool,
    /// The partition that the call must run at, not negative.
    pub destination_partition: Option<i32>,
    /// The single parameter is a table, each row of which is a call of its own.
    pub batch_call: bool,
    /// 1 (most urgent) to 8, 0 for the system; as sent, so to be clipped.
    pub priority: Option<i8>,
    /// What is left of the client's patience, in microseconds; not negative.
    pub request_timeout_us: Option<i32>,
}

/// What is wrong with an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvocationError {
    /// A version byte other than 0, 1 and 2.
    UnknownVersion(i8),
    /// The bytes end within this part.
    Truncated(&'static str),
    /// The procedure name is null or empty.
    NoProcedure,
    /// The procedure name is not UTF-8.
    ProcedureNotUtf8,
    /// A version 1 timeout flag other than -1 and 1.
    TimeoutFlag(i8),
    /// Fewer than 0 or more than [`MAX_EXTENSIONS`] extensions.
    ExtensionCount(i8),
    /// A size code that is negative or beyond any message.
    ExtensionSizeCode {
        /// The extension's type.
        extension: i8,
        /// The code.
        size_code: i8,
    },
    /// A known extension of the wrong length.
    ExtensionLength {
        /// The extension's type.
        extension: i8,
        /// Its length in bytes.
        length: usize,
        /// The length that it must have.
        expected: usize,
    },
    /// A negative timeout, in milliseconds.
    NegativeTimeout(i32),
    /// A negative partition.
    NegativePartition(i32),
    /// The parameter count is missing or negative.
    ParameterCount,
}

impl fmt::Display for InvocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvocationError::UnknownVersion(version) => {
                write!(f, "invocation version {version} is unknown; use 0, 1 or 2")
            }
            InvocationError::Truncated(part) => write!(f, "the invocation ends in its {part}"),
            InvocationError::NoProcedure => f.write_str("the procedure name is null or empty"),
            InvocationError::ProcedureNotUtf8 => {
                f.write_str("the procedure name is not valid UTF-8")
            }
            InvocationError::TimeoutFlag(flag) => {
                write!(f, "timeout flag {flag} is unknown; use -1 or 1")
            }
            InvocationError::ExtensionCount(count) => {
                write!(f, "{count} extensions; 0 to {MAX_EXTENSIONS} are allowed")
            }
            InvocationError::ExtensionSizeCode { extension, size_code } => {
                write!(f, "extension {extension} has the impossible size code {size_code}")
            }
            InvocationError::ExtensionLength { extension, length, expected } => {
                write!(f, "extension {extension} has {length} bytes instead of {expected}")
            }
            InvocationError::NegativeTimeout(timeout) => {
                write!(f, "the query timeout {timeout} ms is negative")
            }
            InvocationError::NegativePartition(partition) => {
                write!(f, "the destination partition {partition} is negative")
            }
            InvocationError::ParameterCount => {
                f.write_str("the parameter count is missing or negative")
            }
        }
    }
}

impl std::error::Error for InvocationError {}

/// A refused invocation. It is answered with status -3 and the connection goes on: frames stay in
/// step whatever is inside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejection {
    /// The call's handle if decoding got that far. `None`: the whole message is rejected, and the
    /// answer carries the connection id as its handle.
    pub client_handle: Option<i64>,
    /// What is wrong.
    pub error: InvocationError,
}

impl Rejection {
    /// The handle for the answer.
    pub fn answer_handle(&self, connection_id: i64) -> i64 {
        self.client_handle.unwrap_or(connection_id)
    }

    /// The status text for the answer.
    pub fn message(&self) -> String {
        format!("VOLTDB ERROR: UNEXPECTED FAILURE: {}", self.error)
    }

    fn whole(error: InvocationError) -> Rejection {
        Rejection { client_handle: None, error }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Rejection {}

fn truncated(part: &'static str) -> impl Fn(EndOfBytes) -> Rejection {
    move |_| Rejection::whole(InvocationError::Truncated(part))
}

impl<'a> Invocation<'a> {
    /// Reads a frame's body. Bytes that trail the last parameter are ignored, as VoltDB does.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Invocation<'a>, Rejection> {
        let mut reader = ByteReader::new(body);
        let version = reader.i8().map_err(truncated("version"))?;
        let query_timeout_ms = match version {
            0 | 2 => None,
            1 => old_timeout(&mut reader)?,
            other => return Err(Rejection::whole(InvocationError::UnknownVersion(other))),
        };
        let name = reader.sized().map_err(truncated("procedure name"))?;
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or(Rejection::whole(InvocationError::NoProcedure))?;
        let procedure = text(name).ok_or(Rejection::whole(InvocationError::ProcedureNotUtf8))?;
        let client_handle = reader.i64().map_err(truncated("client handle"))?;
        let mut invocation = Invocation {
            procedure,
            client_handle,
            parameters: ParameterSet::EMPTY,
            query_timeout_ms,
            all_partition: false,
            destination_partition: None,
            batch_call: false,
            priority: None,
            request_timeout_us: None,
        };
        let rejected = |error| Rejection { client_handle: Some(client_handle), error };
        if version == 2 {
            let count =
                reader.i8().map_err(|_| rejected(InvocationError::Truncated("extension count")))?;
            if count != 0 {
                invocation.read_extensions(&mut reader, count).map_err(rejected)?;
            }
        }
        invocation.parameters = ParameterSet::new(reader.rest())
            .map_err(|_| rejected(InvocationError::ParameterCount))?;
        Ok(invocation)
    }

    fn read_extensions(
        &mut self,
        reader: &mut ByteReader<'a>,
        count: i8,
    ) -> Result<(), InvocationError> {
        if !(0..=MAX_EXTENSIONS).contains(&count) {
            return Err(InvocationError::ExtensionCount(count));
        }
        let cut = |_| InvocationError::Truncated("extensions");
        for _ in 0..count {
            let extension = reader.i8().map_err(cut)?;
            let size_code = reader.i8().map_err(cut)?;
            let length = match size_code {
                0 => 0,
                1..=31 => 1usize << (size_code - 1),
                _ => return Err(InvocationError::ExtensionSizeCode { extension, size_code }),
            };
            let bytes = reader.take(length).map_err(cut)?;
            self.apply_extension(extension, bytes)?;
        }
        Ok(())
    }

    fn apply_extension(&mut self, extension: i8, bytes: &[u8]) -> Result<(), InvocationError> {
        match extension {
            BATCH_TIMEOUT => {
                let timeout_ms = i32::from_be_bytes(*exactly(extension, bytes)?);
                self.query_timeout_ms = Some(not_negative_timeout(timeout_ms)?);
            }
            ALL_PARTITION => {
                exactly::<0>(extension, bytes)?;
                self.all_partition = true;
            }
            PARTITION_DESTINATION => {
                let partition = i32::from_be_bytes(*exactly(extension, bytes)?);
                if partition < 0 {
                    return Err(InvocationError::NegativePartition(partition));
                }
                self.destination_partition = Some(partition);
            }
            BATCH_CALL => {
                exactly::<0>(extension, bytes)?;
                self.batch_call = true;
            }
            REQUEST_PRIORITY => {
                self.priority = Some(i8::from_be_bytes(*exactly(extension, bytes)?));
            }
            REQUEST_TIMEOUT => {
                let timeout_us = i32::from_be_bytes(*exactly(extension, bytes)?);
                // -1 is the clients' way to say that there is none.
                self.request_timeout_us = (timeout_us >= 0).then_some(timeout_us);
            }
            _ => {}
        }
        Ok(())
    }
}

fn exactly<const N: usize>(extension: i8, bytes: &[u8]) -> Result<&[u8; N], InvocationError> {
    bytes.try_into().map_err(|_| InvocationError::ExtensionLength {
        extension,
        length: bytes.len(),
        expected: N,
    })
}

fn not_negative_timeout(timeout_ms: i32) -> Result<i32, InvocationError> {
    if timeout_ms < 0 { Err(InvocationError::NegativeTimeout(timeout_ms)) } else { Ok(timeout_ms) }
}

fn old_timeout(reader: &mut ByteReader<'_>) -> Result<Option<i32>, Rejection> {
    match reader.i8().map_err(truncated("timeout flag"))? {
        -1 => Ok(None),
        1 => {
            let timeout_ms = reader.i32().map_err(truncated("timeout"))?;
            not_negative_timeout(timeout_ms).map(Some).map_err(Rejection::whole)
        }
        flag => Err(Rejection::whole(InvocationError::TimeoutFlag(flag))),
    }
}

/// What a client asks for beside the procedure and its parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// Limit for queries, in milliseconds, not negative.
    pub query_timeout_ms: Option<i32>,
    /// Makes the call one part of an all-partition call: run exactly at this partition.
    pub all_partition_destination: Option<i32>,
    /// 1 (most urgent) to 8.
    pub priority: Option<i8>,
    /// What is left of the caller's patience, in microseconds.
    pub request_timeout_us: Option<i32>,
}

/// Appends a call as a frame: version 0 without options, else version 2. `parameters` is an
/// encoded set, its count in front.
#[inline]
pub fn encode(
    out: &mut Vec<u8>,
    procedure: &str,
    client_handle: i64,
    options: &CallOptions,
    parameters: &[u8],
) {
    let start = out.len();
    encode_head(out, procedure, client_handle, options);
    out.extend_from_slice(parameters);
    let length = body_length(out.len() - start);
    out.patch_i32(start, length);
}

/// What stands in front of the parameters, the length still 0.
#[inline]
fn encode_head(out: &mut Vec<u8>, procedure: &str, client_handle: i64, options: &CallOptions) {
    let plain = *options == CallOptions::default();
    out.put_i32(0);
    out.put_i8(if plain { 0 } else { 2 });
    out.put_sized(Some(procedure.as_bytes()));
    out.put_i64(client_handle);
    if !plain {
        encode_extensions(out, options);
    }
}

#[inline]
fn body_length(frame_bytes: usize) -> i32 {
    i32::try_from(frame_bytes - 4).expect("parameters are far below 2 GiB")
}

/// A call that is made again and again: what stands in front of its parameters is encoded once.
#[derive(Debug, Clone)]
pub struct RepeatedCall {
    writer: ParameterWriter,
}

impl RepeatedCall {
    /// Calls of a procedure, all with this handle.
    pub fn new(procedure: &str, client_handle: i64, options: &CallOptions) -> RepeatedCall {
        let mut head = Vec::new();
        encode_head(&mut head, procedure, client_handle, options);
        RepeatedCall { writer: ParameterWriter::behind(head) }
    }

    /// The next call's parameters: none yet, to be appended.
    #[inline]
    pub fn parameters(&mut self) -> &mut ParameterWriter {
        self.writer.clear();
        &mut self.writer
    }

    /// The frame of the call, its length in front.
    #[inline]
    pub fn frame(&mut self) -> &[u8] {
        let length = body_length(self.writer.all_bytes().len());
        self.writer.bytes_before()[..4].copy_from_slice(&length.to_be_bytes());
        self.writer.all_bytes()
    }
}

fn encode_extensions(out: &mut Vec<u8>, options: &CallOptions) {
    let count_at = out.len();
    out.put_i8(0);
    let mut count = 0;
    if let Some(timeout_ms) = options.query_timeout_ms {
        out.extend_from_slice(&[BATCH_TIMEOUT as u8, 3]);
        out.put_i32(timeout_ms);
        count += 1;
    }
    if let Some(partition) = options.all_partition_destination {
        out.extend_from_slice(&[ALL_PARTITION as u8, 0, PARTITION_DESTINATION as u8, 3]);
        out.put_i32(partition);
        count += 2;
    }
    if let Some(priority) = options.priority {
        out.extend_from_slice(&[REQUEST_PRIORITY as u8, 1]);
        out.put_i8(priority);
        count += 1;
    }
    if let Some(timeout_us) = options.request_timeout_us {
        out.extend_from_slice(&[REQUEST_TIMEOUT as u8, 3]);
        out.put_i32(timeout_us);
        count += 1;
    }
    out[count_at] = count;
}
