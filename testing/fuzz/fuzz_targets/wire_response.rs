//! What a server can send to the client library: responses, and the tables that it routes by.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_client::routing::TokenRing;
use lockstep_client::{Response, Routing};
use lockstep_types::Datum;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // With a length in front, as captured.
    if let Some((_, body)) = bytes.split_first_chunk::<4>() {
        read(body);
    }
    if let Ok(ring) = TokenRing::parse(bytes) {
        assert!(ring.partition_of(Datum::Int(bytes.len() as i64)).is_some());
    }
});

fn read(body: &[u8]) {
    let Ok(response) = Response::decode(body) else { return };
    for table in response.tables().flatten() {
        lockstep_fuzz::walk_table(&table);
    }
    let mut routing = Routing::default();
    let _ = routing.read_topology(&response);
    let _ = routing.read_procedures(&response);
    let _ = lockstep_client::rows::tables(&response);
}
