//! The answer of a call whose statements are profiled: one table with what each operator did at
//! each place, to be shown beside the plans.
//!
//! ```text
//! STATEMENT INTEGER   the statement's number in the call
//! PARTITION INTEGER   null for the coordinator
//! OPERATOR  INTEGER   its place in the plan's list of operators
//! ROWS_GIVEN, RUNS, TICKS BIGINT   see `OperatorProfile`
//! ```

use crate::message::StatementProfile;
use lockstep_exec::watch::OperatorProfile;
use lockstep_types::{Datum, PartitionId, SqlType, TableBuilder, TableSchema, TableView};

/// Appends the table.
pub fn write_profiles(profiles: &[StatementProfile], out: &mut Vec<u8>) {
    let schema = TableSchema::new(&[
        ("STATEMENT", SqlType::Integer),
        ("PARTITION", SqlType::Integer),
        ("OPERATOR", SqlType::Integer),
        ("ROWS_GIVEN", SqlType::BigInt),
        ("RUNS", SqlType::BigInt),
        ("TICKS", SqlType::BigInt),
    ]);
    let mut table = TableBuilder::begin(out, &schema);
    for profile in profiles {
        let statement = Datum::Int(profile.statement.into());
        let partition = profile.partition.map_or(Datum::Null, |p| Datum::Int(p.0.into()));
        for (operator, counted) in (0..).zip(&profile.operators) {
            let OperatorProfile { rows, loops, ticks } = *counted;
            let numbers = [rows, loops, ticks].map(|number| Datum::Int(number as i64));
            let [rows, loops, ticks] = numbers;
            let operator = Datum::Int(operator);
            table.row(&schema, &[statement, partition, operator, rows, loops, ticks]);
        }
    }
    table.finish();
}

/// Reads the table: the counts of one operator at one place each, which add up.
///
/// # Errors
/// It is not what [`write_profiles`] writes: what is wrong with it.
pub fn read_profiles(table: &TableView<'_>) -> Result<Vec<StatementProfile>, String> {
    let mut profiles: Vec<StatementProfile> = Vec::new();
    let mut row = Vec::new();
    for read in table.rows() {
        row.clear();
        let read = read.and_then(|read| read.read_into(&mut row));
        read.map_err(|error| error.to_string())?;
        let [Datum::Int(statement), partition, Datum::Int(operator), rest @ ..] = row.as_slice()
        else {
            return Err("a row of profiles is not one".to_string());
        };
        let [Datum::Int(rows), Datum::Int(loops), Datum::Int(ticks)] = rest else {
            return Err("a row of profiles counts nothing".to_string());
        };
        let [rows, loops, ticks] = [rows, loops, ticks].map(|number| *number as u64);
        let partition = match partition {
            Datum::Int(partition) => Some(PartitionId(*partition as u32)),
            _ => None,
        };
        let statement = *statement as u32;
        if *operator == 0 {
            profiles.push(StatementProfile { statement, partition, operators: Vec::new() });
        }
        let of = profiles.last_mut().ok_or("profiles begin with the first operator")?;
        of.operators.push(OperatorProfile { rows, loops, ticks });
    }
    Ok(profiles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_base::bytes::ByteReader;

    #[test]
    fn profiles_are_read_as_they_were_written() {
        let counted = |rows| OperatorProfile { rows, loops: 1, ticks: 7 };
        let at = |statement, partition, operators| {
            let partition = Option::map(partition, PartitionId);
            StatementProfile { statement, partition, operators }
        };
        let profiles = vec![
            at(0, Some(1), vec![counted(1), counted(2)]),
            at(0, None, vec![counted(3)]),
            at(1, Some(0), vec![counted(4)]),
        ];
        let mut bytes = Vec::new();
        write_profiles(&profiles, &mut bytes);
        let table = TableView::read(&mut ByteReader::new(&bytes)).expect("it is a table");
        assert_eq!(read_profiles(&table), Ok(profiles));
    }
}
