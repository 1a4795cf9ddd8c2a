//! What the sites and the thread of the command log know together.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::thread::Thread;

/// What sites and the log's thread know together.
pub(crate) struct LogShared {
    pub(super) sites: Box<[Progress]>,
    pub(super) sleeping: AtomicBool,
    pub(super) stopping: AtomicBool,
    /// Not to wait for space any longer.
    pub(super) hurries: AtomicBool,
    pub(super) failed: AtomicBool,
    /// Grows with everything that the disk has done.
    pub(super) steps: AtomicU64,
    /// What the files are, for statistics.
    files: LogFiles,
    /// A group is gathered until a site that has a part in it is idle.
    pub(super) awaits_idle: AtomicBool,
    pub(super) thread: OnceLock<Thread>,
}

/// What the log's files are, as its thread told last.
#[derive(Default)]
struct LogFiles {
    /// Segments that hold entries, and files in all.
    in_use: AtomicU64,
    all: AtomicU64,
    /// The mean time between the last syncs, microseconds.
    sync_interval_us: AtomicU64,
}

/// How the command log is, for statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogStatus {
    /// Segments that hold entries.
    pub segments_in_use: u64,
    /// Files, those included that are kept for later segments.
    pub segments: u64,
    /// The mean time between the last ten syncs, microseconds.
    pub sync_interval_us: u64,
}

/// How far one site's log is. On a cache line of its own: the site reads it every round.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Progress {
    /// Number of the last durable entry.
    pub(super) durable: AtomicU64,
    /// Bytes of hand-overs that were written.
    pub(super) written_bytes: AtomicU64,
    /// The site has nothing to do.
    pub(super) is_idle: AtomicBool,
    /// The number of the thread that has the partition, which is woken when more is durable.
    pub(super) thread: AtomicUsize,
}

impl LogShared {
    /// When everything up to these entries, by site, is durable.
    pub fn behind(sequences: &[u64]) -> LogShared {
        let site = |&sequence: &u64| Progress {
            durable: AtomicU64::new(sequence),
            written_bytes: AtomicU64::new(0),
            is_idle: AtomicBool::new(false),
            thread: AtomicUsize::new(usize::MAX),
        };
        LogShared {
            sites: sequences.iter().map(site).collect(),
            sleeping: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            hurries: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            files: LogFiles::default(),
            awaits_idle: AtomicBool::new(false),
            thread: OnceLock::new(),
        }
    }

    /// How the log's files are.
    pub fn status(&self) -> LogStatus {
        let files = &self.files;
        LogStatus {
            segments_in_use: files.in_use.load(Ordering::Relaxed),
            segments: files.all.load(Ordering::Relaxed),
            sync_interval_us: files.sync_interval_us.load(Ordering::Relaxed),
        }
    }

    /// The thread tells the number of its segments, and of all its files.
    pub fn note_files(&self, in_use: u64, all: u64) {
        self.files.in_use.store(in_use, Ordering::Relaxed);
        self.files.all.store(all, Ordering::Relaxed);
    }

    /// The thread tells the mean time between the last syncs.
    pub fn note_sync_interval(&self, mean_us: u64) {
        self.files.sync_interval_us.store(mean_us, Ordering::Relaxed);
    }

    #[inline]
    pub fn durable(&self, site: usize) -> u64 {
        self.sites[site].durable.load(Ordering::Acquire)
    }

    #[inline]
    pub fn written_bytes(&self, site: usize) -> u64 {
        self.sites[site].written_bytes.load(Ordering::Acquire)
    }

    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// A site has nothing to do from now on: what it handed over need not wait for more of it.
    #[inline]
    pub fn note_idle(&self, site: usize) {
        self.sites[site].is_idle.store(true, Ordering::Relaxed);
        // Pairs with the fence before the thread's look at the sites.
        fence(Ordering::SeqCst);
        if self.awaits_idle.load(Ordering::Relaxed)
            && self.awaits_idle.swap(false, Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// From now on a thread has the partition.
    pub fn place(&self, site: usize, thread: usize) {
        self.sites[site].thread.store(thread, Ordering::Relaxed);
    }

    /// It has something to do again.
    #[inline]
    pub fn note_busy(&self, site: usize) {
        self.sites[site].is_idle.store(false, Ordering::Relaxed);
    }

    /// Wakes the thread if it sleeps, or is about to.
    #[inline]
    pub fn wake(&self) {
        // Pairs with the fence before the thread's last look at the rings.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed)
            && self.sleeping.swap(false, Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}
