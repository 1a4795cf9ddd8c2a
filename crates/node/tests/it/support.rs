//! A host on free ports and a client as bare as the protocol: it sends bytes and reads frames.

use lockstep_node::log::Data;
use lockstep_node::options::Options;
use lockstep_node::{NativeRegistry, Server, ServerConfiguration, SiteLoad, TestSettings};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType};
use lockstep_wire_volt::invocation::{self, CallOptions};
use lockstep_wire_volt::response::Response;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The login of a client without user and password.
pub const LOGIN: &[u8] = b"\x01\x01\0\0\0\x08database\0\0\0\0\
    \xe3\xb0\xc4\x42\x98\xfc\x1c\x14\x9a\xfb\xf4\xc8\x99\x6f\xb9\x24\
    \x27\xae\x41\xe4\x64\x9b\x93\x4c\xa4\x95\x99\x1b\x78\x52\xb8\x55";

/// Starts a host with options as on the command line.
pub fn start(sites: u32, options: &[&str]) -> Server {
    start_with(sites, options, None).expect("the host starts")
}

/// Starts a host that keeps its data.
pub fn start_with(sites: u32, options: &[&str], data: Option<Data>) -> std::io::Result<Server> {
    start_with_loads(sites, options, data, Vec::new())
}

/// Starts a host with loads inside its sites' threads.
pub fn start_with_loads(
    sites: u32,
    options: &[&str],
    data: Option<Data>,
    loads: Vec<Box<dyn SiteLoad>>,
) -> std::io::Result<Server> {
    let in_memory = data.is_none() && loads.is_empty();
    if std::env::var_os("COPIES").is_some() && in_memory {
        return crate::cluster::start_as_cluster((2, 1), sites, options);
    }
    if let Some(hosts) = hosts_for(sites).filter(|_| in_memory) {
        return crate::cluster::start_as_cluster((hosts, 0), sites / hosts, options);
    }
    let configuration = configuration(sites, options, data);
    Server::start_with_loads(configuration, loads)
}

/// With the variable CLUSTER, the sites of a host in memory are spread over several hosts; with the
/// variable COPIES two hosts have as many, and two copies of each partition.
fn hosts_for(sites: u32) -> Option<u32> {
    std::env::var_os("CLUSTER")?;
    [2, 3, 5].into_iter().find(|hosts| sites.is_multiple_of(*hosts))
}

/// What a host of the tests is started with.
pub fn configuration(sites: u32, options: &[&str], data: Option<Data>) -> ServerConfiguration {
    let mut given = Options::default();
    for option in options {
        given.set(option).expect("an option within its range");
    }
    let mut natives = NativeRegistry::default();
    for procedure in lockstep_workloads::test_procedures() {
        natives.register(procedure);
    }
    natives.register(Arc::new(crate::allocation::Allocations));
    natives.register(Arc::new(crate::transaction_time::ManyRounds));
    natives.register(Arc::new(crate::effects::Chance));
    natives.register(Arc::new(crate::multi::Catches));
    natives.register(Arc::new(crate::digests::Counting));
    natives.register(Arc::new(crate::failed_writes::Stopped));
    natives.register(Arc::new(crate::failed_writes::Catching));
    natives.register(Arc::new(crate::failed_writes::Endless));
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    ServerConfiguration {
        sites,
        // Nothing may take a partition for its thread.
        for_tests: TestSettings {
            first_partition_at: u32::from(sites > 2),
            sends_bytes: sends_bytes(),
        },
        client: any_port,
        admin: any_port,
        options: given,
        natives,
        pin_to_cores: Vec::new(),
        java_options: Vec::new(),
        data,
        cluster: None,
    }
}

/// Whether messages between threads go through their byte form.
pub fn sends_bytes() -> bool {
    std::env::var_os("MESSAGE_BYTES").is_some()
}

/// Puts the length in front.
pub fn frame(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as i32).to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// A call as a frame.
pub fn call_frame(procedure: &str, handle: i64, parameters: &ParameterWriter) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = CallOptions::default();
    invocation::encode(&mut bytes, procedure, handle, &options, parameters.bytes());
    bytes
}

/// Parameters, each as text, integer or NULL.
pub fn parameters(values: &[Datum<'_>]) -> ParameterWriter {
    let mut writer = ParameterWriter::default();
    for value in values {
        let sql_type = match value {
            Datum::Int(_) => SqlType::BigInt,
            Datum::Float(_) => SqlType::Float,
            Datum::Bytes(_) => SqlType::Varbinary,
            Datum::Null => SqlType::Null,
            _ => SqlType::Varchar,
        };
        writer.scalar(sql_type, *value);
    }
    writer
}

/// An answer with its rows as text, one line a row, tables apart by `;`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub handle: i64,
    pub status: i8,
    pub text: String,
    /// The application's.
    pub note: String,
    pub rows: String,
    /// How many tables it has.
    pub tables: usize,
}

impl Answer {
    fn read(body: &[u8]) -> Answer {
        let response = Response::decode(body).expect("a well-formed response");
        let mut tables = Vec::new();
        for table in response.tables() {
            let table = table.expect("a well-formed table");
            let mut lines = Vec::new();
            for row in table.rows() {
                let mut values = Vec::new();
                row.and_then(|row| row.read_into(&mut values)).expect("a well-formed row");
                let texts: Vec<String> = values.iter().map(Datum::to_string).collect();
                lines.push(texts.join(","));
            }
            tables.push(lines.join("\n"));
        }
        Answer {
            handle: response.client_handle,
            status: response.status,
            text: response.status_text.unwrap_or("").to_string(),
            note: response.application_text.unwrap_or("").to_string(),
            rows: tables.join(";"),
            tables: tables.len(),
        }
    }
}

/// A connection.
pub struct Peer {
    pub stream: TcpStream,
    next_handle: i64,
}

impl Peer {
    /// A connection that has not logged in.
    pub fn connect(address: SocketAddr) -> Peer {
        let stream = TcpStream::connect(address).expect("the host listens");
        stream.set_nodelay(true).expect("a TCP option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a TCP option");
        stream.set_write_timeout(Some(PATIENCE)).expect("a TCP option");
        Peer { stream, next_handle: 1 }
    }

    /// A connection that may call.
    pub fn login(address: SocketAddr) -> Peer {
        let mut peer = Peer::connect(address);
        peer.send(&frame(LOGIN));
        let reply = peer.receive().expect("a reply to the login");
        assert_eq!(reply[..2], [0, 0], "the login is accepted");
        peer
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the host takes the bytes");
    }

    /// The next frame's body; `None` when the host has closed the connection.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        if !self.fill(&mut length) {
            return None;
        }
        let mut body = vec![0; i32::from_be_bytes(length) as usize];
        assert!(self.fill(&mut body), "a frame is whole");
        Some(body)
    }

    /// False at the connection's end.
    fn fill(&mut self, buffer: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => return false,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return false,
                Err(error) => panic!("no answer: {error}"),
            }
        }
        true
    }

    pub fn answer(&mut self) -> Answer {
        self.next_answer().expect("an answer")
    }

    /// The next answer; `None` when the host has closed the connection.
    pub fn next_answer(&mut self) -> Option<Answer> {
        self.receive().map(|body| Answer::read(&body))
    }

    pub fn call(&mut self, procedure: &str, values: &[Datum<'_>]) -> Answer {
        self.call_with(procedure, &parameters(values))
    }

    pub fn call_with(&mut self, procedure: &str, parameters: &ParameterWriter) -> Answer {
        let handle = self.next_handle;
        self.next_handle += 1;
        self.send(&call_frame(procedure, handle, parameters));
        let answer = self.answer();
        assert_eq!(answer.handle, handle);
        answer
    }

    pub fn sql(&mut self, text: &str) -> Answer {
        self.call("@AdHoc", &[Datum::Text(text)])
    }

    /// Runs SQL that must succeed; returns the rows.
    pub fn run(&mut self, text: &str) -> String {
        let answer = self.sql(text);
        assert_eq!((answer.status, answer.text.as_str()), (1, ""), "{text}");
        answer.rows
    }

    /// Whether the host closes the connection without another word.
    pub fn is_closed(&mut self) -> bool {
        self.receive().is_none()
    }
}

/// Stops a host; by partition, a hash of its rows and the digest of what was done since the process
/// began. Positions are left out: a log may end before decisions that nothing depends on.
pub fn digests(server: Server) -> Vec<(u64, u64)> {
    let digests = server.stop_with_replica_digests().expect("it stops");
    digests.into_iter().map(|digest| (digest.content, digest.changes)).collect()
}

/// Set however its owner ends, also by a panic: threads that run until it is set end then too.
pub struct SetAtTheEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Tries until it is so.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}
