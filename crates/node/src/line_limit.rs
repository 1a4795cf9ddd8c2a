//! Keeps what clients cause from filling the log: some lines a second, and the number of the rest.

use lockstep_base::elapsed::Elapsed;

/// Lines that one thread may log in a second.
const LINES: u32 = 10;
const SECOND: Elapsed = Elapsed::from_ms(1_000);

/// Counts lines of one thread.
#[derive(Debug, Default)]
pub(crate) struct LineLimit {
    /// When the second began that is counted.
    began_us: i64,
    lines: u32,
    left_out: u64,
}

impl LineLimit {
    /// Whether one more line may be logged now; then, how many were left out before it.
    pub(crate) fn take(&mut self, now_us: i64) -> Option<u64> {
        if Elapsed::between_us(self.began_us, now_us) >= SECOND {
            (self.began_us, self.lines) = (now_us, 0);
        }
        if self.lines == LINES {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_a_second_and_the_number_of_the_rest() {
        let mut limit = LineLimit::default();
        let at = |ms: i64| 1_000_000_000 + ms * 1_000;
        let taken = (0..100).filter(|ms| limit.take(at(*ms)).is_some()).count();
        assert_eq!(taken, 10);
        assert_eq!(limit.take(at(999)), None);
        assert_eq!(limit.take(at(1_000)), Some(91));
        assert_eq!(limit.take(at(1_001)), Some(0));
        // A clock that is before the last reading does not begin a second.
        assert_eq!(limit.take(at(-5)), Some(0));
    }
}
