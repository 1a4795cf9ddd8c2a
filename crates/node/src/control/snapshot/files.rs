//! What snapshots there are, and removing them.

use super::save::PastSnapshot;
use super::{DELETED, SCAN_FILES, SCAN_FOUND, SCAN_SPACE, STATUS, SUMMARY, write_table};
use crate::control::Control;
use crate::control::system::text_parameter;
use crate::log::disk::RealDisk;
use crate::message::Origin;
use lockstep_durability::snapshot::{self, FoundSnapshot, TableKind};
use lockstep_env::Disk;
use lockstep_types::{Datum, Failure, Parameter, Value};
use lockstep_wire_volt::Invocation;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The PATHTYPE of snapshots that users name a directory for.
const USER_PATH: &str = "SNAP_PATH";

fn yes(condition: bool) -> Datum<'static> {
    Datum::Text(if condition { "TRUE" } else { "FALSE" })
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
    ) -> Result<(), Failure> {
        let Some(path) = text_parameter(invocation, 0) else {
            return Err(Failure::graceful("@SnapshotScan requires a folder as its parameter"));
        };
        let disk = RealDisk::new(Path::new(path));
        let scanned = snapshot::scan(&disk, "");
        let host = self.facts.host_name.clone();
        self.answer_tables(origin, |out| {
            let found: &[FoundSnapshot] = scanned.as_deref().unwrap_or_default();
            write_found(out, path, found);
            write_space(out, path, &host, &disk, scanned.as_ref().err());
            write_files(out, path, &host, found);
            3
        });
        Ok(())
    }

    /// `@SnapshotDelete`.
    pub(in crate::control) fn snapshot_delete(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let (paths, nonces) = (texts(invocation, 0), texts(invocation, 1));
        let paths = paths.into_iter().flatten();
        let nonces = nonces.into_iter().flatten();
        let mut rows: Vec<Vec<Value>> = Vec::new();
        for (path, nonce) in paths.zip(nonces) {
            self.delete_one(&path, &nonce, &mut rows);
        }
        self.answer_tables(origin, |out| {
            let rows: Vec<Vec<Datum<'_>>> =
                rows.iter().map(|row| row.iter().map(Value::as_datum).collect()).collect();
            write_table(out, DELETED, &rows);
            1
        });
        Ok(())
    }

    fn delete_one(&self, path: &str, nonce: &str, rows: &mut Vec<Vec<Value>>) {
        let mut add = |name: &str, size: u64, problem: Option<String>| {
            let text = |text: &str| Value::Text(text.into());
            rows.push(vec![
                Value::Int(0),
                text(&self.facts.host_name),
                text(path),
                text(USER_PATH),
                text(nonce),
                text(name),
                Value::Int(size as i64),
                text(if problem.is_none() { "TRUE" } else { "FALSE" }),
                text(if problem.is_none() { "SUCCESS" } else { "FAILURE" }),
                text(problem.as_deref().unwrap_or("")),
            ]);
        };
        let is_running = |past: &&PastSnapshot| past.ended_ms.is_none() && past.nonce == nonce;
        if self.snapshots.past().any(|past| is_running(&past)) {
            return add("", 0, Some("this snapshot is being saved".to_string()));
        }
        match snapshot::remove(&RealDisk::new(Path::new(path)), "", nonce) {
            Ok(files) if files.is_empty() => {
                add("", 0, Some(format!("there is no snapshot {nonce} in {path}")));
            }
            Ok(files) => files.iter().for_each(|(name, size)| add(name, *size, None)),
            Err(error) => add("", 0, Some(error.to_string())),
        }
    }

    /// The rows of the statistics SNAPSHOTSTATUS, without the columns of a host.
    pub(in crate::control) fn snapshot_status(&self) -> Vec<Vec<Value>> {
        let mut rows = Vec::new();
        for past in self.snapshots.past() {
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
                    text(past.kind),
                ]);
            }
        }
        debug_assert!(rows.iter().all(|row| row.len() == STATUS.len()));
        rows
    }

    /// The rows of the statistics SNAPSHOTSUMMARY.
    pub(in crate::control) fn snapshot_summary(&self) -> Vec<Vec<Value>> {
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
                text(past.kind),
                text(&past.path),
                Value::Int(past.started_ms),
                Value::Int(end_ms),
                Value::Int(took.ms_i64() / 1000),
                Value::Float(percent),
                text(result),
            ]
        };
        let rows: Vec<Vec<Value>> = self.snapshots.past().map(row).collect();
        debug_assert!(rows.iter().all(|row| row.len() == SUMMARY.len()));
        rows
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
    host: &str,
    disk: &RealDisk,
    problem: Option<&snapshot::SnapshotError>,
) {
    let free = disk.free_bytes().unwrap_or(0) as i64;
    let total = disk.total_bytes().unwrap_or(0) as i64;
    let problem = problem.map(ToString::to_string);
    let row = vec![
        Datum::Int(0),
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

fn write_files(out: &mut Vec<u8>, path: &str, host: &str, found: &[FoundSnapshot]) {
    let mut problems = Vec::new();
    for one in found {
        problems.push(one.manifest.as_ref().err().map(ToString::to_string).unwrap_or_default());
    }
    let mut rows = Vec::new();
    for (one, problem) in found.iter().zip(&problems) {
        let manifest = one.manifest.as_ref().ok();
        let partitions = manifest.map_or(0, |manifest| manifest.positions.len());
        for (name, bytes) in &one.present {
            let entry = manifest
                .and_then(|manifest| manifest.files.iter().find(|entry| entry.name == *name));
            let is_manifest = *name == snapshot::manifest_name(&one.nonce);
            let sound = match entry {
                Some(entry) => entry.bytes == *bytes,
                None => is_manifest && manifest.is_some(),
            };
            let table = name
                .strip_suffix("-host_0.csv")
                .and_then(|rest| rest.strip_prefix(one.nonce.as_str())?.strip_prefix('-'));
            let replicated = manifest.is_some_and(|manifest| {
                let mut tables = manifest.tables.iter();
                tables.any(|t| Some(t.name.as_str()) == table && t.kind == TableKind::Replicated)
            });
            rows.push(vec![
                Datum::Int(0),
                Datum::Text(host),
                Datum::Text(path),
                Datum::Text(name),
                Datum::Int(manifest.map_or(0, |manifest| manifest.transaction)),
                Datum::Int(manifest.map_or(0, |manifest| manifest.created_ms)),
                Datum::Text(table.unwrap_or("")),
                yes(sound),
                Datum::Int(*bytes as i64),
                yes(replicated),
                Datum::Text(""),
                Datum::Int(partitions as i64),
                yes(sound),
                Datum::Text(if sound { "SUCCESS" } else { "FAILURE" }),
                Datum::Text(problem),
                Datum::Text(USER_PATH),
            ]);
        }
    }
    write_table(out, SCAN_FILES, &rows);
}
