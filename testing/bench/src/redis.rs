//! A closed loop of `SET` against a Redis server, with as many connections and calls in flight as
//! a run of ours: keys at random, values of 64 bytes.

use lockstep_base::random::SeededRandom;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bytes of a value.
pub const VALUE_BYTES: usize = 64;
/// What Redis answers to a `SET`.
const ANSWER: &[u8] = b"+OK\r\n";

/// What to run.
#[derive(Debug, Clone)]
pub struct RedisLoad {
    /// The server.
    pub address: SocketAddr,
    /// Connections.
    pub connections: usize,
    /// Calls in flight on each.
    pub pipeline: usize,
    /// Keys are drawn from N.
    pub keys: u64,
    /// What is measured.
    pub duration: Duration,
    /// What runs before.
    pub warmup: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub struct RedisResult {
    /// Calls per second over the measured time.
    pub throughput_per_s: f64,
    /// All calls that were answered, those of the warm-up as well.
    pub all: u64,
}

struct Link {
    stream: TcpStream,
    output: Vec<u8>,
    written: usize,
    /// Bytes of an answer that came in two parts.
    partial_answer: usize,
}

impl Link {
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

    /// Reads answers until the socket is drained; returns how many are whole.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut answers = 0;
        loop {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(answers),
                Err(error) => return Err(error),
            };
            answers += take_answers(&mut self.partial_answer, &buffer[..count])?;
            if count < buffer.len() {
                return Ok(answers);
            }
        }
    }
}

/// Counts the whole answers in what was read after `partial` bytes of one.
fn take_answers(partial: &mut usize, bytes: &[u8]) -> io::Result<usize> {
    let total = *partial + bytes.len();
    // Answers have one form: where each byte stands says what it is.
    let wrong = bytes
        .iter()
        .enumerate()
        .any(|(place, byte)| *byte != ANSWER[(*partial + place) % ANSWER.len()]);
    if wrong {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        return Err(io::Error::other(format!("the server did not answer OK: {text}")));
    }
    *partial = total % ANSWER.len();
    Ok(total / ANSWER.len())
}

/// Appends a command with a random key.
fn set(out: &mut Vec<u8>, random: &mut SeededRandom, keys: u64) {
    const HEAD: &[u8] = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:";
    const DIGITS: usize = 12;
    out.extend_from_slice(HEAD);
    let mut key = random.below(keys);
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (key % 10) as u8;
        key /= 10;
    }
    out.extend_from_slice(&digits);
    out.extend_from_slice(b"\r\n$64\r\n");
    out.extend_from_slice(&[b'x'; VALUE_BYTES]);
    out.extend_from_slice(b"\r\n");
}

/// Runs the load.
///
/// # Errors
/// The server cannot be reached, closes a connection, or answers anything but OK.
pub fn run(load: &RedisLoad) -> io::Result<RedisResult> {
    let mut poll = Poll::new()?;
    let mut random = SeededRandom::new(1);
    let mut links = Vec::new();
    for place in 0..load.connections {
        let stream = std::net::TcpStream::connect(load.address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(place), interest)?;
        let mut link = Link { stream, output: Vec::new(), written: 0, partial_answer: 0 };
        (0..load.pipeline).for_each(|_| set(&mut link.output, &mut random, load.keys));
        link.flush()?;
        links.push(link);
    }
    let measuring_from = Instant::now() + load.warmup;
    let until = measuring_from + load.duration;
    let (mut all, mut measured) = (0u64, 0u64);
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        poll.poll(&mut events, Some(Duration::from_millis(10)))?;
        let now = Instant::now();
        if now >= until {
            break;
        }
        for event in &events {
            let link = &mut links[event.token().0];
            let answers = link.receive(&mut buffer)?;
            (0..answers).for_each(|_| set(&mut link.output, &mut random, load.keys));
            link.flush()?;
            all += answers as u64;
            measured += if now >= measuring_from { answers as u64 } else { 0 };
        }
    }
    Ok(RedisResult { throughput_per_s: measured as f64 / load.duration.as_secs_f64(), all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_lengths() {
        let mut out = Vec::new();
        set(&mut out, &mut SeededRandom::new(7), 10);
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!((lines[0], lines[2], lines.len()), ("*3", "SET", 8));
        for (length, value) in [(lines[1], lines[2]), (lines[3], lines[4]), (lines[5], lines[6])] {
            assert_eq!(length, format!("${}", value.len()));
        }
    }

    #[test]
    fn answers_may_come_in_parts() {
        let mut partial = 0;
        assert_eq!(take_answers(&mut partial, b"+OK\r\n+OK").expect("fine"), 1);
        assert_eq!(take_answers(&mut partial, b"\r").expect("fine"), 0);
        assert_eq!(take_answers(&mut partial, b"\n+OK\r\n").expect("fine"), 2);
        assert!(take_answers(&mut partial, b"-ERR no\r\n").is_err());
    }
}
