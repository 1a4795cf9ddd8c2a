//! Rows on their way to one partition, with what is needed to say which of them was refused.

use lockstep_client::ParameterWriter;
use lockstep_types::{Datum, SqlType, TableBuilder, TableSchema};

/// Rows of one call.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The partition, by number.
    pub partition: usize,
    /// The partitioning value of one of its rows: names the partition to the server.
    key: Option<Vec<u8>>,
    /// Rows in wire form, each after its length.
    rows: Vec<u8>,
    /// Where each row ends in `rows`.
    ends: Vec<u32>,
    /// The line that each row begins in.
    lines: Vec<u64>,
    /// The records as they were read.
    texts: Vec<u8>,
    /// Where each record ends in `texts`.
    text_ends: Vec<u32>,
}

impl Batch {
    /// An empty batch for a partition.
    pub fn new(partition: usize) -> Batch {
        Batch { partition, ..Batch::default() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of its rows.
    pub fn bytes(&self) -> usize {
        self.rows.len()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self, partition: usize) {
        self.partition = partition;
        self.key = None;
        self.rows.clear();
        self.ends.clear();
        self.lines.clear();
        self.texts.clear();
        self.text_ends.clear();
    }

    /// Adds a row.
    pub fn push(&mut self, row: &[u8], key: Option<&[u8]>, line: u64, text: &[u8]) {
        if self.key.is_none() {
            self.key = key.map(<[u8]>::to_vec);
        }
        self.rows.extend_from_slice(&(row.len() as i32).to_be_bytes());
        self.rows.extend_from_slice(row);
        self.ends.push(self.rows.len() as u32);
        self.lines.push(line);
        self.texts.extend_from_slice(text);
        self.text_ends.push(self.texts.len() as u32);
    }

    /// Line and text of a row.
    pub fn row(&self, place: usize) -> (u64, &[u8]) {
        let range = range(&self.text_ends, place);
        (self.lines[place], &self.texts[range])
    }

    /// Its halves, of at least one row each if it has two.
    pub fn halves(&self) -> [Batch; 2] {
        let middle = self.len() / 2;
        [0..middle, middle..self.len()].map(|places| {
            let mut half = Batch::new(self.partition);
            for place in places {
                let row = &self.rows[range(&self.ends, place)];
                let (line, text) = self.row(place);
                // The length stands in front.
                half.push(&row[4..], self.key.as_deref(), line, text);
            }
            half
        })
    }
}

fn range(ends: &[u32], place: usize) -> std::ops::Range<usize> {
    let start = place.checked_sub(1).map_or(0, |before| ends[before] as usize);
    start..ends[place] as usize
}

/// Makes calls of batches.
pub struct CallWriter {
    table: String,
    upsert: bool,
    /// The table in wire form without rows.
    empty: Vec<u8>,
    rows: Vec<u8>,
    parameters: ParameterWriter,
    replicated: bool,
}

impl CallWriter {
    /// A writer for calls that load a table with columns of these names and types.
    pub fn new(
        table: &str,
        columns: &[(String, SqlType)],
        upsert: bool,
        replicated: bool,
    ) -> CallWriter {
        let mut empty = Vec::new();
        TableBuilder::begin(&mut empty, &TableSchema::new(columns)).finish();
        CallWriter {
            table: table.to_string(),
            upsert,
            empty,
            rows: Vec::new(),
            parameters: ParameterWriter::default(),
            replicated,
        }
    }

    /// The procedure that is called.
    pub fn procedure(&self) -> &'static str {
        match self.replicated {
            true => "@LoadMultipartitionTable",
            false => "@LoadSinglepartitionTable",
        }
    }

    /// The parameters of the call for a batch.
    pub fn write(&mut self, batch: &Batch) -> &[u8] {
        self.rows.clear();
        self.rows.extend_from_slice(&self.empty);
        let rows_at = self.rows.len();
        self.rows[rows_at - 4..].copy_from_slice(&(batch.len() as i32).to_be_bytes());
        self.rows.extend_from_slice(&batch.rows);
        // The table's length in front does not count itself.
        let length = (self.rows.len() - 4) as i32;
        self.rows[..4].copy_from_slice(&length.to_be_bytes());
        self.parameters.clear();
        if !self.replicated {
            let key = batch.key.as_deref().map_or(Datum::Null, Datum::Bytes);
            self.parameters.scalar(SqlType::Varbinary, key);
        }
        self.parameters.text(&self.table);
        self.parameters.scalar(SqlType::TinyInt, Datum::Int(self.upsert.into()));
        self.parameters.table(&self.rows);
        self.parameters.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::{Parameter, ParameterSet};

    #[test]
    fn batches_become_calls_and_halves() {
        let mut batch = Batch::new(3);
        for value in [7i32, 8, 9] {
            let text = format!("row {value}");
            batch.push(&value.to_be_bytes(), Some(&[1]), value as u64, text.as_bytes());
        }
        let columns = [("A".to_string(), SqlType::Integer)];
        let mut writer = CallWriter::new("T", &columns, true, false);
        let parameters = writer.write(&batch);
        let set = ParameterSet::new(parameters).expect("a set");
        let key = set.get(0).expect("there").expect("sound");
        assert!(matches!(key, Parameter::Scalar(SqlType::Varbinary, Datum::Bytes([1]))));
        let Some(Ok(Parameter::Table(table))) = set.get(3) else { panic!("a table") };
        let rows: Vec<_> =
            table.rows().map(|row| row.expect("sound").get(0).expect("a value")).collect();
        assert_eq!(rows, [Datum::Int(7), Datum::Int(8), Datum::Int(9)]);
        let [first, second] = batch.halves();
        assert_eq!((first.len(), second.len(), second.partition), (1, 2, 3));
        assert_eq!(second.row(1), (9, &b"row 9"[..]));
        batch.clear(1);
        assert!(batch.is_empty());
    }
}
