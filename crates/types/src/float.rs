//! FLOAT values: which doubles are NULL, the one form of NaN, and the one order and equality that
//! comparisons, sorts, indexes and hash tables share.
//!
//! NaN is a value. It equals NaN and is less than every other number; NULL alone sorts before it.
//! Negative zero equals zero. Infinity is a value; negative infinity lies in the range of NULL.

use crate::Datum;
use crate::sql_type::NULL_FLOAT;
use std::cmp::Ordering;

/// The form that every NaN has once it is a SQL value.
pub const NAN: f64 = f64::from_bits(0x7ff8_0000_0000_0000);

const SIGN: u64 = 1 << 63;
/// The order key of NaN: the least of all values, after NULL.
const NAN_KEY: u64 = 1;

/// Whether a double of the wire, of storage or of a column in memory stands for NULL.
#[inline(always)]
pub fn is_null_float(value: f64) -> bool {
    value <= NULL_FLOAT
}

/// The SQL value that a double stands for: NULL at the sentinel and below, NaN in its one form.
#[inline]
pub fn float_datum<'a>(value: f64) -> Datum<'a> {
    if value > NULL_FLOAT {
        Datum::Float(value)
    } else if value.is_nan() {
        Datum::Float(NAN)
    } else {
        Datum::Null
    }
}

/// The order of two FLOAT values.
#[inline]
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    // The side that is NaN is the lesser one.
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// Whether two FLOAT values are equal.
#[inline(always)]
pub fn equal_floats(a: f64, b: f64) -> bool {
    (a == b) | (a.is_nan() & b.is_nan())
}

/// Whether a FLOAT value is less than another.
#[inline(always)]
pub fn is_less_float(a: f64, b: f64) -> bool {
    (a < b) | (a.is_nan() & !b.is_nan())
}

/// A number that orders as FLOAT values do; equal values have the same. NULL has 0.
#[inline]
pub fn float_order_key(value: f64) -> u64 {
    if value > NULL_FLOAT {
        // Minus zero becomes zero.
        let bits = (value + 0.0).to_bits();
        if bits & SIGN == 0 { bits | SIGN } else { !bits }
    } else if value.is_nan() {
        NAN_KEY
    } else {
        0
    }
}

/// Bits to hash a FLOAT value by: equal values have the same.
#[inline]
pub fn float_hash_bits(value: f64) -> u64 {
    if value.is_nan() { NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// The double that a word stands for: `NaN` and `Infinity` with or without a sign, as Java's
/// `Double.parseDouble` takes them. `None` for all other text.
pub fn float_of_word(text: &str) -> Option<f64> {
    let (sign, word) = match text.split_at_checked(1) {
        Some(("-", word)) => (-1.0, word),
        Some(("+", word)) => (1.0, word),
        _ => (1.0, text),
    };
    match word {
        "NaN" => Some(NAN),
        "Infinity" => Some(sign * f64::INFINITY),
        _ => None,
    }
}

/// The word that [`float_of_word`] reads, for a double that is not finite.
pub fn float_word(value: f64) -> Option<&'static str> {
    match value {
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => value.is_nan().then_some("NaN"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles in their order: those of one row are equal.
    const ASCENDING: [&[f64]; 9] = [
        &[f64::NEG_INFINITY, f64::MIN, NULL_FLOAT],
        &[NAN, f64::from_bits(0xfff8_0000_0000_0001), f64::from_bits(0x7ff0_0000_0000_0001)],
        &[f64::from_bits(NULL_FLOAT.to_bits() - 1)],
        &[-1.0],
        &[-f64::MIN_POSITIVE],
        &[-0.0, 0.0],
        &[5e-324],
        &[f64::MAX],
        &[f64::INFINITY],
    ];

    #[test]
    fn all_forms_of_order_and_equality_agree() {
        let all =
            || (0..).zip(ASCENDING).flat_map(|(rank, row)| row.iter().map(move |v| (rank, v)));
        for (a_rank, a) in all() {
            assert_eq!(is_null_float(*a), a_rank == 0, "{a}");
            assert_eq!(float_datum(*a).is_null(), a_rank == 0, "{a}");
            for (b_rank, b) in all() {
                let order: Ordering = i32::cmp(&a_rank, &b_rank);
                assert_eq!(float_order_key(*a).cmp(&float_order_key(*b)), order, "{a} {b}");
                assert_eq!(float_datum(*a).sort_order(float_datum(*b)), order, "{a} {b}");
                assert_eq!(float_datum(*a) == float_datum(*b), order.is_eq(), "{a} {b}");
                if a_rank > 0 && b_rank > 0 {
                    assert_eq!(compare_floats(*a, *b), order, "{a} {b}");
                    assert_eq!(equal_floats(*a, *b), order.is_eq(), "{a} {b}");
                    assert_eq!(is_less_float(*a, *b), order.is_lt(), "{a} {b}");
                    assert_eq!(float_hash_bits(*a) == float_hash_bits(*b), order.is_eq());
                }
            }
        }
    }

    #[test]
    fn a_value_that_is_nan_has_one_form() {
        for bits in [0xfff8_0000_0000_0000, 0x7ff0_0000_0000_0001, 0xffff_ffff_ffff_ffff] {
            let Datum::Float(value) = float_datum(f64::from_bits(bits)) else { panic!("{bits:x}") };
            assert_eq!(value.to_bits(), NAN.to_bits(), "{bits:x}");
        }
    }

    #[test]
    fn words_are_read_as_java_reads_them() {
        let bits = |text| float_of_word(text).map(f64::to_bits);
        for (text, value) in [
            ("NaN", NAN),
            ("+NaN", NAN),
            ("-NaN", NAN),
            ("Infinity", f64::INFINITY),
            ("+Infinity", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
        ] {
            assert_eq!(bits(text), Some(value.to_bits()), "{text}");
            assert_eq!(float_word(value).and_then(float_of_word).map(f64::to_bits), bits(text));
        }
        for text in ["", "nan", "NAN", "inf", "Inf", "--NaN", "é", "1"] {
            assert_eq!(float_of_word(text), None, "{text}");
        }
        assert_eq!(float_word(1.5), None);
    }
}
