//! What snapshots there are, and removing them.

use super::save::{PastSnapshot, Snapshots};
use super::{DELETED, SCAN_FILES, SCAN_FOUND, SCAN_SPACE, STATUS, SUMMARY, write_table};
use crate::control::system::text_parameter;
use crate::control::{Control, arguments};
use crate::log::disk::RealDisk;
use crate::message::Origin;
use lockstep_durability::snapshot::{self, FoundSnapshot, TableKind};
use lockstep_env::Disk;
use lockstep_host::schema::Handled;
use lockstep_host::snapshots::SnapshotKind;
use lockstep_types::{Datum, Failure, Parameter, Value};
use lockstep_wire_volt::Invocation;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The PATHTYPE of snapshots that users name a directory for.
const USER_PATH: &str = "SNAP_PATH";

fn yes(condition: bool) -> Datum<'static> {
    Datum::Text(if condition { "TRUE" } else { "FALSE" })
}

/// The TYPE of a snapshot in the statistics.
fn kind_name(kind: SnapshotKind) -> &'static str {
    match kind {
        SnapshotKind::Manual => "MANUAL",
        SnapshotKind::Automatic => "AUTO",
    }
}

/// The texts of a call's parameter that is an array.
fn texts(invocation: &Invocation<'_>, index: usize) -> Option<Vec<String>> {
    let Some(Ok(Parameter::Array(array))) = invocation.parameters.get(index) else { return None };
    let text = |value| match value {
        Datum::Text(text) => Some(text.to_string()),
        _ => None,
    };
    array.iter().map(text).collect()
}

impl Control {
    /// `@SnapshotScan`.
    pub(in crate::control) fn snapshot_scan(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        if let Err(text) = arguments::scan(invocation) {
            self.answer_error_table(origin, &text);
            return Ok(Handled::Answered);
        }
        let Some(path) = text_parameter(invocation, 0) else {
            return Err(Failure::graceful("@SnapshotScan requires a folder as its parameter"));
        };
        let path = path.to_string();
        let scan = move || {
            let disk = RealDisk::new(Path::new(&path));
            let scanned = snapshot::scan(&disk, "");
            let space = Space {
                free: disk.free_bytes().unwrap_or(0) as i64,
                total: disk.total_bytes().unwrap_or(0) as i64,
            };
            (path, scanned, space)
        };
        let (id, host) = (self.facts.host.0, self.facts.host_name.clone());
        self.with_files(scan, move |control, (path, scanned, space)| {
            control.answer_tables(origin, |out| {
                let found: &[FoundSnapshot] = scanned.as_deref().unwrap_or_default();
                write_found(out, &path, found);
                write_space(out, &path, (id, &host), space, scanned.as_ref().err());
                write_files(out, &path, (id, &host), found);
                3
            });
        })?;
        Ok(Handled::Pending)
    }

    /// `@SnapshotDelete`.
    pub(in crate::control) fn snapshot_delete(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        if let Err(text) = arguments::delete(invocation) {
            self.answer_error_table(origin, &text);
            return Ok(Handled::Answered);
        }
        let (paths, nonces) = (texts(invocation, 0), texts(invocation, 1));
        let paths = paths.unwrap_or_default();
        let nonces = nonces.unwrap_or_default();
        let running = self.snapshots.past().filter(|past| past.ended_ms.is_none());
        let running: Vec<String> = running.map(|past| past.nonce.clone()).collect();
        let keeper = std::sync::Arc::clone(&self.snapshots.keeper);
        let (id, host) = (self.facts.host.0, self.facts.host_name.clone());
        let delete = move || {
            let mut rows: Vec<Vec<Value>> = Vec::new();
            for (path, nonce) in paths.iter().zip(&nonces) {
                let deleted = match running.contains(nonce) {
                    true => Err("this snapshot is being saved".to_string()),
                    false => keeper.delete(path, nonce),
                };
                deleted_rows((id, &host), path, nonce, deleted, &mut rows);
            }
            rows
        };
        self.with_files(delete, move |control, rows| {
            control.answer_tables(origin, |out| {
                let rows: Vec<Vec<Datum<'_>>> =
                    rows.iter().map(|row| row.iter().map(Value::as_datum).collect()).collect();
                write_table(out, DELETED, &rows);
                1
            });
        })?;
        Ok(Handled::Pending)
    }
}

impl Snapshots {
    /// The rows of the statistics SNAPSHOTSTATUS, without the columns of a host.
    pub(in crate::control) fn status_rows(&self) -> Vec<Vec<Value>> {
        let mut rows = Vec::new();
        for past in self.past() {
            let end_ms = past.ended_ms.unwrap_or(0);
            let took = past.took();
            let result = match &past.result {
                None => "IN_PROGRESS",
                Some(Ok(_)) => "SUCCESS",
                Some(Err(_)) => "FAILURE",
            };
            let saved = past.result.as_ref().and_then(|result| result.as_ref().ok());
            let none = Vec::new();
            let files = saved.map_or(&none, |saved| &saved.files);
            let listed: Vec<(String, String, u64)> = match files.is_empty() {
                true => past.tables.iter().map(|t| (t.clone(), String::new(), 0)).collect(),
                false => files
                    .iter()
                    .map(|(table, name, bytes)| {
                        (table.clone().unwrap_or_default(), name.clone(), *bytes)
                    })
                    .collect(),
            };
            for (table, file, bytes) in listed {
                let text = |text: &str| Value::Text(text.into());
                rows.push(vec![
                    text(&table),
                    text(&past.path),
                    text(&file),
                    text(&past.nonce),
                    Value::Int(saved.map_or(0, |saved| saved.transaction)),
                    Value::Int(past.started_ms),
                    Value::Int(end_ms),
                    Value::Int(bytes as i64),
                    Value::Int(took.ms_i64() / 1000),
                    Value::Float(bytes as f64 * 1000.0 / took.ms().max(1) as f64),
                    text(result),
                    text(kind_name(past.kind)),
                ]);
            }
        }
        debug_assert!(rows.iter().all(|row| row.len() == STATUS.len()));
        rows
    }

    /// The rows of the statistics SNAPSHOTSUMMARY.
    pub(in crate::control) fn summary_rows(&self) -> Vec<Vec<Value>> {
        let text = |text: &str| Value::Text(text.into());
        let row = |past: &PastSnapshot| {
            let (percent, result) = match &past.result {
                None if past.expected_bytes > 0 => {
                    let written = past.progress.load(Ordering::Relaxed) as f64;
                    ((written * 100.0 / past.expected_bytes as f64).min(99.0), "INPROGRESS")
                }
                None => (0.0, "INPROGRESS"),
                Some(Ok(_)) => (100.0, "SUCCESS"),
                Some(Err(_)) => (0.0, "FAILURE"),
            };
            let transaction = match &past.result {
                Some(Ok(saved)) => saved.transaction,
                _ => 0,
            };
            let end_ms = past.ended_ms.unwrap_or(0);
            let took = past.took();
            vec![
                text(&past.nonce),
                Value::Int(transaction),
                text(kind_name(past.kind)),
                text(&past.path),
                Value::Int(past.started_ms),
                Value::Int(end_ms),
                Value::Int(took.ms_i64() / 1000),
                Value::Float(percent),
                text(result),
            ]
        };
        let rows: Vec<Vec<Value>> = self.past().map(row).collect();
        debug_assert!(rows.iter().all(|row| row.len() == SUMMARY.len()));
        rows
    }
}

/// The space of a file system.
#[derive(Clone, Copy)]
struct Space {
    free: i64,
    total: i64,
}

/// The rows that say what became of a snapshot: one a file, or why it is not deleted.
fn deleted_rows(
    (id, host): (u32, &str),
    path: &str,
    nonce: &str,
    deleted: Result<Vec<(String, u64)>, String>,
    rows: &mut Vec<Vec<Value>>,
) {
    let text = |text: &str| Value::Text(text.into());
    let mut add = |name: &str, size: u64, problem: Option<&str>| {
        rows.push(vec![
            Value::Int(id.into()),
            text(host),
            text(path),
            text(USER_PATH),
            text(nonce),
            text(name),
            Value::Int(size as i64),
            text(if problem.is_none() { "TRUE" } else { "FALSE" }),
            text(if problem.is_none() { "SUCCESS" } else { "FAILURE" }),
            text(problem.unwrap_or("")),
        ]);
    };
    match deleted {
        Ok(files) => files.iter().for_each(|(name, size)| add(name, *size, None)),
        Err(problem) => add("", 0, Some(&problem)),
    }
}

fn write_found(out: &mut Vec<u8>, path: &str, found: &[FoundSnapshot]) {
    let names: Vec<String> = found
        .iter()
        .map(|one| {
            let tables = one.manifest.iter().flat_map(|manifest| &manifest.tables);
            let names = tables
                .filter(|table| !matches!(table.kind, TableKind::Derived | TableKind::Entries));
            names.map(|table| table.name.as_str()).collect::<Vec<&str>>().join(",")
        })
        .collect();
    let mut rows = Vec::new();
    for (one, tables) in found.iter().zip(&names) {
        let manifest = one.manifest.as_ref();
        let complete = one.is_complete();
        rows.push(vec![
            Datum::Text(path),
            Datum::Text(&one.nonce),
            Datum::Int(manifest.map_or(0, |manifest| manifest.transaction)),
            Datum::Int(manifest.map_or(0, |manifest| manifest.created_ms)),
            Datum::Int(one.bytes() as i64),
            Datum::Text(tables),
            Datum::Text(if complete { "" } else { tables }),
            Datum::Text(if complete { "" } else { tables }),
            yes(complete),
            Datum::Text(USER_PATH),
        ]);
    }
    write_table(out, SCAN_FOUND, &rows);
}

fn write_space(
    out: &mut Vec<u8>,
    path: &str,
    (id, host): (u32, &str),
    Space { free, total }: Space,
    problem: Option<&snapshot::SnapshotError>,
) {
    let problem = problem.map(ToString::to_string);
    let row = vec![
        Datum::Int(id.into()),
        Datum::Text(host),
        Datum::Text(path),
        Datum::Int(total),
        Datum::Int(free),
        Datum::Int((total - free).max(0)),
        Datum::Text(if problem.is_none() { "SUCCESS" } else { "FAILURE" }),
        Datum::Text(problem.as_deref().unwrap_or("")),
    ];
    write_table(out, SCAN_SPACE, &[row]);
}

fn write_files(out: &mut Vec<u8>, path: &str, host: (u32, &str), found: &[FoundSnapshot]) {
    let mut files: Vec<(&FoundSnapshot, &str, u64, String)> = Vec::new();
    for one in found {
        let problem = one.manifest.as_ref().err().map(ToString::to_string).unwrap_or_default();
        for (name, bytes) in &one.present {
            files.push((one, name, *bytes, problem.clone()));
        }
        for (name, error) in &one.unreadable {
            files.push((one, name, 0, error.to_string()));
        }
    }
    let partitions: Vec<String> =
        files.iter().map(|(one, name, ..)| partitions_of(one, name)).collect();
    let mut rows = Vec::new();
    for ((one, name, bytes, problem), partitions) in files.iter().zip(&partitions) {
        let mut row = file_row((path, host), one, name, *bytes, problem);
        row[PARTITIONS] = Datum::Text(partitions);
        rows.push(row);
    }
    write_table(out, SCAN_FILES, &rows);
}

/// Where the partitions of a file are among the columns.
const PARTITIONS: usize = 10;

/// The partitions whose rows a file has.
fn partitions_of(one: &FoundSnapshot, name: &str) -> String {
    if let Some(partition) = snapshot::partition_of(name, &one.nonce) {
        return partition.to_string();
    }
    let part = one.manifest.as_ref().ok().and_then(|manifest| manifest.part.as_ref());
    match part.filter(|_| name.ends_with(".csv")) {
        Some(part) => part.partitions.iter().map(u32::to_string).collect::<Vec<String>>().join(","),
        None => String::new(),
    }
}

/// What is said of a file that has the name of one of a snapshot.
fn file_row<'r>(
    (path, (id, host)): (&'r str, (u32, &'r str)),
    one: &'r FoundSnapshot,
    name: &'r str,
    bytes: u64,
    problem: &'r str,
) -> Vec<Datum<'r>> {
    let manifest = one.manifest.as_ref().ok();
    let partitions = manifest.map_or(0, |manifest| manifest.positions.len());
    let entry =
        manifest.and_then(|manifest| manifest.files.iter().find(|entry| entry.name == *name));
    let number = snapshot::host_of(name).unwrap_or(0);
    let is_manifest = *name == snapshot::manifest_name_of(&one.nonce, number);
    let sound = problem.is_empty()
        && match entry {
            Some(entry) => entry.bytes == bytes,
            None => is_manifest && manifest.is_some(),
        };
    let table = name
        .strip_suffix(".csv")
        .and_then(|rest| rest.strip_suffix(&format!("-host_{number}")))
        .and_then(|rest| rest.strip_prefix(one.nonce.as_str())?.strip_prefix('-'));
    let replicated = manifest.is_some_and(|manifest| {
        let mut tables = manifest.tables.iter();
        tables.any(|t| Some(t.name.as_str()) == table && t.kind == TableKind::Replicated)
    });
    vec![
        Datum::Int(id.into()),
        Datum::Text(host),
        Datum::Text(path),
        Datum::Text(name),
        Datum::Int(manifest.map_or(0, |manifest| manifest.transaction)),
        Datum::Int(manifest.map_or(0, |manifest| manifest.created_ms)),
        Datum::Text(table.unwrap_or("")),
        yes(sound),
        Datum::Int(bytes as i64),
        yes(replicated),
        Datum::Text(""),
        Datum::Int(partitions as i64),
        yes(sound),
        Datum::Text(if sound { "SUCCESS" } else { "FAILURE" }),
        Datum::Text(problem),
        Datum::Text(USER_PATH),
    ]
}
