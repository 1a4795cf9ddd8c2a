//! `lockstep log inspect`: what the files of a command log hold, and whether they are sound.
//! Nothing is changed, and a host may run meanwhile.

use crate::output::write_out;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_durability::command_log::{FOLDER, LogEnd, LogError, LogReader};
use lockstep_durability::directory::ClusterFile;
use lockstep_env::Disk;
use lockstep_node::log::RealDisk;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

pub fn command() -> Command {
    Command::new("log")
        .about("Inspect the command log of a host")
        .subcommand_required(true)
        .subcommand(
            Command::new("inspect")
                .about("Report what a command log holds and whether it is intact; changes nothing")
                .arg(
                    Arg::new("path")
                        .value_name("DIR|FILE")
                        .required(true)
                        .value_parser(value_parser!(PathBuf))
                        .help("The directory of a host, or one file of its log"),
                )
                .arg(
                    Arg::new("json")
                        .long("json")
                        .action(ArgAction::SetTrue)
                        .help("Print JSON in place of tables"),
                ),
        )
}

pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let Some(("inspect", arguments)) = arguments.subcommand() else {
        unreachable!("a subcommand is required")
    };
    let path = arguments.get_one::<PathBuf>("path").expect("the argument is required");
    let report = inspect(path)?;
    let text = match arguments.get_flag("json") {
        true => format!("{}\n", report.to_json()),
        false => report.to_text(),
    };
    write_out(&text)?;
    Ok(if report.damage.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What one partition has in one segment.
#[derive(Debug, Clone, Copy, Default)]
struct PartitionPart {
    blocks: u64,
    entries: u64,
    bytes: u64,
    first: u64,
    last: u64,
}

/// What was found.
struct Report {
    cluster: ClusterFile,
    /// Only this segment was asked for.
    only: Option<u32>,
    end: LogEnd,
    parts: BTreeMap<(u32, u32), PartitionPart>,
    damage: Option<LogError>,
}

fn inspect(path: &Path) -> Result<Report, String> {
    let (root, only) = locate(path)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(&root));
    let cluster = ClusterFile::read(&*disk).map_err(|error| error.to_string())?;
    let Some(cluster) = cluster else {
        return Err(format!("{} is not the directory of a host", root.display()));
    };
    let mut report =
        Report { cluster, only, end: LogEnd::default(), parts: BTreeMap::new(), damage: None };
    match LogReader::open(disk, cluster.cluster) {
        Ok(reader) => report.read(reader),
        Err(error) => report.damage = Some(error),
    }
    Ok(report)
}

/// The host's directory, and the number of the segment if a file was named.
fn locate(path: &Path) -> Result<(PathBuf, Option<u32>), String> {
    if path.is_dir() {
        return Ok((path.to_path_buf(), None));
    }
    let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|s| s.parse().ok());
    let folder = path.parent().filter(|folder| folder.ends_with(FOLDER));
    match (path.is_file(), folder.and_then(Path::parent), number) {
        (true, Some(root), Some(number)) => {
            let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
            Ok((root.to_path_buf(), Some(number)))
        }
        _ => Err(format!(
            "{} is neither the directory of a host nor a file DIR/{FOLDER}/NNNNNNNN.log",
            path.display()
        )),
    }
}

impl Report {
    fn read(&mut self, mut reader: LogReader) {
        loop {
            match reader.next_block() {
                Ok(None) => break,
                Err(error) => {
                    self.damage = Some(error);
                    break;
                }
                Ok(Some(block)) => {
                    let key = (block.position.segment, block.partition);
                    let part = self.parts.entry(key).or_default();
                    if part.blocks == 0 {
                        part.first = block.first_sequence;
                    }
                    part.last = block.first_sequence + u64::from(block.entries) - 1;
                    part.blocks += 1;
                    part.entries += u64::from(block.entries);
                    part.bytes += block.body.len() as u64;
                }
            }
        }
        self.end = reader.into_end();
    }

    fn segments(&self) -> impl Iterator<Item = &lockstep_durability::command_log::SegmentSummary> {
        let wanted = |number: u32| self.only.is_none_or(|only| only == number);
        self.end.segments.iter().filter(move |segment| wanted(segment.number))
    }

    fn parts_of(&self, segment: u32) -> impl Iterator<Item = (u32, &PartitionPart)> {
        let all = self.parts.range((segment, 0)..=(segment, u32::MAX));
        all.map(|((_, partition), part)| (*partition, part))
    }

    /// A line with the releases that wrote the segments.
    fn releases(&self) -> String {
        let mut releases: Vec<&str> = self
            .segments()
            .map(|segment| segment.release.as_deref().unwrap_or("unknown (format 1)"))
            .collect();
        releases.dedup();
        match releases.is_empty() {
            true => String::new(),
            false => format!("written by release {}\n", releases.join(", ")),
        }
    }

    /// The verdict in a sentence.
    fn verdict(&self) -> String {
        match (&self.damage, &self.end.torn) {
            (Some(damage), _) => format!("damaged: {damage}"),
            (None, Some(torn)) => format!(
                "sound; {} ends in a group that was never known to be durable, at byte {}",
                torn.file, torn.offset
            ),
            (None, None) => "sound".to_string(),
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "cluster {}, {} partition{}\n{}\n",
            self.cluster.cluster,
            self.cluster.partition_count,
            if self.cluster.partition_count == 1 { "" } else { "s" },
            self.releases()
        );
        let mut rows = vec![
            ["segment", "used bytes", "partition", "blocks", "entries", "from", "to", "bytes"]
                .map(String::from),
        ];
        for segment in self.segments() {
            let name = format!("{:08}.log", segment.number);
            let mut first = [name, segment.end.to_string()];
            for (partition, part) in self.parts_of(segment.number) {
                let [name, used] = std::mem::take(&mut first);
                let numbers = [part.blocks, part.entries, part.first, part.last, part.bytes];
                let [blocks, entries, from, to, bytes] = numbers.map(|n| n.to_string());
                let partition = partition.to_string();
                rows.push([name, used, partition, blocks, entries, from, to, bytes]);
            }
            if !first[0].is_empty() {
                let [name, used] = first;
                let none = String::new;
                rows.push([name, used, "none".into(), none(), none(), none(), none(), none()]);
            }
        }
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: [usize; 8] = std::array::from_fn(width);
        for row in &rows {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text.push_str(&format!("\n{}\n", self.verdict()));
        text
    }

    fn to_json(&self) -> Value {
        let part = |(partition, part): (u32, &PartitionPart)| {
            json!({
                "partition": partition, "blocks": part.blocks, "entries": part.entries,
                "first_sequence": part.first, "last_sequence": part.last, "bytes": part.bytes,
            })
        };
        let segments: Vec<Value> = self
            .segments()
            .map(|segment| {
                json!({
                    "segment": segment.number, "length_bytes": segment.length,
                    "used_bytes": segment.end, "release": segment.release,
                    "partitions": self.parts_of(segment.number).map(part).collect::<Vec<_>>(),
                })
            })
            .collect();
        let torn = self.end.torn.as_ref();
        let damage = self.damage.as_ref();
        json!({
            "cluster": self.cluster.cluster.to_string(),
            "partitions": self.cluster.partition_count,
            "sound": damage.is_none(),
            "segments": segments,
            "torn": torn.map(|torn| json!({ "file": torn.file, "offset": torn.offset })),
            "damage": damage.map(|damage| json!({
                "file": damage.file, "offset": damage.offset, "problem": damage.problem,
                "remedy": damage.remedy,
            })),
        })
    }
}
