//! The host's clock: read once a round of a loop, handed down as numbers.
//!
//! The only place of the data path that reads time. Wall time comes from one reading at start
//! plus a monotonic clock, so that it never jumps while the host runs.

use crate::callers::Callers;
use lockstep_exec::watch::Stopwatch;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

struct Origin {
    instant: Instant,
    wall_us: i64,
    /// By how much a test shifted it.
    shift_us: i64,
}

static ORIGIN: OnceLock<Origin> = OnceLock::new();
static COARSE_MS: AtomicU64 = AtomicU64::new(0);

fn origin() -> &'static Origin {
    ORIGIN.get_or_init(|| {
        let (instant, wall_us) = (Instant::now(), system_us());
        Origin { instant, wall_us, shift_us: 0 }
    })
}

fn system_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

/// For tests, before anything else: this process sees the system's clock this many microseconds
/// later than it is, or earlier.
pub fn shift(by_us: i64) {
    let wall_us = system_us().saturating_add(by_us);
    let _ = ORIGIN.set(Origin { instant: Instant::now(), wall_us, shift_us: by_us });
}

/// Microseconds since 1970 by the system's clock, which may be set while the host runs.
pub fn wall_us() -> i64 {
    system_us().saturating_add(origin().shift_us)
}

/// Microseconds since 1970, never decreasing.
#[inline]
pub fn now_us() -> i64 {
    let origin = origin();
    origin.wall_us + origin.instant.elapsed().as_micros() as i64
}

/// Microseconds of a clock that counts the time in which the machine was suspended, for what
/// other hosts count on: leases and suspicion.
#[inline]
pub fn boot_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the structure on this stack frame and keeps no address of it.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    assert_eq!(result, 0, "every Linux that has threads of this host has the clock");
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// A stopwatch over this clock, for one thread's queries.
pub fn stopwatch() -> Stopwatch {
    Stopwatch::new(|| monotonic_ns() / 1_000_000)
}

/// The same for queries of clients, which are canceled when these leave.
pub fn stopwatch_for(callers: &Arc<Callers>) -> Stopwatch {
    let callers = Arc::clone(callers);
    Stopwatch::with_callers(|| monotonic_ns() / 1_000_000, move |caller| callers.has_left(caller))
}

/// Nanoseconds since the process started, for measuring short spans.
#[inline]
pub fn monotonic_ns() -> u64 {
    origin().instant.elapsed().as_nanos() as u64
}

/// Milliseconds since the process started, as of the last [`tick`]: costs a load.
#[inline]
pub fn coarse_ms() -> u64 {
    COARSE_MS.load(Ordering::Relaxed)
}

/// Brings [`coarse_ms`] up to date.
pub fn tick() {
    COARSE_MS.fetch_max(monotonic_ns() / 1_000_000, Ordering::Relaxed);
}

/// Nanoseconds since a reading of [`monotonic_ns`]; 0 if that is a later one.
#[inline]
pub fn ns_since(earlier_ns: u64) -> u64 {
    monotonic_ns().saturating_sub(earlier_ns)
}
