//! Sockets that do not block, as loads of other systems use them.

use mio::net::TcpStream;
use std::io::{self, Read, Write};

/// Sends what is to be sent, as far as the socket takes it.
///
/// # Errors
/// The connection fails.
pub(crate) fn flush(stream: &mut TcpStream, output: &mut Vec<u8>) -> io::Result<()> {
    let mut written = 0;
    while written < output.len() {
        match stream.write(&output[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    output.drain(..written);
    Ok(())
}

/// Appends what came to `input`, until nothing more is there.
///
/// # Errors
/// The connection fails, or is closed.
pub(crate) fn receive(
    stream: &mut TcpStream,
    input: &mut Vec<u8>,
    buffer: &mut [u8],
) -> io::Result<()> {
    loop {
        match stream.read(buffer) {
            Ok(0) => return Err(io::Error::other("the connection was closed")),
            Ok(count) => input.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
