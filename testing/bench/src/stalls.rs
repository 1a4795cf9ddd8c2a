//! How long the machine itself takes a core away: what a program sees that does nothing but
//! look at the clock.
//!
//! A latency percentile of a server cannot be better than the machine below it. A virtual
//! machine's host, its kernel's own threads and other processes stop a program for milliseconds;
//! measured beside a latency, that share of the time says how much of it is the server's.

use std::time::{Duration, Instant};

/// A gap between two looks at the clock that counts as a stall: far above what an interrupt
/// takes, far below what a percentile in milliseconds is made of.
pub const STALL: Duration = Duration::from_micros(200);

/// What a core was taken away for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stalls {
    /// Stalled time of all time, from 0 to 1.
    pub share: f64,
    /// The longest stall, in microseconds.
    pub longest_us: f64,
}

impl Stalls {
    /// The worse of two cores, each way.
    pub fn worse(self, other: Stalls) -> Stalls {
        Stalls {
            share: self.share.max(other.share),
            longest_us: self.longest_us.max(other.longest_us),
        }
    }
}

/// Looks at the clock for `duration` on the core that the caller runs on.
pub fn watch(duration: Duration) -> Stalls {
    let start = Instant::now();
    let (mut last, mut stalled, mut longest) = (start, Duration::ZERO, Duration::ZERO);
    while last - start < duration {
        let now = Instant::now();
        let gap = now - last;
        if gap >= STALL {
            stalled += gap;
            longest = longest.max(gap);
        }
        last = now;
    }
    Stalls {
        share: stalled.as_secs_f64() / (last - start).as_secs_f64(),
        longest_us: longest.as_secs_f64() * 1e6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_of_two_is_taken_each_way() {
        let (a, b) =
            (Stalls { share: 0.5, longest_us: 1.0 }, Stalls { share: 0.1, longest_us: 9.0 });
        assert_eq!(a.worse(b), Stalls { share: 0.5, longest_us: 9.0 });
    }

    #[test]
    fn the_watch_ends_and_states_a_share() {
        let stalls = watch(Duration::from_millis(5));
        assert!((0.0..=1.0).contains(&stalls.share), "{stalls:?}");
        assert!(stalls.share == 0.0 || stalls.longest_us >= 200.0, "{stalls:?}");
    }
}
