//! Saving: one snapshot at a time, on demand or by schedule, and what became of the last ones.

use super::Keeper;
use super::hosts::{OfAll, Part};
use super::own_copies::{KeptCopies, whole_copies};
use super::place::{Place, check_not_reserved, check_place, snapshot_place};
use super::request::{self, ChosenTables, SnapshotRequest};
use super::schedule::{automatic, lane_limits};
use crate::catalog::HostCatalog;
use crate::classes;
use crate::clock;
use crate::control::arguments::{self, UNNAMED};
use crate::control::{Control, SystemCall};
use crate::log::disk::RealDisk;
use crate::message::{Envelope, Origin};
use crate::own_call::OwnCall;
use crate::scheduling;
use crate::snapshot::SaveResult;
use crate::snapshot::lane::{OfCopy, ThreadLane, UnboundLane, lane};
use crate::snapshot::save::{SaveJob, run, snapshot_start, table_kind};
use lockstep_base::elapsed::Elapsed;
use lockstep_durability::snapshot::{ContentKind, SnapshotError, TableKind};
use lockstep_host::placement::Placement;
use lockstep_host::schema::codec::encode_saved_planning;
use lockstep_host::schema::{Handled, Turn};
use lockstep_host::snapshots::{LogProgress, SnapshotKind, SnapshotSchedule, beginning};
use lockstep_plan::Catalog;
use lockstep_plan_ir::TableDefinition;
use lockstep_site::{MultiWork, SchemaTask, SnapshotStart};
use lockstep_types::{Failure, HostId, PartitionId, ThreadId};
use lockstep_wire_volt::Invocation;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Snapshots that are remembered for the statistics.
const PAST_SNAPSHOTS: usize = 10;
/// What a snapshot by schedule is called, before its time.
pub(crate) const AUTOMATIC_PREFIX: &str = "AUTOSNAP";
/// What VoltDB answers while another one is in progress.
const IN_PROGRESS: &str = "SNAPSHOT IN PROGRESS";

/// What there is for each partition that is led here.
type OfPartitions<T> = Vec<(PartitionId, T)>;

/// A snapshot that was taken, or was to be.
pub(super) struct PastSnapshot {
    pub(super) nonce: String,
    pub(super) path: String,
    pub(super) kind: SnapshotKind,
    pub(super) started_ms: i64,
    /// None while it is in progress.
    pub(super) ended_ms: Option<i64>,
    pub(super) tables: Vec<String>,
    pub(super) progress: Arc<AtomicU64>,
    /// What it is expected to have in the end, in bytes.
    pub(super) expected_bytes: u64,
    pub(super) result: Option<SaveResult>,
}

impl PastSnapshot {
    /// From its beginning to its end, or until now.
    pub(super) fn took(&self) -> Elapsed {
        let until_ms = self.ended_ms.unwrap_or_else(|| clock::now_us() / 1000);
        Elapsed::between_ms(self.started_ms, until_ms)
    }
}

/// A snapshot that was asked for and has not begun: its folder is looked at first.
struct Prepared {
    request: SnapshotRequest,
    place: Place,
    origin: Option<Origin>,
    kind: SnapshotKind,
    /// Of a snapshot of several hosts that another one leads.
    part: Option<Part>,
}

/// The snapshot in progress.
pub(super) struct Running {
    /// Who waits for its beginning, or for its end.
    origin: Option<Origin>,
    blocking: bool,
    pub(super) cancelled: Arc<AtomicBool>,
    /// The host that leads it, if that is another one.
    pub(super) lead: Option<HostId>,
    /// Of a host of several that saves all of its copies.
    pub(super) copies: Option<KeptCopies>,
}

/// The snapshots of a host.
pub(crate) struct Snapshots {
    /// Finds which snapshots may be deleted.
    pub(super) keeper: Arc<Keeper>,
    /// Decides when one begins and what follows from its end.
    pub(super) schedule: SnapshotSchedule,
    /// Whose folders are fit for them.
    ready: VecDeque<Prepared>,
    pub(super) running: Option<Running>,
    /// The snapshot of all hosts that this one leads.
    pub(super) of_all: Option<OfAll>,
    /// Where the newest one is.
    pub(super) newest_place: Option<Place>,
    /// When the copies were looked at last that are loaded here.
    pub(super) looked_at_learned_us: Option<i64>,
    sender: Sender<SaveResult>,
    receiver: Receiver<SaveResult>,
    /// The last one is the newest.
    past: VecDeque<PastSnapshot>,
}

impl Snapshots {
    /// A host with this schedule.
    pub(in crate::control) fn new(schedule: SnapshotSchedule, keeper: Arc<Keeper>) -> Snapshots {
        let (sender, receiver) = channel();
        Snapshots {
            keeper,
            schedule,
            ready: VecDeque::new(),
            running: None,
            of_all: None,
            newest_place: None,
            looked_at_learned_us: None,
            sender,
            receiver,
            past: VecDeque::new(),
        }
    }

    /// The snapshots that are remembered, oldest first.
    pub(super) fn past(&self) -> impl Iterator<Item = &PastSnapshot> {
        self.past.iter()
    }

    /// The newest of them.
    pub(super) fn newest(&self) -> Option<&PastSnapshot> {
        self.past.back()
    }

    /// The newest one does not stay after all.
    pub(super) fn note_given_up(&mut self, error: SnapshotError) {
        if let Some(past) = self.past.back_mut() {
            past.result = Some(Err(error));
        }
    }

    /// How many bytes the next snapshot is expected to have: as many as the newest one.
    fn expected_bytes(&self) -> u64 {
        let saved = self.past.iter().rev().find_map(|past| match &past.result {
            Some(Ok(saved)) => Some(saved.bytes),
            _ => None,
        });
        saved.unwrap_or(0)
    }

    /// Remembers one that begins, in place of the oldest.
    fn remember(&mut self, snapshot: PastSnapshot) {
        self.past.push_back(snapshot);
        if self.past.len() > PAST_SNAPSHOTS {
            self.past.pop_front();
        }
    }

    /// The newest one has ended: notes its result; returns the call that waits for it.
    fn ended(&mut self, result: &SaveResult, now_us: i64) -> Option<Origin> {
        let past = self.past.back_mut()?;
        past.ended_ms = Some(now_us / 1000);
        past.result = Some(result.clone());
        let (nonce, took_ms) = (&past.nonce, past.took().ms());
        match result {
            Ok(saved) => tracing::info!(nonce, bytes = saved.bytes, took_ms, "snapshot saved"),
            Err(error) => tracing::error!(nonce, %error, "snapshot not saved"),
        }
        self.running.take().and_then(|running| running.origin)
    }

    /// The transaction of a snapshot is decided: returns the call that waits for that alone.
    fn begun(&mut self, committed: bool) -> Option<Origin> {
        let running = self.running.as_mut()?;
        if !committed {
            // The thread reports that it has given up, and the call is answered then.
            running.cancelled.store(true, Ordering::Release);
            return None;
        }
        if running.blocking { None } else { running.origin.take() }
    }
}

impl Control {
    /// `@SnapshotSave`.
    pub(in crate::control) fn snapshot_save(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        arguments::save(invocation).map_err(Failure::graceful)?;
        // An index that is half built would be whole in the schema that is saved.
        let Turn::Now(call) = self.schema.change_turn(call)? else { return Ok(Handled::Pending) };
        // As VoltDB's, a save without arguments is answered when it has begun.
        let unnamed = || SnapshotRequest { blocking: false, ..automatic(UNNAMED) };
        let request = request::read(invocation)?.unwrap_or_else(unnamed);
        let problem = match self.snapshots.schedule.is_running() {
            true => Some(IN_PROGRESS.to_string()),
            false => {
                let (origin, kind) = (Some(call.origin), SnapshotKind::Manual);
                self.prepare_save(request, origin, kind, None).err()
            }
        };
        if let Some(problem) = problem {
            self.answer_save_failure(call.origin, &problem);
            return Ok(Handled::Answered);
        }
        Ok(Handled::Pending)
    }

    /// Has the folder of a snapshot looked at, after which it begins; an error says why there is
    /// none.
    pub(super) fn prepare_save(
        &mut self,
        request: SnapshotRequest,
        origin: Option<Origin>,
        kind: SnapshotKind,
        part: Option<Part>,
    ) -> Result<(), String> {
        let place = snapshot_place(&self.facts, request.path.as_deref())?;
        if part.is_none() {
            saved_tables(&self.schema.catalog().plan, &request)?;
        }
        let host = self.file_host();
        let (disk, folder, path) = place.clone();
        let (nonce, keeper) = (request.nonce.clone(), Arc::clone(&self.snapshots.keeper));
        let look = move || -> Result<(), String> {
            if folder.is_empty() {
                RealDisk::new(Path::new(&path)).create_root().map_err(|error| error.to_string())?;
            } else {
                disk.create_folder(&folder).map_err(|error| error.to_string())?;
            }
            if kind == SnapshotKind::Manual && keeper.is_own(Path::new(&path)) {
                check_not_reserved(&nonce)?;
            }
            check_place(&*disk, &folder, &nonce, host).map_err(|error| error.to_string())
        };
        let lead = part.as_ref().map(|part| (part.lead, request.nonce.clone()));
        let prepared = Prepared { request, place, origin, kind, part };
        let then = move |control: &mut Control, looked: Result<(), String>| match looked {
            Ok(()) => control.snapshots.ready.push_back(prepared),
            Err(problem) => match lead {
                Some((lead, nonce)) => {
                    control.snapshots.schedule.refuse(kind, clock::now_us());
                    control.part_refused(lead, &nonce, problem);
                }
                None => control.save_refused(prepared.origin, kind, &problem),
            },
        };
        match kind {
            SnapshotKind::Automatic => {
                self.with_own_files(look, then).map_err(|error| error.to_string())?;
                self.snapshots.schedule.prepare(clock::now_us());
            }
            SnapshotKind::Manual => self.with_files(look, then).map_err(|error| error.message)?,
        }
        Ok(())
    }

    /// A snapshot that was prepared does not begin.
    fn save_refused(&mut self, origin: Option<Origin>, kind: SnapshotKind, problem: &str) {
        if let Some(origin) = origin {
            self.answer_save_failure(origin, problem);
        }
        self.snapshots.schedule.refuse(kind, clock::now_us());
        if kind == SnapshotKind::Automatic {
            tracing::error!(problem, "the snapshot by schedule was not taken");
            self.last_snapshot_ended(Err(problem.to_string()));
        }
    }

    /// Begins the snapshots whose folders are fit for them, one at a time.
    fn begin_prepared(&mut self) {
        while self.schema.is_quiet() {
            let Some(prepared) = self.snapshots.ready.pop_front() else { return };
            let (origin, kind) = (prepared.origin, prepared.kind);
            let lead = prepared.part.as_ref().map(|part| part.lead);
            let nonce = prepared.request.nonce.clone();
            let begun = match self.snapshots.schedule.is_running() {
                true => Err(IN_PROGRESS.to_string()),
                false => self.begin_save(prepared),
            };
            match (begun, lead) {
                (Ok(()), _) => {}
                (Err(problem), Some(lead)) => {
                    self.snapshots.schedule.refuse(kind, clock::now_us());
                    self.part_refused(lead, &nonce, problem);
                }
                (Err(problem), None) => self.save_refused(origin, kind, &problem),
            }
        }
    }

    /// Begins a snapshot; an error says why there is none.
    fn begin_save(&mut self, prepared: Prepared) -> Result<(), String> {
        let keeps_copies =
            prepared.kind == SnapshotKind::Automatic && self.facts.keeps_own_copies();
        let loads = match keeps_copies {
            true => self.check_copies_loaded(),
            false => self.check_nothing_loads("no snapshot begins"),
        };
        loads.map_err(|failure| failure.message)?;
        let Prepared { request, place, origin, kind, part } = prepared;
        if let Some(part) = &part {
            self.check_part(part)?;
        }
        let (disk, folder, path) = place.clone();
        let tables = saved_tables(&self.schema.catalog().plan, &request)?;
        let start = snapshot_start(&tables);
        let (given_up, cancelled) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let progress = Arc::new(AtomicU64::new(0));
        let start = if keeps_copies { whole_copies(start) } else { start };
        let (site_lanes, lanes) = self.lanes(keeps_copies);
        let (copies, kept) = keeps_copies.then(|| self.kept_copies()).unzip();
        let cluster = part.as_ref().filter(|_| !keeps_copies).map(|part| part.cluster);
        let job = SaveJob {
            disk,
            folder,
            nonce: request.nonce.clone(),
            content: request.content,
            cluster: cluster.unwrap_or(self.facts.cluster),
            catalog_version: self.schema.catalog().version(),
            schema: self.schema.catalog().plan.schema_text(),
            planning: encode_saved_planning(&self.schema.catalog().plan.planning),
            classes: classes::jar(&self.schema.catalog().plan),
            tables,
            lanes,
            partition_count: self.facts.partition_count,
            host: self.file_host(),
            given_up: Arc::clone(&given_up),
            cancelled: Arc::clone(&cancelled),
            progress: Arc::clone(&progress),
            kept,
            created: Mutex::default(),
        };
        let names = job.tables.iter().filter(|table| table.entries_of.is_none());
        self.snapshots.remember(PastSnapshot {
            nonce: request.nonce.clone(),
            path,
            kind,
            started_ms: clock::now_us() / 1000,
            ended_ms: None,
            tables: names.map(|table| table.name.clone()).collect(),
            progress,
            expected_bytes: self.snapshots.expected_bytes(),
            result: None,
        });
        let of_copies = keeps_copies.then(|| (Arc::from(request.nonce.as_bytes()), start.clone()));
        self.start_writer(job, (site_lanes, of_copies), given_up)?;
        let (blocking, lead) = (request.blocking, part.as_ref().map(|part| part.lead));
        self.snapshots.newest_place = Some(place);
        self.snapshots.running = Some(Running { origin, blocking, cancelled, lead, copies });
        let log = self.log_pruner.as_ref().map(|log| log as &dyn LogProgress);
        self.snapshots.schedule.begin(kind, log);
        self.order_snapshot(&request, start, lead);
        Ok(())
    }

    /// The ways from the partitions that are led here, or from all copies here, to the thread that
    /// writes: both ends of each.
    fn lanes(&self, of_copies: bool) -> (OfPartitions<UnboundLane>, OfPartitions<ThreadLane>) {
        let placement = self.facts.placement();
        let partitions = (0..placement.partition_count()).map(PartitionId);
        let make = |at| {
            let site = saving_site(&placement, at, of_copies)?;
            let (of_site, of_thread) = lane(Arc::clone(&self.site_bells[site.index()]));
            Some(((at, of_site), (at, of_thread)))
        };
        partitions.filter_map(make).unzip()
    }

    /// Starts the thread that writes, and gives the sites their ends of its lanes.
    fn start_writer(
        &mut self,
        job: SaveJob,
        (site_lanes, of_copies): (OfPartitions<UnboundLane>, Option<OfCopy>),
        given_up: Arc<AtomicBool>,
    ) -> Result<(), String> {
        let (sender, bell) = (self.snapshots.sender.clone(), Arc::clone(&self.bell));
        let builder = std::thread::Builder::new().name("snapshot".to_string());
        let thread = builder.spawn(move || {
            scheduling::run_behind_others();
            // The control thread ends with the host, and nobody asks any more.
            let _ = sender.send(run(job));
            bell.ring();
        });
        let thread = thread.map_err(|error| {
            self.snapshots.past.pop_back();
            format!("the system gives no thread for the snapshot: {error}")
        })?;
        let limits = lane_limits(&self.facts, self.snapshots.expected_bytes());
        for (partition, lane) in site_lanes {
            let mut lane = lane.bind(thread.thread().clone(), Arc::clone(&given_up), limits);
            let site = saving_site(&self.facts.placement(), partition, of_copies.is_some());
            let Some(site) = site else {
                // The copy has gone since the lanes were made: the snapshot would lack it.
                given_up.store(true, Ordering::Release);
                thread.thread().unpark();
                continue;
            };
            if let Some(of_copy) = &of_copies {
                lane.set_of_copy(of_copy.clone());
            }
            self.outbox.send(site, Envelope::SnapshotLane(partition, Box::new(lane)));
        }
        Ok(())
    }

    /// The transaction at which the snapshot stands goes to the coordinator, by the host that leads
    /// it and once all are ready.
    fn order_snapshot(
        &mut self,
        request: &SnapshotRequest,
        start: SnapshotStart,
        lead: Option<HostId>,
    ) {
        let (catalog, nonce) = (Arc::clone(self.schema.catalog()), &request.nonce);
        let task = Arc::new(beginning(&self.schema, catalog, nonce, start));
        self.facts.note_prepared(&task);
        if let Some(lead) = lead {
            return self.answer_prepared(lead, nonce, None);
        }
        self.schema.begin_snapshot();
        match self.facts.placement().host_count() {
            1 => self.send_beginning(task),
            _ => self.prepare_others(request, task),
        }
    }

    pub(super) fn send_beginning(&mut self, task: Arc<SchemaTask<Arc<HostCatalog>>>) {
        let work = MultiWork::Schema(task);
        let origin = self.own_origin(OwnCall::Snapshot, 0);
        self.send_multi(origin, Arc::from(&[][..]), None, work);
    }

    /// The transaction of the snapshot is decided.
    pub(in crate::control) fn snapshot_begun(&mut self, committed: bool) {
        if !committed {
            self.snapshot_of_all_refused();
        }
        if let Some(origin) = self.snapshots.begun(committed) {
            self.answer_begun(origin);
        }
    }

    /// What the thread has said, and what is due by schedule.
    pub(in crate::control) fn attend_to_snapshots(&mut self) {
        while let Ok(result) = self.snapshots.receiver.try_recv() {
            self.snapshot_ended(result);
        }
        self.note_copies_written();
        self.begin_prepared();
        if self.is_free_for_snapshot()
            && self.is_snapshot_due()
            && let Err(problem) = self.begin_automatic_snapshot()
        {
            self.save_refused(None, SnapshotKind::Automatic, &problem);
        }
    }

    /// Whether nothing is in progress that a snapshot waits for.
    pub(in crate::control) fn is_free_for_snapshot(&self) -> bool {
        self.snapshots.schedule.is_free() && self.schema.is_quiet()
    }

    /// Whether one is due, by the clock or by what was logged.
    fn is_snapshot_due(&mut self) -> bool {
        let expected_bytes = self.snapshots.expected_bytes();
        let log = self.log_pruner.as_ref().map(|log| log as &dyn LogProgress);
        self.snapshots.schedule.is_due(clock::now_us(), log, expected_bytes)
    }

    /// Begins a snapshot by schedule; the one after which the host stops is such a one, too.
    pub(in crate::control) fn begin_automatic_snapshot(&mut self) -> Result<(), String> {
        if self.facts.keeps_own_copies() && !self.facts.placement().leads_control() {
            self.say_that_snapshot_is_due();
            return Ok(());
        }
        self.prepare_save(automatic(AUTOMATIC_PREFIX), None, SnapshotKind::Automatic, None)
    }

    /// Until there is something to attend to; `None` for ever.
    pub(in crate::control) fn snapshot_time_left(&self) -> Option<Duration> {
        if !self.is_free_for_snapshot() {
            // The end of what is in progress wakes the thread.
            return None;
        }
        let left_us = self.snapshots.schedule.left_us(clock::now_us())?;
        Some(Duration::from_micros(left_us.max(1_000) as u64))
    }

    fn snapshot_ended(&mut self, result: SaveResult) {
        let running = self.snapshots.running.as_ref();
        let lead = running.and_then(|running| running.lead);
        let is_cancelled = running.is_some_and(|running| running.cancelled.load(Ordering::Acquire));
        let kept = self.snapshots.running.as_mut().and_then(|running| running.copies.take());
        let waiting = self.snapshots.ended(&result, clock::now_us());
        if let Some(copies) = kept {
            return self.copies_ended(result, (lead, copies));
        }
        if let Some(lead) = lead {
            self.snapshots.schedule.end(None, clock::now_us());
            self.answer_part_saved(lead, &result);
            if is_cancelled {
                // It was complete before it heard of that.
                self.remove_newest_part();
            }
            return;
        }
        if self.snapshots.of_all.is_some() {
            return self.own_part_ended(result, waiting);
        }
        match (&result, waiting) {
            (Ok(_), Some(origin)) => {
                let hosts = self.saving_hosts();
                self.answer_saved(origin, &hosts);
            }
            (Err(error), Some(origin)) => self.answer_save_failure(origin, &error.to_string()),
            (_, None) => {}
        }
        self.end_by_schedule(result);
    }

    /// One by schedule, or for the host's own end, has ended: what follows from that.
    pub(super) fn end_by_schedule(&mut self, result: SaveResult) {
        let sequences = result.as_ref().ok().map(|saved| &saved.sequences[..]);
        if self.snapshots.schedule.end(sequences, clock::now_us()) {
            self.tidy();
        }
        self.last_snapshot_ended(result.map(|_| ()).map_err(|error| error.to_string()));
    }

    /// Of the snapshots by schedule only the newest stay, and nothing of those that a host began
    /// before it was killed. What all of them have is not needed in the log: recovery begins with
    /// the newest one, and with an older one should its files be damaged.
    fn tidy(&mut self) {
        let keeper = Arc::clone(&self.snapshots.keeper);
        let kept = self.facts.options.snapshots_kept.to_usize();
        let then = |control: &mut Control, covered| {
            control.snapshots.schedule.tidied();
            if let Some(pruner) = &control.log_pruner {
                pruner.prune(covered);
            }
        };
        if let Err(error) = self.with_own_files(move || keeper.tidy(kept), then) {
            tracing::warn!(%error, "old snapshots were not removed");
            self.snapshots.schedule.tidied();
        }
    }

    /// Whether old snapshots are being removed, and the log that they alone need.
    pub(in crate::control) fn is_tidying(&self) -> bool {
        self.snapshots.schedule.is_tidying()
    }
}

/// The site of this host that saves a partition: the one that leads it, or that has a copy, also
/// one that is not in sync yet.
fn saving_site(placement: &Placement, at: PartitionId, of_copies: bool) -> Option<ThreadId> {
    let copies = placement.followers_of(at).iter().chain(placement.learning_of(at));
    let mut sites = copies.filter(|_| of_copies).copied().chain([placement.leader_of(at)]);
    sites.find(|site| site.host() == placement.host())
}

/// The tables that a snapshot has.
fn saved_tables(
    catalog: &Catalog,
    request: &SnapshotRequest,
) -> Result<Vec<Arc<TableDefinition>>, String> {
    let all = catalog.tables.values().map(|table| &table.definition);
    let chosen: &ChosenTables = &request.tables;
    for name in chosen.named() {
        if catalog.table(name).is_none() {
            return Err(format!("there is no table {name}"));
        }
    }
    let is_saved = |table: &TableDefinition| {
        let of = table.entries_of.as_ref().map_or(&table.name, |entries| &entries.table_name);
        let is_text = request.content == ContentKind::Csv;
        let has_text = table.entries_of.is_none() && table_kind(table) != TableKind::Derived;
        chosen.has(of) && (!is_text || has_text)
    };
    Ok(all.filter(|table| is_saved(table)).cloned().collect())
}
