//! What a host tells of itself is how it was started.

use super::directory::Folder;
use super::process::Host;
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_node::options::TABLE;
use lockstep_types::{Datum, SqlType, Value};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The columns and rows of a call's first table.
fn table(
    connection: &mut Connection,
    name: &str,
    words: &[&str],
) -> (Vec<String>, Vec<Vec<Value>>) {
    let mut parameters = ParameterWriter::default();
    for word in words {
        parameters.text(word);
    }
    let response = connection.call(name, &parameters).expect("it is answered");
    let text = response.view().status_text.unwrap_or_default().to_string();
    let mut tables = response.tables().unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(!tables.is_empty(), "{text}");
    let table = tables.remove(0);
    (table.names, table.rows)
}

/// The last two columns of the rows: properties and values.
fn properties(connection: &mut Connection, selector: &str) -> BTreeMap<String, String> {
    let (_, rows) = table(connection, "@SystemInformation", &[selector]);
    let text = |value: &Value| match value {
        Value::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    };
    rows.iter().map(|row| (text(&row[row.len() - 2]), text(&row[row.len() - 1]))).collect()
}

fn start(folder: Option<&Folder>, mode: &str, options: &[String]) -> Host {
    let mut command = match folder {
        Some(folder) => {
            let mut command = Host::command(&folder.0, options);
            command.args(["--durability", mode]);
            command
        }
        None => {
            let program = env!("CARGO_BIN_EXE_lockstep-under-test");
            let mut command = std::process::Command::new(program);
            command.args(["--log", "error", "start", "--sites", "2"]);
            command.args(["--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
            command
        }
    };
    Host::run(&mut command).ready()
}

#[test]
fn the_deployment_is_the_one_that_was_asked_for() {
    for (mode, logs) in [("sync", true), ("async", true), ("none", false)] {
        let folder = Folder::made(&format!("truth-{mode}"));
        let options = ["snapshot_interval_s=77", "log_interval_ms=33", "snapshots_kept=5"];
        let options = [&options[..], &["query_timeout_ms=4321"]].concat();
        let options: Vec<String> = options.into_iter().map(String::from).collect();
        let host = start(Some(&folder), mode, &options);
        let told = properties(&mut host.connect(), "DEPLOYMENT");
        let property = |name: &str| told.get(name).map_or("absent", String::as_str);
        let inside = |name: &str| format!("{}/{name}", folder.shown());
        let log_path = inside("log");
        for (name, value) in [
            ("voltdbroot", folder.shown()),
            ("sitesperhost", "2"),
            ("snapshotpath", &inside("snapshots")),
            ("snapshotprefix", "AUTOSNAP"),
            ("snapshotfrequency", "77s"),
            ("snapshotretain", "5"),
            ("snapshotenabled", "true"),
            ("commandlogenabled", if logs { "true" } else { "false" }),
            ("commandlogmode", if logs { mode } else { "absent" }),
            ("commandlogfreqtime", if logs { "33" } else { "absent" }),
            ("commandlogpath", if logs { log_path.as_str() } else { "absent" }),
            ("querytimeout", "4321"),
            ("adminport", host.admin().rsplit(':').next().expect("a port")),
        ] {
            assert_eq!(property(name).trim_end_matches('/'), value, "{mode}: {name}");
        }
        let overview = properties(&mut host.connect(), "OVERVIEW");
        assert_eq!(overview["VOLTDBROOT"].trim_end_matches('/'), folder.shown());
    }
    let host = start(None, "none", &[]);
    let told = properties(&mut host.connect(), "DEPLOYMENT");
    for (name, value) in [
        ("voltdbroot", ""),
        ("snapshotpath", ""),
        ("snapshotenabled", "false"),
        ("commandlogenabled", "false"),
        ("querytimeout", "10000"),
    ] {
        assert_eq!(told[name], value, "{name}");
    }
    // Without a schedule there are none.
    let folder = Folder::made("truth-unscheduled");
    let options = ["snapshot_interval_s=0", "snapshot_log_bytes=0"].map(String::from);
    let host = start(Some(&folder), "sync", &options);
    assert_eq!(properties(&mut host.connect(), "DEPLOYMENT")["snapshotenabled"], "false");
}

#[test]
fn every_option_is_told_as_it_was_set() {
    // These need a right, or take work away from the test.
    let apart = ["realtime_priority", "disabled_rules"];
    let given = [("memory_limit_bytes", 1 << 50)];
    let values: Vec<(&str, u64)> = TABLE
        .iter()
        .filter(|option| !apart.contains(&option.name))
        .map(|option| {
            let next = if option.default < option.max { 1 } else { -1 };
            let value = option.default.wrapping_add_signed(next);
            let given = given.iter().find(|(name, _)| *name == option.name);
            let value = given.map_or(value, |(_, value)| *value);
            (option.name, value)
        })
        .collect();
    let options: Vec<String> =
        values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let folder = Folder::made("truth-options");
    let host = start(Some(&folder), "sync", &options);
    let told = properties(&mut host.connect(), "DEPLOYMENT");
    for (name, value) in &values {
        assert_eq!(told[*name], value.to_string(), "{name}");
    }
    let value = |name: &str| {
        let found = values.iter().find(|(option, _)| *option == name);
        found.expect("an option").1
    };
    assert_eq!(told["querytimeout"], value("query_timeout_ms").to_string());
    assert_eq!(told["temptablesmaxsize"], (value("max_temporary_bytes") >> 20).to_string());
    assert_eq!(told["commandlogfreqtime"], value("log_interval_ms").to_string());
    assert_eq!(told["snapshotretain"], value("snapshots_kept").to_string());
    let (names, rows) = table(&mut host.connect(), "@Statistics", &["LIMITS"]);
    let place = names.iter().position(|name| name == "CLIENT_CONNECTIONS_LIMIT");
    let limit = &rows[0][place.expect("the column")];
    assert_eq!(*limit, Value::Int(value("max_connections") as i64));
}

#[test]
fn the_statistics_of_the_command_log_are_those_of_its_files() {
    let folder = Folder::made("truth-log");
    let options = ["log_segment_bytes=65536", "snapshot_interval_s=0"].map(String::from);
    let host = start(Some(&folder), "sync", &options);
    let mut connection = host.connect();
    connection.sql("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)").expect("it is made");
    let log = |connection: &mut Connection| -> BTreeMap<String, i64> {
        let (names, rows) = table(connection, "@Statistics", &["COMMANDLOG"]);
        assert_eq!(rows.len(), 1);
        let numbers = names.into_iter().zip(&rows[0]);
        let number = |(name, value): (String, &Value)| match value {
            Value::Int(number) => Some((name, *number)),
            _ => None,
        };
        numbers.filter_map(number).collect()
    };
    let mut a = 0;
    let begun = Instant::now();
    loop {
        let told = log(&mut connection);
        // What was answered is on disk.
        assert_eq!((told["OUTSTANDING_BYTES"], told["OUTSTANDING_TXNS"]), (0, 0), "{told:?}");
        assert!(told["SEGMENT_COUNT"] >= told["IN_USE_SEGMENT_COUNT"], "{told:?}");
        if told["IN_USE_SEGMENT_COUNT"] >= 3 && told["FSYNC_INTERVAL"] > 0 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{told:?}");
        for _ in 0..100 {
            connection.sql(&format!("INSERT INTO t VALUES ({a})")).expect("it is inserted");
            a += 1;
        }
    }
    let told = log(&mut connection);
    let segments = std::fs::read_dir(folder.0.join("log")).expect("a folder").filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        !name.to_string_lossy().starts_with("spare")
    });
    assert_eq!(told["IN_USE_SEGMENT_COUNT"], segments.count() as i64);
    let memory = start(None, "none", &[]);
    let told = log(&mut memory.connect());
    assert_eq!((told["IN_USE_SEGMENT_COUNT"], told["FSYNC_INTERVAL"]), (0, 0));
}

#[test]
fn times_are_those_of_this_run() {
    let folder = Folder::made("truth-times");
    let mut host = start(Some(&folder), "sync", &[]);
    let first = properties(&mut host.connect(), "OVERVIEW");
    host.kill();
    let host = start(Some(&folder), "sync", &[]);
    let second = properties(&mut host.connect(), "OVERVIEW");
    let number = |text: &String| text.parse::<i64>().expect("milliseconds");
    assert_eq!(first["CREATIONTIME"], second["CREATIONTIME"]);
    for name in ["STARTTIME", "HOSTSTARTTIME"] {
        assert!(number(&second[name]) > number(&first[name]), "{name}");
        assert!(number(&second[name]) >= number(&second["CREATIONTIME"]), "{name}");
    }
}

fn update_logging(connection: &mut Connection, text: &str) -> (i8, String) {
    let mut parameters = ParameterWriter::default();
    parameters.text(text);
    let response = connection.call("@UpdateLogging", &parameters).expect("it is answered");
    let view = response.view();
    let said = [view.status_text, view.application_text].into_iter().flatten();
    (view.status, said.collect::<Vec<_>>().join(" "))
}

#[test]
fn what_is_logged_changes_while_the_host_runs() {
    let folder = Folder::made("truth-logging");
    let mut host = Host::start_heard(&folder.0, &[]);
    let admin = Connection::connect(&host.admin(), &ConnectOptions::default());
    let mut admin = admin.expect("the admin port");
    let note = |connection: &mut Connection, text: &str| {
        table(connection, "@Note", &[text]);
    };
    note(&mut admin, "before");
    let xml = "<?xml version=\"1.0\"?>\n<log4j:configuration>\n<logger name=\"HOST\"><level \
               value=\"DEBUG\"/></logger>\n<root><priority value=\"INFO\"/></root>\n\
               </log4j:configuration>";
    let (status, said) = update_logging(&mut admin, xml);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("HOST"), "{said}");
    note(&mut admin, "between");
    assert_eq!(update_logging(&mut admin, "error").0, 1);
    note(&mut admin, "behind");
    for (text, words) in [
        ("no such, filter=level", "the filter cannot be read"),
        ("<configuration/>", "no <root>"),
        ("<root><level value='loud'/></root>", "there is no level 'loud'"),
    ] {
        let (status, said) = update_logging(&mut admin, text);
        assert!(status < 0 && said.contains(words), "{text}: {said}");
    }
    let mut number = ParameterWriter::default();
    number.scalar(SqlType::BigInt, Datum::Int(1));
    let response = admin.call("@UpdateLogging", &number).expect("it is answered");
    assert!(response.view().status < 0);
    drop(admin);
    let id = host.child.id().to_string();
    assert!(std::process::Command::new("kill").arg(&id).stdin(Stdio::null()).status().is_ok());
    let (well, said) = host.wait();
    assert!(well, "{said}");
    let has = ["before", "between", "behind"].map(|text| said.contains(text));
    assert_eq!(has, [false, true, false], "{said}");
}
