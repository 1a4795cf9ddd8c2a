//! Smallest, greatest and sum of a series of numbers.

/// Smallest, greatest and sum of a series.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// The smallest.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// The sum.
    pub sum: u64,
}

impl Default for Extent {
    fn default() -> Self {
        Extent { min: u64::MAX, max: 0, sum: 0 }
    }
}

impl Extent {
    /// Takes a value in.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += value;
    }

    /// The smallest, 0 when there was none.
    pub fn smallest(&self) -> u64 {
        if self.min == u64::MAX { 0 } else { self.min }
    }

    /// The mean of `count` values, 0 when there was none.
    pub fn mean(&self, count: u64) -> u64 {
        self.sum.checked_div(count).unwrap_or(0)
    }

    /// Both series as one.
    pub fn merge(&mut self, other: &Extent) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }
}
