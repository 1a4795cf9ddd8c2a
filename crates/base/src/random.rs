//! Random numbers from a seed: the same seed gives the same numbers, everywhere.

/// The generator xoshiro256** of Blackman and Vigna (2018), seeded by SplitMix64.
#[derive(Debug, Clone)]
pub struct SeededRandom {
    state: [u64; 4],
}

/// One step of SplitMix64 (Steele, Lea, Flood 2014): advances `state` and mixes it.
pub fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl SeededRandom {
    /// A generator whose whole sequence follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        SeededRandom { state: std::array::from_fn(|_| split_mix(&mut mix)) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`; `bound` is at least 1. Uses Lemire's multiply-shift, whose bias
    /// below 2^-32 does not matter for workloads and tests.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no member");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`.
    #[inline]
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high, "an empty range has no member");
        let span = (high as i128 - low as i128 + 1) as u128;
        let pick =
            if span > u128::from(u64::MAX) { self.next_u64() } else { self.below(span as u64) };
        low.wrapping_add(pick as i64)
    }

    /// A number in `[0, 1)`.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True in `numerator` of `denominator` cases.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_the_sequence_and_bounds_hold() {
        let mut a = SeededRandom::new(7);
        let mut b = SeededRandom::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            let pick = a.below(10);
            assert_eq!(pick, b.below(10));
            seen[pick as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
        for _ in 0..1000 {
            assert!((-3..=3).contains(&a.between(-3, 3)));
            let _ = a.between(i64::MIN, i64::MAX);
        }
    }
}
