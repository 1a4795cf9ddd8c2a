//! SQL values: borrowed and cheap to copy ([`Datum`]), or owned ([`Value`]).

use crate::float::{compare_floats, equal_floats};
use crate::geography::Point;
use crate::{Decimal, SqlType};
use std::cmp::Ordering;
use std::fmt;

/// One SQL value, borrowed: text and bytes point into a slot, a parameter or an arena.
///
/// Integers of every width are `Int`; the static type beside it says the width.
#[derive(Debug, Clone, Copy)]
pub enum Datum<'a> {
    /// SQL NULL of whatever type.
    Null,
    /// A truth value; inside expressions only.
    Bool(bool),
    /// TINYINT to BIGINT.
    Int(i64),
    /// FLOAT; never the NULL sentinel or below. NaN is a value ([`crate::float`]).
    Float(f64),
    /// DECIMAL.
    Decimal(Decimal),
    /// TIMESTAMP: microseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// VARCHAR.
    Text(&'a str),
    /// VARBINARY, and GEOGRAPHY in the byte form of [`crate::geography`].
    Bytes(&'a [u8]),
    /// GEOGRAPHY_POINT.
    Point(Point),
}

const _: () = assert!(std::mem::size_of::<Datum<'_>>() == 24, "datums are copied everywhere");

impl<'a> Datum<'a> {
    /// True for NULL.
    #[inline]
    pub fn is_null(self) -> bool {
        matches!(self, Datum::Null)
    }

    /// The widest type that holds this kind of value; what a literal without context has.
    pub fn natural_type(self) -> SqlType {
        match self {
            Datum::Null => SqlType::Null,
            Datum::Bool(_) => SqlType::Boolean,
            Datum::Int(_) => SqlType::BigInt,
            Datum::Float(_) => SqlType::Float,
            Datum::Decimal(_) => SqlType::Decimal,
            Datum::Timestamp(_) => SqlType::Timestamp,
            Datum::Text(_) => SqlType::Varchar,
            Datum::Bytes(_) => SqlType::Varbinary,
            Datum::Point(_) => SqlType::GeographyPoint,
        }
    }

    /// An owned copy.
    pub fn to_value(self) -> Value {
        match self {
            Datum::Null => Value::Null,
            Datum::Bool(v) => Value::Bool(v),
            Datum::Int(v) => Value::Int(v),
            Datum::Float(v) => Value::Float(v),
            Datum::Decimal(v) => Value::Decimal(v),
            Datum::Timestamp(v) => Value::Timestamp(v),
            Datum::Text(v) => Value::Text(v.into()),
            Datum::Bytes(v) => Value::Bytes(v.into()),
            Datum::Point(v) => Value::Point(v),
        }
    }

    /// The order of ORDER BY and of ordered indexes: NULL lowest, numbers by value whatever
    /// their type, text and bytes by memory order. Values of kinds that SQL does not compare
    /// order by kind, so that the order is total.
    pub fn sort_order(self, other: Datum<'_>) -> Ordering {
        match (self, other) {
            (Datum::Int(a), Datum::Int(b)) => a.cmp(&b),
            (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Datum::Timestamp(a), Datum::Timestamp(b)) => a.cmp(&b),
            (Datum::Float(a), Datum::Float(b)) => compare_floats(a, b),
            (Datum::Decimal(a), Datum::Decimal(b)) => a.cmp(&b),
            (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
            (Datum::Point(a), Datum::Point(b)) => a.cmp(&b),
            (Datum::Bool(a), Datum::Bool(b)) => a.cmp(&b),
            (Datum::Null, Datum::Null) => Ordering::Equal,
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => a.compare(b),
                _ => self.kind_rank().cmp(&other.kind_rank()),
            },
        }
    }

    fn number(self) -> Option<Number> {
        match self {
            Datum::Int(v) => Some(Number::Exact(Decimal::from_integer(v).units())),
            Datum::Decimal(v) => Some(Number::Exact(v.units())),
            Datum::Float(v) => Some(Number::Float(v)),
            _ => None,
        }
    }

    fn kind_rank(self) -> u8 {
        match self {
            Datum::Null => 0,
            Datum::Bool(_) => 1,
            Datum::Int(_) | Datum::Float(_) | Datum::Decimal(_) => 2,
            Datum::Timestamp(_) => 3,
            Datum::Text(_) => 4,
            Datum::Bytes(_) => 5,
            Datum::Point(_) => 6,
        }
    }
}

/// A number for comparisons across types: exact in units of 10^-12, or a double.
enum Number {
    Exact(i128),
    Float(f64),
}

impl Number {
    fn compare(self, other: Number) -> Ordering {
        let float = |n: &Number| match n {
            Number::Exact(units) => Decimal::from_raw(*units).to_f64(),
            Number::Float(v) => *v,
        };
        match (&self, &other) {
            (Number::Exact(a), Number::Exact(b)) => a.cmp(b),
            _ => compare_floats(float(&self), float(&other)),
        }
    }
}

impl PartialEq for Datum<'_> {
    /// Values of one kind by value, NaN equal to NaN, and NULL to NULL. A number never equals one
    /// of another kind here.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Datum::Null, Datum::Null) => true,
            (Datum::Bool(a), Datum::Bool(b)) => a == b,
            (Datum::Int(a), Datum::Int(b)) | (Datum::Timestamp(a), Datum::Timestamp(b)) => a == b,
            (Datum::Float(a), Datum::Float(b)) => equal_floats(*a, *b),
            (Datum::Decimal(a), Datum::Decimal(b)) => a == b,
            (Datum::Text(a), Datum::Text(b)) => a == b,
            (Datum::Bytes(a), Datum::Bytes(b)) => a == b,
            (Datum::Point(a), Datum::Point(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Display for Datum<'_> {
    /// As messages show it: text as is, bytes in hex, NULL as `NULL`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datum::Null => f.write_str("NULL"),
            Datum::Bool(v) => f.write_str(if *v { "TRUE" } else { "FALSE" }),
            Datum::Int(v) => v.fmt(f),
            Datum::Float(v) => v.fmt(f),
            Datum::Decimal(v) => v.fmt(f),
            Datum::Timestamp(v) => f.write_str(&crate::timestamp::format(*v)),
            Datum::Text(v) => f.write_str(v),
            Datum::Bytes(v) => v.iter().try_for_each(|byte| write!(f, "{byte:02X}")),
            Datum::Point(v) => v.fmt(f),
        }
    }
}

/// One SQL value that owns its text and bytes; for plans, the catalog and other cold places.
#[derive(Debug, Clone)]
pub enum Value {
    /// SQL NULL of whatever type.
    Null,
    /// A truth value; inside expressions only.
    Bool(bool),
    /// TINYINT to BIGINT.
    Int(i64),
    /// FLOAT.
    Float(f64),
    /// DECIMAL.
    Decimal(Decimal),
    /// TIMESTAMP: microseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// VARCHAR.
    Text(Box<str>),
    /// VARBINARY, and GEOGRAPHY in the byte form of [`crate::geography`].
    Bytes(Box<[u8]>),
    /// GEOGRAPHY_POINT.
    Point(Point),
}

impl Value {
    /// The value, borrowed.
    #[inline]
    pub fn as_datum(&self) -> Datum<'_> {
        match self {
            Value::Null => Datum::Null,
            Value::Bool(v) => Datum::Bool(*v),
            Value::Int(v) => Datum::Int(*v),
            Value::Float(v) => Datum::Float(*v),
            Value::Decimal(v) => Datum::Decimal(*v),
            Value::Timestamp(v) => Datum::Timestamp(*v),
            Value::Text(v) => Datum::Text(v),
            Value::Bytes(v) => Datum::Bytes(v),
            Value::Point(v) => Datum::Point(*v),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.as_datum() == other.as_datum()
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_datum().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_crosses_number_types_and_puts_null_first() {
        let decimal = |text| Datum::Decimal(Decimal::parse(text).expect("a number"));
        let ascending = [
            Datum::Null,
            Datum::Float(-1.0e300),
            Datum::Int(-1),
            decimal("-0.5"),
            Datum::Float(0.25),
            Datum::Int(1),
            decimal("1.000000000001"),
            Datum::Text("a"),
            Datum::Text("é"),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.sort_order(*b), i.cmp(&j), "{a} {b}");
            }
        }
    }
}
