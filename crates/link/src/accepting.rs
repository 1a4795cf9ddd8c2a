//! An accepted connection until it is known which host it is from.

use crate::error::LinkError;
use crate::frame::{FrameKind, HEADER_BYTES, Header, PREAMBLE_BYTES, VersionRange, read_preamble};
use crate::hello::{HELLO_BYTES_MAX, Hello};
use crate::receive_buffer::ReceiveBuffer;

/// Usual length of the receive buffer: a hello with texts of usual length fits.
const READ_BYTES: usize = 512;

/// Reads the hello of a host that has dialed. The caller bounds the number of these and the time
/// that each has, then gives it to the link of the host that [`Hello::from`] names
/// ([`crate::Link::accept`]).
#[derive(Debug)]
pub struct Accepting {
    ours: VersionRange,
    receive: ReceiveBuffer,
    version: Option<u16>,
    header: Option<Header>,
    hello: Option<Hello>,
}

impl Accepting {
    /// Nothing was read yet from a connection to a host that speaks these versions.
    pub fn new(ours: VersionRange) -> Accepting {
        let receive = ReceiveBuffer::new(READ_BYTES);
        Accepting { ours, receive, version: None, header: None, hello: None }
    }

    /// Space to read into; empty once the hello is there.
    pub fn read_space(&mut self) -> &mut [u8] {
        match self.hello {
            Some(_) => &mut [],
            None => self.receive.space(),
        }
    }

    /// This many bytes were read into the space.
    pub fn filled(&mut self, count: usize) {
        self.receive.filled(count);
    }

    /// The hello, once it has come. After an error the caller sends what
    /// [`LinkError::refusal`] gives, if anything ([`crate::Refusal::to_bytes`]), and closes the
    /// connection.
    pub fn hello(&mut self) -> Result<Option<&Hello>, LinkError> {
        if self.hello.is_none() {
            self.hello = self.read_hello()?;
        }
        Ok(self.hello.as_ref())
    }

    fn read_hello(&mut self) -> Result<Option<Hello>, LinkError> {
        if self.version.is_none() {
            let Some(version) = read_version(&mut self.receive, self.ours)? else {
                return Ok(None);
            };
            self.version = Some(version);
        }
        let header = match self.header {
            Some(header) => header,
            None => {
                let Some(header) = read_header(&mut self.receive, HELLO_BYTES_MAX)? else {
                    return Ok(None);
                };
                if header.kind != FrameKind::Hello {
                    let (kind, expected) = (header.kind, "a hello");
                    return Err(LinkError::UnexpectedFrame { kind, expected });
                }
                *self.header.insert(header)
            }
        };
        let length = header.length as usize;
        let Some((payload, _)) = self.receive.first(length) else { return Ok(None) };
        header.check_payload(payload)?;
        let hello = Hello::decode(payload)
            .map_err(|malformed| LinkError::malformed(header.kind, malformed))?;
        self.receive.consume(length);
        Ok(Some(hello))
    }

    /// The version to speak, the hello, and the bytes that came after it; none while the hello has
    /// not come.
    pub(crate) fn into_parts(self) -> Option<(u16, Hello, ReceiveBuffer)> {
        Some((self.version?, self.hello?, self.receive))
    }
}

/// Consumes a preamble and gives the version to speak; none while it is not complete.
pub(crate) fn read_version(
    receive: &mut ReceiveBuffer,
    ours: VersionRange,
) -> Result<Option<u16>, LinkError> {
    let length = receive.unread().len().clamp(1, PREAMBLE_BYTES);
    let Some((bytes, _)) = receive.first(length) else { return Ok(None) };
    let Some(theirs) = read_preamble(bytes)? else {
        receive.first(PREAMBLE_BYTES);
        return Ok(None);
    };
    receive.consume(PREAMBLE_BYTES);
    let version = ours.common(theirs).ok_or(LinkError::NoCommonVersion { ours, theirs })?;
    Ok(Some(version))
}

/// Consumes a header; none while it is not complete.
#[inline]
pub(crate) fn read_header(
    receive: &mut ReceiveBuffer,
    length_max: u32,
) -> Result<Option<Header>, LinkError> {
    let Some((bytes, _)) = receive.first(HEADER_BYTES) else { return Ok(None) };
    let bytes = bytes.first_chunk().expect("the first bytes were asked for by their number");
    let header = Header::decode(bytes, length_max)?;
    receive.consume(HEADER_BYTES);
    Ok(Some(header))
}
