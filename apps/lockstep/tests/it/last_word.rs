//! A thread of the host that panics brings the process down with a clear last word, and the next
//! start has everything that was answered.

use super::directory::Folder;
use super::process::Host;
use lockstep_client::{Connection, ParameterWriter};
use lockstep_workloads::{fault, probe};

fn key(key: i64) -> ParameterWriter {
    let mut parameters = ParameterWriter::default();
    parameters.bigint(key);
    parameters
}

fn keys(connection: &mut Connection) -> String {
    let tables = connection.sql("SELECT k FROM probe ORDER BY k").expect("the query runs");
    format!("{:?}", tables[0].rows)
}

#[test]
fn a_site_that_panics_ends_the_process_and_what_was_answered_comes_back() {
    let folder = Folder::made("panic");
    let mut host = Host::start_heard(&folder.0, &[]);
    let mut connection = host.connect();
    connection.sql(probe::SCHEMA).expect("the table is made");
    let procedure = "CREATE PROCEDURE PARTITION ON TABLE probe COLUMN k FROM NATIVE Fault";
    connection.sql(procedure).expect("the procedure is made");
    for number in 0..50 {
        connection.call("PROBE.insert", &key(number)).expect("a row is inserted");
    }
    let before = keys(&mut connection);
    assert!(connection.call("Fault", &key(1_000)).is_err(), "nobody answers");
    let (is_well, said) = host.wait();
    assert!(!is_well, "{said}");
    let shown = folder.shown();
    let next = format!("Start it again: `lockstep start --dir {shown}`");
    let last = said.lines().last().expect("a last word");
    for word in ["the thread 'site ", "panicked", "Every write that was answered", &next] {
        assert!(last.contains(word), "'{word}' is not in: {said}");
    }
    assert!(said.contains(fault::WORDS), "the panic is told: {said}");
    let host = Host::start(&folder.0);
    assert_eq!(keys(&mut host.connect()), before);
}
