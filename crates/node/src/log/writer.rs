//! The thread that writes the command log: it takes what all sites handed over, writes it as one
//! group commit, makes it durable, and tells the sites. What comes meanwhile is the next group.
//!
//! If the disk fails, the thread ends with the error and tells nobody anything any more: no site
//! learns that its entries are durable, so no answer that depends on them leaves. A disk that
//! is full is no failure: segments are reserved before they are written, and the thread waits for
//! the space of the next one, with the same effect on answers.

use super::directory::{Data, Durability, random_bits};
use super::group::Group;
use super::shared::{LogShared, LogStatus, Progress};
use super::site::SiteLog;
use super::spare::SpareMaker;
use crate::clock;
use crate::mailbox::Bell;
use crate::options::{Options, Priority};
use crate::scheduling;
use lockstep_base::elapsed::Elapsed;
use lockstep_base::ring::{Consumer, Producer, ring};
use lockstep_durability::command_log::{LogEnd, LogError, LogSettings, LogWriter};
use lockstep_host::snapshots::LogProgress;
use lockstep_txn::HandedLog;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Hand-overs of one site that wait to be written.
const BATCHES: usize = 256;
/// A group is not gathered any further once it is this long.
const GROUP_BYTES_MAX: usize = 16 << 20;
/// Buffers longer than this are not kept.
const KEPT_BUFFER_BYTES: usize = 1 << 20;
/// While the disk is full: how often the thread looks whether there is space.
const LOOK_FOR_SPACE: Duration = Duration::from_millis(100);
/// Intervals between syncs that the mean is of.
const SYNCS_TIMED: usize = 10;
/// While the host stops: how often its owner looks whether the thread has ended, and how long at
/// least it waits for a disk that does nothing.
const LOOK_AT_END: Duration = Duration::from_millis(1);
const LEAST_PATIENCE: Duration = Duration::from_secs(5);
/// Without new entries for so long, the end of the log is sealed.
const SEAL_AFTER: Duration = Duration::from_millis(50);

/// What the log's thread is asked for, besides writing.
enum LogOrder {
    /// Entries up to these, by partition, are safe elsewhere.
    Prune(BTreeMap<u32, u64>),
    /// Everything that was handed over is to be durable; then to be told, and this bell rung.
    Sync(Sender<()>, Arc<Bell>),
}

/// Tells the log's thread what it need not keep, and what it should not put off.
pub(crate) struct LogPruner {
    orders: Sender<LogOrder>,
    shared: Arc<LogShared>,
}

impl LogPruner {
    /// How the log's files are.
    pub fn status(&self) -> LogStatus {
        self.shared.status()
    }

    /// Entries up to these, by partition, are safe elsewhere: segments that hold nothing else go.
    pub fn prune(&self, covered: BTreeMap<u32, u64>) {
        // A thread that has ended prunes nothing.
        if self.orders.send(LogOrder::Prune(covered)).is_ok() {
            self.shared.wake();
        }
    }

    /// Tells by partition whether the log is durable up to these entries.
    pub fn durable_up_to(&self) -> impl Fn(&[u64]) -> bool + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move |sequences| {
            let mut sites = sequences.iter().enumerate();
            sites.all(|(site, sequence)| shared.durable(site) >= *sequence)
        }
    }

    /// Asks for everything that was handed over before to be durable, which the receiver tells;
    /// `None` if the thread has ended.
    pub fn sync(&self, bell: Arc<Bell>) -> Option<Receiver<()>> {
        let (sender, synced) = channel();
        self.orders.send(LogOrder::Sync(sender, bell)).ok()?;
        self.shared.wake();
        Some(synced)
    }
}

impl LogProgress for LogPruner {
    fn written_bytes(&self) -> u64 {
        (0..self.shared.sites.len()).map(|site| self.shared.written_bytes(site)).sum()
    }

    fn has_more_than(&self, sequences: &[u64]) -> bool {
        let mut sites = sequences.iter().enumerate();
        sites.any(|(site, sequence)| self.shared.durable(site) > *sequence)
    }
}

/// The thread's end of one site.
struct Lane {
    batches: Consumer<HandedLog>,
    spares: Producer<Vec<u8>>,
    /// The last entry of the group, and the bytes handed over up to it.
    last_sequence: u64,
    taken_bytes: u64,
    is_in_group: bool,
}

/// The threads that wait for what is durable.
pub(crate) struct LogBells {
    /// By number: the one that has a partition is woken for it.
    pub sites: Vec<Arc<Bell>>,
    /// The one of the links, which is woken for all partitions where these have copies.
    pub links: Option<Arc<Bell>>,
}

impl LogBells {
    fn ring(&self, progress: &Progress) {
        let site = self.sites.get(progress.thread.load(Ordering::Relaxed));
        site.into_iter().chain(&self.links).for_each(|bell| bell.ring());
    }

    fn ring_all(&self) {
        self.sites.iter().chain(&self.links).for_each(|bell| bell.ring());
    }
}

/// Who wants to know what becomes of the disk.
pub(crate) struct LogEvents {
    /// It has failed: the thread ends.
    pub on_failure: Box<dyn Fn() + Send>,
    /// It has no space for the log, or has some again.
    pub on_full: Box<dyn Fn(bool) + Send>,
}

/// The running thread, as the host's owner sees it.
pub(crate) struct LogThread {
    shared: Arc<LogShared>,
    orders: Sender<LogOrder>,
    handle: Option<JoinHandle<io::Result<()>>>,
}

/// What a command log is opened with, after recovery.
pub(crate) struct LogStart {
    /// Where the log was found to end.
    pub end: LogEnd,
    /// Per site, the number of the last entry that was recovered.
    pub sequences: Vec<u64>,
}

impl LogThread {
    /// Opens the log after its end and starts the thread; gives the ends of all partitions, whose
    /// places are given later. `events` are called when the disk fails or is full.
    ///
    /// # Errors
    /// The disk failed, or the system is out of threads.
    pub fn start(
        data: &Data,
        options: &Options,
        start: LogStart,
        bells: LogBells,
        events: LogEvents,
    ) -> io::Result<(LogThread, Vec<SiteLog>)> {
        let settings = LogSettings {
            cluster: data.cluster.cluster,
            segment_bytes: options.log_segment_bytes.to_u32(),
            seed: random_bits(),
        };
        let writer = LogWriter::open(Arc::clone(&data.disk), settings, start.end)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let shared = Arc::new(LogShared::behind(&start.sequences));
        let (mut lanes, mut ends) = (Vec::new(), Vec::new());
        for (site, durable) in start.sequences.iter().copied().enumerate() {
            let (batches, taken) = ring(BATCHES);
            let (spares, returned) = ring(BATCHES);
            lanes.push(Lane {
                batches: taken,
                spares,
                last_sequence: 0,
                taken_bytes: 0,
                is_in_group: false,
            });
            ends.push(SiteLog {
                batches,
                spares: returned,
                shared: Arc::clone(&shared),
                site,
                gates: data.durability == Durability::Sync,
                limit_bytes: options.log_buffer_bytes.get(),
                handed_bytes: 0,
                durable,
                restarted_after_bytes: None,
            });
        }
        let (orders, given_orders) = channel();
        let body = Body {
            writer,
            orders: given_orders,
            to_tell: Vec::new(),
            lanes,
            bells,
            shared: Arc::clone(&shared),
            syncs_groups: data.durability == Durability::Sync,
            interval: Elapsed::from_ms(options.log_interval_ms.get()),
            realtime_priority: above_sites(options.realtime_priority),
            group: Group::new(options),
            synced_us: clock::now_us(),
            is_sealed: true,
            events,
            spares: SpareMaker::new(Arc::clone(&data.disk)),
            sync_times: VecDeque::new(),
            syncs: 0,
        };
        let builder = std::thread::Builder::new().name("log".to_string());
        let handle = builder.spawn(move || body.run())?;
        let _ = shared.thread.set(handle.thread().clone());
        Ok((LogThread { shared, orders, handle: Some(handle) }, ends))
    }

    /// Who may tell it what it need not keep.
    pub fn pruner(&self) -> LogPruner {
        LogPruner { orders: self.orders.clone(), shared: Arc::clone(&self.shared) }
    }

    /// Whether the thread has ended: by an error, unless it was to stop.
    pub fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The host stops: a log that waits for space fails from now on.
    pub fn hurry(&self) {
        self.shared.hurries.store(true, Ordering::Release);
    }

    /// Writes and syncs what was handed over, and ends the thread. The sites hand over no more.
    /// A disk that makes no progress for as long as `patience` is not waited for.
    ///
    /// # Errors
    /// The disk had failed, or does not answer; the text names the file.
    pub fn stop(&mut self, patience: Duration) -> io::Result<()> {
        let Some(handle) = self.handle.take() else { return Ok(()) };
        self.hurry();
        self.shared.stopping.store(true, Ordering::Release);
        handle.thread().unpark();
        let (mut steps, mut since) = (self.shared.steps.load(Ordering::Acquire), Instant::now());
        while !handle.is_finished() {
            let seen = self.shared.steps.load(Ordering::Acquire);
            if seen != steps {
                (steps, since) = (seen, Instant::now());
            }
            if since.elapsed() > patience.max(LEAST_PATIENCE) {
                return Err(io::Error::other(
                    "the disk of the command log does not answer (option stop_timeout_ms): the \
                     host ends without it. What was not answered may be missing at the next start",
                ));
            }
            // Its end does not wake this thread.
            std::thread::park_timeout(LOOK_AT_END);
        }
        match handle.join() {
            Ok(ended) => ended,
            Err(_) => Err(io::Error::other("the log's thread panicked")),
        }
    }
}

/// The start of a host that failed has handed nothing over, and leaves no thread at the files of
/// the log.
impl Drop for LogThread {
    fn drop(&mut self) {
        if let Err(error) = self.stop(LEAST_PATIENCE) {
            tracing::error!(%error, "the command log was not ended");
        }
    }
}

/// The log's priority where the sites have this one: it works for moments, and they wait for it.
fn above_sites(priority: Option<Priority>) -> Option<Priority> {
    priority.map(|Priority(of_sites)| Priority(of_sites + 1))
}

/// What the thread works with.
struct Body {
    writer: LogWriter,
    orders: Receiver<LogOrder>,
    /// Who waits until everything is durable that was handed over when they asked.
    to_tell: Vec<(Sender<()>, Arc<Bell>)>,
    lanes: Vec<Lane>,
    bells: LogBells,
    shared: Arc<LogShared>,
    syncs_groups: bool,
    interval: Elapsed,
    /// See the option.
    realtime_priority: Option<Priority>,
    group: Group,
    synced_us: i64,
    is_sealed: bool,
    events: LogEvents,
    spares: SpareMaker,
    /// When the last syncs were, and how many of the writer's are counted.
    sync_times: VecDeque<Instant>,
    syncs: u64,
}

impl Body {
    fn run(mut self) -> io::Result<()> {
        scheduling::run_as_short_work();
        scheduling::run_in_real_time(self.realtime_priority);
        let ended = self.work();
        if let Err(error) = &ended {
            tracing::error!("the host stops, because its command log failed: {error}");
            self.shared.failed.store(true, Ordering::Release);
            self.bells.ring_all();
            (self.events.on_failure)();
        }
        ended.map_err(|error| {
            io::Error::other(format!("the command log failed, and the host stopped: {error}"))
        })
    }

    fn work(&mut self) -> Result<(), LogError> {
        loop {
            self.tell_status();
            // Looked at first: what is handed over before the host says stop is gathered then.
            let stopping = self.shared.stopping.load(Ordering::Acquire);
            self.take_order()?;
            self.gather();
            if self.syncs_groups && self.writer.group_bytes() > 0 {
                self.gather_more();
            }
            // The one that asks for a sync means what was handed over before, which is gathered
            // now.
            let has_all = self.writer.group_bytes() < GROUP_BYTES_MAX;
            let has_some = self.writer.group_bytes() > 0;
            if has_some {
                self.commit()?;
            }
            if has_all && !self.to_tell.is_empty() {
                self.tell_synced()?;
            } else if !has_some && stopping {
                return self.finish();
            } else if !has_some {
                self.rest()?;
            }
        }
    }

    /// Tells how the log is.
    fn tell_status(&mut self) {
        let (in_use, spares) = self.writer.file_counts();
        self.shared.note_files(in_use as u64, (in_use + spares) as u64);
        let syncs = self.writer.totals().syncs;
        if syncs != std::mem::replace(&mut self.syncs, syncs) {
            if self.sync_times.len() > SYNCS_TIMED {
                self.sync_times.pop_front();
            }
            self.sync_times.push_back(Instant::now());
            let (first, last) = (self.sync_times[0], self.sync_times[self.sync_times.len() - 1]);
            let intervals = (self.sync_times.len() as u32 - 1).max(1);
            let mean = last.duration_since(first) / intervals;
            self.shared.note_sync_interval(mean.as_micros() as u64);
        }
        self.shared.steps.fetch_add(1, Ordering::Release);
    }

    /// Does what it was asked for, but for syncs, which it remembers; whether there was something.
    fn take_order(&mut self) -> Result<bool, LogError> {
        match self.orders.try_recv() {
            Ok(LogOrder::Prune(covered)) => {
                let segments = self.writer.prune(&covered)?;
                tracing::debug!(segments, "segments of the command log given up");
            }
            Ok(LogOrder::Sync(sender, bell)) => self.to_tell.push((sender, bell)),
            Err(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Nothing that was handed over is unwritten: makes it durable for those who asked.
    fn tell_synced(&mut self) -> Result<(), LogError> {
        if self.to_tell.is_empty() {
            return Ok(());
        }
        self.writer.sync()?;
        for (sender, bell) in self.to_tell.drain(..) {
            // The one that asked may have ended meanwhile.
            let _ = sender.send(());
            bell.ring();
        }
        Ok(())
    }

    /// Waits, under load, until the group may begin, and takes what came meanwhile into it.
    fn gather_more(&mut self) {
        let wait = self.group.begin_in(Instant::now());
        if !wait.is_zero() {
            std::thread::park_timeout(wait);
            self.gather();
        }
        if !self.group.begin_busy_in(Instant::now()).is_zero() {
            self.await_idle_site();
        }
        self.group.begun = Instant::now();
    }

    /// Gathers until a site with a part in the group is idle, or as long as busy sites let it.
    fn await_idle_site(&mut self) {
        loop {
            self.shared.awaits_idle.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.gather();
            let mut lanes = self.lanes.iter().zip(&self.shared.sites);
            let is_idle = |site: &Progress| site.is_idle.load(Ordering::Relaxed);
            let has_idle = lanes.any(|(lane, site)| lane.is_in_group && is_idle(site));
            let wait = self.group.begin_busy_in(Instant::now());
            let is_full = self.writer.group_bytes() >= GROUP_BYTES_MAX;
            let hurries = self.shared.stopping.load(Ordering::Acquire);
            if has_idle || wait.is_zero() || is_full || hurries {
                self.shared.awaits_idle.store(false, Ordering::Relaxed);
                return;
            }
            std::thread::park_timeout(wait);
        }
    }

    /// Takes what the sites handed over into the group.
    fn gather(&mut self) {
        for (partition, lane) in self.lanes.iter_mut().enumerate() {
            while self.writer.group_bytes() < GROUP_BYTES_MAX {
                let Some(batch) = lane.batches.pop() else { break };
                let HandedLog { mut bytes, source, first_sequence, entries } = batch;
                self.writer.add(partition as u32, source, first_sequence, entries, &bytes);
                lane.last_sequence = first_sequence + u64::from(entries) - 1;
                lane.taken_bytes += bytes.len() as u64;
                lane.is_in_group = true;
                self.group.entries += u64::from(entries);
                if bytes.capacity() <= KEPT_BUFFER_BYTES {
                    bytes.clear();
                    // More buffers than the ring holds are not needed.
                    let _ = lane.spares.push(bytes);
                }
            }
        }
    }

    /// Writes the group, makes it durable if answers wait for that, and tells the sites.
    fn commit(&mut self) -> Result<(), LogError> {
        self.make_room()?;
        self.writer.write()?;
        self.group.last_entries = std::mem::take(&mut self.group.entries);
        self.is_sealed = false;
        self.spares.look_after(&mut self.writer);
        if self.syncs_groups {
            self.writer.sync()?;
        } else {
            self.sync_in_time()?;
        }
        for (lane, progress) in self.lanes.iter_mut().zip(&self.shared.sites) {
            if std::mem::take(&mut lane.is_in_group) {
                // In this order, see `SiteLog::restart`.
                progress.durable.store(lane.last_sequence, Ordering::Release);
                progress.written_bytes.store(lane.taken_bytes, Ordering::Release);
                self.bells.ring(progress);
            }
        }
        Ok(())
    }

    /// Waits until the disk has space for the group. Nothing that depends on it is answered
    /// meanwhile, so nothing is lost if it never comes.
    fn make_room(&mut self) -> Result<(), LogError> {
        let mut is_full = false;
        loop {
            match self.writer.make_room() {
                Err(error) if error.is_full() && !self.shared.hurries.load(Ordering::Acquire) => {
                    if !std::mem::replace(&mut is_full, true) {
                        tracing::error!("the command log waits for space: {error}");
                        (self.events.on_full)(true);
                    }
                    std::thread::park_timeout(LOOK_FOR_SPACE);
                    // A snapshot may have made segments free, and the space that is missing may
                    // be that of a spare that is there by now.
                    self.take_order()?;
                    self.spares.look_after(&mut self.writer);
                }
                other => {
                    if is_full && other.is_ok() {
                        tracing::warn!("the command log has space again");
                        (self.events.on_full)(false);
                    }
                    return other;
                }
            }
        }
    }

    /// Between groups of the asynchronous mode: syncs once per interval.
    fn sync_in_time(&mut self) -> Result<(), LogError> {
        let now_us = clock::now_us();
        if Elapsed::between_us(self.synced_us, now_us) >= self.interval {
            self.writer.sync()?;
            self.synced_us = now_us;
        }
        Ok(())
    }

    /// Nothing is there: sleeps until something is handed over. The end of the log is synced and
    /// sealed when nothing comes for a while.
    fn rest(&mut self) -> Result<(), LogError> {
        self.shared.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_empty = self.lanes.iter_mut().all(|lane| lane.batches.is_empty());
        if self.take_order()? || !is_empty || self.shared.stopping.load(Ordering::Acquire) {
            self.shared.sleeping.store(false, Ordering::Relaxed);
            return Ok(());
        }
        if self.is_sealed {
            std::thread::park();
        } else {
            let interval = self.interval.duration();
            let pause = if self.syncs_groups { SEAL_AFTER } else { interval };
            std::thread::park_timeout(pause);
        }
        let timed_out = self.shared.sleeping.swap(false, Ordering::Relaxed);
        if timed_out && !self.is_sealed && !self.shared.stopping.load(Ordering::Acquire) {
            self.seal()?;
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), LogError> {
        self.writer.sync()?;
        self.synced_us = clock::now_us();
        self.writer.seal()?;
        self.is_sealed = true;
        Ok(())
    }

    /// The host stops: everything is made durable, and the log says so itself.
    fn finish(&mut self) -> Result<(), LogError> {
        self.seal()?;
        self.writer.sync()
    }
}
