//! A server of one thread per connection that knows a handful of procedures.
//!
//! - `Echo x`: one BIGINT, x. `EchoText t`: one VARCHAR. `Where key ..`: the host and the
//!   partition that the call was sent to. `Fail`: status -2. `Swap`: answered after the call
//!   after it. `Mute`: no answer. `Hang up`: closes. `Garbage`: a frame of no length.

use lockstep_base::elapsed::Elapsed;
use lockstep_types::{
    Datum, Failure, HashRing, HostId, Outcome, Parameter, PartitionId, SqlType, Status,
    TableBuilder, TableSchema,
};
use lockstep_wire_volt::topology::{
    self, KeyType, PartitionSites, ProcedureEntry, ProcedureRouting, RingForm, SiteAddress,
};
use lockstep_wire_volt::{Invocation, Login, LoginReply, LoginStatus, login, next_frame, response};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub const PARTITIONS: u32 = 6;

/// One host of a pretended cluster; partitions are led by the hosts in turn.
pub struct Stub {
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    host: u32,
    /// Addresses of all hosts, in order.
    hosts: Mutex<Vec<String>>,
    /// Bytes of an answer written at once; 0 is all.
    piece: usize,
    calls: AtomicUsize,
}

/// Starts a cluster of `count` hosts that write `piece` bytes at a time.
pub fn start_cluster(count: u32, piece: usize) -> Vec<Stub> {
    let stubs: Vec<Stub> = (0..count)
        .map(|host| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let hosts = Mutex::new(Vec::new());
            let shared = Arc::new(Shared { host, hosts, piece, calls: AtomicUsize::new(0) });
            let accepting = Arc::clone(&shared);
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let shared = Arc::clone(&accepting);
                    std::thread::spawn(move || serve(stream.unwrap(), &shared));
                }
            });
            Stub { address, shared }
        })
        .collect();
    let addresses: Vec<String> = stubs.iter().map(|stub| stub.address.clone()).collect();
    stubs.iter().for_each(|stub| *stub.shared.hosts.lock().unwrap() = addresses.clone());
    stubs
}

pub fn start(piece: usize) -> Stub {
    start_cluster(1, piece).remove(0)
}

impl Stub {
    /// Calls answered so far, those of the client's own included.
    pub fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    let mut received = Vec::new();
    let mut logged_in = false;
    let mut held_back = Vec::new();
    let mut chunk = vec![0; 65536];
    stream.set_nodelay(true).unwrap();
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        received.extend_from_slice(&chunk[..count]);
        let mut answers = Vec::new();
        while let Ok(Some((body, consumed))) = next_frame(&received, 1 << 20) {
            if logged_in {
                let call = Invocation::decode(body).unwrap();
                shared.calls.fetch_add(1, Ordering::SeqCst);
                match call.procedure {
                    "Hang up" => {
                        write_pieces(&mut stream, &answers, shared.piece);
                        return;
                    }
                    "Swap" => answer(&mut held_back, &call, shared),
                    "Mute" => {}
                    "Garbage" => answers.extend_from_slice(&[0, 0, 0, 0]),
                    _ => {
                        answer(&mut answers, &call, shared);
                        answers.append(&mut held_back);
                    }
                }
            } else {
                logged_in = log_in(&mut answers, body, shared);
            }
            received.drain(..consumed);
        }
        write_pieces(&mut stream, &answers, shared.piece);
        if !logged_in {
            return;
        }
    }
}

fn write_pieces(stream: &mut TcpStream, bytes: &[u8], piece: usize) {
    let piece = if piece == 0 { bytes.len().max(1) } else { piece };
    for part in bytes.chunks(piece) {
        if stream.write_all(part).is_err() {
            return;
        }
    }
}

fn log_in(out: &mut Vec<u8>, body: &[u8], shared: &Shared) -> bool {
    let login = Login::decode(body).unwrap();
    if login.user == "nobody" {
        out.extend(login::refusal(LoginStatus::AuthenticationFailure));
        return false;
    }
    let reply = LoginReply {
        host_id: shared.host as i32,
        connection_id: 1,
        cluster_timestamp_ms: 1_700_000_000_000,
        leader_address: 7,
        build: "stub",
    };
    reply.encode(out);
    true
}

fn answer(out: &mut Vec<u8>, call: &Invocation<'_>, shared: &Shared) {
    let start = response::begin(out);
    let outcome = match execute(out, call, shared) {
        Ok(tables) => Outcome::success(tables),
        Err(failure) => Outcome::failed(failure),
    };
    response::finish(out, start, call.client_handle, &outcome, Elapsed::ZERO);
    let wants_push = call.procedure == "Echo" && integer(call, 0) == Some(-1);
    if wants_push {
        let handle = topology::CATALOG_CHANGED_HANDLE;
        response::write_simple(out, handle, Status::Success, None);
    }
}

fn integer(call: &Invocation<'_>, index: usize) -> Option<i64> {
    match call.parameters.get(index) {
        Some(Ok(Parameter::Scalar(_, Datum::Int(value)))) => Some(value),
        _ => None,
    }
}

fn execute(out: &mut Vec<u8>, call: &Invocation<'_>, shared: &Shared) -> Result<u16, Failure> {
    let selector = match call.parameters.get(0) {
        Some(Ok(Parameter::Scalar(_, Datum::Text(text)))) => text,
        _ => "",
    };
    match (call.procedure, selector) {
        ("Echo", _) => {
            let value = integer(call, 0).unwrap();
            one_row(out, &[("", SqlType::BigInt)], &[Datum::Int(value)])
        }
        ("EchoText", text) => one_row(out, &[("T", SqlType::Varchar)], &[Datum::Text(text)]),
        ("Where", _) => {
            let partition = call.destination_partition.map_or(-1, i64::from);
            let key = integer(call, 0).unwrap();
            let values = [Datum::Int(shared.host.into()), Datum::Int(partition), Datum::Int(key)];
            let columns = ["HOST", "PARTITION", "KEY"].map(|name| (name, SqlType::BigInt));
            one_row(out, &columns, &values)
        }
        ("@Subscribe", "TOPOLOGY") => Ok(0),
        ("@Statistics", "TOPO") => Ok(topology_tables(out, shared)),
        ("@SystemCatalog", "PROCEDURES") => Ok(procedure_table(out)),
        ("@SystemInformation", "OVERVIEW") => Ok(overview(out, shared)),
        ("@GetPartitionKeys", "INTEGER") => {
            let keys = topology::partition_keys(&HashRing::new(PARTITIONS), KeyType::Integer);
            Ok(topology::write_partition_keys(out, KeyType::Integer, &keys))
        }
        ("Fail", _) => Err(Failure::graceful("as asked")),
        (procedure, _) => Err(Failure::unexpected(format!("Procedure {procedure} was not found"))),
    }
}

fn one_row(
    out: &mut Vec<u8>,
    columns: &[(&str, SqlType)],
    values: &[Datum<'_>],
) -> Result<u16, Failure> {
    let schema = TableSchema::new(columns);
    let mut table = TableBuilder::begin(out, &schema);
    table.row(&schema, values);
    table.finish();
    Ok(1)
}

fn topology_tables(out: &mut Vec<u8>, shared: &Shared) -> u16 {
    let host_count = shared.hosts.lock().unwrap().len() as u32;
    let row = |partition: PartitionId| {
        let leader = SiteAddress { host: HostId(partition.0 % host_count), site: 0 };
        PartitionSites { partition, sites: vec![leader], leader: Some(leader) }
    };
    let mut rows: Vec<_> = (0..PARTITIONS).map(|number| row(PartitionId(number))).collect();
    rows.push(row(PartitionId::MULTI));
    let ring = topology::raw_ring(&HashRing::new(PARTITIONS));
    topology::write_topology(out, &rows, RingForm::Raw(&ring))
}

fn procedure_table(out: &mut Vec<u8>) -> u16 {
    let routing = ProcedureRouting::ByParameter { parameter: 0, column_type: SqlType::BigInt };
    let multi = ProcedureRouting::Multi;
    topology::write_procedures(
        out,
        [
            ProcedureEntry {
                name: "Where",
                read_only: true,
                routing,
                compound: false,
                effects: false,
                more: "",
            },
            ProcedureEntry {
                name: "Fail",
                read_only: false,
                routing: multi,
                compound: false,
                effects: false,
                more: "",
            },
        ],
    )
}

fn overview(out: &mut Vec<u8>, shared: &Shared) -> u16 {
    let schema = TableSchema::new(&[
        ("HOST_ID", SqlType::Integer),
        ("KEY", SqlType::Varchar),
        ("VALUE", SqlType::Varchar),
    ]);
    let mut table = TableBuilder::begin(out, &schema);
    for (host, address) in shared.hosts.lock().unwrap().iter().enumerate() {
        let (ip, port) = address.split_once(':').unwrap();
        for (key, value) in [("IPADDRESS", ip), ("HOSTNAME", "stub"), ("CLIENTPORT", port)] {
            table.row(&schema, &[Datum::Int(host as i64), Datum::Text(key), Datum::Text(value)]);
        }
    }
    table.finish();
    1
}
