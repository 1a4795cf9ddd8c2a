//! As much of PostgreSQL's protocol (version 3) as a text query on loopback needs.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;

/// A connection without a password.
pub struct PostgresConnection {
    reader: BufReader<TcpStream>,
}

/// What a text of one statement gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryOutcome {
    /// Rows as text, and the command's tag, such as `INSERT 0 1`.
    Done(Vec<Vec<Option<String>>>, String),
    /// SQLSTATE and message.
    Failed(String, String),
}

const PROTOCOL: i32 = 0x0003_0000;
/// Longer messages are none that a test asks for.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

fn broken(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("PostgreSQL: {message}"))
}

impl PostgresConnection {
    /// Connects as a user to the database `postgres`.
    ///
    /// # Errors
    /// Nobody listens, or the server wants a password.
    pub fn connect(port: u16, user: &str) -> io::Result<PostgresConnection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let mut body = PROTOCOL.to_be_bytes().to_vec();
        for text in ["user", user, "database", "postgres", "client_encoding", "UTF8", ""] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        let mut connection = PostgresConnection { reader: BufReader::new(stream) };
        connection.send(None, &body)?;
        loop {
            let (kind, body) = connection.receive()?;
            match kind {
                b'Z' => return Ok(connection),
                b'R' if body.starts_with(&[0, 0, 0, 0]) => {}
                b'R' => return Err(broken("a password is asked for")),
                b'E' => return Err(broken(&error_of(&body).1)),
                _ => {}
            }
        }
    }

    /// Runs one text.
    ///
    /// # Errors
    /// The connection is lost; what the server refuses is an outcome.
    pub fn query(&mut self, sql: &str) -> io::Result<QueryOutcome> {
        let mut body = sql.as_bytes().to_vec();
        body.push(0);
        self.send(Some(b'Q'), &body)?;
        let mut rows = Vec::new();
        let mut outcome = None;
        loop {
            let (kind, body) = self.receive()?;
            match kind {
                b'D' => rows.push(row(&body).ok_or_else(|| broken("a row that is cut off"))?),
                b'C' => {
                    let tag = String::from_utf8_lossy(body.strip_suffix(&[0]).unwrap_or(&body));
                    let rows = std::mem::take(&mut rows);
                    outcome = outcome.or(Some(QueryOutcome::Done(rows, tag.into_owned())));
                }
                b'E' => {
                    let (state, message) = error_of(&body);
                    outcome = Some(QueryOutcome::Failed(state, message));
                }
                b'Z' => break,
                _ => {}
            }
        }
        Ok(outcome.unwrap_or(QueryOutcome::Done(rows, String::new())))
    }

    fn send(&mut self, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
        let length = i32::try_from(body.len() + 4).map_err(|_| broken("a text over 2 GiB"))?;
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(body);
        self.reader.get_mut().write_all(&message)
    }

    fn receive(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.reader.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(broken(&format!("a message of {length} bytes")));
        }
        let mut body = vec![0; length - 4];
        self.reader.read_exact(&mut body)?;
        Ok((head[0], body))
    }
}

/// A DataRow.
fn row(body: &[u8]) -> Option<Vec<Option<String>>> {
    let count = usize::from(u16::from_be_bytes([*body.first()?, *body.get(1)?]));
    let mut rest = &body[2..];
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            values.push(None);
            continue;
        };
        let text = String::from_utf8_lossy(rest.get(..length)?);
        values.push(Some(text.into_owned()));
        rest = &rest[length..];
    }
    Some(values)
}

/// SQLSTATE and message of an ErrorResponse.
fn error_of(body: &[u8]) -> (String, String) {
    let field = |kind: u8| {
        let of_kind = |field: &&[u8]| field.first() == Some(&kind);
        let found = body.split(|byte| *byte == 0).find(of_kind).unwrap_or_default();
        String::from_utf8_lossy(found.get(1..).unwrap_or_default()).into_owned()
    };
    (field(b'C'), field(b'M'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_errors_are_read() {
        let body = [0, 2, 0, 0, 0, 1, b'7', 255, 255, 255, 255];
        assert_eq!(row(&body), Some(vec![Some("7".to_string()), None]));
        assert_eq!(row(&body[..6]), None);
        let error = error_of(b"SERROR\0C22012\0Mdivision by zero\0\0");
        assert_eq!(error, ("22012".to_string(), "division by zero".to_string()));
    }
}
