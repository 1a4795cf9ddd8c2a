//! Durations: the difference of two readings of a clock.
//!
//! Threads keep their last reading of the clock and compare it with readings of other threads,
//! which may be some milliseconds later. A difference of plain numbers is negative then, and
//! clients have been seen to use it as an index. So every duration is made here.

use std::time::Duration;

/// A duration in microseconds, never negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Elapsed {
    us: u64,
}

impl Elapsed {
    /// No time at all.
    pub const ZERO: Elapsed = Elapsed { us: 0 };

    /// From one reading in microseconds to another. Zero if the second one is the earlier.
    #[inline]
    pub const fn between_us(from_us: i64, to_us: i64) -> Elapsed {
        let us = to_us.saturating_sub(from_us);
        Elapsed { us: if us > 0 { us as u64 } else { 0 } }
    }

    /// From one reading in milliseconds to another. Zero if the second one is the earlier.
    #[inline]
    pub const fn between_ms(from_ms: i64, to_ms: i64) -> Elapsed {
        Elapsed::between_us(from_ms.saturating_mul(1000), to_ms.saturating_mul(1000))
    }

    /// From one reading in nanoseconds to another, rounded down to microseconds. Zero if the
    /// second one is the earlier.
    #[inline]
    pub const fn between_ns(from_ns: u64, to_ns: u64) -> Elapsed {
        Elapsed { us: to_ns.saturating_sub(from_ns) / 1000 }
    }

    /// A number of milliseconds.
    #[inline]
    pub const fn from_ms(ms: u64) -> Elapsed {
        Elapsed { us: ms.saturating_mul(1000) }
    }

    /// In microseconds.
    #[inline]
    pub const fn us(self) -> u64 {
        self.us
    }

    /// In milliseconds, rounded down.
    #[inline]
    pub const fn ms(self) -> u64 {
        self.us / 1000
    }

    /// In milliseconds for a field of 32 bits with a sign: at least 0, at most the greatest.
    #[inline]
    pub const fn ms_i32(self) -> i32 {
        let ms = self.ms();
        if ms > i32::MAX as u64 { i32::MAX } else { ms as i32 }
    }

    /// In milliseconds for a column of 64 bits with a sign: at least 0.
    #[inline]
    pub const fn ms_i64(self) -> i64 {
        // A quotient by 1000 fits.
        self.ms() as i64
    }

    /// As the standard library's type.
    #[inline]
    pub const fn duration(self) -> Duration {
        Duration::from_micros(self.us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_in_the_wrong_order_give_zero() {
        assert_eq!(Elapsed::between_us(1_000, 48_000).us(), 47_000);
        assert_eq!(Elapsed::between_us(48_000, 1_000), Elapsed::ZERO);
        assert_eq!(Elapsed::between_ms(48, 1), Elapsed::ZERO);
        assert_eq!(Elapsed::between_ns(48, 1), Elapsed::ZERO);
        assert_eq!(Elapsed::between_ns(1, 2_001).us(), 2);
    }

    #[test]
    fn extremes_stay_within_their_types() {
        for (from, to) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN), (i64::MIN, i64::MIN)] {
            for elapsed in [Elapsed::between_us(from, to), Elapsed::between_ms(from, to)] {
                assert!(elapsed.ms_i32() >= 0 && elapsed.ms_i64() >= 0);
                assert_eq!(elapsed.duration().as_micros(), u128::from(elapsed.us()));
            }
        }
        assert_eq!(Elapsed::between_us(0, i64::MAX).ms_i32(), i32::MAX);
        assert_eq!(Elapsed::from_ms(u64::MAX).ms_i32(), i32::MAX);
        assert_eq!(Elapsed::from_ms(3).ms_i64(), 3);
    }
}
