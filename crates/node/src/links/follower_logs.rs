//! The ends of the command log of the copies that follow: what they take goes to the log's thread
//! from the thread of the links.

use crate::log::SiteLog;
use lockstep_host::copies::CopyStart;
use lockstep_host::placement::Placement;
use lockstep_txn::HandedLog;
use lockstep_txn::replica::{Piece, Receipts};
use lockstep_types::PartitionId;
use std::collections::{BTreeMap, VecDeque};

/// By partition, the ends of the command log of this host.
pub(crate) type SiteLogs = BTreeMap<PartitionId, SiteLog>;

/// The ends of the copies that follow, or are loaded.
#[derive(Default)]
pub(super) struct FollowerLogs {
    logs: BTreeMap<PartitionId, FollowerLog>,
    /// Those of partitions without a copy here.
    spare: SiteLogs,
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
        for site in placement.sites() {
            for replica in placement.led_by(site) {
                led.extend(logs.remove_entry(&replica.partition));
            }
            for replica in placement.followed_by(site).iter().chain(placement.learned_by(site)) {
                if let Some(log) = logs.remove(&replica.partition) {
                    let log = FollowerLog { log, waiting: VecDeque::new() };
                    followed.logs.insert(replica.partition, log);
                }
            }
        }
        followed.spare = logs;
        (led, followed)
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

    /// A copy is loaded with the data up to an entry: its log goes on after that.
    pub(super) fn restart(&mut self, partition: PartitionId, position: u64) {
        if let Some(log) = self.spare.remove(&partition) {
            self.logs.insert(partition, FollowerLog { log, waiting: VecDeque::new() });
        }
        let own = self.logs.get_mut(&partition).expect("a copy that is loaded has a log's end");
        // What the attempt before has left is not needed.
        own.waiting.clear();
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
    let receipts = if log.gates() { Receipts::WhenDurable } else { Receipts::AtOnce };
    CopyStart { end: log.durable(), receipts }
}

/// Entries as the log's thread takes them.
fn handed(piece: &Piece, mut buffer: Vec<u8>) -> HandedLog {
    buffer.extend_from_slice(&piece.bytes);
    let Piece { source, first, entries, .. } = *piece;
    HandedLog { bytes: buffer, source, first_sequence: first, entries }
}
