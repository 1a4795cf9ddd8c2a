//! Batches of large values in procedures in Java, each with a host of its own: the limit of a batch
//! belongs to the JVM, which there is one of in a process. Without a JDK this says so and passes.

use super::crash::java::{compiled, load};
use super::process::Host;
use lockstep_types::Value;
use lockstep_types::parameter::ParameterWriter;
use std::process::Command;

const VALUES: i32 = 300;
const VALUE_BYTES: i32 = 1 << 20;

const LARGE: &str = "\
import org.voltdb.*;
public class Large extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt(\"INSERT INTO large VALUES (?, ?, ?)\");
    public long run(long key, int count, int size) {
        byte[] value = new byte[size];
        for (int i = 0; i < count; i++) {
            voltQueueSQL(insert, key, i, value);
        }
        return voltExecuteSQL(true).length;
    }
}
";

/// The status, the text and the rows that a host with these options ends with.
fn batch(jar: &[u8], declaration: &str, options: &[&str]) -> (i8, String, i64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(["--log", "error", "start", "--sites", "2"]);
    command.args(["--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    for option in options {
        command.args(["--option", option]);
    }
    let host = Host::run(&mut command).ready();
    let mut connection = host.connect();
    load(&mut connection, jar);
    let schema = format!(
        "CREATE TABLE large (k BIGINT NOT NULL, n INTEGER NOT NULL, b VARBINARY(1048576),
             PRIMARY KEY (k, n));
         PARTITION TABLE large ON COLUMN k;
         CREATE PROCEDURE {declaration} FROM CLASS Large;"
    );
    connection.sql(&schema).expect("the schema is made");
    let mut parameters = ParameterWriter::default();
    parameters.integer(1).integer(VALUES).integer(VALUE_BYTES);
    let response = connection.call("Large", &parameters).expect("it is answered");
    let (status, text) = (response.view().status, response.view().status_text.unwrap_or(""));
    let (status, text) = (status, text.to_string());
    let rows = connection.sql("SELECT COUNT(*) FROM large WHERE OCTET_LENGTH(b) = 1048576");
    let rows = rows.expect("a query");
    let [Value::Int(count)] = rows[0].rows[0][..] else { panic!("{rows:?}") };
    (status, text, count)
}

#[test]
fn a_batch_of_300_mebibytes_runs_or_is_refused_by_its_limit() {
    let folder = std::env::temp_dir().join(format!("lockstep-batches-{}", std::process::id()));
    let Some(jar) = compiled(&folder, &[("Large.java", LARGE)]) else {
        println!("there is no JDK: batches in Java are not tested");
        return;
    };
    let limits = ["java_call_limit_ms=60000", "java_heap_bytes=268435456"];
    for declaration in ["PARTITION ON TABLE large COLUMN k", ""] {
        let answer = batch(&jar, declaration, &limits);
        assert_eq!(answer, (1, String::new(), VALUES.into()), "{declaration}");
    }
    let [call, heap] = limits;
    let small = [call, heap, "max_java_batch_bytes=67108864"];
    let (status, text, rows) = batch(&jar, "PARTITION ON TABLE large COLUMN k", &small);
    assert!(status < 0, "{text}");
    assert!(text.contains("more than 67108864 bytes (max_java_batch_bytes)"), "{text}");
    assert_eq!(rows, 0);
}
