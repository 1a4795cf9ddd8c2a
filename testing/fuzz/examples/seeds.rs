//! Writes the inputs that fuzzing starts from to `corpus/<target>`, out of the records in the
//! repository's `corpus/`. Run it before a first run, and after records changed.

use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{
    FOLDER, LogEnd, LogSettings, LogWriter, SEGMENT_BYTES_MIN, file_name,
};
use lockstep_env::memory::MemoryDisk;
use lockstep_env::{Disk, OpenMode};
use lockstep_fuzz::LOG_CLUSTER;
use lockstep_txn::log_entry::LogSource;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Targets with the record files that make their seeds.
const SEEDS: &[(&str, &[&str])] = &[
    ("wire_request", &["login", "invocations"]),
    ("wire_response", &["responses"]),
    ("table_view", &["tables"]),
    ("log_entry", &["log_entries"]),
    ("link", &["link"]),
];

/// Without the line of the checksum, which the target adds.
const CLUSTER_FILE: &str = "LockstepDB cluster\nformat 1\n\
    cluster 07070707070707070707070707070707\npartitions 2\ncreated_ms 1795244523000\n";

/// Likewise; the first byte says what it is.
const MANIFEST: &str = "1LockstepDB snapshot\nformat 1\n\
    cluster 07070707070707070707070707070707\nnonce N\ncontent native\ntransaction 7\n\
    created_ms 1795244523000\ncatalog_version 3\nplanning 00ff\npartitions 1\n\
    position 0 1 12\ntable T partitioned 3\nfile N-host_0-site_0.rows 120 0badcafe\n\
    schema 34\nCREATE TABLE t (a BIGINT NOT NULL);\n";

fn main() -> io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (target, files) in SEEDS {
        let folder = here.join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        for file in *files {
            let text = fs::read_to_string(here.join(format!("../../corpus/wire/{file}.txt")))?;
            for (number, bytes) in records(&text).into_iter().enumerate() {
                fs::write(folder.join(format!("{file}-{number}")), bytes)?;
            }
        }
    }
    let folder = here.join("corpus/command_log");
    fs::create_dir_all(&folder)?;
    for groups in [0, 1, 3] {
        let bytes = command_log(groups).map_err(io::Error::other)?;
        // What follows the blocks is zeros; a few are enough.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        fs::write(folder.join(format!("groups-{groups}")), &bytes[..bytes.len().min(used + 64)])?;
        fs::write(folder.join(format!("whole-{groups}")), bytes)?;
    }
    for (target, text) in [("cluster_file", CLUSTER_FILE), ("snapshot", MANIFEST)] {
        let folder = here.join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("text"), text)?;
    }
    let folder = here.join("corpus/message");
    fs::create_dir_all(&folder)?;
    for (number, bytes) in lockstep_fuzz::messages::samples().into_iter().enumerate() {
        fs::write(folder.join(format!("sample-{number}")), bytes)?;
    }
    for target in ["sql_parse", "sql_bind"] {
        let folder = here.join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        for (number, statement) in statements(&here.join("../../corpus/slt"))?.iter().enumerate() {
            fs::write(folder.join(format!("slt-{number}")), statement)?;
        }
    }
    Ok(())
}

/// The only segment of a log with N group commits of two partitions.
fn command_log(groups: u64) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    let disk = MemoryDisk::new();
    disk.create_folder(FOLDER)?;
    let cluster = ClusterId(LOG_CLUSTER);
    let settings = LogSettings { cluster, segment_bytes: SEGMENT_BYTES_MIN, seed: 1 };
    let mut writer = LogWriter::open(Arc::new(disk.clone()), settings, LogEnd::default())?;
    let source = LogSource::of_run(1);
    for group in 0..groups {
        writer.add(0, source, group + 1, 1, &[1; 21]);
        writer.add(1, source, group * 2 + 1, 2, &[2; 40]);
        writer.write()?;
        writer.sync()?;
    }
    writer.seal()?;
    let file = disk.open(&file_name(1), OpenMode::Read)?;
    let mut bytes = vec![0; file.length()? as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The SQL of every record of the SQL corpus.
fn statements(folder: &Path) -> io::Result<Vec<String>> {
    let mut statements = Vec::new();
    for entry in fs::read_dir(folder)? {
        let text = fs::read_to_string(entry?.path())?;
        for record in text.split("\n\n") {
            let lines = record.lines().skip_while(|line| {
                ["#", "skipif", "onlyif", "statement", "query"].iter().any(|w| line.starts_with(w))
            });
            let sql: Vec<&str> = lines.take_while(|line| *line != "----").collect();
            statements.push(sql.join("\n"));
        }
    }
    Ok(statements)
}

/// The bytes of each record: its indented lines, up to the meaning after `=`.
fn records(text: &str) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut digits = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(hex) = line.strip_prefix("  ") {
            digits.extend(hex.chars().filter(|c| !c.is_whitespace()));
        } else if line.starts_with('=') {
            let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).ok();
            records.push((0..digits.len()).step_by(2).filter_map(byte).collect());
            digits.clear();
        }
    }
    records
}
