//! Images of rows: what a transaction did, to be logged in place of the call that did it, and done
//! again by replay.
//!
//! ```text
//! images  := image*
//! image   := u8 1 insert   | table | slot | values
//!          | u8 2 update   | table | slot | how many | column* | values of those columns
//!          | u8 3 delete   | table | slot
//!          | u8 4 truncate | table
//! values  := length | a parameter set
//! ```
//!
//! All tables are in it, those of views too, and slots as they were: replay makes the rows and
//! nothing else, and stops where one does not come into its slot.

use crate::database::Database;
use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes};
use lockstep_storage::{RowChange, RowId, StorageError, UndoMark};
use lockstep_types::parameter::{Parameter, ParameterWriter};
use lockstep_types::{Datum, Failure, ParameterSet, SqlType, TableId};

const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;
const TRUNCATE: u8 = 4;

/// Why images cannot be made again.
#[derive(Debug)]
enum Fault {
    Cut,
    Unknown(String),
    Storage(StorageError),
}

impl From<EndOfBytes> for Fault {
    fn from(_: EndOfBytes) -> Fault {
        Fault::Cut
    }
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Fault {
        Fault::Storage(error)
    }
}

impl Fault {
    fn into_failure(self) -> Failure {
        let problem = match self {
            Fault::Cut => "they are cut off".to_string(),
            Fault::Unknown(problem) => problem,
            Fault::Storage(error) => error.to_string(),
        };
        Failure::unexpected(format!("the images of rows cannot be made again: {problem}"))
    }
}

impl Database {
    /// Appends the images of what was done since a mark.
    pub fn write_images(&self, since: UndoMark, out: &mut Vec<u8>) {
        self.undo.each_change(since, &self.tables, |id, change| {
            let columns = self.tables[id].layout().columns();
            let type_of = |column: usize| columns[column].sql_type;
            let head = |out: &mut Vec<u8>, kind: u8, row: RowId| {
                out.push(kind);
                out.put_varint(u64::from(id.0));
                out.put_varint(u64::from(row.0));
            };
            match change {
                RowChange::Insert(row, values) => {
                    head(out, INSERT, row);
                    put_values(out, values.columns().enumerate().map(|(c, v)| (type_of(c), v)));
                }
                RowChange::Update(row, before, behind) => {
                    head(out, UPDATE, row);
                    let both = before.columns().zip(behind.columns()).enumerate();
                    let changed: Vec<(usize, Datum<'_>)> = both
                        .filter(|(_, (before, behind))| !is_same(before, behind))
                        .map(|(column, (_, behind))| (column, behind))
                        .collect();
                    out.put_varint(changed.len() as u64);
                    changed.iter().for_each(|(column, _)| out.put_varint(*column as u64));
                    put_values(out, changed.iter().map(|(c, value)| (type_of(*c), *value)));
                }
                RowChange::Delete(row) => head(out, DELETE, row),
                RowChange::Truncate => {
                    out.push(TRUNCATE);
                    out.put_varint(u64::from(id.0));
                }
            }
        });
    }

    /// Makes images again, in the transaction that runs.
    ///
    /// # Errors
    /// They are none, or do not fit the rows that are there: the transaction is to be rolled back.
    pub fn apply_images(&mut self, images: &[u8]) -> Result<(), Failure> {
        let mut reader = ByteReader::new(images);
        while reader.remaining() > 0 {
            self.apply_image(&mut reader).map_err(Fault::into_failure)?;
        }
        Ok(())
    }

    fn apply_image(&mut self, reader: &mut ByteReader<'_>) -> Result<(), Fault> {
        let kind = reader.u8()?;
        let id = TableId(number(reader)?);
        let undo = &mut self.undo;
        let table = self.tables.get_mut(id);
        let table = table.ok_or_else(|| Fault::Unknown(format!("there is no table {}", id.0)))?;
        if kind == TRUNCATE {
            return Ok(table.truncate(undo)?);
        }
        let row = RowId(number(reader)?);
        match kind {
            INSERT => {
                let values = values(reader)?;
                let taken = table.insert(&values, undo)?;
                if taken != row {
                    return Err(Fault::Unknown(format!(
                        "a row of table {} comes into slot {taken}, and was in slot {row}",
                        table.name()
                    )));
                }
            }
            UPDATE => {
                let count = number(reader)? as usize;
                let known = table.layout().columns().len();
                let mut columns = Vec::new();
                for _ in 0..count {
                    let column = number(reader)? as usize;
                    if column >= known {
                        let problem = format!("table {} has no column {column}", table.name());
                        return Err(Fault::Unknown(problem));
                    }
                    columns.push(column);
                }
                let values = values(reader)?;
                if values.len() != count {
                    return Err(Fault::Cut);
                }
                let changes: Vec<(usize, Datum<'_>)> = columns.into_iter().zip(values).collect();
                table.update(row, &changes, undo)?;
            }
            DELETE => table.delete(row, undo)?,
            other => return Err(Fault::Unknown(format!("there is no image of kind {other}"))),
        }
        Ok(())
    }
}

/// Whether a column was left as it was, bit by bit.
fn is_same(a: &Datum<'_>, b: &Datum<'_>) -> bool {
    match (a, b) {
        (Datum::Float(a), Datum::Float(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}

fn put_values<'a>(out: &mut Vec<u8>, values: impl Iterator<Item = (SqlType, Datum<'a>)>) {
    let mut set = ParameterWriter::default();
    for (sql_type, value) in values {
        set.scalar(sql_type, value);
    }
    out.put_varint(set.bytes().len() as u64);
    out.extend_from_slice(set.bytes());
}

fn number(reader: &mut ByteReader<'_>) -> Result<u32, Fault> {
    u32::try_from(reader.varint()?).map_err(|_| Fault::Cut)
}

fn values<'a>(reader: &mut ByteReader<'a>) -> Result<Vec<Datum<'a>>, Fault> {
    let length = usize::try_from(reader.varint()?).map_err(|_| Fault::Cut)?;
    let bytes = reader.take(length)?;
    let set = ParameterSet::new(bytes).map_err(|error| Fault::Unknown(error.to_string()))?;
    let value = |parameter| match parameter {
        Ok(Parameter::Scalar(_, value)) => Ok(value),
        Ok(_) => Err(Fault::Unknown("a value is an array or a table".to_string())),
        Err(error) => Err(Fault::Unknown(format!("a value: {error}"))),
    };
    set.iter().map(value).collect()
}
