//! `lockstep snapshot inspect`: what the snapshots of a folder hold, and whether they are sound.
//! Every byte is read, nothing is changed, and a host may run meanwhile.

use crate::output::write_out;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_bench::report::grouped;
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_durability::snapshot::{FoundSnapshot, scan, verify_file};
use lockstep_env::DiskErrorKind;
use lockstep_node::log::RealDisk;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn command() -> Command {
    Command::new("snapshot")
        .about("Inspect the files of snapshots")
        .subcommand_required(true)
        .subcommand(
            Command::new("inspect")
                .about("Report what snapshots hold and whether they are intact; changes nothing")
                .arg(
                    Arg::new("path")
                        .value_name("DIR")
                        .required(true)
                        .value_parser(value_parser!(PathBuf))
                        .help("The directory of a host, or a folder with snapshots"),
                )
                .arg(
                    Arg::new("json")
                        .long("json")
                        .action(ArgAction::SetTrue)
                        .help("Print JSON in place of text"),
                ),
        )
}

pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let Some(("inspect", arguments)) = arguments.subcommand() else {
        unreachable!("a subcommand is required")
    };
    let path = arguments.get_one::<PathBuf>("path").expect("the argument is required");
    let own = path.join(SNAPSHOT_FOLDER);
    let folder = if own.is_dir() { own.as_path() } else { path.as_path() };
    let reports = inspect(folder)?;
    let text = match arguments.get_flag("json") {
        true => format!("{}\n", Value::Array(reports.iter().map(Report::to_json).collect())),
        false if reports.is_empty() => format!("{}: no snapshots\n", folder.display()),
        false => reports.iter().map(Report::to_text).collect(),
    };
    write_out(&text)?;
    let is_sound = reports.iter().all(|report| report.problems.is_empty());
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A snapshot with what is wrong with it.
struct Report {
    found: FoundSnapshot,
    problems: Vec<String>,
}

fn inspect(folder: &Path) -> Result<Vec<Report>, String> {
    let disk = RealDisk::new(folder);
    let found = scan(&disk, "").map_err(|error| error.to_string())?;
    let report = |found: FoundSnapshot| {
        let problems = match &found.manifest {
            Ok(manifest) => manifest
                .files
                .iter()
                .filter_map(|file| verify_file(&disk, "", file).err())
                .map(|error| error.to_string())
                .collect(),
            // While it is written it has none.
            Err(error) if error.disk == Some(DiskErrorKind::NotFound) => {
                vec!["it has no manifest: it was not finished, or is being written".to_string()]
            }
            Err(error) => vec![error.to_string()],
        };
        Report { found, problems }
    };
    Ok(found.into_iter().map(report).collect())
}

impl Report {
    fn to_text(&self) -> String {
        let mut text = format!("{}: {} bytes", self.found.nonce, grouped(self.found.bytes()));
        if let Ok(manifest) = &self.found.manifest {
            let _ = writeln!(
                text,
                ", {} partitions, {}, cluster {}, transaction {}",
                manifest.positions.len(),
                manifest.content.word(),
                manifest.cluster,
                manifest.transaction
            );
            for table in &manifest.tables {
                let (name, kind, rows) = (&table.name, table.kind.word(), grouped(table.rows));
                let _ = writeln!(text, "  {name}: {rows} rows, {kind}");
            }
            let lacked: Vec<u32> = manifest.lacked_partitions().collect();
            for (partition, position) in (0..).zip(&manifest.positions) {
                let _ = match lacked.contains(&partition) {
                    true => writeln!(text, "  partition {partition}: saved by another host"),
                    false => {
                        let sequence = grouped(position.sequence);
                        writeln!(text, "  partition {partition}: up to log entry {sequence}")
                    }
                };
            }
        } else {
            text.push('\n');
        }
        for problem in &self.problems {
            let _ = writeln!(text, "  damaged: {problem}");
        }
        if self.problems.is_empty() {
            text.push_str("  sound\n");
        }
        text
    }

    fn to_json(&self) -> Value {
        let manifest = self.found.manifest.as_ref().ok().map(|manifest| {
            let tables = manifest.tables.iter().map(|table| {
                json!({ "name": table.name, "kind": table.kind.word(), "rows": table.rows })
            });
            let positions = manifest.positions.iter().map(|position| position.sequence);
            let files = manifest.files.iter();
            json!({
                "cluster": manifest.cluster.to_string(),
                "content": manifest.content.word(),
                "transaction": manifest.transaction,
                "created_ms": manifest.created_ms,
                "catalog_version": manifest.catalog_version,
                "log_entries": positions.collect::<Vec<_>>(),
                "tables": tables.collect::<Vec<_>>(),
                "files": files.map(|file| json!({ "name": file.name, "bytes": file.bytes }))
                    .collect::<Vec<_>>(),
            })
        });
        json!({
            "nonce": self.found.nonce,
            "bytes": self.found.bytes(),
            "sound": self.problems.is_empty(),
            "problems": self.problems,
            "manifest": manifest,
        })
    }
}
