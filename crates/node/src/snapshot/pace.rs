//! How fast a site hands out a snapshot while it has other work, so that the disk and the core
//! of the thread that writes stay free for calls and their log.

/// A site is under load for so long after its last other work.
const UNDER_LOAD_NS: u64 = 20_000_000;
/// What was not used of the rate is kept for so long...
const KEPT_NS: u64 = 10_000_000;
/// ...but at least so much.
const KEPT_BYTES: u64 = 256 * 1024;
const SECOND_NS: u64 = 1_000_000_000;

/// The pace of one site's snapshot.
pub(crate) struct Pace {
    /// Bytes a second while the site is under load; 0 for as many as there are.
    bytes_per_s: u64,
    /// May be handed out at once; below zero for what was too much.
    allowed_bytes: i64,
    /// When that was said.
    filled_ns: u64,
    /// When the site had other work last.
    worked_ns: Option<u64>,
}

impl Pace {
    /// N bytes a second under load, 0 for no limit.
    pub(crate) fn new(bytes_per_s: u64) -> Pace {
        Pace { bytes_per_s, allowed_bytes: 0, filled_ns: 0, worked_ns: None }
    }

    /// The site had other work, just now.
    pub(crate) fn note_work(&mut self, now_ns: u64) {
        self.worked_ns = Some(now_ns);
    }

    /// Whether there is a limit now.
    pub(crate) fn is_limited(&self, now_ns: u64) -> bool {
        let lately = |worked_ns: u64| now_ns.saturating_sub(worked_ns) < UNDER_LOAD_NS;
        self.bytes_per_s > 0 && self.worked_ns.is_some_and(lately)
    }

    /// Nanoseconds until `step_bytes` may be handed out; 0 for now.
    pub(crate) fn wait_ns(&mut self, now_ns: u64, step_bytes: u64) -> u64 {
        if !self.is_limited(now_ns) {
            return 0;
        }
        let per_s = u128::from(self.bytes_per_s);
        let bytes_in = |ns: u64| (per_s * u128::from(ns) / u128::from(SECOND_NS)) as u64;
        let most = KEPT_BYTES.max(bytes_in(KEPT_NS)).max(step_bytes);
        let passed_ns = now_ns.saturating_sub(self.filled_ns);
        let filled = bytes_in(passed_ns.min(SECOND_NS)).min(most);
        // What is too little to count goes on adding up.
        if filled > 0 {
            self.filled_ns = now_ns;
            self.allowed_bytes = (self.allowed_bytes + filled as i64).min(most as i64);
        }
        let missing = (step_bytes as i64 - self.allowed_bytes).max(0);
        (missing as u128 * u128::from(SECOND_NS)).div_ceil(per_s).min(u128::from(SECOND_NS)) as u64
    }

    /// N bytes were handed out.
    pub(crate) fn count(&mut self, bytes: usize) {
        // A step without a limit is not held against those after it.
        let least = -(KEPT_BYTES as i64);
        self.allowed_bytes = (self.allowed_bytes - bytes as i64).max(least);
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, SECOND_NS, UNDER_LOAD_NS};

    const STEP: u64 = 32 * 1024;
    const MIB: u64 = 1 << 20;

    /// Bytes handed out in a second of steps a millisecond apart, of a site with work or without.
    fn in_one_second(pace: &mut Pace, works: bool) -> u64 {
        let mut bytes = 0;
        for now_ns in (0..SECOND_NS).step_by(1_000_000) {
            if works {
                pace.note_work(now_ns);
            }
            while pace.wait_ns(now_ns, STEP) == 0 && bytes < 1 << 30 {
                pace.count(STEP as usize);
                bytes += STEP;
            }
        }
        bytes
    }

    #[test]
    fn under_load_a_snapshot_keeps_its_rate() {
        for rate in [MIB / 4, 32 * MIB, 400 * MIB] {
            let bytes = in_one_second(&mut Pace::new(rate), true);
            let kept = (rate / 50).max(MIB / 2);
            assert!(bytes + kept >= rate && bytes <= rate + kept, "{bytes} at a rate of {rate}");
        }
    }

    #[test]
    fn an_idle_site_has_no_rate_and_neither_has_zero() {
        assert!(in_one_second(&mut Pace::new(MIB), false) >= 1 << 30);
        assert!(in_one_second(&mut Pace::new(0), true) >= 1 << 30);
    }

    #[test]
    fn the_wait_is_as_long_as_it_takes_and_ends_with_the_load() {
        let mut pace = Pace::new(32 * MIB);
        let begun_ns = 5 * SECOND_NS;
        pace.note_work(begun_ns);
        while pace.wait_ns(begun_ns, STEP) == 0 {
            pace.count(STEP as usize);
        }
        let wait_ns = pace.wait_ns(begun_ns, STEP);
        assert!((1..=1_000_000).contains(&wait_ns), "{wait_ns}");
        assert_eq!(pace.wait_ns(begun_ns + wait_ns, STEP), 0);
        pace.count(STEP as usize);
        assert_ne!(pace.wait_ns(begun_ns + wait_ns, STEP), 0);
        assert_eq!(pace.wait_ns(begun_ns + UNDER_LOAD_NS, STEP), 0);
    }
}
