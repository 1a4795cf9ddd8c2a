//! A server of one thread that does nothing but the protocol: it answers every call with one
//! number. What it reaches is what sockets and framing alone allow.

use lockstep_base::bytes::ByteReader;
use lockstep_base::elapsed::Elapsed;
use lockstep_types::{Datum, Outcome, SqlType, TableBuilder, TableSchema};
use lockstep_wire_volt::login::LoginReply;
use lockstep_wire_volt::{next_frame, response};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};

const LISTENER: Token = Token(usize::MAX);
const READ_BYTES: usize = 256 * 1024;
/// A peer that sends larger frames is cut off.
const MAX_FRAME_BYTES: usize = 1 << 20;

/// The process of an echo server: says where it listens, and serves.
///
/// # Errors
/// It cannot listen.
pub fn serve() -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let server = EchoServer::bind("127.0.0.1:0").map_err(text)?;
    println!("echo-server: ready on {}", server.address().map_err(text)?);
    server.run().map_err(text)
}

struct Peer {
    stream: TcpStream,
    partial: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    logged_in: bool,
}

/// The server.
pub struct EchoServer {
    poll: Poll,
    listener: TcpListener,
    peers: Vec<Option<Peer>>,
    schema: TableSchema,
}

impl EchoServer {
    /// Listens at an address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn bind(address: &str) -> io::Result<EchoServer> {
        let address = address.parse().map_err(io::Error::other)?;
        let mut listener = TcpListener::bind(address)?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let schema = TableSchema::new(&[("", SqlType::BigInt)]);
        Ok(EchoServer { poll, listener, peers: Vec::new(), schema })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The socket has no address.
    pub fn address(&self) -> io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// The poll failed.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    Token(place) => self.serve(place, &mut buffer),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nodelay(true)?;
            let token = Token(self.peers.len());
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, token, interest)?;
            self.peers.push(Some(Peer {
                stream,
                partial: Vec::new(),
                output: Vec::new(),
                written: 0,
                logged_in: false,
            }));
        }
    }

    fn serve(&mut self, place: usize, buffer: &mut [u8]) {
        let Some(Some(peer)) = self.peers.get_mut(place) else { return };
        if peer.serve(buffer, &self.schema).is_err() {
            self.peers[place] = None;
        }
    }
}

impl Peer {
    /// Reads until the socket is drained, answers, and writes once.
    fn serve(&mut self, buffer: &mut [u8], schema: &TableSchema) -> io::Result<()> {
        loop {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            self.take(&buffer[..count], schema)?;
            if count < buffer.len() {
                break;
            }
        }
        self.flush()
    }

    fn take(&mut self, bytes: &[u8], schema: &TableSchema) -> io::Result<()> {
        let mut partial = std::mem::take(&mut self.partial);
        let whole = if partial.is_empty() {
            bytes
        } else {
            partial.extend_from_slice(bytes);
            &partial
        };
        let mut taken = 0;
        while let Some((body, length)) =
            next_frame(&whole[taken..], MAX_FRAME_BYTES).map_err(io::Error::other)?
        {
            taken += length;
            self.answer(body, schema)?;
        }
        self.partial = whole[taken..].to_vec();
        Ok(())
    }

    fn answer(&mut self, body: &[u8], schema: &TableSchema) -> io::Result<()> {
        if !self.logged_in {
            self.logged_in = true;
            let reply = LoginReply {
                host_id: 0,
                connection_id: 1,
                cluster_timestamp_ms: 1,
                leader_address: 0,
                build: "echo",
            };
            reply.encode(&mut self.output);
            return Ok(());
        }
        let handle = client_handle(body).ok_or(io::ErrorKind::InvalidData)?;
        let start = response::begin(&mut self.output);
        let mut table = TableBuilder::begin(&mut self.output, schema);
        table.row(schema, &[Datum::Int(0)]);
        table.finish();
        response::finish(&mut self.output, start, handle, &Outcome::success(1), Elapsed::ZERO);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }
}

/// The handle of an invocation: after the version and the procedure's name.
fn client_handle(body: &[u8]) -> Option<i64> {
    let mut reader = ByteReader::new(body);
    reader.i8().ok()?;
    reader.sized().ok()??;
    reader.i64().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
    use lockstep_types::Value;

    #[test]
    fn every_call_is_answered_with_a_number() {
        let server = EchoServer::bind("127.0.0.1:0").expect("a free port");
        let address = server.address().expect("an address").to_string();
        std::thread::spawn(move || server.run());
        let mut connection =
            Connection::connect(&address, &ConnectOptions::default()).expect("a login");
        for _ in 0..3 {
            let answer = connection.call("Any", &ParameterWriter::default()).expect("an answer");
            assert_eq!(answer.tables().expect("tables")[0].rows, [[Value::Int(0)]]);
        }
    }
}
