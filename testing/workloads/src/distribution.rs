//! How values are drawn that are not uniform.

use lockstep_base::random::{SeededRandom, split_mix};

/// A generator for one session of a run: different sessions draw differently.
pub fn session_random(seed: u64, number: u64) -> SeededRandom {
    let mut state = seed;
    let mixed = split_mix(&mut state);
    SeededRandom::new(mixed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Zipfian ranks: rank r comes up in proportion to 1 / (r + 1)^theta. After Gray and others,
/// "Quickly generating billion-record synthetic databases" (1994).
#[derive(Debug, Clone)]
pub struct Zipfian {
    items: u64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    /// The probability mass of the first rank, and of the first two, times zeta.
    second: f64,
}

/// The skew that YCSB uses.
pub const YCSB_THETA: f64 = 0.99;

impl Zipfian {
    /// Ranks below `items`, at least 1, with a skew between 0 and 1, both excluded.
    pub fn new(items: u64, theta: f64) -> Zipfian {
        assert!(items > 0, "there is something to draw");
        assert!(theta > 0.0 && theta < 1.0, "the method holds for skews between 0 and 1");
        let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
        let whole = zeta(items);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - theta)) / (1.0 - zeta(2) / whole);
        Zipfian {
            items,
            alpha: 1.0 / (1.0 - theta),
            zeta: whole,
            eta,
            second: 1.0 + 0.5f64.powf(theta),
        }
    }

    /// The next rank; 0 is the most frequent.
    #[inline]
    pub fn draw(&self, random: &mut SeededRandom) -> u64 {
        let uniform = random.fraction();
        let mass = uniform * self.zeta;
        if mass < 1.0 || self.items == 1 {
            return 0;
        }
        if mass < self.second {
            return 1;
        }
        let rank = self.items as f64 * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }

    /// As `draw`, with the ranks spread over all items, so that frequent ones are no neighbours.
    #[inline]
    pub fn draw_scattered(&self, random: &mut SeededRandom) -> u64 {
        let mut state = self.draw(random);
        split_mix(&mut state) % self.items
    }
}

/// NURand of TPC-C 2.1.6: `(((random(0, a) | random(low, high)) + c) % (high - low + 1)) + low`.
#[inline]
pub fn nurand(random: &mut SeededRandom, a: i64, c: i64, low: i64, high: i64) -> i64 {
    let or = random.between(0, a) | random.between(low, high);
    (or + c) % (high - low + 1) + low
}

/// Appends N letters, drawn from `a` to `z`.
pub fn letters(random: &mut SeededRandom, count: usize, out: &mut String) {
    out.extend((0..count).map(|_| (b'a' + random.below(26) as u8) as char));
}

/// Appends N digits.
pub fn digits(random: &mut SeededRandom, count: usize, out: &mut String) {
    out.extend((0..count).map(|_| (b'0' + random.below(10) as u8) as char));
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    #[test]
    fn zipfian_ranks_come_up_in_proportion() {
        let zipfian = Zipfian::new(1000, YCSB_THETA);
        let mut random = SeededRandom::new(1);
        let mut counts = vec![0u64; 1000];
        (0..DRAWS).for_each(|_| counts[zipfian.draw(&mut random) as usize] += 1);
        let share = |rank: usize| counts[rank] as f64 / DRAWS as f64;
        let expected = |rank: usize| (rank as f64 + 1.0).powf(-YCSB_THETA) / zipfian.zeta;
        for rank in [0, 1] {
            assert!((share(rank) / expected(rank) - 1.0).abs() < 0.03, "{rank}: {}", share(rank));
        }
        // After the first two the method is an approximation.
        let (head, wanted) =
            ((0..100).map(share).sum::<f64>(), (0..100).map(expected).sum::<f64>());
        assert!((head / wanted - 1.0).abs() < 0.03, "{head} of {wanted}");
        assert!(counts[999] < counts[0] / 100);
        let mut seen = vec![0u64; 1000];
        (0..DRAWS).for_each(|_| seen[zipfian.draw_scattered(&mut random) as usize] += 1);
        let most = seen.iter().max().expect("items");
        assert!((*most as f64 / DRAWS as f64) >= share(0) * 0.95 && seen[0] != *most);
        assert_eq!(Zipfian::new(1, YCSB_THETA).draw(&mut random), 0);
    }

    #[test]
    fn nurand_is_what_the_specification_computes() {
        // The distribution of the formula itself, by all pairs of its two draws.
        let (a, c, low, high) = (15, 7, 1, 30);
        let mut expected = [0f64; 31];
        for left in 0..=a {
            for right in low..=high {
                let value = ((left | right) + c) % (high - low + 1) + low;
                expected[value as usize] += 1.0 / (16.0 * 30.0);
            }
        }
        let mut counts = [0u64; 31];
        let mut random = SeededRandom::new(5);
        for _ in 0..DRAWS {
            counts[nurand(&mut random, a, c, low, high) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        // Pearson's statistic: with 29 degrees of freedom 58 comes by chance once in a thousand.
        let statistic: f64 = (1..=30)
            .filter(|value| expected[*value] > 0.0)
            .map(|value| {
                let wanted = expected[value] * DRAWS as f64;
                (counts[value] as f64 - wanted).powi(2) / wanted
            })
            .sum();
        assert!(statistic < 58.0, "{statistic}");
        let never = (1..=30).filter(|value| expected[*value] == 0.0);
        assert_eq!(never.map(|value| counts[value]).sum::<u64>(), 0);
        // And a uniform draw would not pass.
        let uniform = DRAWS as f64 / 30.0;
        let off: f64 =
            (1..=30).map(|v| (uniform - expected[v] * DRAWS as f64).powi(2) / uniform).sum();
        assert!(off > 1000.0, "{off}");
    }

    #[test]
    fn sessions_draw_differently_and_again_the_same() {
        let first = |seed, number| session_random(seed, number).next_u64();
        assert_eq!(first(1, 0), first(1, 0));
        let mut all: Vec<u64> =
            (0..100).flat_map(|number| [first(1, number), first(2, number)]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 200);
    }
}
