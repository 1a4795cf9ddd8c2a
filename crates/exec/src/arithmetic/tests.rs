//! Arithmetic as text, and decimals against a slow reference over decimal digits.

use super::wide::Wide;
use super::*;
use lockstep_base::random::SeededRandom;

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).expect("a number")
}

fn show(result: Result<Datum<'_>, SqlError>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(error) => format!("error {}: {error}", error.state()),
    }
}

#[test]
fn integers_overflow_and_divide_as_recorded() {
    use Arithmetic::*;
    let max = i64::MAX;
    for (operator, a, b, expected) in [
        (Add, max, 1, "error 22003: Adding 9223372036854775807 and 1 will overflow BigInt storage"),
        (Subtract, -max, 1, "NULL"),
        (
            Subtract,
            -max,
            2,
            "error 22003: Subtracting 2 from -9223372036854775807 will overflow BigInt storage",
        ),
        (
            Multiply,
            max,
            2,
            "error 22003: Multiplying 9223372036854775807 with 2 will overflow BigInt storage",
        ),
        (Divide, -7, 2, "-3"),
        (Divide, 1, 0, "error 22012: Attempted to divide 1 by 0"),
        (Remainder, -7, 2, "-1"),
        (Remainder, 7, 0, "error 22012: division by zero"),
    ] {
        let result = compute(operator, Datum::Int(a), Datum::Int(b), SqlType::BigInt);
        assert_eq!(show(result), expected);
    }
    let narrow = compute(Add, Datum::Int(2_147_483_647), Datum::Int(1), SqlType::Integer);
    assert!(show(narrow).contains("can't be cast as INTEGER"));
}

#[test]
fn decimals_and_floats_as_recorded() {
    use Arithmetic::*;
    let d = |text| Datum::Decimal(decimal(text));
    let most = "99999999999999999999999999.999999999999";
    for (operator, a, b, result, expected) in [
        (Divide, d("123.456789"), Datum::Int(42), SqlType::Decimal, "2.939447357142"),
        (
            Divide,
            d(&format!("-{most}")),
            Datum::Int(2),
            SqlType::Decimal,
            "-49999999999999999999999999.999999999999",
        ),
        (
            Divide,
            d("2.5"),
            Datum::Int(0),
            SqlType::Decimal,
            "error 22012: Attempted to divide 2.500000000000 by 0.000000000000 causing \
             overflow/underflow (or divide by zero)",
        ),
        (
            Add,
            d("2.5"),
            d("99999999999999999999999999"),
            SqlType::Decimal,
            "error 22003: Attempted to add 2.500000000000 with \
             99999999999999999999999999.000000000000 causing overflow/underflow",
        ),
        (
            Multiply,
            d(most),
            d(most),
            SqlType::Decimal,
            "error 22003: Attempted to multiply 99999999999999999999999999.999999999999 \
             by 99999999999999999999999999.999999999999 causing overflow/underflow. \
             Unscaled result was \
             9999999999999999999999999999999999999800000000000000000000000000",
        ),
        (Multiply, d("-0.5"), d("0.000000000001"), SqlType::Decimal, "0.000000000000"),
        (
            Divide,
            Datum::Int(0),
            Datum::Float(0.0),
            SqlType::Float,
            "error 22003: Invalid result value (-nan) from floating point '/' operator",
        ),
        (
            Divide,
            Datum::Int(7),
            Datum::Float(0.0),
            SqlType::Float,
            "error 22003: Invalid result value (inf) from floating point '/' operator",
        ),
        (Subtract, Datum::Float(-1.0e308), Datum::Float(7.0e307), SqlType::Float, "NULL"),
        (Divide, Datum::Null, Datum::Int(0), SqlType::Decimal, "NULL"),
    ] {
        assert_eq!(show(compute(operator, a, b, result)), expected);
    }
}

/// A magnitude of up to 38 digits, of any length.
fn magnitude(random: &mut SeededRandom) -> u128 {
    let digits = random.below(39) as u32;
    let raw = (u128::from(random.next_u64()) << 64) | u128::from(random.next_u64());
    raw % 10u128.pow(digits)
}

/// `a * b` by long multiplication of decimal digits, least significant first.
fn digit_product(a: u128, b: u128) -> String {
    let digits = |v: u128| v.to_string().bytes().rev().map(|b| u32::from(b - b'0')).collect();
    let (a, b): (Vec<u32>, Vec<u32>) = (digits(a), digits(b));
    let mut sums = vec![0u32; a.len() + b.len()];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            sums[i + j] += x * y;
        }
    }
    let mut carry = 0;
    for sum in &mut sums {
        carry += *sum;
        *sum = carry % 10;
        carry /= 10;
    }
    let text: String = sums.iter().rev().map(|d| char::from(b'0' + *d as u8)).collect();
    let trimmed = text.trim_start_matches('0');
    if trimmed.is_empty() { "0".to_string() } else { trimmed.to_string() }
}

#[test]
fn wide_products_and_quotients_match_the_reference() {
    let mut random = SeededRandom::new(7);
    for _ in 0..5_000 {
        let (a, b) = (magnitude(&mut random), magnitude(&mut random));
        let product = Wide::product(a, b);
        assert_eq!(product.to_string(), digit_product(a, b), "{a} * {b}");
        if b != 0 {
            assert_eq!(product.divide(b), (Wide::product(a, 1), 0), "{a} * {b} / {b}");
            // (a * 10^12) = quotient * b + rest, rest < b
            let (quotient, rest) = Wide::product(a, 1_000_000_000_000).divide(b);
            assert!(rest < b);
            if let Some(quotient) = quotient.signed(false) {
                let back = Wide::product(quotient.unsigned_abs(), b);
                let again = back.divide(b);
                assert_eq!(again.0.signed(false), Some(quotient));
                let full = Wide::product(a, 1_000_000_000_000);
                assert_eq!(full.divide(b).1, rest);
                assert!(digit_product(quotient.unsigned_abs(), b).len() <= full.to_string().len());
            }
        }
    }
}

#[test]
fn decimal_laws_hold() {
    let mut random = SeededRandom::new(11);
    let mut any = || {
        let units = magnitude(&mut random) as i128;
        Decimal::from_raw(if random.below(2) == 0 { units } else { -units })
    };
    for _ in 0..5_000 {
        let (a, b) = (any(), any());
        if let Ok(sum) = decimals(Arithmetic::Add, a, b) {
            assert_eq!(decimals(Arithmetic::Subtract, sum, b).ok(), Some(a));
        }
        let product = decimals(Arithmetic::Multiply, a, b);
        assert_eq!(product.clone().ok(), decimals(Arithmetic::Multiply, b, a).ok());
        let magnitude = digit_product(a.units().unsigned_abs(), b.units().unsigned_abs());
        let scaled = match magnitude.len() {
            0..=12 => "0",
            length => &magnitude[..length - 12],
        };
        match product {
            Ok(product) => assert_eq!(product.units().unsigned_abs().to_string(), scaled),
            Err(_) => assert!(scaled.len() > 38),
        }
    }
}
