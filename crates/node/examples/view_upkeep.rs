//! What it costs to delete the minimum of a group that a view keeps, by the size of the group.
//!
//! ```text
//! cargo run --release -p lockstep-node --example view_upkeep
//! ```

use lockstep_node::embedded::EmbeddedHost;
use lockstep_node::options::Options;
use lockstep_types::Status;
use lockstep_types::parameter::ParameterWriter;
use lockstep_wire_volt::invocation::{self, CallOptions};
use std::time::Instant;

const SCHEMA: &str = "
    CREATE TABLE plain (id BIGINT NOT NULL PRIMARY KEY, g INTEGER, v BIGINT, f FLOAT);
    CREATE VIEW by_g (g, n, least, most, total) AS
        SELECT g, COUNT(*), MIN(v), MAX(f), SUM(f) FROM plain GROUP BY g;
    CREATE PROCEDURE delete_plain AS DELETE FROM plain WHERE id = ?;
    CREATE TABLE fact (id BIGINT NOT NULL PRIMARY KEY, g INTEGER, v BIGINT, d INTEGER);
    CREATE TABLE dimension (d INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20));
    CREATE VIEW joined (g, n, least) AS SELECT fact.g, COUNT(*), MIN(fact.v)
        FROM fact JOIN dimension ON fact.d = dimension.d GROUP BY fact.g;
    CREATE PROCEDURE delete_fact AS DELETE FROM fact WHERE id = ?;
    INSERT INTO dimension VALUES (1, 'one');";
/// Deletes that are timed.
const DELETES: i64 = 200;

fn call(host: &mut EmbeddedHost, procedure: &str, values: &[i64], floats: &[f64]) {
    let mut parameters = ParameterWriter::default();
    for value in values {
        parameters.bigint(*value);
    }
    for value in floats {
        parameters.scalar(lockstep_types::SqlType::Float, lockstep_types::Datum::Float(*value));
    }
    let (mut frame, mut response) = (Vec::new(), Vec::new());
    invocation::encode(&mut frame, procedure, 1, &CallOptions::default(), parameters.bytes());
    let status = host.call(&frame[4..], &mut response);
    assert_eq!(status, Status::Success, "{procedure} {values:?}");
}

fn main() {
    let options = Options::default();
    let host = EmbeddedHost::new(&options, Default::default());
    let mut host = host.unwrap_or_else(|failure| panic!("{}", failure.message));
    for statement in SCHEMA.split_inclusive(';').filter(|text| text.len() > 2) {
        host.ad_hoc(statement).unwrap_or_else(|failure| panic!("{}", failure.message));
    }
    let mut id = 0;
    for (group, rows) in [(1, 1_000i64), (2, 1_000_000)] {
        let first = id;
        for value in 0..rows {
            call(&mut host, "PLAIN.insert", &[id, group, value], &[value as f64 / 3.0]);
            call(&mut host, "FACT.insert", &[id, group, value, 1], &[]);
            id += 1;
        }
        for procedure in ["delete_plain", "delete_fact"] {
            let begin = Instant::now();
            for deleted in first..first + DELETES {
                call(&mut host, procedure, &[deleted], &[]);
            }
            let us = begin.elapsed().as_micros() as f64 / DELETES as f64;
            println!("{procedure:13} the minimum of {rows:8} rows: {us:6.2} us");
        }
    }
}
