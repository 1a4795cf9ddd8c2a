//! Redis with one replica: batches of `SET`, each with one `WAIT 1` after it.

use crate::Plan;
use crate::measure::{CONNECTIONS, KEYS, PIPELINE, VALUE_BYTES};
use lockstep_base::random::SeededRandom;
use lockstep_bench::process::{ServerProcess, free_address, on_core, thread_seconds_of};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// What a batch is answered with: all writes are done, and one replica has them.
const OK: &[u8] = b"+OK\r\n";
const ONE_REPLICA: &[u8] = b":1\r\n";
/// How long the replica may take until it has joined.
const JOIN_LIMIT: Duration = Duration::from_secs(20);
const SERVER_CORE: usize = 0;

/// Processor time of both servers for a write; `None` where there is no Redis.
///
/// # Errors
/// A server does not start, or does not answer as expected.
pub fn cpu_us_per_write(plan: &Plan) -> Result<Option<f64>, String> {
    let found = Command::new("redis-server").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("  there is no redis-server (package redis-server): its figure is left out");
        return Ok(None);
    }
    run(plan).map(Some).map_err(|error| format!("Redis: {error}"))
}

fn run(plan: &Plan) -> io::Result<f64> {
    let (first, second) = (free_address()?, free_address()?);
    let leader = ServerProcess::start_at(server(first), first)?;
    let mut command = server(second);
    command.args(["--replicaof", &first.ip().to_string(), &first.port().to_string()]);
    let replica = ServerProcess::start_at(command, second)?;
    let mut random = SeededRandom::new(1);
    join(first, &mut random)?;
    let mut links = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut link = TcpStream::connect(first)?;
        link.set_nodelay(true)?;
        link.write_all(&batch(&mut random, PIPELINE))?;
        links.push(link);
    }
    let cpu = || -> io::Result<f64> {
        let of = |server: &ServerProcess| thread_seconds_of(&server.id().to_string(), "");
        Ok(of(&leader)? + of(&replica)?)
    };
    let (before, until) = (cpu()?, Instant::now() + plan.warmup + plan.duration);
    let mut writes = 0;
    while Instant::now() < until {
        for link in &mut links {
            if !is_answered(link, PIPELINE)? {
                return Err(io::Error::other("a batch has not reached the replica"));
            }
            writes += PIPELINE;
            link.write_all(&batch(&mut random, PIPELINE))?;
        }
    }
    Ok((cpu()? - before) * 1e6 / writes as f64)
}

fn server(address: SocketAddr) -> Command {
    let mut command = on_core(SERVER_CORE, "redis-server");
    command.args(["--port", &address.port().to_string(), "--bind", &address.ip().to_string()]);
    command.args(["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"]);
    command
}

/// Waits until the replica takes part.
fn join(address: SocketAddr, random: &mut SeededRandom) -> io::Result<()> {
    let deadline = Instant::now() + JOIN_LIMIT;
    let mut link = TcpStream::connect(address)?;
    while Instant::now() < deadline {
        link.write_all(&batch(random, 1))?;
        if is_answered(&mut link, 1)? {
            return Ok(());
        }
    }
    Err(io::Error::other("the replica does not join"))
}

/// The writes of a batch, with keys at random, and the wait for the replica.
fn batch(random: &mut SeededRandom, writes: usize) -> Vec<u8> {
    let value = "x".repeat(VALUE_BYTES);
    let mut out = Vec::new();
    for _ in 0..writes {
        let key = random.below(KEYS);
        let set = format!("*3\r\n$3\r\nSET\r\n$12\r\n{key:012}\r\n${VALUE_BYTES}\r\n{value}\r\n");
        out.extend_from_slice(set.as_bytes());
    }
    out.extend_from_slice(b"*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$4\r\n1000\r\n");
    out
}

/// Reads the answers of a batch; whether the replica has it.
fn is_answered(link: &mut TcpStream, writes: usize) -> io::Result<bool> {
    let mut answers = vec![0; writes * OK.len() + ONE_REPLICA.len()];
    link.read_exact(&mut answers)?;
    let (writes, replicas) = answers.split_at(writes * OK.len());
    if writes.chunks(OK.len()).any(|answer| answer != OK) {
        let text = String::from_utf8_lossy(&answers).into_owned();
        return Err(io::Error::other(format!("an answer that is not OK: {text}")));
    }
    Ok(replicas == ONE_REPLICA)
}
