//! Messages of PostgreSQL's protocol, version 3.0, as far as loads need them.

use crate::postgres::USER;
use std::io::{self, Read};
use std::net::TcpStream;

const PROTOCOL: u32 = 3 << 16;

/// Appends a message: its kind, its length, its body.
pub(crate) fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a text with its end.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Appends the message that logs in as the owner of the database.
pub(crate) fn login(out: &mut Vec<u8>) {
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    for word in ["user", USER, "database", USER] {
        text(&mut body, word);
    }
    body.push(0);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(&body);
}

/// An error of which PostgreSQL is the subject.
pub(crate) fn unexpected(what: &str) -> io::Error {
    io::Error::other(format!("PostgreSQL {what}"))
}

/// The texts of an error message, each after a letter that says what it is.
pub(crate) fn error_text(body: &[u8]) -> String {
    let parts = body.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    let wanted = parts.filter(|part| matches!(part[0], b'C' | b'M' | b'D'));
    wanted
        .map(|part| String::from_utf8_lossy(&part[1..]).into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The kind and the body of the message at the beginning of `input`, if all of it is there.
pub(crate) fn next_message(input: &[u8]) -> io::Result<Option<(u8, &[u8])>> {
    let Some((&kind, rest)) = input.split_first() else { return Ok(None) };
    let Some(length) = rest.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length < 4 {
        return Err(unexpected("sent a message without a length"));
    }
    Ok(rest.get(4..length).map(|body| (kind, body)))
}

/// Reads on a socket that blocks until the server was ready for the next command so often; tells
/// each message on the way. `input` keeps what belongs to no whole message yet.
///
/// # Errors
/// The server says what is wrong, or closes the connection; what `each` says.
pub(crate) fn until_ready(
    stream: &mut TcpStream,
    input: &mut Vec<u8>,
    times: usize,
    mut each: impl FnMut(u8, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut ready, mut buffer, mut wrong) = (0, vec![0; 16 * 1024], Ok(()));
    while ready < times {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            wrong?;
            return Err(unexpected("closed the connection"));
        }
        input.extend_from_slice(&buffer[..count]);
        let mut at = 0;
        while let Some((kind, body)) = next_message(&input[at..])? {
            at += 5 + body.len();
            match kind {
                b'E' => wrong = Err(unexpected(&format!("says: {}", error_text(body)))),
                b'R' if body != [0; 4] => return Err(unexpected("wants a password")),
                b'Z' => ready += 1,
                _ => each(kind, body)?,
            }
        }
        input.drain(..at);
    }
    wrong
}
