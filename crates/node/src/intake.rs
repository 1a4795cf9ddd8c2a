//! What work a host takes in at the moment. A pause, the end of memory or of the disk, and a stop
//! that is prepared each refuse some of it, with a text that says why and what helps.
//!
//! It is asked where calls come in, before anything is ordered or logged: what was taken in is
//! carried out, and replay asks nobody. One load of an atomic number while everything is taken.

use lockstep_plan_ir::ProcedureDefinition;
use lockstep_plan_ir::Statement;
use lockstep_types::{Failure, HostId, Status};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An administrator has paused the host: clients only read.
const PAUSED: u32 = 1;
/// Memory is at its limit: nothing that may grow.
const MEMORY_FULL: u32 = 1 << 1;
/// The disk has less than its reserve: nothing that may grow.
const DISK_LOW: u32 = 1 << 2;
/// The disk has nearly nothing: no write at all.
const DISK_FULL: u32 = 1 << 3;
/// The command log waits for space: no write at all.
const LOG_WAITS: u32 = 1 << 4;
/// A stop is prepared: no call at all.
const STOPPING: u32 = 1 << 5;
/// The host is not in the majority of its cluster: no call at all.
const CUT_OFF: u32 = 1 << 6;
/// Some partitions cannot be served: no call that needs one.
const UNAVAILABLE: u32 = 1 << 7;

/// Another host of the cluster is at its memory limit: nothing that may grow.
const MEMORY_FULL_ELSEWHERE: u32 = 1 << 8;
/// The disk of another host has less than its reserve: nothing that may grow.
const DISK_LOW_ELSEWHERE: u32 = 1 << 9;
/// The disk of another host has nearly nothing, or no space for its command log: no write at all.
const DISK_FULL_ELSEWHERE: u32 = 1 << 10;
const ELSEWHERE: u32 = MEMORY_FULL_ELSEWHERE | DISK_LOW_ELSEWHERE | DISK_FULL_ELSEWHERE;
/// What hosts tell each other: a bit for each of these reasons, in this order.
const SHARED: [(u32, u32); 3] = [
    (MEMORY_FULL, MEMORY_FULL_ELSEWHERE),
    (DISK_LOW, DISK_LOW_ELSEWHERE),
    (DISK_FULL | LOG_WAITS, DISK_FULL_ELSEWHERE),
];

/// What every call gets at a host that is not in the majority of its cluster.
const NOT_IN_MAJORITY: &str = "This host is not connected with a majority of its cluster, and \
    serves nothing until it is: call another host.";

/// What every call gets while a stop is prepared: VoltDB's text, and how to end that state.
const STOP_PREPARED: &str = "Server is shutting down. An administrator has prepared a shutdown \
    (@PrepareShutdown) and has not finished it yet: @Shutdown finishes it, @CancelShutdown \
    cancels it (`lockstep admin shutdown --cancel`, `voltadmin shutdown --cancel`).";

/// Of the memory limit, below which a host at the limit takes everything again.
const RESUME_PERCENT: u64 = 95;
/// Of the disk's reserve, above which a host without it takes everything again.
const DISK_RESUME_PERCENT: u64 = 105;
/// Of the disk's reserve, below which no write at all is taken.
const DISK_FULL_PERCENT: u64 = 25;

/// What a call may change, by its plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changes {
    /// Nothing: it reads.
    Nothing,
    /// It takes rows or tables away: what is kept gets smaller.
    Deletes,
    /// Anything.
    Anything,
}

impl Changes {
    /// What a statement may change.
    pub fn of_statement(statement: &Statement) -> Changes {
        match (statement.read_only, statement.may_grow()) {
            (true, _) => Changes::Nothing,
            (false, false) => Changes::Deletes,
            (false, true) => Changes::Anything,
        }
    }

    /// What a procedure may change. One that is no transaction changes nothing itself.
    pub fn of_procedure(procedure: &ProcedureDefinition) -> Changes {
        let statements = procedure.statements.iter();
        let changes = statements.map(|(_, statement)| Changes::of_statement(statement));
        changes.max().unwrap_or(Changes::Nothing)
    }
}

/// How much of something is in use or left, in bytes.
#[derive(Default)]
struct Measured {
    now: AtomicU64,
    limit: AtomicU64,
}

/// What a host takes in.
#[derive(Default)]
pub struct Intake {
    /// The reasons for which less than everything is taken.
    reasons: AtomicU32,
    memory: Measured,
    disk: Measured,
    /// The number of the first of the other hosts that have too little of something.
    short_host: AtomicU32,
}

impl Intake {
    /// Whether everything is taken.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) == 0
    }

    fn has(&self, reason: u32) -> bool {
        self.reasons.load(Ordering::Relaxed) & reason != 0
    }

    /// Whether that changes anything.
    fn set(&self, reason: u32, holds: bool) -> bool {
        let before = match holds {
            true => self.reasons.fetch_or(reason, Ordering::Relaxed),
            false => self.reasons.fetch_and(!reason, Ordering::Relaxed),
        };
        (before & reason != 0) != holds
    }

    /// Whether writes are refused for any reason: what VoltDB calls paused.
    pub fn is_paused(&self) -> bool {
        self.has(!(CUT_OFF | UNAVAILABLE))
    }

    /// Whether an administrator has paused the host: a host that joins is paused as well.
    pub fn is_paused_by_administrator(&self) -> bool {
        self.has(PAUSED)
    }

    /// Whether an administrator has paused the host, or prepares its stop.
    pub fn is_held_by_administrator(&self) -> bool {
        self.has(PAUSED | STOPPING)
    }

    /// An administrator pauses the host, or lets it go on.
    pub fn set_paused(&self, paused: bool) {
        self.set(PAUSED, paused);
    }

    /// A stop is prepared, or is not any more.
    pub fn set_stopping(&self, stopping: bool) {
        self.set(STOPPING, stopping);
    }

    /// The command log waits for space, or has it. Whether that is news.
    pub fn set_log_waits(&self, waits: bool) -> bool {
        self.set(LOG_WAITS, waits)
    }

    /// The host leaves the majority of its cluster, or is in it again.
    pub fn set_cut_off(&self, is_cut_off: bool) {
        self.set(CUT_OFF, is_cut_off);
    }

    /// Some partitions cannot be served, or all can again. Which ones is known elsewhere.
    pub fn set_unavailable(&self, is_any: bool) {
        self.set(UNAVAILABLE, is_any);
    }

    /// Whether the host is not connected with a majority of its cluster.
    pub fn is_cut_off(&self) -> bool {
        self.has(CUT_OFF)
    }

    /// Whether the host is in the majority of its cluster.
    ///
    /// # Errors
    /// What every call gets.
    pub fn check_majority(&self) -> Result<(), Failure> {
        match self.has(CUT_OFF) {
            true => Err(Failure::new(Status::ServerUnavailable, NOT_IN_MAJORITY)),
            false => Ok(()),
        }
    }

    /// Says how much memory is in use, of how much there may be, in bytes; limit 0 is none.
    /// Whether the host is at the limit now, if that is news.
    pub fn note_memory(&self, used: u64, limit: u64) -> Option<bool> {
        self.memory.now.store(used, Ordering::Relaxed);
        self.memory.limit.store(limit, Ordering::Relaxed);
        let is_full = match self.has(MEMORY_FULL) {
            true => limit > 0 && used >= percent_of(limit, RESUME_PERCENT),
            false => limit > 0 && used >= limit,
        };
        self.set(MEMORY_FULL, is_full).then_some(is_full)
    }

    /// Says how many bytes of the disk are free, and how many should be; reserve 0 is none.
    /// Whether less is taken for that now, if that is news.
    pub fn note_disk(&self, free: u64, reserve: u64) -> Option<bool> {
        self.disk.now.store(free, Ordering::Relaxed);
        self.disk.limit.store(reserve, Ordering::Relaxed);
        let is_low = match self.has(DISK_LOW) {
            true => free < percent_of(reserve, DISK_RESUME_PERCENT),
            false => free < reserve,
        };
        self.set(DISK_FULL, is_low && free < percent_of(reserve, DISK_FULL_PERCENT));
        self.set(DISK_LOW, is_low).then_some(is_low)
    }

    /// What this host has too little of, for the other hosts of its cluster.
    pub fn shortages(&self) -> u8 {
        let bits = (0..).zip(SHARED).filter(|(_, (own, _))| self.has(*own));
        bits.map(|(bit, _)| 1 << bit).sum()
    }

    /// What other hosts of the cluster have too little of, by [`Intake::shortages`] of each: every
    /// copy of a partition executes the same writes, so all hosts refuse what one of them has to.
    /// What there is to say of it, if that is news.
    pub fn note_shortages(&self, hosts: impl Iterator<Item = (HostId, u8)>) -> Option<String> {
        let (mut reasons, mut first) = (0, None);
        for (host, shortages) in hosts {
            let known = (0..).zip(SHARED).filter(|(bit, _)| shortages >> bit & 1 == 1);
            reasons |= known.fold(0, |all, (_, (_, elsewhere))| all | elsewhere);
            first = first.or(Some(host));
        }
        if let Some(host) = first {
            self.short_host.store(host.0, Ordering::Relaxed);
        }
        let before = self.reasons.load(Ordering::Relaxed) & ELSEWHERE;
        if before == reasons {
            return None;
        }
        self.reasons.fetch_or(reasons, Ordering::Relaxed);
        self.reasons.fetch_and(!(ELSEWHERE & !reasons), Ordering::Relaxed);
        Some(match reasons {
            0 => "all hosts of the cluster have memory and space again: writes go on".to_string(),
            _ => self.said_of_others(),
        })
    }

    /// What is wrong at another host of the cluster, and what helps.
    fn said_of_others(&self) -> String {
        let host = self.short_host.load(Ordering::Relaxed);
        let (problem, help) = if self.has(DISK_FULL_ELSEWHERE) {
            ("has no space for its command log", "Make room on its disk")
        } else if self.has(MEMORY_FULL_ELSEWHERE) {
            (
                "is at its memory limit (options memory_limit_percent and memory_limit_bytes)",
                "Delete rows, or start it with a higher limit or more memory",
            )
        } else {
            (
                "has less free space on its disk than its reserve (option disk_reserve_bytes)",
                "Make room there",
            )
        };
        format!(
            "Server is in read-only mode: host {host} of the cluster {problem}. {help}: writes go \
             on by themselves."
        )
    }

    /// Whether a call is taken that may change so much, from an administrator or a client.
    ///
    /// # Errors
    /// What the caller gets: why it is not taken, and what helps.
    pub fn check(&self, changes: Changes, admin: bool) -> Result<(), Failure> {
        let reasons = self.reasons.load(Ordering::Relaxed);
        let has = |reason| reasons & reason != 0;
        self.check_majority()?;
        let text = if has(STOPPING) {
            STOP_PREPARED.to_string()
        } else if changes == Changes::Nothing {
            return Ok(());
        } else if has(PAUSED) && !admin {
            "Server is paused and is available in read-only mode - please try again later."
                .to_string()
        } else if has(LOG_WAITS | DISK_FULL) {
            format!("{} No write is taken until then; reads go on.", self.said_of_disk())
        } else if has(DISK_FULL_ELSEWHERE) {
            format!("{} No write is taken until then; reads go on.", self.said_of_others())
        } else if changes == Changes::Deletes {
            return Ok(());
        } else if has(MEMORY_FULL) {
            format!("{} Reads and deletes go on.", self.said_of_memory())
        } else if has(DISK_LOW) {
            format!("{} Reads and deletes go on.", self.said_of_disk())
        } else if has(ELSEWHERE) {
            format!("{} Reads and deletes go on.", self.said_of_others())
        } else {
            return Ok(());
        };
        Err(Failure::new(Status::ServerUnavailable, text))
    }

    /// Whether a call is taken that clients may not make while an administrator has paused the
    /// host, whatever it changes. A stop that is prepared is held against it elsewhere.
    ///
    /// # Errors
    /// What the caller gets: that the host is paused.
    pub fn check_pause(&self, admin: bool) -> Result<(), Failure> {
        match self.has(PAUSED) && !self.has(STOPPING) && !admin {
            true => self.check(Changes::Anything, admin),
            false => Ok(()),
        }
    }

    /// What is wrong with the memory, and what helps.
    pub fn said_of_memory(&self) -> String {
        let used = self.memory.now.load(Ordering::Relaxed);
        let limit = self.memory.limit.load(Ordering::Relaxed);
        format!(
            "Server is in read-only mode: the host uses {} of memory, and its limit is {} (options \
             memory_limit_percent and memory_limit_bytes). Delete rows, or start it with a higher \
             limit or more memory: writes go on by themselves below {}.",
            mebibytes(used),
            mebibytes(limit),
            mebibytes(percent_of(limit, RESUME_PERCENT))
        )
    }

    /// What is wrong with the disk, and what helps.
    pub fn said_of_disk(&self) -> String {
        if self.has(LOG_WAITS) {
            return "Server is in read-only mode: there is no space for the command log on the \
                    disk of the host's directory. Make room there: writes go on by themselves."
                .to_string();
        }
        let free = self.disk.now.load(Ordering::Relaxed);
        let reserve = self.disk.limit.load(Ordering::Relaxed);
        format!(
            "Server is in read-only mode: {} are free on the disk of the host's directory, less \
             than its reserve of {} (option disk_reserve_bytes). Make room there: writes go on by \
             themselves above {}.",
            mebibytes(free),
            mebibytes(reserve),
            mebibytes(percent_of(reserve, DISK_RESUME_PERCENT))
        )
    }
}

fn percent_of(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}

fn mebibytes(bytes: u64) -> String {
    const MIB: f64 = (1 << 20) as f64;
    format!("{:.1} MiB", bytes as f64 / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which calls of clients are taken: those that read, delete, write.
    fn taken(intake: &Intake) -> [bool; 3] {
        let all = [Changes::Nothing, Changes::Deletes, Changes::Anything];
        all.map(|changes| intake.check(changes, false).is_ok())
    }

    #[test]
    fn memory_is_left_and_entered_at_different_places() {
        let intake = Intake::default();
        assert_eq!(intake.note_memory(999, 1_000), None);
        assert_eq!(taken(&intake), [true, true, true]);
        assert_eq!(intake.note_memory(1_000, 1_000), Some(true));
        assert_eq!(taken(&intake), [true, true, false]);
        assert!(intake.check(Changes::Anything, true).is_err(), "administrators neither");
        assert_eq!(intake.note_memory(950, 1_000), None);
        assert_eq!(taken(&intake), [true, true, false]);
        assert_eq!(intake.note_memory(949, 1_000), Some(false));
        assert!(intake.is_open());
        assert_eq!(intake.note_memory(u64::MAX, 0), None, "no limit");
    }

    #[test]
    fn a_disk_with_less_and_less_space() {
        let intake = Intake::default();
        assert_eq!(intake.note_disk(1_000, 1_000), None);
        assert_eq!(intake.note_disk(999, 1_000), Some(true));
        assert_eq!(taken(&intake), [true, true, false]);
        assert_eq!(intake.note_disk(249, 1_000), None);
        assert_eq!(taken(&intake), [true, false, false]);
        assert_eq!(intake.note_disk(1_049, 1_000), None);
        assert_eq!(taken(&intake), [true, true, false]);
        assert_eq!(intake.note_disk(1_050, 1_000), Some(false));
        assert!(intake.is_open());
    }

    #[test]
    fn what_one_host_has_to_refuse_all_do() {
        let (full, other) = (Intake::default(), Intake::default());
        let hear = || other.note_shortages([(HostId(2), full.shortages())].into_iter());
        assert_eq!((full.shortages(), hear()), (0, None));
        full.note_disk(999, 1_000);
        let news = hear().expect("it is new");
        assert!(news.contains("host 2 of the cluster has less free space"), "{news}");
        assert_eq!((hear(), taken(&other)), (None, [true, true, false]));
        full.set_log_waits(true);
        assert!(hear().is_some_and(|news| news.contains("no space for its command log")));
        assert_eq!(taken(&other), [true, false, false]);
        let refused = other.check(Changes::Anything, true).expect_err("administrators neither");
        assert_eq!(refused.status, Status::ServerUnavailable);
        assert!(refused.message.contains("Make room on its disk"), "{}", refused.message);
        full.set_log_waits(false);
        full.note_disk(2_000, 1_000);
        full.note_memory(1_000, 1_000);
        assert!(hear().is_some_and(|news| news.contains("is at its memory limit")));
        assert_eq!(taken(&other), [true, true, false]);
        full.note_memory(0, 1_000);
        assert!(hear().is_some_and(|news| news.contains("writes go on")) && other.is_open());
        // What a later release shares besides is nothing that this one knows.
        assert_eq!(other.note_shortages([(HostId(1), 0x80)].into_iter()), None);
    }

    #[test]
    fn every_refusal_is_told_as_unavailable_with_its_reason() {
        let intake = Intake::default();
        let said = |admin| {
            let refused = intake.check(Changes::Anything, admin).expect_err("refused");
            assert_eq!(refused.status, Status::ServerUnavailable);
            refused.message
        };
        intake.note_disk(1 << 20, 4 << 20);
        assert!(said(true).contains("1.0 MiB are free"), "{}", said(true));
        assert!(said(true).contains("reserve of 4.0 MiB (option disk_reserve_bytes)"));
        intake.note_memory(8 << 20, 8 << 20);
        assert!(said(true).contains("uses 8.0 MiB of memory, and its limit is 8.0 MiB"));
        assert!(intake.set_log_waits(true) && !intake.set_log_waits(true));
        assert!(said(true).contains("no space for the command log"), "{}", said(true));
        intake.set_paused(true);
        assert!(said(false).contains("is paused and is available in read-only mode"));
        intake.set_stopping(true);
        assert!(said(true).starts_with("Server is shutting down. "), "{}", said(true));
        assert!(said(true).contains("@CancelShutdown"), "{}", said(true));
        assert!(intake.check(Changes::Nothing, true).is_err(), "not even reads");
    }

    #[test]
    fn a_host_that_is_cut_off_takes_nothing_and_is_not_paused() {
        let intake = Intake::default();
        intake.set_cut_off(true);
        assert_eq!(taken(&intake), [false, false, false]);
        let refused = intake.check(Changes::Nothing, true).expect_err("not even reads");
        assert_eq!(refused.status, Status::ServerUnavailable);
        assert!(refused.message.contains("not connected with a majority"), "{}", refused.message);
        assert!(!intake.is_open() && !intake.is_paused());
        intake.set_cut_off(false);
        assert_eq!(taken(&intake), [true, true, true]);
    }
}
