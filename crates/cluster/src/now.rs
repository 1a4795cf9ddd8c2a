//! Time, as it comes in.

/// The time at one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Microseconds of a monotonic clock that counts the time in which the host was suspended.
    pub us: u64,
    /// Microseconds since 1970, by the clock that gives transactions their time.
    pub wall_us: u64,
}
