//! A process that does nothing but pass bytes on: what a client sends goes to another server, and
//! what that one answers goes to the client. A leader that sends each batch of calls to its copy,
//! and answers when the copy has it, makes the same system calls, so this is the least that a copy
//! costs a leader.

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::net::SocketAddr;

const LISTENER: Token = Token(usize::MAX);
const READ_BYTES: usize = 256 * 1024;

/// The process of a relay to a server: says where it listens, and serves.
///
/// # Errors
/// It cannot listen.
pub fn serve(to: SocketAddr) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let relay = Relay::bind(to).map_err(text)?;
    println!("relay: ready on {}", relay.address().map_err(text)?);
    relay.run().map_err(text)
}

/// One end of a pair; the other has the place beside it.
struct End {
    stream: TcpStream,
    /// What is to be written to it.
    output: Vec<u8>,
}

/// The relay.
pub struct Relay {
    poll: Poll,
    listener: TcpListener,
    to: SocketAddr,
    /// At even places those of clients, after each the one to the server.
    ends: Vec<Option<End>>,
}

impl Relay {
    /// Listens at a free port, for a server.
    ///
    /// # Errors
    /// There is no free port.
    pub fn bind(to: SocketAddr) -> io::Result<Relay> {
        let mut listener = TcpListener::bind(([127, 0, 0, 1], 0).into())?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Relay { poll, listener, to, ends: Vec::new() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The socket has no address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// The poll failed, or the server is gone.
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
            let client = match self.listener.accept() {
                Ok((client, _)) => client,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let server = std::net::TcpStream::connect(self.to)?;
            server.set_nonblocking(true)?;
            for mut stream in [client, TcpStream::from_std(server)] {
                stream.set_nodelay(true)?;
                let token = Token(self.ends.len());
                let interest = Interest::READABLE | Interest::WRITABLE;
                self.poll.registry().register(&mut stream, token, interest)?;
                self.ends.push(Some(End { stream, output: Vec::new() }));
            }
        }
    }

    /// Reads until the socket is drained, and writes once to the other end.
    fn serve(&mut self, place: usize, buffer: &mut [u8]) {
        if self.pass_on(place, buffer).is_err() {
            self.ends[place] = None;
            self.ends[place ^ 1] = None;
        }
    }

    fn pass_on(&mut self, place: usize, buffer: &mut [u8]) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        loop {
            let Some(from) = &mut self.ends[place] else { return Err(gone()) };
            let count = match from.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            let Some(to) = &mut self.ends[place ^ 1] else { return Err(gone()) };
            to.output.extend_from_slice(&buffer[..count]);
            if count < buffer.len() {
                break;
            }
        }
        // The socket itself may be writable again, too.
        self.flush(place ^ 1)?;
        self.flush(place)
    }

    fn flush(&mut self, place: usize) -> io::Result<()> {
        let Some(end) = &mut self.ends[place] else { return Ok(()) };
        while !end.output.is_empty() {
            match end.stream.write(&end.output) {
                Ok(count) => drop(end.output.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo::EchoServer;
    use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
    use lockstep_types::Value;

    #[test]
    fn calls_are_answered_by_the_server_at_the_other_side() {
        let server = EchoServer::bind("127.0.0.1:0").expect("a free port");
        let relay = Relay::bind(server.address().expect("an address")).expect("a free port");
        let address = relay.address().expect("an address").to_string();
        std::thread::spawn(move || server.run());
        std::thread::spawn(move || relay.run());
        let mut connection =
            Connection::connect(&address, &ConnectOptions::default()).expect("a login");
        for _ in 0..3 {
            let answer = connection.call("Any", &ParameterWriter::default()).expect("an answer");
            assert_eq!(answer.tables().expect("tables")[0].rows, [[Value::Int(0)]]);
        }
    }
}
