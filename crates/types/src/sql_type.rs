//! The SQL types, with the codes that VoltDB's protocol gives them.

use std::fmt;

/// A type of a column, parameter or expression. The discriminant is the wire code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum SqlType {
    /// A null without a type: only of parameters and the literal NULL.
    Null = 1,
    /// 8-bit integer; -128 is NULL.
    TinyInt = 3,
    /// 16-bit integer; -32768 is NULL.
    SmallInt = 4,
    /// 32-bit integer; the smallest is NULL.
    Integer = 5,
    /// 64-bit integer; the smallest is NULL.
    BigInt = 6,
    /// IEEE 754 double; -1.7E308 and below is NULL.
    Float = 8,
    /// UTF-8 text.
    Varchar = 9,
    /// Microseconds since 1970-01-01 UTC; the smallest integer is NULL.
    Timestamp = 11,
    /// Fixed point, 38 digits, 12 of them after the point.
    Decimal = 22,
    /// Truth value: inside expressions only, never a column.
    Boolean = 23,
    /// Bytes.
    Varbinary = 25,
    /// A point on the earth: longitude and latitude in degrees.
    GeographyPoint = 26,
    /// A polygon on the earth, in the byte form of [`crate::geography`].
    Geography = 27,
}

/// The double that means NULL on the wire and in storage; everything at or below it is NULL. NaN
/// is not ([`crate::float`]).
pub const NULL_FLOAT: f64 = -1.7E308;
/// The greatest length in bytes of a VARCHAR or VARBINARY value.
pub const MAX_VALUE_BYTES: u32 = 1_048_576;
/// The greatest declared length of a VARCHAR in characters.
pub const MAX_VALUE_CHARACTERS: u32 = 262_144;

impl SqlType {
    /// The type of a wire code, if the server knows it.
    #[inline]
    pub fn from_code(code: i8) -> Option<SqlType> {
        Some(match code {
            1 => SqlType::Null,
            3 => SqlType::TinyInt,
            4 => SqlType::SmallInt,
            5 => SqlType::Integer,
            6 => SqlType::BigInt,
            8 => SqlType::Float,
            9 => SqlType::Varchar,
            11 => SqlType::Timestamp,
            22 => SqlType::Decimal,
            23 => SqlType::Boolean,
            25 => SqlType::Varbinary,
            26 => SqlType::GeographyPoint,
            27 => SqlType::Geography,
            _ => return None,
        })
    }

    /// Whether a wire code is that of a type.
    #[inline]
    pub fn is_code(code: i8) -> bool {
        const KNOWN: u32 = 1 << SqlType::Null as u8
            | 1 << SqlType::TinyInt as u8
            | 1 << SqlType::SmallInt as u8
            | 1 << SqlType::Integer as u8
            | 1 << SqlType::BigInt as u8
            | 1 << SqlType::Float as u8
            | 1 << SqlType::Varchar as u8
            | 1 << SqlType::Timestamp as u8
            | 1 << SqlType::Decimal as u8
            | 1 << SqlType::Boolean as u8
            | 1 << SqlType::Varbinary as u8
            | 1 << SqlType::GeographyPoint as u8
            | 1 << SqlType::Geography as u8;
        (0..32).contains(&code) && KNOWN >> code & 1 == 1
    }

    /// The wire code.
    #[inline]
    pub const fn code(self) -> i8 {
        self as i8
    }

    /// The name in SQL and in messages.
    pub fn name(self) -> &'static str {
        match self {
            SqlType::Null => "NULL",
            SqlType::TinyInt => "TINYINT",
            SqlType::SmallInt => "SMALLINT",
            SqlType::Integer => "INTEGER",
            SqlType::BigInt => "BIGINT",
            SqlType::Float => "FLOAT",
            SqlType::Varchar => "VARCHAR",
            SqlType::Timestamp => "TIMESTAMP",
            SqlType::Decimal => "DECIMAL",
            SqlType::Boolean => "BOOLEAN",
            SqlType::Varbinary => "VARBINARY",
            SqlType::GeographyPoint => "GEOGRAPHY_POINT",
            SqlType::Geography => "GEOGRAPHY",
        }
    }

    /// TINYINT, SMALLINT, INTEGER or BIGINT.
    #[inline]
    pub fn is_integer(self) -> bool {
        matches!(self, SqlType::TinyInt | SqlType::SmallInt | SqlType::Integer | SqlType::BigInt)
    }

    /// An integer, FLOAT or DECIMAL.
    #[inline]
    pub fn is_number(self) -> bool {
        self.is_integer() || matches!(self, SqlType::Float | SqlType::Decimal)
    }

    /// VARCHAR, VARBINARY or GEOGRAPHY.
    #[inline]
    pub fn is_variable_length(self) -> bool {
        matches!(self, SqlType::Varchar | SqlType::Varbinary | SqlType::Geography)
    }

    /// GEOGRAPHY_POINT or GEOGRAPHY.
    #[inline]
    pub fn is_geographic(self) -> bool {
        matches!(self, SqlType::GeographyPoint | SqlType::Geography)
    }

    /// The smallest and greatest legal value of an integer type (the NULL sentinel left out).
    pub fn integer_range(self) -> Option<(i64, i64)> {
        Some(match self {
            SqlType::TinyInt => (-127, 127),
            SqlType::SmallInt => (-32_767, 32_767),
            SqlType::Integer => (-2_147_483_647, 2_147_483_647),
            SqlType::BigInt => (-i64::MAX, i64::MAX),
            _ => return None,
        })
    }

    /// Bytes of a value on the wire and in a slot; `None` when they vary.
    #[inline]
    pub fn fixed_bytes(self) -> Option<usize> {
        Some(match self {
            SqlType::Null => 0,
            SqlType::TinyInt | SqlType::Boolean => 1,
            SqlType::SmallInt => 2,
            SqlType::Integer => 4,
            SqlType::BigInt | SqlType::Float | SqlType::Timestamp => 8,
            SqlType::Decimal | SqlType::GeographyPoint => 16,
            SqlType::Varchar | SqlType::Varbinary | SqlType::Geography => return None,
        })
    }
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_types() {
        for code in i8::MIN..=i8::MAX {
            assert_eq!(SqlType::is_code(code), SqlType::from_code(code).is_some(), "{code}");
        }
    }
}
