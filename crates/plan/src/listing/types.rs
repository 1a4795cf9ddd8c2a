//! The SQL types as JDBC describes them.

use super::{Listing, int, maybe, text};
use lockstep_types::sql_type::MAX_VALUE_BYTES;
use lockstep_types::{SqlType, Value};

/// Where JDBC's numbers for "unknown nullability" and so on come in.
pub(super) const PARAMETER_NULLABLE_UNKNOWN: i64 = 2;

/// The type's number in `java.sql.Types`.
pub(super) fn jdbc_type(sql_type: SqlType) -> i64 {
    match sql_type {
        SqlType::TinyInt => -6,
        SqlType::SmallInt => 5,
        SqlType::Integer => 4,
        SqlType::BigInt => -5,
        SqlType::Float => 6,
        SqlType::Varchar => 12,
        SqlType::Timestamp => 93,
        SqlType::Decimal => 3,
        SqlType::Boolean => 16,
        SqlType::Varbinary => -3,
        SqlType::Null => 0,
        // java.sql.Types.OTHER.
        SqlType::GeographyPoint | SqlType::Geography => 1111,
    }
}

/// Precision and its radix; of types of variable length the greatest length, without a radix.
pub(super) fn precision(sql_type: SqlType) -> (Option<i64>, Option<i64>) {
    match sql_type {
        SqlType::TinyInt => (Some(7), Some(2)),
        SqlType::SmallInt => (Some(15), Some(2)),
        SqlType::Integer => (Some(31), Some(2)),
        SqlType::BigInt | SqlType::Timestamp => (Some(63), Some(2)),
        SqlType::Float => (Some(53), Some(2)),
        SqlType::Decimal => (Some(38), Some(10)),
        SqlType::Varchar | SqlType::Varbinary | SqlType::Geography => {
            (Some(i64::from(MAX_VALUE_BYTES)), None)
        }
        SqlType::Boolean | SqlType::Null | SqlType::GeographyPoint => (None, None),
    }
}

/// Digits after the point, of DECIMAL only.
pub(super) fn scale(sql_type: SqlType) -> Option<i64> {
    (sql_type == SqlType::Decimal).then_some(i64::from(lockstep_types::decimal::SCALE))
}

/// One row of TYPEINFO, as far as rows differ.
struct TypeRow {
    name: &'static str,
    jdbc: i64,
    precision: Option<i64>,
    radix: Option<i64>,
    quoted: bool,
    has_length: bool,
    case_sensitive: bool,
    /// JDBC's 0 none, 2 all but LIKE, 3 all.
    searchable: i64,
    is_unsigned: Option<i64>,
    scale: Option<i64>,
}

fn type_row(sql_type: SqlType) -> TypeRow {
    let (precision, radix) = precision(sql_type);
    let quoted = matches!(sql_type, SqlType::Varchar | SqlType::Varbinary | SqlType::Timestamp);
    TypeRow {
        name: sql_type.name(),
        jdbc: jdbc_type(sql_type),
        precision,
        radix,
        quoted,
        has_length: sql_type.is_variable_length(),
        case_sensitive: sql_type == SqlType::Varchar,
        searchable: if sql_type == SqlType::Varchar { 3 } else { 2 },
        is_unsigned: sql_type.is_number().then_some(0),
        scale: match sql_type {
            SqlType::Decimal => scale(sql_type),
            SqlType::Boolean => Some(0),
            _ if sql_type.is_integer() => Some(0),
            _ => None,
        },
    }
}

/// A type of which there is no column here but which clients expect to be told of.
fn other_row(name: &'static str, searchable: i64, length: Option<i64>) -> TypeRow {
    TypeRow {
        name,
        jdbc: 1111,
        precision: length,
        radix: None,
        quoted: false,
        has_length: length.is_some(),
        case_sensitive: false,
        searchable,
        is_unsigned: None,
        scale: None,
    }
}

/// TYPEINFO.
pub(super) fn types() -> Listing {
    const TEXT: SqlType = SqlType::Varchar;
    let mut listing = Listing::new(&[
        ("TYPE_NAME", TEXT),
        ("DATA_TYPE", SqlType::Integer),
        ("PRECISION", SqlType::Integer),
        ("LITERAL_PREFIX", TEXT),
        ("LITERAL_SUFFIX", TEXT),
        ("CREATE_PARAMS", TEXT),
        ("NULLABLE", SqlType::SmallInt),
        ("CASE_SENSITIVE", SqlType::TinyInt),
        ("SEARCHABLE", SqlType::SmallInt),
        ("UNSIGNED_ATTRIBUTE", SqlType::TinyInt),
        ("FIXED_PREC_SCALE", SqlType::TinyInt),
        ("AUTO_INCREMENT", SqlType::TinyInt),
        ("LOCAL_TYPE_NAME", TEXT),
        ("MINIMUM_SCALE", SqlType::SmallInt),
        ("MAXIMUM_SCALE", SqlType::SmallInt),
        ("SQL_DATA_TYPE", SqlType::Integer),
        ("SQL_DATETIME_SUB", SqlType::Integer),
        ("NUM_PREC_RADIX", SqlType::Integer),
    ]);
    let rows = [
        type_row(SqlType::TinyInt),
        type_row(SqlType::SmallInt),
        type_row(SqlType::Integer),
        type_row(SqlType::BigInt),
        other_row("INLIST OF BIGINT", 0, None),
        type_row(SqlType::Float),
        type_row(SqlType::Varchar),
        other_row("INLIST OF STRING", 0, None),
        type_row(SqlType::Timestamp),
        type_row(SqlType::Decimal),
        type_row(SqlType::Boolean),
        type_row(SqlType::Varbinary),
        other_row("GEOGRAPHY_POINT", 2, None),
        other_row("GEOGRAPHY", 2, Some(i64::from(MAX_VALUE_BYTES))),
    ];
    listing.rows = rows.iter().map(row).collect();
    listing
}

fn row(row: &TypeRow) -> Vec<Value> {
    let quote = if row.quoted { text("'") } else { Value::Null };
    vec![
        text(row.name),
        int(row.jdbc),
        maybe(row.precision),
        quote.clone(),
        quote,
        if row.has_length { text("max_length") } else { Value::Null },
        int(1),
        int(row.case_sensitive),
        int(row.searchable),
        maybe(row.is_unsigned),
        int(0),
        int(0),
        text(row.name),
        maybe(row.scale),
        maybe(row.scale),
        Value::Null,
        Value::Null,
        maybe(row.radix),
    ]
}
