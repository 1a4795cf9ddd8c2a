//! A host with gigabytes of rows is stopped hard and started again: how long that takes, and how
//! much memory it needs meanwhile. Also how fast a core writes and loads a snapshot.

use crate::host::{self, Cores, Host, HostOptions};
use crate::{Plan, ballast};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// What one recovery came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recovery {
    /// Rows.
    pub rows: f64,
    /// Bytes of their values.
    pub row_bytes: f64,
    /// Memory of the tables and their indexes, as the host states it.
    pub stated_bytes: f64,
    /// The most resident memory of the process that recovered.
    pub peak_bytes: f64,
    /// From its start until it served.
    pub seconds: f64,
}

/// How fast one core was.
#[derive(Debug, Clone, Copy, Default)]
pub struct SnapshotSpeed {
    /// Bytes of the rows' values.
    pub row_bytes: f64,
    /// Seconds from the call to the snapshot's end.
    pub write_s: f64,
    /// Processor time of the host in between.
    pub write_cpu_s: f64,
    /// Seconds of loading, as the host states them.
    pub load_s: f64,
    /// Processor time of the host from its start until it served.
    pub load_cpu_s: f64,
    /// The disk by itself: bytes a second of writing such a file and making it durable.
    pub disk_write_per_s: f64,
    /// And of reading it.
    pub disk_read_per_s: f64,
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

/// Recovers N bytes of rows with a site on each core.
///
/// # Errors
/// A host does not start, or a row is missing.
pub fn recover(plan: &Plan) -> Result<Recovery, String> {
    let directory = plan.folder.join("recovery");
    host::init(plan, &directory, plan.cores as u32)?;
    let given = HostOptions::pinned(Some(&directory));
    let options = HostOptions { durability: "none", cores: Cores::All, ..given };
    let filled = Host::start_with(plan, &options)?;
    let mut connection = filled.connect()?;
    let rows = ballast::fill(&mut connection, &filled.address(), plan.recovery_bytes)?;
    host::save_snapshot(&mut connection, "FULL")?;
    drop((connection, filled));
    host::forget_files(&host::snapshots(&directory))?;
    let host = Host::start_with(plan, &HostOptions { durability: "sync", ..options })?;
    let peak_bytes = host.process().peak_resident_bytes().map_err(text)? as f64;
    let mut connection = host.connect()?;
    ballast::check(&mut connection, rows)?;
    let mut stated_kb = 0.0;
    for name in ["TUPLEALLOCATED", "STRINGMEMORY", "INDEXMEMORY"] {
        stated_kb += host::statistic(&mut connection, "MEMORY", name)?;
    }
    let seconds = host.started_in.as_secs_f64();
    drop(host);
    host::remove(&directory)?;
    Ok(Recovery {
        rows: rows as f64,
        row_bytes: (rows * ballast::ROW_BYTES) as f64,
        stated_bytes: stated_kb * 1024.0,
        peak_bytes,
        seconds,
    })
}

/// Writes and loads a snapshot with one site, on the one core of the servers.
///
/// # Errors
/// A host does not start, or a row is missing.
pub fn snapshot_speed(plan: &Plan) -> Result<SnapshotSpeed, String> {
    let directory = plan.folder.join("speed");
    host::init(plan, &directory, 1)?;
    let options = HostOptions { durability: "none", ..HostOptions::pinned(Some(&directory)) };
    let host = Host::start_with(plan, &options)?;
    let mut connection = host.connect()?;
    let rows = ballast::fill(&mut connection, &host.address(), plan.snapshot_bytes)?;
    let cpu = |host: &Host| host.process().cpu_time().map_err(text);
    let (cpu_before, begun) = (cpu(&host)?, Instant::now());
    host::save_snapshot(&mut connection, "SPEED")?;
    let (write_s, write_cpu_s) = (begun.elapsed(), cpu(&host)? - cpu_before);
    drop((connection, host));
    let folder = host::snapshots(&directory);
    host::forget_files(&folder)?;
    let host = Host::start_with(plan, &options)?;
    let load_cpu_s = cpu(&host)?;
    let load_us = host.recovery_number("/snapshot/load_us")?;
    ballast::check(&mut host.connect()?, rows)?;
    drop(host);
    let (disk_write_per_s, disk_read_per_s) = disk_speed(&folder)?;
    host::remove(&directory)?;
    Ok(SnapshotSpeed {
        row_bytes: (rows * ballast::ROW_BYTES) as f64,
        write_s: write_s.as_secs_f64(),
        write_cpu_s: write_cpu_s.as_secs_f64(),
        load_s: load_us / 1e6,
        load_cpu_s: load_cpu_s.as_secs_f64(),
        disk_write_per_s,
        disk_read_per_s,
    })
}

/// Copies the snapshot's largest file: bytes a second of reading it from the disk, and of writing
/// a copy and making it durable, through the system's memory of files or past it, whichever is
/// faster.
fn disk_speed(folder: &Path) -> Result<(f64, f64), String> {
    host::forget_files(folder)?;
    let files = fs::read_dir(folder).map_err(text)?.flatten();
    let length = |entry: &fs::DirEntry| entry.metadata().map_or(0, |facts| facts.len());
    let largest = files.max_by_key(length).ok_or("the snapshot has no files")?;
    let begun = Instant::now();
    let bytes = fs::read(largest.path()).map_err(text)?;
    let read = begun.elapsed();
    let copy = folder.join("copy");
    let begun = Instant::now();
    fs::write(&copy, &bytes).map_err(text)?;
    fs::File::open(&copy).and_then(|file| file.sync_all()).map_err(text)?;
    let through = begun.elapsed();
    fs::remove_file(&copy).map_err(text)?;
    let past = write_past_memory(&largest.path(), &copy)?;
    let written = past.map_or(through, |past| past.min(through));
    let per_s = |time: Duration| bytes.len() as f64 / time.as_secs_f64().max(1e-9);
    Ok((per_s(written), per_s(read)))
}

/// How long the disk takes to copy a file that is in memory, written past the system's memory of
/// files; `None` if the file system cannot.
fn write_past_memory(from: &Path, to: &Path) -> Result<Option<Duration>, String> {
    let named = |name: &str, path: &Path| {
        let mut argument = std::ffi::OsString::from(name);
        argument.push(path);
        argument
    };
    let begun = Instant::now();
    let mut command = std::process::Command::new("dd");
    command.arg(named("if=", from)).arg(named("of=", to));
    command.args(["bs=1M", "oflag=direct", "conv=fsync", "status=none"]);
    let copied = command.status().map_err(|error| format!("dd (of coreutils): {error}"))?;
    let time = begun.elapsed();
    fs::remove_file(to).map_err(text)?;
    Ok(copied.success().then_some(time))
}
