//! Point-in-time recovery of a host's directory: the newest snapshot before the point in time and
//! the log after that, up to the point in time.
//!
//! The result is saved as a snapshot, with which the directory continues; the log, and snapshots
//! of later times, are moved into a folder of the directory, from where [`undo_restore`] moves
//! them back. Until the new snapshot is durable nothing is changed. From then on the next process
//! that opens the directory completes the moves, if this one is stopped among them
//! ([`lockstep_durability::switch`]).

use super::disk::{Recovered, RecoverySummary, directory_log, recover};
use super::{HostState, ReplaySettings, carry_out};
use crate::catalog::{HostCatalog, NativeRegistry, java_settings};
use crate::classes;
use crate::clock;
use crate::control::change::ChangeSettings;
use crate::log::Data;
use crate::log::directory::random_bits;
use crate::mailbox::Bell;
use crate::options::Options;
use crate::snapshot::lane::{LaneLimits, SiteLane, lane};
use crate::snapshot::save::{SaveJob, run, snapshot_start};
use crate::snapshot::{SaveResult, Saved};
use lockstep_durability::directory::{DirectoryError, SNAPSHOT_FOLDER};
use lockstep_durability::recovery::{
    PassEnd, Point, PointFinder, PointTarget, RecoveryLog, Replaced, candidates,
};
use lockstep_durability::snapshot::{ContentKind, FoundSnapshot, remove, saved_transaction, scan};
use lockstep_durability::switch::{self, SET_ASIDE_PREFIX, Switch};
use lockstep_durability::{ClusterId, command_log};
use lockstep_env::{Disk, OpenMode};
use lockstep_host::schema::change::{CatalogChange, prepare_change};
use lockstep_host::schema::codec::encode_saved_planning;
use lockstep_site::{SchemaTask, Site};
use lockstep_txn::TransactionClock;
use lockstep_types::{HashRing, PartitionId, TransactionId, timestamp};
use mio::{Events, Poll, Token, Waker};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What the snapshot of a restored point is called, before its time.
pub(crate) const RESTORED_PREFIX: &str = "RESTORED";
/// Where that is written, in the folder of what is set aside.
const STAGING: &str = "restored";
/// Says in that folder where the two pasts part: snapshots up to there belong to both.
const POINT_FILE: &str = "point";
const POINT_LINE: &str = "LockstepDB point, time key ";
/// How long the thread that encodes sleeps when nobody wakes it.
const PATIENCE: Duration = Duration::from_millis(100);

/// The sites of a host that serves nobody.
type QuietSite = Site<(), (), Arc<HostCatalog>>;

/// What a restore is done with.
pub struct RestoreSettings<'a> {
    /// The directory, opened and locked.
    pub data: &'a Data,
    /// What `FROM NATIVE` finds.
    pub natives: &'a NativeRegistry,
    /// The options of the host.
    pub options: &'a Options,
    /// Options for the JVM of Java procedures.
    pub java_options: &'a [String],
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreSummary {
    /// How the state was made.
    pub recovery: RecoverySummary,
    /// The point.
    pub point: Point,
    /// The snapshot that the directory goes on with.
    pub nonce: String,
    /// Its bytes.
    pub bytes: u64,
    /// The folder with what was there before, in the directory.
    pub set_aside: String,
    /// Snapshots of times after the point that are in it.
    pub snapshots_set_aside: usize,
    /// Global indexes that were being built at the point: they are not there.
    pub indexes_left_out: Vec<String>,
}

/// What taking a restore back did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoneRestore {
    /// The folder with what was there instead, in the directory.
    pub set_aside: String,
    /// Files that are back.
    pub files: usize,
}

/// Brings a directory to a point of its past. See the module.
///
/// # Errors
/// The text for the user: the point is not between the oldest snapshot and the end of the log,
/// a file is damaged, or the disk is full. Nothing was changed then.
pub fn restore(
    settings: &RestoreSettings<'_>,
    target: PointTarget,
) -> Result<RestoreSummary, String> {
    let RestoreSettings { data, natives, options, java_options } = settings;
    let partitions = data.cluster.partition_count;
    if let Some(several) = data.cluster.several {
        return Err(format!(
            "{} is of one of {} hosts, and only directories of hosts that are alone can be \
             restored in this release",
            data.disk.shown(""),
            several.hosts
        ));
    }
    let log = directory_log(data);
    let point = find_point(&log, partitions as usize, target)?;
    check_reach(&log, partitions, &point, target)?;
    let ring = HashRing::new(partitions);
    let replay = ReplaySettings {
        natives,
        options,
        java: java_settings(options, java_options),
        ring: &ring,
        progress: &data.progress.replayed,
        own: None,
    };
    let log = RecoveryLog { until: Some(&point), ..log };
    let recovered = recover::<(), ()>(&log, &replay, &data.progress, None)?;
    let Recovered { mut state, mut last_multi, end, summary, .. } = recovered;
    let indexes_left_out = take_builds_away(&mut state, &mut last_multi, &replay)?;
    let set_aside = new_folder(&*data.disk)?;
    write_point(&*data.disk, &set_aside, point.limit_key)?;
    let nonce = format!("{RESTORED_PREFIX}{}", clock::now_us() / 1000);
    let staging = format!("{set_aside}/{STAGING}");
    let place = Place { disk: &data.disk, cluster: log.cluster, folder: &staging, nonce: &nonce };
    let switched = place.save(state, last_multi, &replay).and_then(|saved| {
        let mut switch = Switch { log_behind: Some(end.position.segment), ..Switch::default() };
        let snapshots = plan(&*data.disk, &mut switch, &point, &set_aside, &log, partitions);
        let snapshots = snapshots.map_err(|error| error.to_string())?;
        switch.decide(&*data.disk).map_err(|error| error.to_string())?;
        Ok((saved, snapshots))
    });
    let (saved, snapshots_set_aside) = switched.inspect_err(|_| {
        // Nobody has heard of it, and it only takes up room; unless the list was written after all.
        if data.disk.open(switch::SWITCH_FILE, OpenMode::Read).is_ok() {
            return;
        }
        let _ = remove(&*data.disk, &staging, &nonce);
        let _ = data.disk.remove_folder(&staging);
        let _ = data.disk.remove(&format!("{set_aside}/{POINT_FILE}"));
        let _ = data.disk.remove_folder(&set_aside);
    })?;
    carry_out_switch(data)?;
    let _ = data.disk.remove_folder(&staging);
    let bytes = saved.bytes;
    Ok(RestoreSummary {
        recovery: summary,
        point,
        nonce,
        bytes,
        set_aside,
        snapshots_set_aside,
        indexes_left_out,
    })
}

/// Takes away the global indexes that were being built at the point: nobody had been told then
/// that they are there. `last` is the coordinator's last transaction id, and grows.
fn take_builds_away(
    state: &mut HostState<(), ()>,
    last: &mut TransactionId,
    settings: &ReplaySettings<'_>,
) -> Result<Vec<String>, String> {
    let change_settings = ChangeSettings {
        natives: settings.natives.clone(),
        java: settings.java.clone(),
        limits: settings.options.sql_limits(),
        initialize_classes: false,
    };
    let mut taken_away = Vec::new();
    loop {
        let build = state.catalog.plan.builds().next();
        let Some(build) = build else { return Ok(taken_away) };
        let change = CatalogChange::EndIndex { index: &build.index, keep: false };
        let planning = state.catalog.plan.planning.clone();
        let made = prepare_change(&state.catalog, &change_settings, change, &planning);
        let task = made.map_err(|failure| failure.message)?.task;
        let catalog = Arc::clone(&task.catalog);
        let now_us = clock::now_us();
        let mut sites: Vec<&mut QuietSite> = state.sites.iter_mut().collect();
        carry_out(&mut sites, task, now_us, Some(*last), settings)?;
        // The id that it had.
        let mut ids = TransactionClock::new(PartitionId::MULTI);
        ids.advance_past(*last);
        *last = ids.next(now_us / 1000);
        state.catalog = catalog;
        taken_away.push(build.index);
    }
}

/// Gives a directory back what a restore had set aside in a folder; what it has now is set aside
/// in turn.
///
/// # Errors
/// The text for the user: there is no such folder, or the disk failed.
pub fn undo_restore(data: &Data, folder: &str) -> Result<UndoneRestore, String> {
    let (disk, folder) = (&*data.disk, folder.trim_end_matches('/'));
    let known = switch::set_aside(disk).map_err(|error| error.to_string())?;
    if !known.iter().any(|name| name == folder) {
        let known = match known.as_slice() {
            [] => "there is none".to_string(),
            names => format!("there are {}", names.join(", ")),
        };
        return Err(format!(
            "{folder} is no folder of {} with what a restore set aside: {known}",
            disk.shown("")
        ));
    }
    let limit_key = read_point(disk, folder)?;
    let set_aside = new_folder(disk)?;
    write_point(disk, &set_aside, limit_key)?;
    let mut switch = Switch::default();
    let mut planned = || -> Result<(), DirectoryError> {
        let log_aside = format!("{set_aside}/{}", command_log::FOLDER);
        switch.add_folder(disk, (command_log::FOLDER, &log_aside), |_| true)?;
        let later = saved_behind(disk, limit_key)?;
        let snapshots_aside = format!("{set_aside}/{SNAPSHOT_FOLDER}");
        let is_later = |name: &str| later.contains(name);
        switch.add_folder(disk, (SNAPSHOT_FOLDER, &snapshots_aside), is_later)?;
        let away = switch.moves.len();
        for kept in [command_log::FOLDER, SNAPSHOT_FOLDER] {
            let from = format!("{folder}/{kept}");
            if disk.list(folder)?.iter().any(|name| name == kept) {
                switch.add_folder(disk, (&from, kept), |_| true)?;
            }
        }
        let back = switch.moves.len() - away;
        if back == 0 {
            let shown = disk.shown(folder);
            return Err(DirectoryError(format!("{shown} is empty: the restore was undone before")));
        }
        switch.decide(disk)
    };
    planned().map_err(|error| {
        let _ = disk.remove(&format!("{set_aside}/{POINT_FILE}"));
        let _ = disk.remove_folder(&set_aside);
        error.to_string()
    })?;
    let files = switch.moves.iter().filter(|(from, _)| from.starts_with(folder)).count();
    carry_out_switch(data)?;
    for emptied in [command_log::FOLDER, SNAPSHOT_FOLDER] {
        let _ = disk.remove_folder(&format!("{folder}/{emptied}"));
    }
    let _ = disk.remove(&format!("{folder}/{POINT_FILE}"));
    let _ = disk.remove_folder(folder);
    Ok(UndoneRestore { set_aside, files })
}

/// Looks for the point in the log.
fn find_point(
    log: &RecoveryLog<'_>,
    partitions: usize,
    target: PointTarget,
) -> Result<Point, String> {
    let replaced = Replaced::find(log.open()?).map_err(|error| error.to_string())?;
    let mut finder = PointFinder::new(target, partitions, replaced);
    let point = loop {
        let mut reader = log.open()?;
        while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
            if block.partition as usize >= partitions {
                let (found, shown) = (block.partition, log.disk.shown(command_log::FOLDER));
                return Err(format!(
                    "{shown} has entries of partition {found}, and the host has {partitions} \
                     partitions"
                ));
            }
            let read = finder.read(PartitionId(block.partition), block.body);
            read.map_err(|error| error.to_string())?;
        }
        match finder.end_pass() {
            PassEnd::Again => {}
            PassEnd::Found(point) => break point,
            PassEnd::Unknown(before, behind) => {
                return Err(format!(
                    "the command log in {} has no transaction {}: it changed nothing, or is not of \
                     this log. The nearest before and behind it are {} and {}.",
                    log.disk.shown(command_log::FOLDER),
                    target_text(target),
                    before.map_or("none".to_string(), told),
                    behind.map_or("none".to_string(), told)
                ));
            }
        }
    };
    if point.entries_behind == 0 {
        let last = point.last.map_or("nothing".to_string(), told);
        return Err(format!(
            "nothing in {} is after {}: the last transaction of the command log there is {last}. \
             `lockstep start` brings all of it back.",
            log.disk.shown(""),
            target_text(target)
        ));
    }
    Ok(point)
}

/// A transaction with its time.
fn told(transaction: TransactionId) -> String {
    let time = time_text(transaction.time_ms());
    format!("transaction {} of {time}", transaction.0)
}

fn time_text(time_ms: i64) -> String {
    let mut text = timestamp::format(time_ms.saturating_mul(1000));
    text.truncate(text.len() - 3);
    text
}

fn target_text(target: PointTarget) -> String {
    match target {
        PointTarget::Time(ms) => time_text(ms),
        PointTarget::Transaction(transaction) => told(transaction),
    }
}

/// Whether there is something to begin with.
fn check_reach(
    log: &RecoveryLog<'_>,
    partitions: u32,
    point: &Point,
    target: PointTarget,
) -> Result<(), String> {
    let found = candidates(&**log.disk, log.cluster, partitions, None);
    let found = found.map_err(|error| error.to_string())?;
    if found.iter().any(|one| one.is_before(point)) {
        return Ok(());
    }
    let names = log.disk.list(command_log::FOLDER).map_err(|error| error.to_string())?;
    let first = command_log::file_name(1);
    if names.iter().any(|name| first.ends_with(&format!("/{name}"))) {
        return Ok(());
    }
    let oldest = found.iter().filter_map(|one| Some((one.time_ms()?, &one.nonce))).min();
    let oldest = oldest.map_or("and there is no snapshot".to_string(), |(ms, nonce)| {
        format!("the oldest snapshot is {nonce} of {}", time_text(ms))
    });
    Err(format!(
        "{} has nothing left of {}: {oldest}, and the command log before it was given up. Choose a \
         later point; nothing was changed.",
        log.disk.shown(""),
        target_text(target)
    ))
}

/// The name of a folder for what is set aside now, which is made.
fn new_folder(disk: &dyn Disk) -> Result<String, String> {
    let time = time_text(clock::now_us() / 1000);
    let name = format!("{SET_ASIDE_PREFIX}{}", time.replace(' ', "T").replace(':', "."));
    let names = disk.list("").map_err(|error| error.to_string())?;
    if names.contains(&name) {
        return Err(format!("{} is there already: try again", disk.shown(&name)));
    }
    disk.create_folder(&name).map_err(|error| error.to_string())?;
    Ok(name)
}

/// Writes down in a folder with what was set aside where the two pasts part.
fn write_point(disk: &dyn Disk, folder: &str, limit_key: u64) -> Result<(), String> {
    let text = format!("{POINT_LINE}{limit_key}\n");
    let write = || {
        let mut file = disk.open(&format!("{folder}/{POINT_FILE}"), OpenMode::Create)?;
        file.write_at(0, text.as_bytes())?;
        file.sync_data()?;
        disk.sync_folder(folder)
    };
    write().map_err(|error| error.to_string())
}

/// What [`write_point`] wrote.
fn read_point(disk: &dyn Disk, folder: &str) -> Result<u64, String> {
    let name = format!("{folder}/{POINT_FILE}");
    let file = disk.open(&name, OpenMode::Read).map_err(|error| error.to_string())?;
    let mut bytes = [0; 64];
    let read = file.read_at(0, &mut bytes).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes[..read]);
    let number = text.strip_prefix(POINT_LINE).and_then(|rest| rest.strip_suffix('\n'));
    number.and_then(|number| number.parse().ok()).ok_or_else(|| {
        format!("{} is damaged: put it back as it was; nothing was changed", disk.shown(&name))
    })
}

/// Adds what a restore moves; gives how many snapshots are set aside.
fn plan(
    disk: &dyn Disk,
    switch: &mut Switch,
    point: &Point,
    set_aside: &str,
    log: &RecoveryLog<'_>,
    partitions: u32,
) -> Result<usize, DirectoryError> {
    let log_aside = format!("{set_aside}/{}", command_log::FOLDER);
    switch.add_folder(disk, (command_log::FOLDER, &log_aside), |_| true)?;
    let mut found = candidates(disk, log.cluster, partitions, None)
        .map_err(|error| DirectoryError(error.to_string()))?;
    found.retain(|one| !one.is_before(point));
    let later: BTreeSet<&str> = found.iter().map(|one| one.nonce.as_str()).collect();
    let is_later =
        |name: &str| name.split_once('-').is_some_and(|(nonce, _)| later.contains(nonce));
    let snapshots_aside = format!("{set_aside}/{SNAPSHOT_FOLDER}");
    switch.add_folder(disk, (SNAPSHOT_FOLDER, &snapshots_aside), is_later)?;
    let staging = format!("{set_aside}/{STAGING}");
    switch.add_folder(disk, (&staging, SNAPSHOT_FOLDER), |_| true)?;
    Ok(later.len())
}

/// The files of snapshots of times after a point.
fn saved_behind(disk: &dyn Disk, limit_key: u64) -> Result<BTreeSet<String>, DirectoryError> {
    let found = scan(disk, SNAPSHOT_FOLDER).map_err(|error| DirectoryError(error.to_string()))?;
    let is_later = |one: &FoundSnapshot| {
        let transaction = match &one.manifest {
            Ok(manifest) => manifest.transaction,
            Err(_) => saved_transaction(disk, SNAPSHOT_FOLDER, &one.nonce),
        };
        // Of one that nobody can read nothing is known; it stays.
        let key = TransactionId(transaction as u64).time_key();
        transaction != i64::MAX && key > limit_key
    };
    let names = found.into_iter().filter(is_later).flat_map(|one| one.present);
    Ok(names.map(|(name, _)| name).collect())
}

fn carry_out_switch(data: &Data) -> Result<(), String> {
    let finished = switch::finish(&data.disk, data.cluster.cluster, random_bits());
    finished.map(|_| ()).map_err(|error| {
        format!("{error}\nThe restore stopped half way; the next start of the directory ends it.")
    })
}

/// Where the snapshot of the point is written.
struct Place<'a> {
    disk: &'a Arc<dyn Disk>,
    cluster: ClusterId,
    folder: &'a str,
    nonce: &'a str,
}

impl Place<'_> {
    /// Saves a host that serves nobody.
    fn save(
        &self,
        state: HostState<(), ()>,
        last_multi: TransactionId,
        settings: &ReplaySettings<'_>,
    ) -> Result<Saved, String> {
        self.disk.create_folder(self.folder).map_err(|error| error.to_string())?;
        let HostState { catalog, mut sites } = state;
        let refused = |error: std::io::Error| format!("the snapshot cannot be written: {error}");
        let mut poll = Poll::new().map_err(refused)?;
        let bell = Bell::new(Waker::new(poll.registry(), Token(0)).map_err(refused)?);
        let (unbound, lanes): (Vec<_>, Vec<_>) =
            sites.iter().map(|_| lane(Arc::clone(&bell))).unzip();
        let given_up = Arc::new(AtomicBool::new(false));
        let plan = &catalog.plan;
        let tables: Vec<_> =
            plan.tables.values().map(|table| Arc::clone(&table.definition)).collect();
        let start = snapshot_start(&tables);
        let job = SaveJob {
            disk: Arc::clone(self.disk),
            folder: self.folder.to_string(),
            nonce: self.nonce.to_string(),
            content: ContentKind::Native,
            cluster: self.cluster,
            catalog_version: catalog.version(),
            schema: plan.schema_text(),
            planning: encode_saved_planning(&plan.planning),
            classes: classes::jar(plan),
            tables,
            lanes: (0..).map(PartitionId).zip(lanes).collect(),
            partition_count: sites.len() as u32,
            host: None,
            given_up: Arc::clone(&given_up),
            cancelled: Arc::default(),
            progress: Arc::default(),
            kept: None,
            created: Default::default(),
        };
        let task = SchemaTask {
            changes: Vec::new(),
            swap: None,
            snapshot: Some(start),
            catalog_version: catalog.version(),
            catalog: Arc::clone(&catalog),
            source: self.nonce.as_bytes().into(),
            advice: None,
        };
        let mut all: Vec<&mut QuietSite> = sites.iter_mut().collect();
        let begun = carry_out(&mut all, task, clock::now_us(), Some(last_multi), settings)?;
        let writer = std::thread::Builder::new().name("snapshot".to_string());
        let writer = writer.spawn(move || run(job)).map_err(refused)?;
        // They are encoded on this thread, and written on that one.
        let bind = |one: crate::snapshot::lane::UnboundLane| {
            one.bind(writer.thread().clone(), Arc::clone(&given_up), LaneLimits::NONE)
        };
        let mut bound: Vec<Option<SiteLane>> = unbound.into_iter().map(bind).map(Some).collect();
        for (partition, begun) in begun {
            if let Some(lane) = &mut bound[partition.index()] {
                lane.begin(begun);
            }
        }
        encode_all(&mut sites, &mut bound, &mut poll, &bell).map_err(refused)?;
        let saved: SaveResult = writer
            .join()
            .map_err(|_| "the thread that writes the snapshot panicked".to_string())?;
        saved.map_err(|error| error.to_string())
    }
}

/// Encodes what all sites have.
fn encode_all(
    sites: &mut [QuietSite],
    lanes: &mut [Option<SiteLane>],
    poll: &mut Poll,
    bell: &Bell,
) -> std::io::Result<()> {
    let mut events = Events::with_capacity(1);
    while lanes.iter().any(Option::is_some) {
        for (site, place) in sites.iter_mut().zip(lanes.iter_mut()) {
            if place.as_mut().is_some_and(|lane| lane.step(site, None)) {
                *place = None;
            }
        }
        bell.prepare_sleep();
        let is_idle = lanes.iter_mut().flatten().all(|lane| lane.wait_ns() != Some(0));
        if is_idle && lanes.iter().any(Option::is_some) {
            poll.poll(&mut events, Some(PATIENCE))?;
        }
        bell.awake();
    }
    Ok(())
}
