//! The ends of the command log of the copies that follow: what they take goes to the log's thread
//! from the thread of the links. That has the ends of partitions without a copy here as well, for
//! copies that are loaded later.

use crate::log::SiteLog;
use lockstep_host::copies::CopyStart;
use lockstep_host::loading::Attempt;
use lockstep_host::placement::Placement;
use lockstep_txn::HandedLog;
use lockstep_txn::replica::{Piece, Receipts};
use lockstep_types::{PartitionId, ThreadId};
use std::collections::{BTreeMap, VecDeque};

/// By partition, the ends of the command log of this host.
pub(crate) type SiteLogs = BTreeMap<PartitionId, SiteLog>;

/// The ends of the copies that follow, or are loaded.
#[derive(Default)]
pub(super) struct FollowerLogs {
    logs: BTreeMap<PartitionId, FollowerLog>,
    /// Those of partitions without a copy here.
    spare: SiteLogs,
    /// When copies send receipts, if the host has a command log.
    receipts: Option<Receipts>,
    /// Copies that are to be loaded, whose ends other sites have still, and what is to be said to
    /// their sites.
    waiting: BTreeMap<PartitionId, (ThreadId, Option<Attempt>)>,
}

struct FollowerLog {
    log: SiteLog,
    /// What the log's thread cannot take yet.
    waiting: VecDeque<Piece>,
}

impl FollowerLogs {
    /// With the placement with which a host begins; gives the ends of the partitions that it leads
    /// apart.
    pub(super) fn begin(mut logs: SiteLogs, placement: &Placement) -> (SiteLogs, FollowerLogs) {
        let (mut led, mut followed) = (SiteLogs::new(), FollowerLogs::default());
        followed.receipts = logs.values().next().map(receipts);
        for site in placement.sites() {
            for replica in placement.led_by(site) {
                let own = logs.remove_entry(&replica.partition);
                led.extend(own.inspect(|(_, log)| log.place(site)));
            }
            for replica in placement.followed_by(site).iter().chain(placement.learned_by(site)) {
                if let Some(log) = logs.remove(&replica.partition) {
                    log.place(site);
                    let log = FollowerLog { log, waiting: VecDeque::new() };
                    followed.logs.insert(replica.partition, log);
                }
            }
        }
        followed.spare = logs;
        (led, followed)
    }

    /// When copies send receipts, if the host has a command log.
    pub(super) fn receipts(&self) -> Option<Receipts> {
        self.receipts
    }

    /// What the copies have, and when they send receipts.
    pub(super) fn starts(&self) -> BTreeMap<PartitionId, CopyStart> {
        self.logs.iter().map(|(partition, own)| (*partition, start(&own.log))).collect()
    }

    /// A leader follows from now on, and gives its end.
    pub(super) fn follow(&mut self, partition: PartitionId, mut log: SiteLog) -> CopyStart {
        log.refresh();
        let start = start(&log);
        self.logs.insert(partition, FollowerLog { log, waiting: VecDeque::new() });
        start
    }

    /// Whether a copy may be loaded at a site. If another site has the partition's end still, this
    /// one waits until that is given back ([`FollowerLogs::take_back`]).
    pub(super) fn may_load(
        &mut self,
        partition: PartitionId,
        ask: (ThreadId, Option<Attempt>),
    ) -> bool {
        let is_here = self.logs.contains_key(&partition) || self.spare.contains_key(&partition);
        let may_load = is_here || self.receipts.is_none();
        if !may_load {
            self.waiting.insert(partition, ask);
        }
        may_load
    }

    /// A site has no copy of the partition any more that counts, and gives its end back: whom that
    /// was awaited by.
    pub(super) fn take_back(
        &mut self,
        partition: PartitionId,
        log: SiteLog,
    ) -> Option<(ThreadId, Option<Attempt>)> {
        let before = self.spare.insert(partition, log);
        assert!(before.is_none() && !self.logs.contains_key(&partition), "a log has one end");
        self.waiting.remove(&partition)
    }

    /// A copy is loaded at a site with the data up to an entry: its log goes on after that.
    pub(super) fn restart(&mut self, partition: PartitionId, position: u64, site: ThreadId) {
        if let Some(log) = self.spare.remove(&partition) {
            self.logs.insert(partition, FollowerLog { log, waiting: VecDeque::new() });
        }
        let own = self.logs.get_mut(&partition).expect("a copy that is loaded has a log's end");
        // What the attempt before has left is not needed.
        own.waiting.clear();
        own.log.place(site);
        own.log.restart(position);
    }

    /// What copies have taken, and what had to wait, goes to the log's thread as far as that takes
    /// it.
    pub(super) fn add(&mut self, pieces: Vec<(PartitionId, Piece)>) {
        for (partition, piece) in pieces {
            if let Some(own) = self.logs.get_mut(&partition) {
                own.waiting.push_back(piece);
            }
        }
        for FollowerLog { log, waiting } in self.logs.values_mut() {
            while !waiting.is_empty() && log.has_room() {
                let piece = waiting.pop_front().expect("there is one");
                log.hand_over(|spare| handed(&piece, spare));
                log.note_idle();
            }
        }
    }

    /// The copies whose receipts wait for the log, and up to where that is durable, if that is
    /// news.
    pub(super) fn note_durable(&mut self) -> Vec<(PartitionId, u64)> {
        let news = self.logs.iter_mut().filter(|(_, own)| own.log.gates() && own.log.has_news());
        news.map(|(partition, own)| (*partition, own.log.refresh())).collect()
    }

    /// A copy leads from now on: gives its end, to which everything was given.
    pub(super) fn end(&mut self, partition: PartitionId) -> Option<SiteLog> {
        let FollowerLog { mut log, waiting } = self.logs.remove(&partition)?;
        for piece in waiting {
            log.hand_over_waiting(handed(&piece, Vec::new()));
        }
        Some(log)
    }

    /// The host stops: everything that its copies have goes to the log's thread.
    pub(super) fn end_all(&mut self) {
        let all: Vec<PartitionId> = self.logs.keys().copied().collect();
        all.into_iter().for_each(|partition| drop(self.end(partition)));
    }
}

/// What a log has, and when its copy sends receipts.
fn start(log: &SiteLog) -> CopyStart {
    CopyStart { end: log.durable(), receipts: receipts(log) }
}

fn receipts(log: &SiteLog) -> Receipts {
    if log.gates() { Receipts::WhenDurable } else { Receipts::AtOnce }
}

/// Entries as the log's thread takes them.
fn handed(piece: &Piece, mut buffer: Vec<u8>) -> HandedLog {
    buffer.extend_from_slice(&piece.bytes);
    let Piece { source, first, entries, .. } = *piece;
    HandedLog { bytes: buffer, source, first_sequence: first, entries }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::directory::new_cluster;
    use crate::log::{Data, Durability, LogBells, LogEvents, LogStart, LogThread};
    use crate::options::Options;
    use lockstep_durability::command_log::{FOLDER, LogEnd};
    use lockstep_env::Disk;
    use lockstep_env::memory::MemoryDisk;
    use lockstep_host::placement::ClusterPlacement;
    use lockstep_txn::log_entry::LogSource;
    use lockstep_types::HostId;
    use std::sync::Arc;

    fn log() -> (LogThread, SiteLogs) {
        let disk = MemoryDisk::new();
        disk.create_folder(FOLDER).expect("a folder");
        let data = Data {
            disk: Arc::new(disk),
            cluster: new_cluster(2),
            durability: Durability::Sync,
            progress: Arc::default(),
            lock: None,
        };
        let start = LogStart { end: LogEnd::default(), sequences: vec![0; 2] };
        let bells = LogBells { sites: Vec::new(), links: None };
        let events = LogEvents { on_failure: Box::new(|| {}), on_full: Box::new(|_| {}) };
        let started = LogThread::start(&data, &Options::default(), start, bells, events);
        let (thread, ends) = started.expect("the disk is sound");
        (thread, (0..).map(PartitionId).zip(ends).collect())
    }

    fn piece(first: u64) -> Piece {
        Piece { source: LogSource::default(), first, entries: 1, bytes: Arc::from(*b"entry") }
    }

    fn await_durable(logs: &mut FollowerLogs) -> Vec<(PartitionId, u64)> {
        loop {
            match logs.note_durable() {
                none if none.is_empty() => std::thread::yield_now(),
                news => return news,
            }
        }
    }

    /// Of two hosts with K = 1, this one leads one of the partitions and follows the other one.
    #[test]
    fn a_copy_whose_log_another_site_has_is_loaded_once_that_is_given_back() {
        let (_thread, ends) = log();
        let terms = crate::links::ClusterTerms::new(2, 2, 1, &Options::default());
        let first = ClusterPlacement::first(&terms.shape()).expect("it can be spread");
        let placement = Placement::of_cluster(HostId(0), &first);
        let [led, followed] = [true, false].map(|leads| {
            let mut all = (0..2).map(PartitionId);
            let is_here = |of: &PartitionId| placement.leader_of(*of).host() == HostId(0);
            all.find(|of| is_here(of) == leads).expect("each host leads one of two")
        });
        let (mut at_site, mut logs) = FollowerLogs::begin(ends, &placement);
        let site = ThreadId::at(HostId(0), 1);
        assert_eq!(logs.receipts(), Some(Receipts::WhenDurable));
        assert!(logs.may_load(followed, (site, None)), "its end is here");
        assert!(!logs.may_load(led, (site, None)), "the site that led it has its end");
        let own = at_site.remove(&led).expect("it is led here");
        assert_eq!(logs.take_back(led, own), Some((site, None)), "the one that waits may ask");
        assert!(logs.may_load(led, (site, None)));
        logs.restart(led, 40, site);
        assert_eq!(logs.note_durable(), [], "nothing was logged since");
        logs.add(vec![(led, piece(41))]);
        assert_eq!(await_durable(&mut logs), [(led, 41)]);
        assert!(logs.end(led).is_some_and(|log| log.durable() == 41), "it may lead");
    }
}
