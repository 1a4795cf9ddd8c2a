//! Checks at an interval how much memory the host uses and how much space its disk has, on which it
//! depends what work is taken.
//!
//! What counts is the memory of the process that is resident, because that is what the system
//! has to give: tables, but also answers, logs, plans, libraries. Two things are in it that the
//! host can have again at once. What the allocator keeps back goes to the system before a limit
//! is called reached. And slots without a row, inside tables, are filled by the next rows: they
//! count as free, but no more than half of what the limit leaves of the machine, because a table
//! cannot use the slots of another.

use super::Control;
use crate::clock;
use crate::options::{Bytes, OptionValue, Options, Percent};
use crate::shard::HostFacts;
use lockstep_env::DiskError;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const KIB: u64 = 1024;

/// The memory and the disk of a host.
pub(super) struct Resources {
    facts: Arc<HostFacts>,
    next_check_ns: u64,
    /// What the machine, or the group of processes that this one is in, has; 0 if unknown.
    memory_bytes: u64,
    /// A thread checks the directory.
    is_checking_disk: bool,
}

/// What a check of the directory found.
struct DiskChecked {
    /// Whether its lock file was gone and is created again; an error: it is another host's.
    locked: Result<bool, String>,
    /// The free space, where some is reserved.
    free_bytes: Option<Result<u64, DiskError>>,
}

impl Resources {
    /// Nothing is checked yet.
    pub(super) fn new(facts: Arc<HostFacts>) -> Resources {
        let memory_bytes = available_memory_bytes();
        Resources { facts, next_check_ns: 0, memory_bytes, is_checking_disk: false }
    }

    /// Until the next check.
    pub(super) fn time_left(&self) -> Duration {
        Duration::from_nanos(self.next_check_ns.saturating_sub(clock::monotonic_ns()))
    }

    /// Whether a check is due, which begins now.
    fn begin_check(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.next_check_ns;
        if is_due {
            self.next_check_ns = now_ns + self.facts.options.resource_check_ms.ns();
        }
        is_due
    }

    fn check_memory(&self) {
        let limit = lower_limit_bytes(&self.facts.options, self.memory_bytes);
        let intake = &self.facts.intake;
        let mut used = self.used_memory_bytes(limit);
        if limit > 0 && used >= limit {
            give_free_memory_back();
            used = self.used_memory_bytes(limit);
        }
        match intake.note_memory(used, limit) {
            Some(true) => tracing::warn!("{}", intake.said_of_memory()),
            Some(false) => tracing::warn!(used, limit, "memory is free again: writes go on"),
            None => {}
        }
    }

    /// What checks the directory, on a thread for files: its disk may not answer. `None` for a host
    /// without a directory, and while a check is in progress.
    fn begin_disk_check(&mut self) -> Option<impl FnOnce() -> DiskChecked + Send + use<>> {
        let disk = self.facts.data_disk.clone()?;
        if std::mem::replace(&mut self.is_checking_disk, true) {
            return None;
        }
        let lock = self.facts.data_lock.clone();
        let reserve_bytes = self.facts.options.disk_reserve_bytes.number();
        Some(move || DiskChecked {
            locked: lock.map_or(Ok(false), |lock| lock.check()),
            free_bytes: (reserve_bytes > 0).then(|| disk.free_bytes()),
        })
    }

    /// The check of the directory has ended, or has not begun.
    fn disk_checked(&mut self, checked: io::Result<DiskChecked>) {
        self.is_checking_disk = false;
        match checked {
            Err(error) => tracing::warn!(%error, "the disk of the host is not checked"),
            Ok(DiskChecked { locked, free_bytes }) => {
                self.note_lock(locked);
                if let Some(free_bytes) = free_bytes {
                    self.note_free_space(free_bytes);
                }
            }
        }
    }

    /// Whether the directory is still the host's own.
    fn note_lock(&self, locked: Result<bool, String>) {
        match locked {
            Ok(false) => {}
            Ok(true) => tracing::warn!("the lock file of the directory was gone and is made again"),
            Err(problem) => {
                if self.facts.lost.set(problem.clone()).is_err() {
                    return;
                }
                tracing::error!("the host stops: {problem}");
                // What is answered from here on would not be there after the next start.
                self.facts.intake.set_stopping(true);
                if let Some(stop) = self.facts.on_shutdown.get() {
                    stop();
                }
            }
        }
    }

    fn note_free_space(&self, free: Result<u64, DiskError>) {
        let free = match free {
            Ok(free) => free,
            Err(error) => return tracing::warn!(%error, "the disk's free space is not known"),
        };
        let reserve = self.facts.options.disk_reserve_bytes.number();
        let intake = &self.facts.intake;
        match intake.note_disk(free, reserve) {
            Some(true) => tracing::warn!("{}", intake.said_of_disk()),
            Some(false) => {
                tracing::warn!(free, reserve, "the disk has space again: writes are accepted")
            }
            None => {}
        }
    }

    fn used_memory_bytes(&self, limit: u64) -> u64 {
        let sites = self.facts.reusable_bytes.iter();
        let reusable: u64 = sites.map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        let left = self.memory_bytes.saturating_sub(limit) / 2;
        (resident_kb() * KIB).saturating_sub(reusable.min(left))
    }
}

impl Control {
    /// Checks memory and disk, if it is time to.
    pub(super) fn attend_to_resources(&mut self) {
        if !self.resources.begin_check(clock::monotonic_ns()) {
            return;
        }
        self.resources.check_memory();
        let Some(check) = self.resources.begin_disk_check() else { return };
        let then = |control: &mut Control, checked| control.resources.disk_checked(Ok(checked));
        if let Err(error) = self.with_own_files(check, then) {
            self.resources.disk_checked(Err(error));
        }
    }
}

/// How much memory a host with these options may use here; 0 for no limit.
pub(crate) fn memory_limit_bytes(options: &Options) -> u64 {
    lower_limit_bytes(options, available_memory_bytes())
}

/// Resident memory of this process in KiB; 0 when the system does not say.
pub(super) fn resident_kb() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or(0) * u64::try_from(page_bytes).unwrap_or(0) / 1024
}

/// Physical memory of the machine, in KiB; 0 when the system does not say.
pub(super) fn physical_memory_kb() -> u64 {
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let (pages, page_bytes) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(page_bytes).unwrap_or(0) / 1024
}

/// The lower one of the two limits; 0 for none.
fn lower_limit_bytes(options: &Options, memory_bytes: u64) -> u64 {
    let of_memory = |share: Percent| u128::from(memory_bytes) * u128::from(share.get()) / 100;
    let by_share = options.memory_limit_percent.map(|share| of_memory(share) as u64);
    let limits = [by_share, options.memory_limit_bytes.map(Bytes::get)];
    limits.into_iter().flatten().filter(|limit| *limit > 0).min().unwrap_or(0)
}

/// The memory of the machine, or what the system lets this process and those beside it have.
fn available_memory_bytes() -> u64 {
    const GROUPS: [&str; 2] =
        ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let of_group = format!("/sys/fs/cgroup{path}/memory.max");
    let files = std::iter::once(of_group.as_str()).chain(GROUPS);
    let limits = files.filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok());
    let machine = physical_memory_kb() * KIB;
    limits.chain(std::iter::once(machine)).filter(|bytes| *bytes > 0).min().unwrap_or(0)
}

/// Has the allocator give the system what nobody uses.
#[cfg(target_env = "gnu")]
pub(super) fn give_free_memory_back() {
    // SAFETY: the allocator takes its own locks and gives back what is free; nothing of ours is
    // handed over.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn give_free_memory_back() {}
