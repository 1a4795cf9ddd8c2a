//! Somebody who takes snapshots of a host all the time, in every way, and deletes old ones.

use super::client::sql_text;
use lockstep_client::Connection;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Refusals that are right: another snapshot is in progress, or the host is about to end.
const REFUSALS: &[&str] = &["SNAPSHOT IN PROGRESS", "was given up"];

/// How many were asked for since the oldest that may stay. All would fill the disk, and a power
/// cut takes as long as there are files.
const KEPT: u64 = 12;

/// Takes snapshots until the host is gone, in round after round.
pub struct Operator {
    /// The directory of the host.
    directory: PathBuf,
    /// Where snapshots go that are not for the host itself.
    elsewhere: PathBuf,
    /// Snapshots that were asked for.
    asked: AtomicU64,
    /// Snapshots of which it was said that they are saved.
    saved: AtomicU64,
}

impl Operator {
    pub fn new(directory: &Path) -> Operator {
        let mut elsewhere = directory.as_os_str().to_os_string();
        elsewhere.push("-elsewhere");
        Operator {
            directory: directory.to_path_buf(),
            elsewhere: PathBuf::from(elsewhere),
            asked: AtomicU64::new(0),
            saved: AtomicU64::new(0),
        }
    }

    /// Snapshots of which it was said that they are saved.
    pub fn saved(&self) -> u64 {
        self.saved.load(Ordering::SeqCst)
    }

    /// Takes snapshots until the host is gone.
    pub fn run(&self, mut connection: Connection) {
        while self.act(&mut connection).is_some() {}
    }

    /// One snapshot, and an older one less; `None` once the host is gone.
    fn act(&self, connection: &mut Connection) -> Option<()> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let elsewhere = self.elsewhere.to_str().expect("a path of text");
        let (path, format) = match number % 4 {
            0 | 2 => ("", "native"),
            1 => (elsewhere, "csv"),
            _ => (elsewhere, "native"),
        };
        let request = format!(
            "{{\"path\":\"{path}\",\"nonce\":\"ASKED{number}\",\"format\":\"{format}\",\
             \"block\":{}}}",
            number % 8 != 2
        );
        let answer = connection.call("@SnapshotSave", &sql_text(&request)).ok()?;
        let said = format!("{:?} {:?}", answer.view().status_text, answer.tables());
        if said.contains("SUCCESS") {
            self.saved.fetch_add(1, Ordering::SeqCst);
        } else {
            let known = REFUSALS.iter().any(|refusal| said.contains(refusal));
            assert!(known, "snapshot {number}: {said}");
        }
        if number % 4 == 3 {
            let own = self.directory.join("snapshots");
            self.delete(connection, own.to_str().expect("text"), number - 3)?;
            self.delete(connection, elsewhere, number - 2)?;
            self.delete(connection, elsewhere, number)?;
            for folder in [&own, &self.elsewhere] {
                for old in asked_before(folder, number.saturating_sub(KEPT)) {
                    self.delete(connection, folder.to_str().expect("text"), old)?;
                }
            }
        }
        Some(())
    }

    /// Deletes a snapshot, or what there is of it.
    fn delete(&self, connection: &mut Connection, path: &str, number: u64) -> Option<()> {
        let nonce = format!("ASKED{number}");
        let mut parameters = ParameterWriter::default();
        parameters.array(SqlType::Varchar, &[Datum::Text(path)]);
        parameters.array(SqlType::Varchar, &[Datum::Text(&nonce)]);
        connection.call("@SnapshotDelete", &parameters).ok().map(drop)
    }

    /// Removes what was saved elsewhere.
    pub fn clear(&self) {
        let _ = std::fs::remove_dir_all(&self.elsewhere);
    }
}

/// Numbers below this one of which a folder still has files.
fn asked_before(folder: &Path, number: u64) -> BTreeSet<u64> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeSet::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let asked = names.filter_map(|name| {
        let digits = name.strip_prefix("ASKED")?.split('-').next()?.parse::<u64>().ok()?;
        (digits < number).then_some(digits)
    });
    asked.collect()
}
