//! Calls that cannot do their work: the wrong procedure, parameters or values.

use crate::support::{Answer, Peer, call_frame, parameters, start};
use lockstep_types::Datum::{Bytes, Float, Int, Null, Text};
use lockstep_types::geography::text::{incomplete_polygon, polygon_rings};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType};
use lockstep_wire_volt::invocation::{CallOptions, encode};

const SCHEMA: &str = "\
    CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, small TINYINT, name VARCHAR(4),
        data VARBINARY(2), price DECIMAL);
    PARTITION TABLE items ON COLUMN id;
    CREATE TABLE codes (code INTEGER NOT NULL PRIMARY KEY, name VARCHAR(4 BYTES));
    CREATE PROCEDURE Twice PARTITION ON TABLE items COLUMN id PARAMETER 0 AS BEGIN
        INSERT INTO items (id, small) VALUES (?, 1);
        UPDATE items SET small = small + 1 WHERE id = ?;
        INSERT INTO items (id, small) VALUES (?, 2);
    END;
    CREATE PROCEDURE CountHere DIRECTED AS SELECT COUNT(*) FROM items;";

fn host(sites: u32) -> (lockstep_node::Server, Peer) {
    let server = start(sites, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(SCHEMA);
    (server, peer)
}

fn refused(answer: &Answer, status: i8, part: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.text.contains(part), "{answer:?} lacks '{part}'");
    assert!(answer.rows.is_empty(), "{answer:?}");
}

#[test]
fn unknown_procedures_are_named() {
    let (_server, mut peer) = host(1);
    for name in ["Nobody", "items", "twice", "@Nobody", "@adhoc", "items.nothing", "é", "a.b.c"] {
        let answer = peer.call(name, &[]);
        refused(&answer, -3, &format!("Procedure {name} was not found"));
    }
}

#[test]
fn a_wrong_number_of_parameters_is_told() {
    let (_server, mut peer) = host(2);
    // Without the parameter that routes it, a call finds no partition to be counted at.
    refused(&peer.call("ITEMS.insert", &[]), -3, "to the correct partition");
    for given in [1, 4, 6, 300] {
        let values: Vec<Datum<'_>> = (0..given).map(|_| Int(1)).collect();
        let answer = peer.call("ITEMS.insert", &values);
        let part = format!("EXPECTS 5 PARAMS, BUT RECEIVED {given}");
        refused(&answer, -2, &part);
    }
    assert_eq!(peer.run("SELECT COUNT(*) FROM items"), "0");
}

#[test]
fn parameters_of_wrong_type_or_range_are_told() {
    let (_server, mut peer) = host(1);
    let good = [Int(1), Int(1), Text("ab"), Bytes(b"x"), Text("1.5")];
    let cases: [(usize, Datum<'_>); 8] = [
        (1, Int(128)),
        (1, Int(-129)),
        (1, Text("one")),
        (1, Float(1.5)),
        (2, Int(i64::MAX)),
        (3, Text("0g")),
        (4, Text("1e400")),
        (4, Text("100000000000000000000000000")),
    ];
    for (place, value) in cases {
        let mut values = good;
        values[place] = value;
        let answer = peer.call("ITEMS.insert", &values);
        assert_eq!(answer.status, -2, "{value}: {answer:?}");
        assert!(!answer.text.is_empty(), "{value}: {answer:?}");
    }
    let mut array = ParameterWriter::default();
    array.bigint(1).array(SqlType::BigInt, &[Int(1), Int(2)]).text("a");
    array.scalar(SqlType::Varbinary, Null).scalar(SqlType::Null, Null);
    refused(&peer.call_with("ITEMS.insert", &array), -2, "TYPE ERROR FOR PARAMETER 1");
    // The routing parameter has an error of its own: nobody knows whose call it is.
    refused(&peer.call("ITEMS.insert", &[Text("x"), Null, Null, Null, Null]), -3, "partition");
    assert_eq!(peer.run("SELECT COUNT(*) FROM items"), "0");
    assert_eq!(peer.call("ITEMS.insert", &good).rows, "1");
}

#[test]
fn parameters_that_end_early_or_have_no_type_are_told() {
    let (_server, mut peer) = host(2);
    let mut body = Vec::new();
    encode(&mut body, "ITEMS.insert", 1, &CallOptions::default(), &[]);
    let cases: [&[u8]; 7] = [
        &[],
        &[0],
        &[0x80, 0],
        &[0, 1],
        &[0, 5, 6, 0, 0, 0, 0, 0, 0, 0],
        &[0, 5, 200],
        &[0, 5, 9, 0x7f, 0xff, 0xff, 0xff, b'x'],
    ];
    for parameters in cases {
        let mut call = Vec::new();
        encode(&mut call, "ITEMS.insert", 1, &CallOptions::default(), parameters);
        peer.send(&call);
        let answer = peer.answer();
        assert!(answer.status == -2 || answer.status == -3, "{parameters:?}: {answer:?}");
        assert!(!answer.text.is_empty(), "{parameters:?}: {answer:?}");
    }
    assert_eq!(peer.run("SELECT COUNT(*) FROM items"), "0");
}

#[test]
fn text_that_is_no_utf8_is_refused_in_values_and_in_sql() {
    let (_server, mut peer) = host(1);
    let mut writer = ParameterWriter::default();
    writer.bigint(1).bigint(1);
    let mut bytes = writer.bytes().to_vec();
    bytes[1] = 5;
    bytes.extend_from_slice(b"\x09\0\0\0\x02\xc3\x28\x01\x01");
    let mut call = Vec::new();
    encode(&mut call, "ITEMS.insert", 1, &CallOptions::default(), &bytes);
    peer.send(&call);
    let answer = peer.answer();
    assert!(answer.status == -2 || answer.status == -3, "{answer:?}");
    let mut call = Vec::new();
    let sql = b"\0\x01\x09\0\0\0\x09SELECT \xff\xfe";
    encode(&mut call, "@AdHoc", 2, &CallOptions::default(), sql);
    peer.send(&call);
    assert_eq!(peer.answer().status, -2);
    assert_eq!(peer.run("SELECT COUNT(*) FROM items"), "0");
}

#[test]
fn values_over_their_columns_length_are_refused() {
    let (_server, mut peer) = host(1);
    let insert = |peer: &mut Peer, name: &str, data: &[u8]| {
        peer.call("ITEMS.insert", &[Int(1), Null, Text(name), Bytes(data), Null])
    };
    refused(&insert(&mut peer, "fives", b""), -2, "exceeds the size of the VARCHAR(4)");
    refused(&insert(&mut peer, "", b"\0\0\0"), -2, "exceeds the size of the VARBINARY(2)");
    // Characters count, not bytes; in the other table bytes do.
    assert_eq!(insert(&mut peer, "éééé", b"\0\0").status, 1);
    let answer = peer.call("CODES.insert", &[Int(1), Text("ééé")]);
    refused(&answer, -2, "exceeds the size of the VARCHAR(4 BYTES)");
    assert_eq!(peer.call("CODES.insert", &[Int(1), Text("éé")]).status, 1);
}

#[test]
fn a_violation_in_the_middle_undoes_all_that_came_before() {
    for sites in [1, 2] {
        let (_server, mut peer) = host(sites);
        let answer = peer.call("Twice", &[Int(7), Int(7), Int(7)]);
        refused(&answer, -2, "CONSTRAINT VIOLATION");
        assert_eq!(peer.run("SELECT COUNT(*) FROM items"), "0");
        // The same over several partitions: the last statement fails at one of them.
        let batch = "INSERT INTO items (id) VALUES (1); INSERT INTO items (id) VALUES (2);
            INSERT INTO codes VALUES (5, 'a'); INSERT INTO items (id) VALUES (3);
            INSERT INTO items (id) VALUES (1);";
        refused(&peer.sql(batch), -2, "CONSTRAINT VIOLATION");
        assert_eq!(peer.run("SELECT COUNT(*) FROM items; SELECT COUNT(*) FROM codes"), "0;0");
    }
}

#[test]
fn results_over_the_limit_fail_and_leave_nothing_behind() {
    let server = start(2, &["max_response_bytes=65536"]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE big (id INTEGER NOT NULL, text VARCHAR(10000));
        PARTITION TABLE big ON COLUMN id;
        CREATE PROCEDURE Whole PARTITION ON TABLE big COLUMN id AS
            SELECT text FROM big WHERE id = ?;",
    );
    let text = "x".repeat(9000);
    for _ in 0..10 {
        assert_eq!(peer.call("BIG.insert", &[Int(1), Text(&text)]).status, 1);
    }
    for answer in [
        peer.call("Whole", &[Int(1)]),
        peer.sql("SELECT text FROM big"),
        peer.sql("SELECT text FROM big WHERE id = 1"),
    ] {
        assert_eq!(answer.status, -2, "{answer:?}");
        assert!(answer.text.contains("over the limit of 65536 bytes"), "{answer:?}");
        assert!(answer.rows.is_empty());
    }
    // What a call changed before its result became too large is undone.
    let answer = peer.sql(
        "DELETE FROM big WHERE id = 5; UPDATE big SET text = 'y' WHERE text = 'x';
        INSERT INTO big VALUES (2, 'new'); SELECT * FROM big",
    );
    assert_eq!(answer.status, -2);
    assert_eq!(peer.run("SELECT COUNT(*) FROM big"), "10");
}

#[test]
fn a_burst_of_pipelined_calls_is_answered_whole() {
    const CALLS: i64 = 10_000;
    for sites in [1, 3] {
        let (_server, mut peer) = host(sites);
        let mut writer = peer.stream.try_clone().expect("another handle of the socket");
        let sender = std::thread::spawn(move || {
            use std::io::Write;
            let mut bytes = Vec::new();
            for id in 0..CALLS {
                let values = parameters(&[Int(id), Int(1), Null, Null, Null]);
                bytes.extend(call_frame("ITEMS.insert", id, &values));
            }
            writer.write_all(&bytes).expect("the host takes the calls");
        });
        let mut answered = vec![false; CALLS as usize];
        for _ in 0..CALLS {
            let answer = peer.answer();
            assert_eq!((answer.status, answer.rows.as_str()), (1, "1"));
            assert!(!std::mem::replace(&mut answered[answer.handle as usize], true));
        }
        sender.join().expect("the sender ends");
        assert_eq!(peer.run("SELECT COUNT(*), SUM(id) FROM items"), "10000,49995000");
    }
}

#[test]
fn calls_reach_every_partition_from_every_connection() {
    let (server, mut first) = host(2);
    for id in 0..100 {
        let mut peer = if id % 10 == 0 { Peer::login(server.client_address()) } else { continue };
        for id in id..id + 10 {
            let answer = peer.call("ITEMS.insert", &[Int(id), Null, Null, Null, Null]);
            assert_eq!(answer.status, 1);
        }
    }
    assert_eq!(first.run("SELECT COUNT(*) FROM items"), "100");
    let mut counted = Vec::new();
    for partition in 0..3 {
        let options =
            CallOptions { all_partition_destination: Some(partition), ..CallOptions::default() };
        let mut call = Vec::new();
        encode(&mut call, "CountHere", 1, &options, parameters(&[Int(0)]).bytes());
        first.send(&call);
        counted.push(first.answer());
    }
    refused(&counted[2], -2, "Partition does not exist: 2");
    let counts: Vec<i64> =
        counted[..2].iter().map(|answer| answer.rows.parse().expect("a count")).collect();
    assert!(counts[0] > 0 && counts[1] > 0 && counts[0] + counts[1] == 100, "{counts:?}");
    refused(&first.call("CountHere", &[]), -2, "is a work procedure");
}

/// A call of one partition as older clients send it: marked as one of all partitions, without the
/// number of its partition.
fn call_by_key(procedure: &str, values: &[Datum<'_>]) -> Vec<u8> {
    const DESTINATION_BYTES: usize = 6;
    let options = CallOptions { all_partition_destination: Some(0), ..CallOptions::default() };
    let mut call = Vec::new();
    encode(&mut call, procedure, 1, &options, parameters(values).bytes());
    // Length, version, the name with its length, the handle; then how many extensions follow.
    let count = 4 + 1 + 4 + procedure.len() + 8;
    assert_eq!(call[count..count + 3], [2, 2, 0], "the mark comes first");
    call[count] = 1;
    call.drain(count + 3..count + 3 + DESTINATION_BYTES);
    let length = call.len() as i32 - 4;
    call[..4].copy_from_slice(&length.to_be_bytes());
    call
}

#[test]
fn keys_of_partitions_reach_each_partition_of_a_text_column() {
    let server = start(3, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE names (name VARCHAR(20) NOT NULL, PRIMARY KEY (name));
         PARTITION TABLE names ON COLUMN name;
         CREATE TABLE seals (seal VARBINARY(20) NOT NULL, PRIMARY KEY (seal));
         PARTITION TABLE seals ON COLUMN seal;
         CREATE PROCEDURE Names PARTITION ON TABLE names COLUMN name WITH LOCAL DATA
             AS SELECT COUNT(*) FROM names WHERE name <> ?;
         CREATE PROCEDURE Seals PARTITION ON TABLE seals COLUMN seal WITH LOCAL DATA
             AS SELECT COUNT(*) FROM seals WHERE seal <> ?",
    );
    for number in 0..60 {
        let text = format!("name {number}");
        assert_eq!(peer.call("NAMES.insert", &[Text(&text)]).status, 1);
        assert_eq!(peer.call("SEALS.insert", &[Bytes(text.as_bytes())]).status, 1);
    }
    let integers = peer.call("@GetPartitionKeys", &[Text("INTEGER")]).rows;
    let keys: Vec<i64> = integers
        .lines()
        .map(|row| row.split(',').nth(1).expect("a key").parse().expect("an integer"))
        .collect();
    assert_eq!(keys.len(), 3, "{integers}");
    let mut counts = Vec::new();
    for key in &keys {
        peer.send(&call_by_key("Names", &[Int(*key)]));
        let answer = peer.answer();
        assert_eq!(answer.status, 1, "{answer:?}");
        counts.push(answer.rows.parse::<i64>().expect("a count"));
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(counts.iter().sum::<i64>(), 60, "{counts:?}");
    // A key of the column's own type is hashed as one.
    for (kind, name) in [("STRING", "Names"), ("VARBINARY", "Seals")] {
        let table = peer.call("@GetPartitionKeys", &[Text(kind)]).rows;
        let mut found = 0;
        for row in table.lines() {
            let key = row.split(',').nth(1).expect("a key");
            let call = match kind {
                "STRING" => call_by_key(name, &[Text(key)]),
                _ => call_by_key(name, &[Bytes(&hexadecimal(key))]),
            };
            peer.send(&call);
            let answer = peer.answer();
            assert_eq!(answer.status, 1, "{answer:?}");
            found += answer.rows.parse::<i64>().expect("a count");
        }
        assert_eq!(found, 60, "{kind}: {table}");
    }
}

/// Clients send polygons without bounds, which the host works out whatever the call does with them.
#[test]
fn polygons_of_clients_are_completed() {
    let rings = polygon_rings("POLYGON ((0 0, 1 0, 0 1, 0 0))").expect("a polygon");
    let polygon = incomplete_polygon(&rings);
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE here (id BIGINT NOT NULL PRIMARY KEY, g GEOGRAPHY(300));
         PARTITION TABLE here ON COLUMN id;
         CREATE TABLE everywhere (id BIGINT NOT NULL PRIMARY KEY, g GEOGRAPHY(300));
         CREATE PROCEDURE Equal AS SELECT COUNT(*) FROM everywhere WHERE g = ?;
         CREATE PROCEDURE EqualHere PARTITION ON TABLE here COLUMN id
             AS SELECT COUNT(*) FROM here WHERE id = ? AND g = ?;
         CREATE PROCEDURE Around PARTITION ON TABLE here COLUMN id
             AS SELECT COUNT(*) FROM here WHERE id = ?
                AND CONTAINS(?, POINTFROMTEXT('POINT(0.25 0.25)'));",
    );
    let mut run = |procedure: &str, id: Option<i64>| {
        let mut values = ParameterWriter::default();
        if let Some(id) = id {
            values.bigint(id);
        }
        values.scalar(SqlType::Geography, Bytes(&polygon));
        let mut call = Vec::new();
        encode(&mut call, procedure, 1, &CallOptions::default(), values.bytes());
        peer.send(&call);
        let answer = peer.answer();
        assert_eq!((answer.status, answer.rows.as_str()), (1, "1"), "{procedure}: {answer:?}");
    };
    run("HERE.insert", Some(7));
    run("EVERYWHERE.insert", Some(7));
    run("EVERYWHERE.upsert", Some(7));
    run("Equal", None);
    run("EqualHere", Some(7));
    run("Around", Some(7));
}

fn hexadecimal(digits: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(pair).collect()
}
