//! `lockstep restore`: brings a host's directory to a point of its past, from a snapshot and the
//! log after it, and takes that back.

use crate::output::write_out;
use crate::{Procedures, recovery, start};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use lockstep_bench::report::grouped;
use lockstep_node::log::{Durability, directory};
use lockstep_node::options::Options;
use lockstep_node::recovery::{
    PointTarget, RestoreSettings, RestoreSummary, UndoneRestore, restore, undo_restore,
};
use lockstep_types::{TransactionId, timestamp};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

pub fn command() -> Command {
    Command::new("restore")
        .about("Point-in-time recovery of a directory; files of later times are set aside")
        .long_about(
            "Restore the directory of a stopped host to a point in time: the newest snapshot \
             before it, and the command log after that, up to the point in time. A transaction is \
             restored wholly or not at all. Files of later times are moved into a folder of the \
             directory, and --undo moves them back; `lockstep start` continues from the point in \
             time.",
        )
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The directory of the host"),
        )
        .arg(
            Arg::new("until")
                .long("until")
                .value_name("TIME")
                .value_parser(parse_time)
                .help("The last moment that is restored, UTC: \"2026-01-31 12:00:00.000\""),
        )
        .arg(
            Arg::new("until-transaction")
                .long("until-transaction")
                .value_name("ID")
                .value_parser(value_parser!(i64).range(1..))
                .help("The last transaction that is restored, as getUniqueId() gives it"),
        )
        .arg(
            Arg::new("undo")
                .long("undo")
                .value_name("FOLDER")
                .help("Undo a restore: the folder that it named"),
        )
        .group(ArgGroup::new("what").args(["until", "until-transaction", "undo"]).required(true))
        .arg(
            Arg::new("option")
                .long("option")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("Set a limit or option, as for `lockstep start`"),
        )
        .arg(
            Arg::new("java-option")
                .long("java-option")
                .value_name("OPTION")
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
                .help("An option for the JVM of Java procedures, such as -Xlog:gc"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Report what was done as JSON"),
        )
}

/// A time as milliseconds since 1970.
fn parse_time(text: &str) -> Result<i64, String> {
    let micros = timestamp::parse(text.trim());
    micros.map(|micros| micros.div_euclid(1000)).ok_or_else(|| {
        "not a time like \"2026-01-31 12:00:00.000\" or \"2026-01-31\", in UTC".to_string()
    })
}

pub fn run(arguments: &ArgMatches, procedures: Procedures) -> Result<ExitCode, String> {
    let began = Instant::now();
    let path = arguments.get_one::<PathBuf>("dir").expect("the argument is required");
    let mut options = Options::default();
    for setting in arguments.get_many::<String>("option").into_iter().flatten() {
        options.set(setting).map_err(|error| error.to_string())?;
    }
    // Nothing is logged: this host serves nobody.
    let data = directory::open(path, Durability::None).map_err(|error| error.to_string())?;
    let is_json = arguments.get_flag("json");
    if let Some(folder) = arguments.get_one::<String>("undo") {
        let name = Path::new(folder).file_name().and_then(|name| name.to_str());
        let taken = undo_restore(&data, name.unwrap_or(folder))?;
        let text = match is_json {
            true => format!("{}\n", undone_as_json(&taken)),
            false => undone_text(&taken, path),
        };
        write_out(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let time = arguments.get_one::<i64>("until").copied().map(PointTarget::Time);
    let id = arguments.get_one::<i64>("until-transaction");
    let id = id.map(|id| PointTarget::Transaction(TransactionId(*id as u64)));
    let target = time.or(id).expect("one of them is required");
    let java_options: Vec<String> =
        arguments.get_many("java-option").into_iter().flatten().cloned().collect();
    let natives = start::natives(procedures);
    let settings = RestoreSettings {
        data: &data,
        natives: &natives,
        options: &options,
        java_options: &java_options,
    };
    let line = recovery::ProgressLine::show(Some(Arc::clone(&data.progress)));
    let restored = restore(&settings, target);
    drop(line);
    let restored = restored?;
    let seconds = began.elapsed().as_secs_f64();
    let text = match is_json {
        true => format!("{}\n", as_json(&restored, seconds)),
        false => describe(&restored, seconds, path),
    };
    write_out(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A transaction with its time, for people.
fn transaction(id: Option<TransactionId>) -> String {
    id.map_or("none".to_string(), |id| format!("{} of {}", id.0, time(id)))
}

fn time(id: TransactionId) -> String {
    let mut text = timestamp::format(id.time_ms().saturating_mul(1000));
    text.truncate(text.len() - 3);
    text
}

fn describe(restored: &RestoreSummary, seconds: f64, path: &Path) -> String {
    let RestoreSummary { recovery, point, nonce, set_aside, snapshots_set_aside, .. } = restored;
    let from = recovery.snapshot.as_ref().map_or("the beginning".to_string(), |snapshot| {
        format!("snapshot {} with {} rows", snapshot.nonce, grouped(snapshot.rows))
    });
    let shown = path.display();
    let mut text = format!(
        "lockstep: restored {shown} in {seconds:.1} s: {from}, {} log entries replayed\n\
         lockstep: the last transaction restored is {}; the next, {}, and all after it are left \
         out ({} log entries)\n\
         lockstep: the directory goes on with snapshot {nonce}; the log and {snapshots_set_aside} \
         later snapshot{} are set aside in {}\n\
         lockstep: `lockstep start --dir {shown}` goes on from here, `lockstep restore --dir \
         {shown} --undo {set_aside}` undoes it\n",
        grouped(recovery.replayed),
        transaction(point.last),
        transaction(point.next),
        grouped(point.entries_behind),
        if *snapshots_set_aside == 1 { "" } else { "s" },
        path.join(set_aside).display()
    );
    for problem in &recovery.passed_over {
        text.push_str(&format!("lockstep: a newer snapshot was not used: {problem}\n"));
    }
    for index in &restored.indexes_left_out {
        text.push_str(&format!(
            "lockstep: the global index {index} was being built at that point, and is left out: \
             create it again\n"
        ));
    }
    text
}

fn as_json(restored: &RestoreSummary, seconds: f64) -> Value {
    let id_of = |id: Option<TransactionId>| {
        id.map(|id| json!({ "transaction": id.0, "time": time(id), "time_ms": id.time_ms() }))
    };
    let mut value = recovery::as_json(&restored.recovery);
    value["restore"] = json!({
        "seconds": seconds,
        "last": id_of(restored.point.last),
        "next": id_of(restored.point.next),
        "entries_left_out": restored.point.entries_behind,
        "snapshot": restored.nonce,
        "snapshot_bytes": restored.bytes,
        "set_aside": restored.set_aside,
        "snapshots_set_aside": restored.snapshots_set_aside,
        "indexes_left_out": restored.indexes_left_out,
    });
    value
}

fn undone_text(taken: &UndoneRestore, path: &Path) -> String {
    let shown = path.display();
    format!(
        "lockstep: {} files are back in {shown}; what was there instead is set aside in {}\n\
         lockstep: `lockstep start --dir {shown}` goes on from here, `lockstep restore --dir \
         {shown} --undo {}` undoes it\n",
        grouped(taken.files as u64),
        path.join(&taken.set_aside).display(),
        taken.set_aside
    )
}

fn undone_as_json(taken: &UndoneRestore) -> Value {
    json!({ "taken_back": { "files": taken.files, "set_aside": taken.set_aside } })
}
