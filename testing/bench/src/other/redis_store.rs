//! Lock-store on Redis: a record is a hash, its secondary key a string with the record's number,
//! and a script finds, locks and reads it in one call. Another one writes and unlocks.

use super::{Reply, System, line_number};
use crate::process::{ServerProcess, free_address, on_core};
use lockstep_types::parameter::{Parameter, ParameterSet};
use lockstep_types::{Datum, SqlType, Status, TableSchema};
use lockstep_workloads::{Check, RowSink, Workload};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Finds a record by its locator, and locks it where nobody holds it or held it too long.
const LOCK: &str = "\
local id = redis.call('GET', KEYS[1])
if not id then return redis.error_reply('there is no such record') end
local record = 'record:' .. id
local held = redis.call('HMGET', record, 'owner', 'expires', 'changes', 'content')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if held[1] ~= '0' and tonumber(held[2]) > now then return false end
redis.call('HSET', record, 'owner', ARGV[1],
  'expires', string.format('%.0f', now + ARGV[2] * 1000))
return {id, held[3], held[4]}
";
/// Writes a record and unlocks it, where the caller still holds the lock.
const WRITE: &str = "\
local held = redis.call('HMGET', KEYS[1], 'owner', 'changes')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'owner', '0',
  'changes', string.format('%.0f', ARGV[2] + 1), 'content', ARGV[3])
return 1
";

/// Rows between two waits for answers while loading.
const LOAD_BATCH: usize = 500;
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with the scripts.
pub struct RedisStore {
    server: ServerProcess,
    lock: String,
    write: String,
    locked: TableSchema,
}

/// Starts a server that keeps nothing on disk, on one core.
///
/// # Errors
/// It does not start.
pub fn start_redis(core: usize) -> Result<ServerProcess, String> {
    let address = free_address().map_err(|error| error.to_string())?;
    let mut command = on_core(core, "redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
    command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
    ServerProcess::start_at(command, address).map_err(|error| error.to_string())
}

/// Appends a command.
fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// A value of Redis's protocol.
#[derive(Debug, PartialEq)]
enum Value<'a> {
    Text(&'a [u8]),
    Number(i64),
    List(Vec<Value<'a>>),
    Nothing,
    Error(&'a [u8]),
}

/// The value at the beginning of what came, and its bytes.
fn value(input: &[u8]) -> Result<Option<(Value<'_>, usize)>, String> {
    let Some(end) = input.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let (line, behind) = (&input[1..end], end + 2);
    let number = || line_number(line).ok_or("a length that is no number");
    Ok(Some(match input[0] {
        b'+' => (Value::Text(line), behind),
        b'-' => (Value::Error(line), behind),
        b':' => (Value::Number(number()?), behind),
        b'$' | b'*' if line == b"-1" => (Value::Nothing, behind),
        b'$' => {
            let length = usize::try_from(number()?).map_err(|_| "a negative length")?;
            match input.get(behind..behind + length + 2) {
                None => return Ok(None),
                Some(text) => (Value::Text(&text[..length]), behind + length + 2),
            }
        }
        b'*' => {
            let (mut list, mut at) = (Vec::new(), behind);
            for _ in 0..number()? {
                match value(&input[at..])? {
                    None => return Ok(None),
                    Some((each, bytes)) => {
                        list.push(each);
                        at += bytes;
                    }
                }
            }
            (Value::List(list), at)
        }
        other => return Err(format!("Redis sent a value of kind {other}")),
    }))
}

/// A connection that waits for its answers, to load and to ask.
struct Asking {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Asking {
    fn connect(address: SocketAddr) -> Result<Asking, String> {
        let text = |error: std::io::Error| error.to_string();
        let stream = TcpStream::connect(address).map_err(text)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        Ok(Asking { stream, input: Vec::new() })
    }

    /// Sends commands and takes as many answers; `take` sees each.
    fn ask(
        &mut self,
        commands: &[u8],
        mut count: usize,
        mut take: impl FnMut(Value<'_>),
    ) -> Result<(), String> {
        let text = |error: std::io::Error| format!("Redis: {error}");
        self.stream.write_all(commands).map_err(text)?;
        let mut buffer = vec![0; 64 * 1024];
        while count > 0 {
            let length = self.stream.read(&mut buffer).map_err(text)?;
            if length == 0 {
                return Err("Redis closed the connection".to_string());
            }
            self.input.extend_from_slice(&buffer[..length]);
            let mut at = 0;
            while let Some((each, bytes)) = value(&self.input[at..])? {
                if let Value::Error(text) = each {
                    return Err(format!("Redis says: {}", String::from_utf8_lossy(text)));
                }
                take(each);
                at += bytes;
                count -= 1;
            }
            self.input.drain(..at);
        }
        Ok(())
    }
}

struct Sink {
    asking: Asking,
    commands: Vec<u8>,
    count: usize,
}

impl Sink {
    fn send(&mut self) -> Result<(), String> {
        self.asking.ask(&self.commands, std::mem::take(&mut self.count), |_| {})?;
        self.commands.clear();
        Ok(())
    }
}

impl RowSink for Sink {
    fn row(&mut self, _table: usize, values: &[Datum<'_>]) -> Result<(), String> {
        let [Datum::Int(id), Datum::Text(locator), .., Datum::Text(content)] = values else {
            return Err("a record has another shape".to_string());
        };
        let (id, record) = (id.to_string(), format!("record:{id}"));
        let locator = format!("locator:{locator}");
        command(&mut self.commands, &[b"SET", locator.as_bytes(), id.as_bytes()]);
        let fields: [&[u8]; 8] =
            [b"owner", b"0", b"expires", b"0", b"changes", b"0", b"content", content.as_bytes()];
        let words = [&[b"HSET", record.as_bytes()][..], &fields[..]].concat();
        command(&mut self.commands, &words);
        self.count += 2;
        if self.count >= LOAD_BATCH { self.send() } else { Ok(()) }
    }
}

impl RedisStore {
    /// Starts a server on a core and fills it.
    ///
    /// # Errors
    /// It does not start, or refuses something.
    pub fn start(core: usize, workload: &dyn Workload) -> Result<RedisStore, String> {
        let server = start_redis(core)?;
        let mut asking = Asking::connect(server.address)?;
        let mut names = Vec::new();
        for script in [LOCK, WRITE] {
            let mut commands = Vec::new();
            command(&mut commands, &[b"SCRIPT", b"LOAD", script.as_bytes()]);
            asking.ask(&commands, 1, |name| {
                if let Value::Text(name) = name {
                    names.push(String::from_utf8_lossy(name).into_owned());
                }
            })?;
        }
        let mut sink = Sink { asking, commands: Vec::new(), count: 0 };
        workload.fill(&mut sink)?;
        sink.send()?;
        let (Some(write), Some(lock)) = (names.pop(), names.pop()) else {
            return Err("Redis did not name the scripts".to_string());
        };
        let locked = TableSchema::new(&[
            ("id", SqlType::BigInt),
            ("changes", SqlType::BigInt),
            ("content", SqlType::Varchar),
        ]);
        Ok(RedisStore { server, lock, write, locked })
    }

    /// The process.
    pub fn process(&self) -> &ServerProcess {
        &self.server
    }

    /// Whether the changes of all records are the writes that were answered.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn check(&self, records: u64, writes: u64) -> Result<Check, String> {
        let (mut asking, mut commands) = (Asking::connect(self.server.address)?, Vec::new());
        for record in 0..records {
            let record = format!("record:{record}");
            command(&mut commands, &[b"HGET", record.as_bytes(), b"changes"]);
        }
        let mut changes = 0;
        asking.ask(&commands, records as usize, |each| {
            if let Value::Text(text) = each {
                changes += line_number(text).unwrap_or(0);
            }
        })?;
        Ok(Check::equal("changes of all records = answered writes", changes, writes as i64))
    }

    /// Reads a list of an answer as a locked record.
    fn take_locked(&self, list: &[Value<'_>], reply: &mut Reply) -> Result<(), String> {
        let [Value::Text(id), Value::Text(changes), Value::Text(content)] = list else {
            return Err("Redis answered a lock with another shape".to_string());
        };
        let (Some(id), Some(changes)) = (line_number(id), line_number(changes)) else {
            return Err("Redis answered a lock without numbers".to_string());
        };
        let content = std::str::from_utf8(content).map_err(|error| error.to_string())?;
        let row = [Datum::Int(id), Datum::Int(changes), Datum::Text(content)];
        reply.numbers([1].into_iter());
        reply.table(&self.locked, [&row[..]].into_iter());
        Ok(())
    }
}

impl System for RedisStore {
    fn connect(&self) -> Result<TcpStream, String> {
        TcpStream::connect(self.server.address).map_err(|error| error.to_string())
    }

    fn call(
        &self,
        procedure: &str,
        parameters: ParameterSet<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let mut values = parameters.iter().map(|parameter| match parameter {
            Ok(Parameter::Scalar(_, value)) => Ok(value),
            _ => Err("a parameter is no value".to_string()),
        });
        let mut next = || values.next().ok_or("a parameter is missing")?;
        let number = |value: Datum<'_>| match value {
            Datum::Int(number) => Ok(number.to_string()),
            _ => Err("a parameter is no number".to_string()),
        };
        match procedure {
            "LockStoreLock" => {
                let (owner, lock_ms) = (number(next()?)?, number(next()?)?);
                let Datum::Text(locator) = next()? else {
                    return Err("a locator is no text".to_string());
                };
                let locator = format!("locator:{locator}");
                let words = [b"EVALSHA", self.lock.as_bytes(), b"1", locator.as_bytes()];
                let arguments = [owner.as_bytes(), lock_ms.as_bytes()];
                command(out, &[&words[..], &arguments[..]].concat());
            }
            "LockStoreWrite" => {
                let Datum::Text(content) = next()? else {
                    return Err("a content is no text".to_string());
                };
                let (id, owner, changes) = (number(next()?)?, number(next()?)?, number(next()?)?);
                let record = format!("record:{id}");
                let words = [b"EVALSHA", self.write.as_bytes(), b"1", record.as_bytes()];
                let arguments = [owner.as_bytes(), changes.as_bytes(), content.as_bytes()];
                command(out, &[&words[..], &arguments[..]].concat());
            }
            other => return Err(format!("there is no script for {other}")),
        }
        Ok(())
    }

    fn answer(&self, input: &[u8], reply: &mut Reply) -> Result<Option<usize>, String> {
        let Some((each, bytes)) = value(input)? else { return Ok(None) };
        match each {
            Value::List(list) => self.take_locked(&list, reply)?,
            Value::Number(number) => reply.numbers([number].into_iter()),
            Value::Nothing => {
                reply.numbers([0].into_iter());
                reply.table(&self.locked, std::iter::empty());
            }
            Value::Error(text) => {
                let text = String::from_utf8_lossy(text).into_owned();
                reply.fail(Status::GracefulFailure, text);
            }
            Value::Text(_) => return Err("Redis answered a script with a text".to_string()),
        }
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_come_in_parts() {
        let whole = b"*3\r\n$2\r\n17\r\n$1\r\n4\r\n$3\r\nabc\r\n:1\r\n";
        let list = Value::List(vec![Value::Text(b"17"), Value::Text(b"4"), Value::Text(b"abc")]);
        assert_eq!(value(whole), Ok(Some((list, whole.len() - 4))));
        for cut in 1..whole.len() - 4 {
            assert_eq!(value(&whole[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(value(b"$-1\r\n"), Ok(Some((Value::Nothing, 5))));
        assert_eq!(value(b"-ERR no\r\n"), Ok(Some((Value::Error(b"ERR no"), 9))));
        assert!(value(b"?\r\n").is_err());
    }

    #[test]
    fn commands_have_their_lengths() {
        let mut out = Vec::new();
        command(&mut out, &[b"GET", b"key"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    }
}
