//! Column types and CAST targets.

use super::Span;

/// A type as written; ranges of lengths are the binder's to check.
#[derive(Clone, Copy, Debug)]
pub struct DataType {
    /// Which type.
    pub name: TypeName,
    /// VARCHAR(n), VARBINARY(n), GEOGRAPHY(n): the n. For DECIMAL(p, s), which are ignored, none.
    pub length: Option<u64>,
    /// Whether VARCHAR's length counts characters or bytes.
    pub unit: LengthUnit,
    /// Where the type stands, length included.
    pub span: Span,
}

/// The types that VoltDB accepts, by their first name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeName {
    /// 8-bit integer.
    TinyInt,
    /// 16-bit integer.
    SmallInt,
    /// 32-bit integer; also INT.
    Integer,
    /// 64-bit integer.
    BigInt,
    /// IEEE double; also REAL.
    Float,
    /// 38 digits, 12 of them after the point.
    Decimal,
    /// Text; also CHAR VARYING and CHARACTER VARYING.
    Varchar,
    /// Bytes.
    Varbinary,
    /// Microseconds since 1970, UTC.
    Timestamp,
    /// Polygon.
    Geography,
    /// Point on the earth.
    GeographyPoint,
}

impl TypeName {
    /// The type's first name, in upper case.
    pub fn as_str(self) -> &'static str {
        match self {
            TypeName::TinyInt => "TINYINT",
            TypeName::SmallInt => "SMALLINT",
            TypeName::Integer => "INTEGER",
            TypeName::BigInt => "BIGINT",
            TypeName::Float => "FLOAT",
            TypeName::Decimal => "DECIMAL",
            TypeName::Varchar => "VARCHAR",
            TypeName::Varbinary => "VARBINARY",
            TypeName::Timestamp => "TIMESTAMP",
            TypeName::Geography => "GEOGRAPHY",
            TypeName::GeographyPoint => "GEOGRAPHY_POINT",
        }
    }
}

/// What VARCHAR's length counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthUnit {
    /// Characters (the default).
    Characters,
    /// VARCHAR(n BYTES).
    Bytes,
}
