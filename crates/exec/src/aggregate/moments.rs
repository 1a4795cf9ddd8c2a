//! Count, mean and sum of squared deviations: what variances and deviations are made of.
//!
//! Welford's recurrence keeps the digits that the difference of two large sums would lose; parts
//! of several partitions are joined by Chan's formula.

use crate::arena::Arena;
use crate::arithmetic::float_result;
use crate::error::SqlError;
use lockstep_plan_ir::AggregateFunction;
use lockstep_types::Datum;

/// Length of the parts as bytes.
const PART_BYTES: usize = 24;

/// The values seen so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    count: i64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Moments {
    /// One more number, or the parts of numbers that another partition has seen.
    pub(super) fn add(&mut self, value: Datum<'_>) -> Result<(), SqlError> {
        let number = match value {
            Datum::Int(value) => value as f64,
            Datum::Float(value) => value,
            Datum::Decimal(value) => value.to_f64(),
            Datum::Bytes(bytes) => {
                let parts = Moments::from_bytes(bytes)
                    .ok_or_else(|| SqlError::argument("the bytes are no parts of a variance"))?;
                self.join(parts);
                return Ok(());
            }
            other => {
                return Err(SqlError::argument(format!("a variance of numbers has no {other}")));
            }
        };
        self.count += 1;
        let distance = number - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (number - self.mean);
        Ok(())
    }

    fn join(&mut self, other: Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        self.count += other.count;
        self.mean += distance * b / (a + b);
        self.squares += other.squares + distance * distance * a * b / (a + b);
    }

    /// The function's value; NULL when there are too few numbers.
    pub(super) fn finish<'a>(
        self,
        function: AggregateFunction,
        arena: &'a Arena,
    ) -> Result<Datum<'a>, SqlError> {
        use AggregateFunction::*;
        if function == Moments {
            return Ok(Datum::Bytes(arena.copy(&self.to_bytes())));
        }
        let sample = matches!(function, VarianceSample | DeviationSample);
        let divisor = self.count - i64::from(sample);
        if divisor <= 0 {
            return Ok(Datum::Null);
        }
        let variance = self.squares / divisor as f64;
        let root = matches!(function, DeviationPopulation | DeviationSample);
        let value = if root { variance.sqrt() } else { variance };
        float_result(value, || format!("function {}", function.name()))
    }

    fn to_bytes(self) -> [u8; PART_BYTES] {
        let mut bytes = [0; PART_BYTES];
        bytes[..8].copy_from_slice(&self.count.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.mean.to_bits().to_be_bytes());
        bytes[16..].copy_from_slice(&self.squares.to_bits().to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Moments> {
        let word = |place: usize| {
            let bytes = bytes.get(place * 8..place * 8 + 8)?;
            Some(u64::from_be_bytes(bytes.try_into().ok()?))
        };
        if bytes.len() != PART_BYTES {
            return None;
        }
        let count = word(0)? as i64;
        let (mean, squares) = (f64::from_bits(word(1)?), f64::from_bits(word(2)?));
        (count >= 0).then_some(Moments { count, mean, squares })
    }
}
