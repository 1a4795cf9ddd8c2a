//! Voter on PostgreSQL: the same tables, views and procedure in PL/pgSQL, called in a closed loop
//! by the same calls.
//!
//! Each connection has one call in flight, as a PostgreSQL client has; the statement is prepared
//! and its parameters are binary, so that the server has the least to do besides the work.

use crate::link;
use crate::postgres::Postgres;
use crate::postgres_wire::{error_text, login, message, next_message, text, unexpected};
use lockstep_base::bytes::ByteReader;
use lockstep_workloads::voter::{self, PhoneCalls};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Tables as voter's, the two views as tables that the function keeps.
const SCHEMA: &str = "\
CREATE TABLE contestants (
  contestant_number integer PRIMARY KEY, contestant_name varchar(50) NOT NULL);
CREATE TABLE area_code_state (area_code smallint PRIMARY KEY, state varchar(2) NOT NULL);
CREATE TABLE votes (
  phone_number bigint NOT NULL, state varchar(2) NOT NULL, contestant_number integer NOT NULL);
CREATE TABLE votes_by_phone_number (phone_number bigint PRIMARY KEY, num_votes bigint NOT NULL);
CREATE TABLE votes_by_contestant_number_state (
  contestant_number integer, state varchar(2), num_votes bigint NOT NULL,
  PRIMARY KEY (contestant_number, state)) WITH (fillfactor = 10);
";

/// What the native procedure does, and what keeping the views takes. The rows that many callers
/// share are changed last, so that they are locked for the shortest time.
const FUNCTION: &str = "\
CREATE FUNCTION vote(phone bigint, contestant integer, most_votes bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  votes_so_far bigint;
  home varchar(2);
BEGIN
  PERFORM 1 FROM contestants WHERE contestant_number = contestant;
  IF NOT FOUND THEN RETURN 1; END IF;
  SELECT num_votes INTO votes_so_far FROM votes_by_phone_number WHERE phone_number = phone;
  IF votes_so_far >= most_votes THEN RETURN 2; END IF;
  SELECT state INTO home FROM area_code_state WHERE area_code = phone / 10000000;
  home := coalesce(home, 'XX');
  INSERT INTO votes VALUES (phone, home, contestant);
  INSERT INTO votes_by_phone_number AS v VALUES (phone, 1)
    ON CONFLICT (phone_number) DO UPDATE SET num_votes = v.num_votes + 1;
  INSERT INTO votes_by_contestant_number_state AS v VALUES (contestant, home, 1)
    ON CONFLICT (contestant_number, state) DO UPDATE SET num_votes = v.num_votes + 1;
  RETURN 0;
END $$;
";

const STATEMENT: &str = "SELECT vote($1, $2, $3)";
/// PostgreSQL's numbers of the types bigint and integer.
const BIGINT: u32 = 20;
const INTEGER: u32 = 23;
const BINARY: u16 = 1;

/// Makes voter's tables and function, and fills the tables that voter only reads.
///
/// # Errors
/// What the server says.
pub fn set_up(postgres: &Postgres) -> Result<(), String> {
    let load = voter::load_statements(voter::CONTESTANTS).join("\n");
    for text in [SCHEMA, FUNCTION, &load, "VACUUM ANALYZE"] {
        postgres.sql(text)?;
    }
    Ok(())
}

/// What to run.
#[derive(Debug, Clone)]
pub struct PostgresLoad {
    /// The server.
    pub address: SocketAddr,
    /// Connections, each with one call in flight.
    pub connections: usize,
    /// The calls follow from this.
    pub seed: u64,
    /// What is measured.
    pub duration: Duration,
    /// What runs before.
    pub warmup: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct PostgresResult {
    /// Calls per second over the measured time.
    pub throughput_per_s: f64,
    /// Votes that were accepted, those of the warm-up as well.
    pub accepted: u64,
}

/// A connection: what is to be sent, and what came and is no whole message yet.
struct Link {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The answer of the function, once its row came.
    answer: Option<i64>,
}

/// Logs in and prepares the statement.
fn greeting() -> Vec<u8> {
    let mut out = Vec::new();
    login(&mut out);
    message(&mut out, b'P', |out| {
        text(out, "vote");
        text(out, STATEMENT);
        out.extend_from_slice(&3u16.to_be_bytes());
        for number in [BIGINT, INTEGER, BIGINT] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    });
    message(&mut out, b'S', |_| {});
    out
}

/// Appends a call.
fn call(out: &mut Vec<u8>, calls: &mut PhoneCalls) {
    let drawn = calls.draw();
    message(out, b'B', |out| {
        text(out, "");
        text(out, "vote");
        for number in [1, BINARY, 3] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        let parameters: [&[u8]; 3] = [
            &drawn.phone_number.to_be_bytes(),
            &drawn.contestant.to_be_bytes(),
            &voter::MAX_VOTES_PER_NUMBER.to_be_bytes(),
        ];
        for parameter in parameters {
            out.extend_from_slice(&(parameter.len() as u32).to_be_bytes());
            out.extend_from_slice(parameter);
        }
        for number in [1, BINARY] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    });
    message(out, b'E', |out| {
        text(out, "");
        out.extend_from_slice(&[0; 4]);
    });
    message(out, b'S', |_| {});
}

/// The number in a row of one binary column.
fn answer_of(body: &[u8]) -> Option<i64> {
    let mut reader = ByteReader::new(body);
    let (columns, length) = (reader.i16().ok()?, reader.u32().ok()?);
    let value = reader.u64().ok()?;
    ((columns, length) == (1, 8)).then_some(value as i64)
}

impl Link {
    fn flush(&mut self) -> io::Result<()> {
        link::flush(&mut self.stream, &mut self.output)
    }

    /// Reads what is there; how often the server became ready for the next call.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        link::receive(&mut self.stream, &mut self.input, buffer)?;
        let (mut at, mut ready) = (0, 0);
        while let Some((kind, body)) = next_message(&self.input[at..])? {
            at += 5 + body.len();
            match kind {
                b'E' => return Err(unexpected(&format!("says: {}", error_text(body)))),
                b'D' => self.answer = answer_of(body),
                b'R' if body != [0; 4] => return Err(unexpected("wants a password")),
                b'Z' => ready += 1,
                _ => {}
            }
        }
        self.input.drain(..at);
        Ok(ready)
    }
}

/// Connections that are logged in, with the statement prepared.
fn connect(load: &PostgresLoad, poll: &Poll) -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    for place in 0..load.connections {
        let mut stream = std::net::TcpStream::connect(load.address)?;
        stream.set_nodelay(true)?;
        stream.write_all(&greeting())?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(place), Interest::READABLE)?;
        links.push(Link { stream, input: Vec::new(), output: Vec::new(), answer: None });
    }
    Ok(links)
}

/// Runs the load with one number of connections after the other, at a server whose tables are set
/// up: calls per second of each, which `note` is told too. What the server holds must be the votes
/// that it accepted, after each.
///
/// # Errors
/// As for [`run`]; there are other votes.
pub fn run_with_each(
    server: &Postgres,
    tried: &[usize],
    (duration, warmup): (Duration, Duration),
    note: &mut dyn FnMut(usize, f64),
) -> Result<Vec<(usize, f64)>, String> {
    let (mut rates, mut accepted) = (Vec::new(), 0);
    for (seed, &connections) in (1..).zip(tried) {
        let load = PostgresLoad { address: server.address(), connections, seed, duration, warmup };
        let result = run(&load).map_err(|error| error.to_string())?;
        accepted += result.accepted;
        let votes = server.sql("SELECT count(*) FROM votes")?;
        if votes != accepted.to_string() {
            return Err(format!("PostgreSQL has {votes} votes, and accepted {accepted}"));
        }
        note(connections, result.throughput_per_s);
        rates.push((connections, result.throughput_per_s));
    }
    Ok(rates)
}

/// Runs the load: a server for each connection of its own says so when it is ready, which begins
/// the calls.
///
/// # Errors
/// The server cannot be reached, closes a connection, or answers with an error.
pub fn run(load: &PostgresLoad) -> io::Result<PostgresResult> {
    let mut poll = Poll::new()?;
    let mut links = connect(load, &poll)?;
    let mut calls = PhoneCalls::new(load.seed, voter::CONTESTANTS);
    let (mut events, mut buffer) = (Events::with_capacity(1024), vec![0; 64 * 1024]);
    // Ready twice: after the login, and after the preparation.
    let (mut greeted, mut in_flight) = (0, 0usize);
    let measuring_from = Instant::now() + load.warmup;
    let until = measuring_from + load.duration;
    let (mut measured, mut result) = (0u64, PostgresResult::default());
    loop {
        poll.poll(&mut events, Some(Duration::from_millis(10)))?;
        let now = Instant::now();
        if now >= until && in_flight == 0 {
            break;
        }
        for event in &events {
            let link = &mut links[event.token().0];
            let mut ready = link.receive(&mut buffer)?;
            if greeted < 2 * load.connections {
                greeted += ready;
                if greeted < 2 * load.connections {
                    continue;
                }
                ready = 0;
                for link in &mut links {
                    call(&mut link.output, &mut calls);
                    link.flush()?;
                }
                in_flight = links.len();
            }
            if ready > 0 {
                let link = &mut links[event.token().0];
                let answer = link.answer.take().ok_or_else(|| unexpected("gave no number"))?;
                result.accepted += u64::from(answer == voter::ACCEPTED);
                in_flight -= 1;
                measured += u64::from(now >= measuring_from && now < until);
                if now < until {
                    call(&mut link.output, &mut calls);
                    link.flush()?;
                    in_flight += 1;
                }
            }
        }
    }
    if greeted < 2 * load.connections {
        return Err(unexpected("did not greet all connections in time"));
    }
    result.throughput_per_s = measured as f64 / load.duration.as_secs_f64();
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_framed() {
        let mut out = Vec::new();
        call(&mut out, &mut PhoneCalls::new(1, voter::CONTESTANTS));
        let mut kinds = Vec::new();
        let mut rest = &out[..];
        while let Some((kind, body)) = next_message(rest).expect("sound") {
            kinds.push((kind, body.len()));
            rest = &rest[5 + body.len()..];
        }
        assert_eq!(kinds, [(b'B', 6 + 6 + 32 + 4), (b'E', 5), (b'S', 0)]);
        assert!(rest.is_empty());
        assert_eq!(next_message(&out[..10]).expect("sound"), None);
        assert!(next_message(&[b'Z', 0, 0, 0, 1]).is_err());
    }

    #[test]
    fn answers_and_errors_are_read() {
        let row = [0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2];
        assert_eq!(answer_of(&row), Some(2));
        assert_eq!(answer_of(&row[..9]), None);
        let error = b"SERROR\0C42P01\0Mno such table\0\0";
        assert_eq!(error_text(error), "42P01 no such table");
    }
}
