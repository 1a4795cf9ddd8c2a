//! Looks, from time to time, at how much memory the host uses and how much room its disk has, and
//! says what work is taken for that.
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
use lockstep_env::DiskError;
use std::sync::atomic::Ordering;
use std::time::Duration;

const KIB: u64 = 1024;

/// When the host looks again, and how much memory there is.
pub(super) struct Resources {
    next_ns: u64,
    /// What the machine, or the group of processes that this one is in, has; 0 if nobody says.
    memory_bytes: u64,
    /// A thread looks at the directory.
    is_looking: bool,
}

impl Resources {
    pub(super) fn new() -> Resources {
        Resources { next_ns: 0, memory_bytes: available_memory_bytes(), is_looking: false }
    }

    /// Until the next look.
    pub(super) fn time_left(&self) -> Duration {
        Duration::from_nanos(self.next_ns.saturating_sub(clock::monotonic_ns()))
    }
}

impl Control {
    /// Looks, if it is time to.
    pub(super) fn attend_to_resources(&mut self) {
        let now_ns = clock::monotonic_ns();
        if now_ns < self.resources.next_ns {
            return;
        }
        self.resources.next_ns = now_ns + self.facts.options.resource_check_ms.ns();
        self.look_at_memory();
        self.look_at_disk();
    }

    fn look_at_memory(&self) {
        let limit = lower_limit_bytes(&self.facts.options, self.resources.memory_bytes);
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

    /// Looks at the directory, by a thread for files: its disk may not answer.
    fn look_at_disk(&mut self) {
        let Some(disk) = self.facts.data_disk.clone() else { return };
        if std::mem::replace(&mut self.resources.is_looking, true) {
            return;
        }
        let lock = self.facts.data_lock.clone();
        let reserve = self.facts.options.disk_reserve_bytes.number();
        let look = move || {
            let locked = lock.map_or(Ok(false), |lock| lock.check());
            (locked, (reserve > 0).then(|| disk.free_bytes()))
        };
        let then = |control: &mut Control, (locked, free)| {
            control.resources.is_looking = false;
            control.note_lock(locked);
            if let Some(free) = free {
                control.note_disk(free);
            }
        };
        if let Err(error) = self.with_own_files(look, then) {
            tracing::warn!(%error, "the host does not look at its disk");
            self.resources.is_looking = false;
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

    fn note_disk(&self, free: Result<u64, DiskError>) {
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
        let left = self.resources.memory_bytes.saturating_sub(limit) / 2;
        (resident_kb() * KIB).saturating_sub(reusable.min(left))
    }
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

/// How much memory a host with these options may use here; 0 for no limit.
pub(crate) fn memory_limit_bytes(options: &Options) -> u64 {
    lower_limit_bytes(options, available_memory_bytes())
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
