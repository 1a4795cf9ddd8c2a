//! Clients of procedures in Java: of one partition, and of several in more than one round.

use super::super::lockstep;
use super::client::{Client, numbers, pairs};
use super::workload::halves;
use lockstep_client::Connection;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType};
use std::path::Path;
use std::process::Command;

const SCHEMA: &str = "\
CREATE TABLE kept (slot BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (slot, n));
PARTITION TABLE kept ON COLUMN slot;
CREATE TABLE kept_both (slot BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (slot, n));
PARTITION TABLE kept_both ON COLUMN slot;
CREATE PROCEDURE PARTITION ON TABLE kept COLUMN slot FROM CLASS Keep;
CREATE PROCEDURE FROM CLASS KeepBoth;
";

const KEEP: &str = "\
import org.voltdb.*;
public class Keep extends VoltProcedure {
    public final SQLStmt count = new SQLStmt(\"SELECT COUNT(*) FROM kept WHERE slot = ?\");
    public final SQLStmt insert = new SQLStmt(\"INSERT INTO kept VALUES (?, ?)\");
    public long run(long slot, long n) {
        voltQueueSQL(count, slot);
        long before = voltExecuteSQL()[0].asScalarLong();
        voltQueueSQL(insert, slot, n);
        voltExecuteSQL();
        if (n % 9 == 0) {
            throw new VoltAbortException(\"told to\");
        }
        return before;
    }
}
";

const KEEP_BOTH: &str = "\
import org.voltdb.*;
public class KeepBoth extends VoltProcedure {
    public final SQLStmt count = new SQLStmt(\"SELECT COUNT(*) FROM kept_both\");
    public final SQLStmt insert = new SQLStmt(\"INSERT INTO kept_both VALUES (?, ?)\");
    public VoltTable[] run(long first, long second, long n) {
        voltQueueSQL(count);
        voltExecuteSQL();
        voltQueueSQL(insert, first, n);
        voltExecuteSQL();
        voltQueueSQL(insert, second, n);
        voltExecuteSQL();
        if (n % 7 == 0) {
            throw new VoltAbortException(\"told to\");
        }
        return new VoltTable[0];
    }
}
";

/// The jar of the procedures, made in a folder; `None` where there is no JDK.
pub fn jar(folder: &Path) -> Option<Vec<u8>> {
    compiled(folder, &[("Keep.java", KEEP), ("KeepBoth.java", KEEP_BOTH)])
}

/// A jar of classes with these sources, made in a folder; `None` where there is no JDK.
pub fn compiled(folder: &Path, sources: &[(&str, &str)]) -> Option<Vec<u8>> {
    std::fs::create_dir_all(folder).expect("a folder");
    let api = folder.join("api.jar");
    let made = lockstep(&["java-api", api.to_str().expect("a path of text")], "");
    let mut javac = Command::new("javac");
    javac.arg("-cp").arg(&api).arg("-d").arg(folder.join("classes"));
    for (name, source) in sources {
        let file = folder.join(name);
        std::fs::write(&file, source).expect("a file");
        javac.arg(file);
    }
    let has_jdk = made.status.success() && javac.status().is_ok_and(|status| status.success());
    let bytes = has_jdk.then(|| {
        let jar = folder.join("app.jar");
        let mut pack = Command::new("jar");
        pack.arg("cf").arg(&jar).arg("-C").arg(folder.join("classes")).arg(".");
        assert!(pack.status().expect("jar runs").success());
        std::fs::read(&jar).expect("the jar is there")
    });
    std::fs::remove_dir_all(folder).expect("the folder is ours");
    bytes
}

/// Loads the classes, and makes what they work on.
pub fn prepare(connection: &mut Connection, jar: &[u8]) {
    load(connection, jar);
    connection.sql(SCHEMA).expect("the schema is made");
}

/// Loads classes.
pub fn load(connection: &mut Connection, jar: &[u8]) {
    let mut parameters = ParameterWriter::default();
    parameters.scalar(SqlType::Varbinary, Datum::Bytes(jar));
    parameters.scalar(SqlType::Varchar, Datum::Null);
    let loaded = connection.call("@UpdateClasses", &parameters).expect("it is answered");
    assert_eq!(loaded.view().status, 1, "{:?}", loaded.view().status_text);
}

pub fn clients() -> [Client; 2] {
    let [first, second] = halves();
    let one = Client::new(
        "Java",
        8,
        (9, -1),
        move |n| ("Keep", numbers(&[first, n])),
        move |model, n| {
            model.insert(n, first);
        },
        |connection| pairs(connection, "SELECT n, slot FROM kept"),
    );
    let both = Client::new(
        "Java, two partitions",
        1,
        (7, -1),
        move |n| ("KeepBoth", numbers(&[first, second, n])),
        |model, n| {
            model.insert(n, 2);
        },
        |connection| pairs(connection, "SELECT n, COUNT(*) FROM kept_both GROUP BY n"),
    );
    [one, both]
}
