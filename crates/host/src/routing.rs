//! Which partition a call belongs to: the hash of its routing parameter, computed exactly as
//! VoltDB's clients compute it.

use lockstep_exec::arena::Arena;
use lockstep_exec::convert::procedure_parameter;
use lockstep_plan_ir::ProcedureDefinition;
use lockstep_plan_ir::procedure::{ProcedureParameter, ProcedurePartitioning};
use lockstep_types::{Datum, Failure, HashRing, Parameter, PartitionId, SqlType};

/// The type that the values of a procedure's routing parameter are hashed as: the partitioning
/// column's. An integer parameter of a column of text or bytes is hashed as an integer, as clients
/// do, so that each key of `@GetPartitionKeys` reaches its partition.
pub fn hashed_type(
    procedure: &ProcedureDefinition,
    parameter: u16,
    column_type: SqlType,
) -> SqlType {
    let declared = procedure.parameters.get(usize::from(parameter));
    match declared.map(|parameter| parameter.sql_type) {
        Some(declared) if declared.is_integer() && !column_type.is_integer() => declared,
        _ => column_type,
    }
}

/// The partition of a call whose routing parameter was sent as `parameter`, for a partitioning
/// column of `column_type`.
///
/// # Errors
/// The value cannot be one of that column: an array, or text that is no integer.
pub fn partition_of_parameter(
    parameter: &Parameter<'_>,
    column_type: SqlType,
    ring: &HashRing,
) -> Result<PartitionId, String> {
    let mut bytes = Vec::new();
    Ok(ring.partition_of(hashed_value(parameter, column_type, &mut bytes)?))
}

/// The value that is hashed of a routing parameter: the one that the procedure gets, so that a
/// value of another type than the column's goes where its row is. `bytes` keeps the bytes of a
/// converted value.
///
/// # Errors
/// As for [`partition_of_parameter`].
pub fn hashed_value<'p>(
    parameter: &Parameter<'p>,
    column_type: SqlType,
    bytes: &'p mut Vec<u8>,
) -> Result<Datum<'p>, String> {
    let Parameter::Scalar(_, value) = parameter else {
        return converted_value(parameter, column_type, bytes);
    };
    match (*value, column_type) {
        (Datum::Null, _)
        | (Datum::Text(_), SqlType::Varchar)
        | (Datum::Bytes(_), SqlType::Varbinary) => Ok(*value),
        (Datum::Int(_), _) if column_type.is_integer() => Ok(*value),
        (Datum::Text(text), _) if column_type.is_integer() => match text.trim().parse::<i64>() {
            Ok(i64::MIN) => Ok(Datum::Null),
            Ok(number) => Ok(Datum::Int(number)),
            Err(_) => Err(format!("For input string: \"{text}\"")),
        },
        (Datum::Bytes(bytes), _) if column_type.is_integer() => {
            integer_of_bytes(bytes, column_type)
        }
        _ => converted_value(parameter, column_type, bytes),
    }
}

/// The value as a procedure converts it that declares a parameter of the column's type. What has
/// no conversion is hashed as it is: the procedure refuses it.
#[cold]
fn converted_value<'p>(
    parameter: &Parameter<'p>,
    column_type: SqlType,
    bytes: &'p mut Vec<u8>,
) -> Result<Datum<'p>, String> {
    let arena = Arena::new();
    let wanted = ProcedureParameter { sql_type: column_type, is_array: false };
    let converted = procedure_parameter(*parameter, wanted, &arena);
    Ok(match (converted, parameter) {
        (Ok(Datum::Text(text)), _) => {
            *bytes = text.as_bytes().to_vec();
            Datum::Text(std::str::from_utf8(bytes).expect("the bytes of a text are UTF-8"))
        }
        (Ok(Datum::Bytes(found)), _) => {
            *bytes = found.to_vec();
            Datum::Bytes(bytes)
        }
        (Ok(Datum::Null), _) => Datum::Null,
        (Ok(Datum::Bool(value)), _) => Datum::Bool(value),
        (Ok(Datum::Int(value)), _) => Datum::Int(value),
        (Ok(Datum::Float(value)), _) => Datum::Float(value),
        (Ok(Datum::Decimal(value)), _) => Datum::Decimal(value),
        (Ok(Datum::Timestamp(value)), _) => Datum::Timestamp(value),
        (Ok(Datum::Point(value)), _) => Datum::Point(value),
        (Err(_), Parameter::Scalar(_, value)) => *value,
        (Err(_), _) => return Err("an array or table cannot be hashed".to_string()),
    })
}

/// Bytes sent for an integer column are the integer in little-endian order, of the column's
/// width or shorter or longer ones that clients use.
fn integer_of_bytes(bytes: &[u8], column_type: SqlType) -> Result<Datum<'static>, String> {
    let value = match bytes.len() {
        8 => bytes.first_chunk().map(|b| i64::from_le_bytes(*b)),
        4 => bytes.first_chunk().map(|b| i32::from_le_bytes(*b).into()),
        2 => bytes.first_chunk().map(|b| i16::from_le_bytes(*b).into()),
        1 => bytes.first_chunk().map(|b| i8::from_le_bytes(*b).into()),
        _ => None,
    };
    value.map(Datum::Int).ok_or_else(|| {
        format!("{} bytes are no {column_type}: 1, 2, 4 or 8 are needed", bytes.len())
    })
}

/// What a client gets whose routing parameter cannot be hashed.
pub fn misrouted(
    procedure: &ProcedureDefinition,
    value: &str,
    column_type: SqlType,
    reason: &str,
) -> Failure {
    let column = match &procedure.partitioning {
        Some(ProcedurePartitioning::Column { column, .. }) => column.clone(),
        Some(
            ProcedurePartitioning::Columns { columns, .. }
            | ProcedurePartitioning::Via { columns, .. },
        ) => {
            let names: Vec<&str> = columns.iter().map(|column| column.column.as_str()).collect();
            names.join(", ")
        }
        _ => String::new(),
    };
    Failure::unexpected(format!(
        "Error sending procedure {} to the correct partition. Make sure parameter values are \
         correct. Parameter value {value}, partition column {column} type {column_type} \
         Message: {reason}",
        procedure.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::Decimal;

    #[test]
    fn a_value_is_hashed_as_the_column_is() {
        let ring = HashRing::new(7);
        let place = |value: Datum<'_>, column_type| {
            let parameter = Parameter::Scalar(value.natural_type(), value);
            partition_of_parameter(&parameter, column_type, &ring)
        };
        let five = ring.partition_of(Datum::Int(5));
        assert_eq!(place(Datum::Int(5), SqlType::Integer), Ok(five));
        assert_eq!(place(Datum::Text("5"), SqlType::Integer), Ok(five));
        assert_eq!(place(Datum::Bytes(&[5, 0, 0, 0, 0, 0, 0, 0]), SqlType::BigInt), Ok(five));
        assert_eq!(place(Datum::Null, SqlType::Integer), Ok(PartitionId(0)));
        let bytes = ring.partition_of(Datum::Bytes(&[0x0a, 0x0b]));
        assert_eq!(place(Datum::Text("0A0b"), SqlType::Varbinary), Ok(bytes));
        let text = ring.partition_of(Datum::Text("5"));
        assert_eq!(place(Datum::Text("5"), SqlType::Varchar), Ok(text));
        assert_eq!(place(Datum::Int(5), SqlType::Varchar), Ok(text));
        assert_eq!(place(Datum::Bytes(b"5"), SqlType::Varchar), Ok(text));
        let float = ring.partition_of(Datum::Text("5.0"));
        assert_eq!(place(Datum::Float(5.0), SqlType::Varchar), Ok(float));
        let time = ring.partition_of(Datum::Text("1970-01-01 00:00:00.000005"));
        assert_eq!(place(Datum::Timestamp(5), SqlType::Varchar), Ok(time));
        let whole = Datum::Decimal(Decimal::from_integer(5));
        assert_eq!(place(whole, SqlType::BigInt), Ok(five));
        assert!(place(Datum::Text("x"), SqlType::Integer).is_err());
        assert!(place(Datum::Bytes(&[1, 2, 3]), SqlType::Integer).is_err());
    }
}
