//! The byte form of what only hosts say: how a statement is led to its row by a global index,
//! questions of the control thread to sites, and their answers. What partitions and the
//! coordinator say is in [`lockstep_site::codec`].
//!
//! ```text
//! via   := table of entries | value list | partition of the index | index or row | lookups
//! polls := catalog version | (unit | partition | table | index | cut-off | rows) list
//! seen  := catalog version | (unit | rows?) list
//! rows  := thread | (table | rows | (value list) list?) list
//! ```

use crate::catalog::HostCatalog;
use crate::names::route_of_entries;
use crate::schema::codec::{decode_value, encode_value};
use crate::statements::StatementVia;
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_site::codec::{
    MessageError, Read, put_list, put_option, read_flag, read_list, read_number, read_option,
    read_short,
};
use lockstep_site::{ExpiryPoll, ExpiryUnitId, IndexHop};
use lockstep_types::{IndexId, PartitionId, TableId, ThreadId, Value};

/// Of units of row expiration, how many rows whose time is over were seen; none where another
/// catalog is in force.
pub type SeenRows = Vec<(ExpiryUnitId, Option<u64>)>;

/// What one site knows of a table, for the planner.
#[derive(Debug, Clone, PartialEq)]
pub struct SurveyedTable {
    /// The table.
    pub table: TableId,
    /// Its rows at the site.
    pub rows: u64,
    /// Some of them, if they were asked for.
    pub sample: Option<Vec<Vec<Value>>>,
}

fn put_values(out: &mut Vec<u8>, values: &[Value]) {
    put_list(out, values, encode_value);
}

fn values(reader: &mut ByteReader<'_>) -> Read<Vec<Value>> {
    read_list(reader, |reader| Ok(decode_value(reader)?))
}

/// Writes how a statement is led to its row.
pub fn write_via(out: &mut Vec<u8>, via: &StatementVia) {
    out.put_varint(via.route.entries.0.into());
    put_values(out, &via.keys);
    out.put_varint(via.index.0.into());
    out.put_u8(match via.hop {
        IndexHop::Index => 0,
        IndexHop::Row => 1,
    });
    out.put_varint(via.lookups.into());
}

/// Reads what [`write_via`] wrote.
///
/// # Errors
/// It is not such, or the catalog has no such index.
pub fn read_via<O>(reader: &mut ByteReader<'_>, catalog: &HostCatalog<O>) -> Read<StatementVia> {
    let entries = TableId(read_number(reader, "table")?);
    let keys = values(reader)?;
    let index = PartitionId(read_number(reader, "partition")?);
    let hop = match reader.u8()? {
        0 => IndexHop::Index,
        1 => IndexHop::Row,
        other => return Err(MessageError::Unknown("a step of a routing of", other.into())),
    };
    let lookups = read_short(reader, "lookups")?;
    let route = route_of_entries(catalog, entries).map_err(MessageError::NotFound)?;
    Ok(StatementVia { route, keys, index, hop, lookups })
}

/// Writes a request to look for rows whose time is over.
pub fn write_polls(out: &mut Vec<u8>, catalog_version: u64, polls: &[ExpiryPoll]) {
    out.put_varint(catalog_version);
    out.put_varint(polls.len() as u64);
    for poll in polls {
        out.put_varint(poll.unit.0);
        out.put_varint(poll.partition.0.into());
        out.put_varint(poll.table.0.into());
        out.put_varint(poll.index.0.into());
        out.put_i64(poll.cut_off_us);
        out.put_varint(poll.rows_max);
    }
}

/// Reads what [`write_polls`] wrote.
///
/// # Errors
/// It is not such.
pub fn read_polls(reader: &mut ByteReader<'_>) -> Read<(u64, Vec<ExpiryPoll>)> {
    let catalog_version = reader.varint()?;
    let polls = read_list(reader, |reader| {
        Ok(ExpiryPoll {
            unit: ExpiryUnitId(reader.varint()?),
            partition: PartitionId(read_number(reader, "partition")?),
            table: TableId(read_number(reader, "table")?),
            index: IndexId(read_short(reader, "index")?),
            cut_off_us: reader.i64()?,
            rows_max: reader.varint()?,
        })
    })?;
    Ok((catalog_version, polls))
}

/// Writes what was seen of rows whose time is over.
pub fn write_seen(out: &mut Vec<u8>, catalog_version: u64, seen: &[(ExpiryUnitId, Option<u64>)]) {
    out.put_varint(catalog_version);
    out.put_varint(seen.len() as u64);
    for (unit, rows) in seen {
        out.put_varint(unit.0);
        put_option(out, *rows, |out, rows| out.put_varint(rows));
    }
}

/// Reads what [`write_seen`] wrote.
///
/// # Errors
/// It is not such.
pub fn read_seen(reader: &mut ByteReader<'_>) -> Read<(u64, SeenRows)> {
    let catalog_version = reader.varint()?;
    let seen = read_list(reader, |reader| {
        let unit = ExpiryUnitId(reader.varint()?);
        let rows = match read_flag(reader)? {
            true => Some(reader.varint()?),
            false => None,
        };
        Ok((unit, rows))
    })?;
    Ok((catalog_version, seen))
}

/// Writes what a thread's tables hold.
pub fn write_survey(out: &mut Vec<u8>, thread: ThreadId, tables: &[SurveyedTable]) {
    out.put_varint(thread.0.into());
    out.put_varint(tables.len() as u64);
    for table in tables {
        out.put_varint(table.table.0.into());
        out.put_varint(table.rows);
        put_option(out, table.sample.as_deref(), |out, sample| {
            put_list(out, sample, |out, row| put_values(out, row));
        });
    }
}

/// Reads what [`write_survey`] wrote.
///
/// # Errors
/// It is not such.
pub fn read_survey(reader: &mut ByteReader<'_>) -> Read<(ThreadId, Vec<SurveyedTable>)> {
    let thread = read_short(reader, "thread")?;
    let tables = read_list(reader, |reader| {
        let table = TableId(read_number(reader, "table")?);
        let rows = reader.varint()?;
        let sample = read_option(reader, |reader| read_list(reader, values))?;
        Ok(SurveyedTable { table, rows, sample })
    })?;
    Ok((ThreadId(thread), tables))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_read_back_and_refused_where_they_are_cut_off() {
        let look = ExpiryPoll {
            unit: ExpiryUnitId(3),
            partition: PartitionId(1),
            table: TableId(7),
            index: IndexId(2),
            cut_off_us: -5,
            rows_max: 1_000,
        };
        let mut bytes = Vec::new();
        write_polls(&mut bytes, 9, &[look]);
        assert_eq!(read_polls(&mut ByteReader::new(&bytes)), Ok((9, vec![look])));
        for cut in 0..bytes.len() {
            assert!(read_polls(&mut ByteReader::new(&bytes[..cut])).is_err(), "cut at {cut}");
        }
        let seen = vec![(ExpiryUnitId(1), None), (ExpiryUnitId(2), Some(300))];
        let mut bytes = Vec::new();
        write_seen(&mut bytes, 4, &seen);
        assert_eq!(read_seen(&mut ByteReader::new(&bytes)), Ok((4, seen)));
        let table = |sample| SurveyedTable { table: TableId(1), rows: 2, sample };
        let row = vec![Value::Int(1), Value::Null, Value::Text("a".into())];
        let tables = vec![table(None), table(Some(vec![row]))];
        let mut bytes = Vec::new();
        write_survey(&mut bytes, ThreadId(1), &tables);
        assert_eq!(read_survey(&mut ByteReader::new(&bytes)), Ok((ThreadId(1), tables)));
        for cut in 0..bytes.len() {
            assert!(read_survey(&mut ByteReader::new(&bytes[..cut])).is_err(), "cut at {cut}");
        }
    }
}
