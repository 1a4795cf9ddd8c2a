//! Products of 128-bit magnitudes: 256 bits, as exact decimal arithmetic needs between its steps.

use std::fmt;

/// An unsigned 256-bit integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wide {
    high: u128,
    low: u128,
}

const LOW_64: u128 = u64::MAX as u128;

impl Wide {
    /// `a * b`.
    pub fn product(a: u128, b: u128) -> Wide {
        if let Some(low) = a.checked_mul(b) {
            return Wide { high: 0, low };
        }
        let (a1, a0) = (a >> 64, a & LOW_64);
        let (b1, b0) = (b >> 64, b & LOW_64);
        let low = a0 * b0;
        let middle = a1 * b0 + (low >> 64);
        let (middle_high, middle_low) = (middle >> 64, middle & LOW_64);
        let middle = a0 * b1 + middle_low;
        Wide { high: a1 * b1 + middle_high + (middle >> 64), low: (middle << 64) | (low & LOW_64) }
    }

    /// Quotient and remainder; `divisor` is not zero.
    pub fn divide(self, divisor: u128) -> (Wide, u128) {
        let high = self.high / divisor;
        let mut rest = self.high % divisor;
        if rest == 0 {
            return (Wide { high, low: self.low / divisor }, self.low % divisor);
        }
        // Long division of (rest, low), rest < divisor: one bit a step.
        let mut low = self.low;
        let mut quotient = 0u128;
        for _ in 0..128 {
            let carry = rest >> 127;
            rest = (rest << 1) | (low >> 127);
            low <<= 1;
            quotient <<= 1;
            if carry == 1 || rest >= divisor {
                rest = rest.wrapping_sub(divisor);
                quotient |= 1;
            }
        }
        (Wide { high, low: quotient }, rest)
    }

    /// The value as a signed 128-bit integer, if it fits.
    pub fn signed(self, negative: bool) -> Option<i128> {
        if self.high != 0 {
            return None;
        }
        let magnitude = i128::try_from(self.low).ok()?;
        Some(if negative { -magnitude } else { magnitude })
    }
}

impl fmt::Display for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CHUNK: u128 = 10u128.pow(38);
        if self.high == 0 {
            return self.low.fmt(f);
        }
        let (rest, digits) = self.divide(CHUNK);
        write!(f, "{rest}{digits:038}")
    }
}
