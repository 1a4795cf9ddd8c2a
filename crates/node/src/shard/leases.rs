//! Until when this host may answer for the partitions that it leads, and whether its sites run:
//! what the thread of the links and the sites leave for each other.

use lockstep_types::{PartitionId, ThreadId};
use std::sync::atomic::{AtomicU64, Ordering};

/// By partition, until when this host may answer reads of it.
pub struct LeaseTable {
    until_us: Box<[AtomicU64]>,
}

impl LeaseTable {
    /// A host that may always answer: no other host can have the data.
    pub fn always(partitions: u32) -> LeaseTable {
        LeaseTable { until_us: (0..partitions).map(|_| AtomicU64::new(u64::MAX)).collect() }
    }

    /// A host that may answer as far as the other hosts grant it: nothing yet.
    pub fn granted(partitions: u32) -> LeaseTable {
        LeaseTable { until_us: (0..partitions).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Until when the host may answer reads of a partition, by [`crate::clock::boot_us`]; 0 for
    /// not at all, `u64::MAX` for always. It is tested after the read was executed.
    #[inline]
    pub fn until_us(&self, partition: PartitionId) -> u64 {
        self.until_us[partition.index()].load(Ordering::Acquire)
    }

    /// The thread of the links has the newest grants.
    pub(crate) fn set(&self, partition: PartitionId, until_us: u64) {
        self.until_us[partition.index()].store(until_us, Ordering::Release);
    }
}

/// By site, when its thread ran last.
pub struct SiteRuns(Box<[SiteRun]>);

/// On a cache line of its own, which only its site writes.
#[repr(align(128))]
struct SiteRun(AtomicU64);

/// In place of a time: the thread waits for work.
const WAITS: u64 = u64::MAX;

impl SiteRuns {
    /// Sites that have not started: they wait.
    pub fn new(sites: u32) -> SiteRuns {
        SiteRuns((0..sites).map(|_| SiteRun(AtomicU64::new(WAITS))).collect())
    }

    /// A site begins a round at a time of [`crate::clock::now_us`].
    #[inline]
    pub(crate) fn begin_round(&self, site: ThreadId, now_us: i64) {
        self.0[site.index()].0.store(now_us as u64, Ordering::Relaxed);
    }

    /// A site is about to sleep until there is work.
    #[inline]
    pub(crate) fn wait(&self, site: ThreadId) {
        self.0[site.index()].0.store(WAITS, Ordering::Relaxed);
    }

    /// By site, since when it has been in its present round, by the same clock; `None` for one
    /// that waits.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = Option<i64>> + '_ {
        self.0.iter().map(|site| match site.0.load(Ordering::Relaxed) {
            WAITS => None,
            since_us => Some(since_us as i64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_runs_or_waits_and_a_lease_is_what_was_written_last() {
        let runs = SiteRuns::new(2);
        assert_eq!(runs.rounds().collect::<Vec<_>>(), [None, None]);
        runs.begin_round(ThreadId(1), 77);
        assert_eq!(runs.rounds().collect::<Vec<_>>(), [None, Some(77)]);
        runs.wait(ThreadId(1));
        assert_eq!(runs.rounds().collect::<Vec<_>>(), [None, None]);
        assert_eq!(LeaseTable::always(1).until_us(PartitionId(0)), u64::MAX);
        let leases = LeaseTable::granted(2);
        leases.set(PartitionId(1), 5);
        assert_eq!([0, 1].map(|number| leases.until_us(PartitionId(number))), [0, 5]);
    }
}
