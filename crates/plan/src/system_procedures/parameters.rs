//! Parameters of system procedures.

use lockstep_types::SqlType;

/// The values that a parameter of a system procedure takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// VARCHAR.
    Text,
    /// An array of VARCHAR.
    Texts,
    /// TINYINT.
    TinyInt,
    /// INTEGER.
    Integer,
    /// BIGINT.
    BigInt,
    /// VARCHAR or BIGINT.
    TextOrInteger,
    /// VARBINARY, an array of bytes, or a VARCHAR of hexadecimal digits.
    Bytes,
    /// A table.
    Rows,
    /// A value of any type.
    Any,
    /// Any number of values of any types.
    Values,
}

impl ParameterKind {
    /// The type, as errors and the reference page name it.
    pub fn name(self) -> &'static str {
        match self {
            ParameterKind::Text => "STRING",
            ParameterKind::Texts => "STRING[]",
            ParameterKind::TinyInt => "TINYINT",
            ParameterKind::Integer => "INTEGER",
            ParameterKind::BigInt => "BIGINT",
            ParameterKind::TextOrInteger => "STRING or BIGINT",
            ParameterKind::Bytes => "VARBINARY",
            ParameterKind::Rows => "table",
            ParameterKind::Any => "any type",
            ParameterKind::Values => "any types, ...",
        }
    }

    /// The SQL type of a scalar, if the kind has one.
    pub fn sql_type(self) -> Option<SqlType> {
        match self {
            ParameterKind::Text => Some(SqlType::Varchar),
            ParameterKind::TinyInt => Some(SqlType::TinyInt),
            ParameterKind::Integer => Some(SqlType::Integer),
            ParameterKind::BigInt => Some(SqlType::BigInt),
            ParameterKind::Bytes => Some(SqlType::Varbinary),
            ParameterKind::Texts
            | ParameterKind::TextOrInteger
            | ParameterKind::Rows
            | ParameterKind::Any
            | ParameterKind::Values => None,
        }
    }
}

/// A list of parameters that a call may have: what the reference page calls each, and its kind.
pub type Form = [(&'static str, ParameterKind)];
