//! What the command log has of a change of the catalog: the change, and what it was planned with,
//! so that replay makes the same.
//!
//! ```text
//! change  := planning | u8 ddl | bytes text
//!                     | u8 classes | u8 has jar | bytes jar | u8 removes | bytes patterns
//!                     | u8 swap | bytes table | bytes table
//!                     | u8 begin index | bytes text
//!                     | u8 end index | bytes index | u8 keep
//! planning := rules off | ordered sources | partitions | table count, each: id | rows
//!             | column count, each: distinct | bound count | value*
//! ```

use super::change::CatalogChange;
use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes};
use lockstep_plan::planning::{ColumnStatistics, Statistics, TableStatistics};
use lockstep_plan::{Planning, RuleSet};
use lockstep_types::geography::Point;
use lockstep_types::{Decimal, TableId, Value};
use std::sync::Arc;

/// Among the bits of the rules that are off: procedures are created WITH LOCAL DATA.
const LOCAL_DATA: u64 = 1 << 63;

const DDL: u8 = 1;
const CLASSES: u8 = 2;
const SWAP: u8 = 3;
const BEGIN_INDEX: u8 = 4;
const END_INDEX: u8 = 5;

/// Writes a change as the log has it.
pub fn encode(change: CatalogChange<'_>, planning: &Planning) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_planning(&mut bytes, planning);
    match change {
        CatalogChange::Ddl(text) => {
            bytes.put_u8(DDL);
            bytes.put_counted(text.as_bytes());
        }
        CatalogChange::Classes { jar, removed } => {
            bytes.put_u8(CLASSES);
            bytes.put_u8(u8::from(jar.is_some()));
            bytes.put_counted(jar.unwrap_or_default());
            bytes.put_u8(u8::from(removed.is_some()));
            bytes.put_counted(removed.unwrap_or_default().as_bytes());
        }
        CatalogChange::Swap(first, second) => {
            bytes.put_u8(SWAP);
            bytes.put_counted(first.as_bytes());
            bytes.put_counted(second.as_bytes());
        }
        CatalogChange::BeginIndex(text) => {
            bytes.put_u8(BEGIN_INDEX);
            bytes.put_counted(text.as_bytes());
        }
        CatalogChange::EndIndex { index, keep } => {
            bytes.put_u8(END_INDEX);
            bytes.put_counted(index.as_bytes());
            bytes.put_u8(u8::from(keep));
        }
    }
    bytes
}

/// Reads what the log has of a change: the change, and what it was planned with.
///
/// # Errors
/// It is cut off, or of a kind that this release does not know.
pub fn decode(bytes: &[u8]) -> Result<(CatalogChange<'_>, Planning), String> {
    let mut reader = ByteReader::new(bytes);
    let broken = |_: EndOfBytes| "a catalog change in the log is cut off".to_string();
    let planning = decode_planning(&mut reader).map_err(broken)?;
    let kind = reader.u8().map_err(broken)?;
    let mut part = || reader.counted().map_err(broken);
    let change = match kind {
        DDL => CatalogChange::Ddl(text(part()?)?),
        SWAP => CatalogChange::Swap(text(part()?)?, text(part()?)?),
        BEGIN_INDEX => CatalogChange::BeginIndex(text(part()?)?),
        END_INDEX => {
            let index = text(part()?)?;
            CatalogChange::EndIndex { index, keep: reader.u8().map_err(broken)? != 0 }
        }
        CLASSES => {
            let has_jar = reader.u8().map_err(broken)? != 0;
            let jar = reader.counted().map_err(broken)?;
            let removes = reader.u8().map_err(broken)? != 0;
            let removed = text(reader.counted().map_err(broken)?)?;
            CatalogChange::Classes {
                jar: has_jar.then_some(jar),
                removed: removes.then_some(removed),
            }
        }
        other => {
            return Err(format!(
                "a catalog change in the log has kind {other}, which this release does not know"
            ));
        }
    };
    Ok((change, planning))
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    let error = |_| "a catalog change in the log is not UTF-8".to_string();
    std::str::from_utf8(bytes).map_err(error)
}

/// What the procedures of a catalog were planned with, as a snapshot keeps it.
pub fn encode_saved_planning(planning: &Planning) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_planning(&mut bytes, planning);
    bytes
}

/// Reads what [`encode_saved_planning`] wrote.
///
/// # Errors
/// It is cut off, or followed by something else.
pub fn decode_saved_planning(bytes: &[u8]) -> Result<Planning, String> {
    let mut reader = ByteReader::new(bytes);
    let planning = decode_planning(&mut reader);
    let planning = planning.map_err(|_| "what it was planned with is cut off".to_string())?;
    match reader.remaining() {
        0 => Ok(planning),
        more => Err(format!("{more} bytes follow what it was planned with")),
    }
}

fn encode_planning(bytes: &mut Vec<u8>, planning: &Planning) {
    let local_data = if planning.local_data { LOCAL_DATA } else { 0 };
    bytes.put_varint(planning.disabled_rules.bits() | local_data);
    bytes.put_varint(u64::from(planning.max_ordered_sources));
    let statistics = &planning.statistics;
    bytes.put_varint(u64::from(statistics.partitions));
    bytes.put_varint(statistics.tables.len() as u64);
    for (id, table) in &statistics.tables {
        bytes.put_varint(u64::from(id.0));
        bytes.put_varint(table.rows);
        bytes.put_varint(table.columns.len() as u64);
        for column in &table.columns {
            bytes.put_varint(column.distinct);
            bytes.put_varint(column.bounds.len() as u64);
            column.bounds.iter().for_each(|value| encode_value(bytes, value));
        }
    }
}

fn decode_planning(reader: &mut ByteReader<'_>) -> Result<Planning, EndOfBytes> {
    let small = |number: u64| u32::try_from(number).map_err(|_| EndOfBytes);
    let bits = reader.varint()?;
    let (disabled_rules, local_data) = (RuleSet::from_bits(bits), bits & LOCAL_DATA != 0);
    let max_ordered_sources = small(reader.varint()?)?;
    let mut statistics =
        Statistics { partitions: small(reader.varint()?)?, ..Statistics::default() };
    for _ in 0..reader.varint()? {
        let id = TableId(small(reader.varint()?)?);
        let mut table = TableStatistics { rows: reader.varint()?, columns: Vec::new() };
        for _ in 0..reader.varint()? {
            let mut column = ColumnStatistics { distinct: reader.varint()?, bounds: Vec::new() };
            for _ in 0..reader.varint()? {
                column.bounds.push(decode_value(reader)?);
            }
            table.columns.push(column);
        }
        statistics.tables.insert(id, table);
    }
    let statistics = Arc::new(statistics);
    Ok(Planning { disabled_rules, max_ordered_sources, local_data, statistics })
}

pub(crate) fn encode_value(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => bytes.put_u8(0),
        Value::Bool(value) => {
            bytes.put_u8(1);
            bytes.put_u8(u8::from(*value));
        }
        Value::Int(value) => {
            bytes.put_u8(2);
            bytes.put_i64(*value);
        }
        Value::Float(value) => {
            bytes.put_u8(3);
            bytes.put_f64(*value);
        }
        Value::Decimal(value) => {
            bytes.put_u8(4);
            bytes.put_i128(value.units());
        }
        Value::Timestamp(value) => {
            bytes.put_u8(5);
            bytes.put_i64(*value);
        }
        Value::Text(value) => {
            bytes.put_u8(6);
            bytes.put_counted(value.as_bytes());
        }
        Value::Bytes(value) => {
            bytes.put_u8(7);
            bytes.put_counted(value);
        }
        Value::Point(value) => {
            bytes.put_u8(8);
            bytes.put_f64(value.longitude());
            bytes.put_f64(value.latitude());
        }
    }
}

pub(crate) fn decode_value(reader: &mut ByteReader<'_>) -> Result<Value, EndOfBytes> {
    Ok(match reader.u8()? {
        0 => Value::Null,
        1 => Value::Bool(reader.u8()? != 0),
        2 => Value::Int(reader.i64()?),
        3 => Value::Float(reader.f64()?),
        4 => Value::Decimal(Decimal::from_units(reader.i128()?).ok_or(EndOfBytes)?),
        5 => Value::Timestamp(reader.i64()?),
        6 => Value::Text(std::str::from_utf8(reader.counted()?).map_err(|_| EndOfBytes)?.into()),
        7 => Value::Bytes(reader.counted()?.into()),
        8 => Value::Point(Point::new(reader.f64()?, reader.f64()?).ok_or(EndOfBytes)?),
        _ => return Err(EndOfBytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_back_with_what_they_were_planned_with() {
        let bounds = vec![
            Value::Null,
            Value::Int(-3),
            Value::Float(0.5),
            Value::Decimal(Decimal::from_integer(7)),
            Value::Timestamp(9),
            Value::Text("é".into()),
            Value::Bytes([1, 2].into()),
            Value::Point(Point::new(-71.06, 42.36).expect("within range")),
        ];
        let columns = vec![ColumnStatistics { distinct: 5, bounds }, ColumnStatistics::default()];
        let tables = [(TableId(3), TableStatistics { rows: 12, columns })].into();
        let planning = Planning {
            disabled_rules: RuleSet::from_bits(3),
            max_ordered_sources: 4,
            local_data: true,
            statistics: Arc::new(Statistics { partitions: 2, tables }),
        };
        let changes = [
            CatalogChange::Ddl("CREATE TABLE t (a INTEGER);"),
            CatalogChange::Classes { jar: Some(&[7; 300]), removed: None },
            CatalogChange::Classes { jar: None, removed: Some("org.*") },
            CatalogChange::Swap("A", "B"),
            CatalogChange::BeginIndex("CREATE GLOBAL INDEX i ON t (a)"),
            CatalogChange::EndIndex { index: "I", keep: true },
        ];
        for change in changes {
            let bytes = encode(change, &planning);
            let (read, with) = decode(&bytes).expect("sound");
            assert_eq!(read, change);
            assert_eq!(with.statistics, planning.statistics);
            assert_eq!(with.disabled_rules, planning.disabled_rules);
            assert_eq!((with.max_ordered_sources, with.local_data), (4, true));
            for cut in 0..bytes.len() {
                assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}
