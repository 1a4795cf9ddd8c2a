//! Exact sums of FLOAT: what views add up does not depend on the order of the rows, and what is
//! taken away again leaves no trace.
//!
//! A sum is a number of fixed point with room for every FLOAT and for 2^64 of the greatest, in
//! two's complement. A view keeps it in a hidden column, without the limbs that say nothing.

/// Limbs of 64 bits: the smallest FLOAT is the lowest bit, the greatest has 2,098 bits.
const LIMBS: usize = 34;
/// Bytes of a sum at most, as a view keeps it: the planner's hidden column has space for them.
pub(super) const LONGEST_BYTES: usize = 1 + 8 * LIMBS;
const _: () = assert!(LONGEST_BYTES == lockstep_plan_ir::schema::EXACT_SUM_BYTES as usize);
/// Bits of a FLOAT's fraction, without the one that is not written.
const FRACTION_BITS: u32 = 52;

/// A sum.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ExactSum {
    limbs: [u64; LIMBS],
}

impl ExactSum {
    /// The sum that a view has kept; of nothing, zero.
    pub(super) fn read(bytes: &[u8]) -> ExactSum {
        let mut limbs = [0; LIMBS];
        let Some((first, kept)) = bytes.split_first() else { return ExactSum { limbs } };
        let (kept, _) = kept.as_chunks::<8>();
        let mut place = usize::from(*first);
        for limb in kept {
            if let Some(to) = limbs.get_mut(place) {
                *to = u64::from_le_bytes(*limb);
            }
            place += 1;
        }
        let negative = kept.last().is_some_and(|limb| limb[7] >= 0x80);
        if negative && let Some(above) = limbs.get_mut(place..) {
            above.fill(u64::MAX);
        }
        ExactSum { limbs }
    }

    /// The sum for a view to keep: the number of the first limb, then limbs from the lowest, up
    /// to one that tells the sign.
    pub(super) fn write<'b>(&self, buffer: &'b mut [u8; LONGEST_BYTES]) -> &'b [u8] {
        let first = self.limbs.iter().position(|limb| *limb != 0).unwrap_or(LIMBS);
        let sign = (self.limbs[LIMBS - 1] as i64 >> 63) as u64;
        let mut end = LIMBS;
        while end > first + 1
            && self.limbs[end - 1] == sign
            && (self.limbs[end - 2] as i64 >> 63) as u64 == sign
        {
            end -= 1;
        }
        let mut length = 1;
        buffer[0] = if first == LIMBS { 0 } else { first as u8 };
        for limb in &self.limbs[first..end] {
            buffer[length..length + 8].copy_from_slice(&limb.to_le_bytes());
            length += 8;
        }
        &buffer[..length]
    }

    /// Adds a finite number, or takes it away.
    pub(super) fn change(&mut self, value: f64, add: bool) {
        let bits = value.to_bits();
        let exponent = (bits >> FRACTION_BITS & 0x7ff) as usize;
        let fraction = bits & ((1 << FRACTION_BITS) - 1);
        // Numbers too small for the bit that is not written have no such bit.
        let (number, shift) = match exponent {
            0 => (fraction, 0),
            _ => (fraction | 1 << FRACTION_BITS, exponent - 1),
        };
        let place = shift / 64;
        let wide = u128::from(number) << (shift % 64);
        let parts = [wide as u64, (wide >> 64) as u64];
        let negative = value.is_sign_negative() == add;
        let mut carry = false;
        for (at, limb) in self.limbs[place..].iter_mut().enumerate() {
            let part = parts.get(at).copied().unwrap_or(0);
            if at >= parts.len() && !carry {
                break;
            }
            let step = |limb: u64, part| match negative {
                true => limb.overflowing_sub(part),
                false => limb.overflowing_add(part),
            };
            let (changed, over) = step(*limb, part);
            let (changed, over_again) = step(changed, u64::from(carry));
            (*limb, carry) = (changed, over | over_again);
        }
    }

    /// The nearest FLOAT; of two that are equally near, the even one. Infinite when there is none.
    pub(super) fn value(&self) -> f64 {
        let negative = self.limbs[LIMBS - 1] >> 63 == 1;
        let mut limbs = self.limbs;
        if negative {
            let mut carry = true;
            for limb in &mut limbs {
                (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
            }
        }
        let sign = if negative { -1.0 } else { 1.0 };
        let Some(top) = limbs.iter().rposition(|limb| *limb != 0) else { return 0.0 };
        let highest = top * 64 + limbs[top].ilog2() as usize;
        let bit = |place: usize| limbs[place / 64] >> (place % 64) & 1 == 1;
        let lowest = highest.saturating_sub(FRACTION_BITS as usize);
        // The bits from the lowest on, at most 53, as they stand.
        let mut number = limbs[lowest / 64] >> (lowest % 64);
        if !lowest.is_multiple_of(64) && lowest / 64 + 1 < LIMBS {
            number |= limbs[lowest / 64 + 1] << (64 - lowest % 64);
        }
        number &= (1 << (FRACTION_BITS + 1)) - 1;
        // A FLOAT's bits count on from one exponent to the next, so rounding up is adding one.
        let mut bits = match lowest {
            0 => number,
            _ => ((lowest as u64) << FRACTION_BITS) + number,
        };
        if lowest > 0 && bit(lowest - 1) {
            let below = lowest - 1;
            let more = limbs[..below / 64].iter().any(|limb| *limb != 0)
                || limbs[below / 64] & ((1 << (below % 64)) - 1) != 0;
            bits += u64::from(more || number & 1 == 1);
        }
        sign * if bits >= 0x7ff << FRACTION_BITS { f64::INFINITY } else { f64::from_bits(bits) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ExactSum, LONGEST_BYTES};
    use lockstep_base::random::SeededRandom;

    fn kept(sum: &ExactSum) -> ExactSum {
        let mut buffer = [0; LONGEST_BYTES];
        let bytes = sum.write(&mut buffer);
        let again = ExactSum::read(bytes);
        assert_eq!(&again, sum);
        again
    }

    fn sum_of(values: &[f64]) -> ExactSum {
        let mut sum = ExactSum::read(&[]);
        for value in values {
            sum.change(*value, true);
            sum = kept(&sum);
        }
        sum
    }

    #[test]
    fn single_numbers_come_back() {
        let mut random = SeededRandom::new(3);
        let edges = [0.0, 5e-324, -5e-324, f64::MIN_POSITIVE, f64::MAX, f64::MIN, 1.0, -1.0, 0.1];
        let drawn = (0..20_000).map(|_| f64::from_bits(random.next_u64()));
        for value in edges.into_iter().chain(drawn).filter(|value| value.is_finite()) {
            assert_eq!(sum_of(&[value]).value(), value, "{value:e}");
        }
    }

    #[test]
    fn pairs_are_rounded_as_the_processor_does() {
        let mut random = SeededRandom::new(4);
        for _ in 0..20_000 {
            let a = f64::from_bits(random.next_u64());
            let near = (a.to_bits() & !(0x3f << 52)) | (random.next_u64() & (0x3f << 52));
            let b = f64::from_bits(near ^ (random.next_u64() & (1 << 63 | 0xffff_ffff)));
            if a.is_finite() && b.is_finite() {
                assert_eq!(sum_of(&[a, b]).value(), a + b, "{a:e} + {b:e}");
            }
        }
        assert_eq!(sum_of(&[f64::MAX, f64::MAX]).value(), f64::INFINITY);
        assert_eq!(sum_of(&[f64::MAX, f64::MAX, f64::MIN]).value(), f64::MAX);
    }

    #[test]
    fn order_is_nothing_and_what_goes_leaves_nothing() {
        let mut random = SeededRandom::new(5);
        for _ in 0..300 {
            let mut values: Vec<f64> = (0..30)
                .map(|_| f64::from_bits(random.next_u64()))
                .filter(|value| value.is_finite())
                .collect();
            let sum = sum_of(&values);
            values.reverse();
            assert_eq!(sum_of(&values), sum);
            let mut left = sum;
            for value in &values[1..] {
                left.change(*value, false);
                left = kept(&left);
            }
            assert_eq!(left.value(), values[0]);
            left.change(values[0], false);
            assert_eq!(left, sum_of(&[]));
        }
        assert_eq!(sum_of(&[1e100, 1.0, -1e100]).value(), 1.0);
    }
}
