//! Routing over several hosts.

use crate::stub::{self, PARTITIONS};
use lockstep_client::{Call, ClientError, Cluster, ConnectOptions, ParameterWriter, Pipeline};
use lockstep_types::{Datum, HashRing, ParameterSet, PartitionId, Value};
use std::time::{Duration, Instant};

fn quick() -> ConnectOptions {
    ConnectOptions { call_timeout: Duration::from_secs(5), ..ConnectOptions::default() }
}

fn one(value: i64) -> ParameterWriter {
    let mut parameters = ParameterWriter::default();
    parameters.bigint(value);
    parameters
}

fn row(response: &lockstep_client::OwnedResponse) -> Vec<i64> {
    let table = response.tables().unwrap().remove(0);
    let integer = |value: &Value| match value {
        Value::Int(value) => *value,
        other => panic!("a BIGINT: {other:?}"),
    };
    table.rows[0].iter().map(integer).collect()
}

#[test]
fn calls_go_to_the_host_that_leads_their_partition() {
    let stubs = stub::start_cluster(3, 0);
    let mut cluster = Cluster::connect(&[stubs[1].address.clone()], &quick()).unwrap();
    assert_eq!(cluster.connected_hosts(), [0, 1, 2], "found through one of them");
    assert_eq!(cluster.routing().procedure_count(), 2);
    let ring = HashRing::new(PARTITIONS);
    for key in [0, 1, 2, 3, 42, -7, i64::MAX, 5_551_234_567] {
        let leader = ring.partition_of(Datum::Int(key)).0 % 3;
        let response = cluster.call("Where", &one(key)).unwrap();
        assert_eq!(row(&response), [leader.into(), -1, key]);
    }
    let before: Vec<usize> = stubs.iter().map(stub::Stub::calls).collect();
    for _ in 0..6 {
        cluster.call("Fail", &ParameterWriter::default()).unwrap();
    }
    let added: Vec<usize> =
        stubs.iter().zip(before).map(|(s, before)| s.calls() - before).collect();
    // The stub's multi-partition leader is host 16383 mod 3 = 0.
    assert_eq!(added, [6, 0, 0]);
}

#[test]
fn a_pipeline_picks_the_leaders_connections_in_turn() {
    let stubs = stub::start_cluster(2, 0);
    let cluster = Cluster::connect(&[stubs[0].address.clone()], &quick()).unwrap();
    let mut pipeline = Pipeline::new(&quick()).unwrap();
    let indexes: Vec<_> =
        [0, 0, 1].map(|host: usize| pipeline.connect(&stubs[host].address).unwrap()).into();
    let ring = HashRing::new(PARTITIONS);
    let mut picks = [0u32; 3];
    for key in 0..100 {
        let parameters = one(key);
        let set = ParameterSet::new(parameters.bytes()).unwrap();
        let picked = pipeline.pick(cluster.routing(), "Where", set).unwrap();
        let leader = ring.partition_of(Datum::Int(key)).0 % 2;
        assert_eq!(pipeline.identity(picked).host_id, leader as i32);
        picks[picked.0] += 1;
        let picked = pipeline.pick(cluster.routing(), "Unknown", set).unwrap();
        assert!(indexes.contains(&picked));
    }
    assert!(picks[0].abs_diff(picks[1]) <= 1 && picks[2] > 0, "{picks:?}");
    let call = Call::new("Hang up", &[0, 0], Instant::now());
    pipeline.submit(indexes[2], &call).unwrap();
    while pipeline.is_open(indexes[2]) {
        pipeline.poll(Duration::from_millis(100), |_, _| {}).unwrap();
    }
    let set = ParameterSet::EMPTY;
    for _ in 0..10 {
        let picked = pipeline.pick(cluster.routing(), "Unknown", set).unwrap();
        assert_ne!(picked, indexes[2], "a lost connection");
    }
}

#[test]
fn an_all_partition_call_runs_once_at_every_partition() {
    let stubs = stub::start_cluster(2, 5);
    let mut cluster = Cluster::connect(&[stubs[0].address.clone()], &quick()).unwrap();
    let answers = cluster.call_all_partitions("Where", &ParameterWriter::default()).unwrap();
    assert_eq!(answers.len(), PARTITIONS as usize);
    let ring = HashRing::new(PARTITIONS);
    for (number, (partition, response)) in answers.iter().enumerate() {
        assert_eq!(*partition, PartitionId(number as u32));
        let row = row(response.as_ref().unwrap());
        assert_eq!(row[..2], [number as i64 % 2, number as i64]);
        assert_eq!(ring.partition_of(Datum::Int(row[2])), *partition);
    }
}

#[test]
fn a_lost_connection_is_made_again_for_the_next_call() {
    let stubs = stub::start_cluster(2, 0);
    let mut cluster = Cluster::connect(&[stubs[0].address.clone()], &quick()).unwrap();
    for _ in 0..2 {
        let error = cluster.call("Hang up", &ParameterWriter::default()).unwrap_err();
        assert!(error.is_connection_lost(), "{error}");
    }
    for key in 0..10 {
        assert_eq!(row(&cluster.call("Where", &one(key)).unwrap())[2], key);
    }
    assert_eq!(cluster.connected_hosts(), [0, 1]);
}

#[test]
fn a_notice_makes_the_client_read_the_cluster_again() {
    let stubs = stub::start_cluster(1, 0);
    let mut cluster = Cluster::connect(&[stubs[0].address.clone()], &quick()).unwrap();
    let calls = stubs[0].calls();
    cluster.call("Echo", &one(1)).unwrap();
    assert_eq!(stubs[0].calls() - calls, 1);
    // The stub pushes a notice after the answer to -1; it is read with it or with the next one.
    let calls = stubs[0].calls();
    cluster.call("Echo", &one(-1)).unwrap();
    cluster.call("Echo", &one(1)).unwrap();
    cluster.call("Echo", &one(1)).unwrap();
    assert_eq!(stubs[0].calls() - calls, 5, "topology and procedures were read again, once");
}

#[test]
fn without_any_host_the_reason_is_named() {
    let error = Cluster::connect(&["127.0.0.1:1".to_string()], &quick()).err().unwrap();
    assert!(matches!(&error, ClientError::NoServer(text) if text.contains("127.0.0.1:1")));
}
