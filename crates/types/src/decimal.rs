//! DECIMAL: a 38-digit number with 12 digits after the point, held as an integer of 10^-12.
//!
//! Representation, text and comparison live here; arithmetic with its overflow rules is the
//! executor's.

use std::fmt;

/// A DECIMAL value. Two words instead of an `i128` keep the alignment, and so [`crate::Datum`],
/// small.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    high: i64,
    low: u64,
}

/// Digits after the point.
pub const SCALE: u32 = 12;
/// 10^12: one, in units of the last digit.
pub const ONE: i128 = 1_000_000_000_000;
/// The greatest magnitude: 38 nines.
pub const MAX_UNITS: i128 = 99_999_999_999_999_999_999_999_999_999_999_999_999;

/// Why a text or number is no DECIMAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecimalError {
    /// The text is not a number.
    Malformed,
    /// More than 26 digits before the point.
    TooLarge,
    /// More than 12 digits after the point.
    TooPrecise,
}

impl Decimal {
    /// From units of 10^-12, if within 38 digits.
    #[inline]
    pub fn from_units(units: i128) -> Option<Decimal> {
        (-MAX_UNITS..=MAX_UNITS).contains(&units).then(|| Decimal::from_raw(units))
    }

    /// From units that may be any bit pattern, `i128::MIN` (NULL on the wire) included.
    #[inline]
    pub fn from_raw(units: i128) -> Decimal {
        Decimal { high: (units >> 64) as i64, low: units as u64 }
    }

    /// The value in units of 10^-12.
    #[inline]
    pub fn units(self) -> i128 {
        (i128::from(self.high) << 64) | i128::from(self.low)
    }

    /// An integer as DECIMAL; every 64-bit integer fits.
    #[inline]
    pub fn from_integer(value: i64) -> Decimal {
        Decimal::from_raw(i128::from(value) * ONE)
    }

    /// The value as a double: exact for whole numbers below 2^53, so that comparisons of them
    /// with FLOAT are.
    pub fn to_f64(self) -> f64 {
        let units = self.units();
        (units / ONE) as f64 + (units % ONE) as f64 / ONE as f64
    }

    /// Reads `[+-]digits[.digits][E[+-]digits]`. More than 12 digits after the point are an
    /// error unless they are zeros.
    pub fn parse(text: &str) -> Result<Decimal, DecimalError> {
        match Decimal::read(text)? {
            (_, true) => Err(DecimalError::TooPrecise),
            (value, false) => Ok(value),
        }
    }

    /// As [`Decimal::parse`], but rounds half away from zero at 12 digits.
    ///
    /// # Errors
    /// Text that is not a number, or has more than 26 digits before the point.
    pub fn parse_rounded(text: &str) -> Result<Decimal, DecimalError> {
        let (value, _) = Decimal::read(text)?;
        if value.units().unsigned_abs() > MAX_UNITS.unsigned_abs() {
            return Err(DecimalError::TooLarge);
        }
        Ok(value)
    }

    /// The number that a text has, rounded, and whether digits were dropped.
    fn read(text: &str) -> Result<(Decimal, bool), DecimalError> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            None => (text, 0i32),
            Some(at) => {
                let exponent = text[at + 1..].parse().map_err(|_| DecimalError::Malformed)?;
                (&text[..at], exponent)
            }
        };
        let (negative, digits) = match mantissa.as_bytes().first() {
            Some(b'-') => (true, &mantissa[1..]),
            Some(b'+') => (false, &mantissa[1..]),
            _ => (false, mantissa),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return Err(DecimalError::Malformed);
        }
        // The power of ten of the first digit, in units of 10^-12.
        let first_power = whole.len() as i64 + i64::from(exponent) - 1 + i64::from(SCALE);
        let powers = (0..).map(|index| first_power - index);
        let mut units: i128 = 0;
        let mut dropped = false;
        for (power, digit) in powers.zip(whole.bytes().chain(fraction.bytes())) {
            let digit = i128::from(digit - b'0');
            match power {
                _ if digit == 0 => {}
                38.. => return Err(DecimalError::TooLarge),
                0.. => units += digit * 10i128.pow(power as u32),
                _ => {
                    units += i128::from(power == -1 && digit >= 5);
                    dropped = true;
                }
            }
        }
        Ok((Decimal::from_raw(if negative { -units } else { units }), dropped))
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.units().cmp(&other.units())
    }
}

impl fmt::Display for Decimal {
    /// Always with 12 digits after the point, as VoltDB prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.units();
        let sign = if units < 0 { "-" } else { "" };
        let magnitude = units.unsigned_abs();
        let one = ONE.unsigned_abs();
        write!(f, "{sign}{}.{:012}", magnitude / one, magnitude % one)
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_printed_exactly() {
        for (text, printed) in [
            ("1", "1.000000000000"),
            ("-123.45", "-123.450000000000"),
            (".5", "0.500000000000"),
            ("1E-12", "0.000000000001"),
            ("12.5e2", "1250.000000000000"),
            (
                "-99999999999999999999999999.999999999999",
                "-99999999999999999999999999.999999999999",
            ),
            ("0.1230000000000000000", "0.123000000000"),
        ] {
            assert_eq!(Decimal::parse(text).map(|d| d.to_string()), Ok(printed.to_string()));
        }
        assert_eq!(Decimal::parse("0.0000000000001"), Err(DecimalError::TooPrecise));
        for (text, rounded) in [
            ("1.9999999999995", "2.000000000000"),
            ("-1.9999999999995", "-2.000000000000"),
            ("0.00000000000049999", "0.000000000000"),
            ("5E-13", "0.000000000001"),
            ("1.5", "1.500000000000"),
        ] {
            assert_eq!(
                Decimal::parse_rounded(text).map(|d| d.to_string()),
                Ok(rounded.to_string())
            );
        }
        let beyond = format!("{}.9999999999995", "9".repeat(26));
        assert_eq!(Decimal::parse_rounded(&beyond), Err(DecimalError::TooLarge));
        assert_eq!(Decimal::parse("1E26"), Err(DecimalError::TooLarge));
        for bad in ["", ".", "-", "1.2.3", "1e", "0x1", " 1", "1e999999999999"] {
            assert_eq!(Decimal::parse(bad), Err(DecimalError::Malformed), "{bad}");
        }
    }

    #[test]
    fn units_survive_the_two_words() {
        for units in [0, 1, -1, i128::MIN, i128::MAX, MAX_UNITS, -MAX_UNITS, 1 << 64, -(1 << 64)] {
            assert_eq!(Decimal::from_raw(units).units(), units);
        }
        assert_eq!(Decimal::from_units(MAX_UNITS + 1), None);
    }
}
