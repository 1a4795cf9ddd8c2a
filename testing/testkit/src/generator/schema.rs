//! Tables of all types, replicated or partitioned on one of two columns, and their indexes.

use super::{Family, Generator, Phrase, Reference, Role, Step};
use crate::known::Known;

/// A table that the script creates, or a view.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    /// The partitioning column; none for a replicated table.
    pub(super) partition: Option<usize>,
    /// The primary key's columns, if it has one.
    pub(super) key: Vec<usize>,
    /// Columns of other unique indexes.
    pub(super) unique: Vec<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) family: Family,
    pub(super) required: bool,
}

/// A column type: in this database, and with its checks in SQLite and PostgreSQL.
#[derive(Debug, Clone, Copy)]
struct ColumnType {
    family: Family,
    texts: [&'static str; 3],
}

macro_rules! integer {
    ($name:literal, $greatest:literal) => {
        ColumnType {
            family: Family::Integer,
            texts: [
                $name,
                concat!("BIGINT CHECK ({0} BETWEEN -", $greatest, " AND ", $greatest, ")"),
                concat!("BIGINT CHECK ({0} BETWEEN -", $greatest, " AND ", $greatest, ")"),
            ],
        }
    };
}

const fn of(
    family: Family,
    own: &'static str,
    sqlite: &'static str,
    pg: &'static str,
) -> ColumnType {
    ColumnType { family, texts: [own, sqlite, pg] }
}

const TYPES: [ColumnType; 12] = [
    integer!("TINYINT", "127"),
    integer!("SMALLINT", "32767"),
    integer!("INTEGER", "2147483647"),
    integer!("BIGINT", "9223372036854775807"),
    of(Family::Float, "FLOAT", "REAL", "DOUBLE PRECISION"),
    of(Family::Decimal, "DECIMAL", "REAL", "NUMERIC(38,12)"),
    of(
        Family::Text,
        "VARCHAR(12)",
        "TEXT CHECK (LENGTH({0}) <= 12)",
        "TEXT CHECK (CHAR_LENGTH({0}) <= 12)",
    ),
    of(
        Family::Text,
        "VARCHAR(7 BYTES)",
        "TEXT CHECK (LENGTH(CAST({0} AS BLOB)) <= 7)",
        "TEXT CHECK (OCTET_LENGTH({0}) <= 7)",
    ),
    of(
        Family::Text,
        "VARCHAR(200)",
        "TEXT CHECK (LENGTH({0}) <= 200)",
        "TEXT CHECK (CHAR_LENGTH({0}) <= 200)",
    ),
    of(
        Family::Bytes,
        "VARBINARY(100)",
        "BLOB CHECK (LENGTH({0}) <= 100)",
        "BYTEA CHECK (LENGTH({0}) <= 100)",
    ),
    of(Family::Timestamp, "TIMESTAMP", "BIGINT", "TIMESTAMP"),
    of(
        Family::Bytes,
        "VARBINARY(6)",
        "BLOB CHECK (LENGTH({0}) <= 6)",
        "BYTEA CHECK (LENGTH({0}) <= 6)",
    ),
];

impl Table {
    /// The columns, named through an alias or bare.
    pub(super) fn references(&self, alias: &str) -> Vec<Reference> {
        let dot = if alias.is_empty() { "" } else { "." };
        let columns = self.columns.iter();
        columns
            .map(|c| Reference {
                text: format!("{alias}{dot}{}", c.name),
                family: c.family,
                required: c.required,
            })
            .collect()
    }
}

/// DDL that only this database has.
fn own(text: String) -> Step {
    Step::Schema(Phrase::each(Role::Fixed, [&text, "", ""], Vec::new()))
}

impl Generator {
    /// The DDL. Every table has ID and K, either of which it may be partitioned on.
    pub(super) fn schema(&mut self, views: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        for number in 0..self.random.between(2, 4) {
            let mut table = self.table(format!("T{number}"), &mut steps);
            self.indexes(&mut table, &mut steps);
            self.tables.push(table);
        }
        self.create_views(views, &mut steps);
        steps
    }

    fn table(&mut self, name: String, steps: &mut Vec<Step>) -> Table {
        let k = *self.pick(&[TYPES[2], TYPES[3], TYPES[6]]);
        let mut columns = vec![("ID", TYPES[2], true), ("K", k, true)];
        for name in ["A", "B", "C", "D", "E"].iter().take(self.random.between(2, 5) as usize) {
            let of_type = *self.pick(&TYPES);
            columns.push((name, of_type, false));
        }
        let partition = [None, Some(0), Some(1)][self.random.below(3) as usize];
        let key = match (self.random.below(3), partition) {
            (0, _) => Vec::new(),
            (1, Some(0) | None) => vec![0],
            _ => vec![1, 0],
        };
        let mut parts: Vec<Phrase> = Vec::new();
        for (name, of_type, required) in &columns {
            parts.push(self.column(name, *of_type, *required));
        }
        if !key.is_empty() {
            let key: Vec<&str> = key.iter().map(|c| columns[*c].0).collect();
            parts.push(Phrase::word(format!("PRIMARY KEY ({})", key.join(", "))));
        }
        let parts = vec![Phrase::word(name.as_str()), Phrase::all_of(", ", parts)];
        steps.push(Step::Schema(Phrase::new(Role::Fixed, "CREATE TABLE {0} ({1})", parts)));
        if let Some(column) = partition {
            steps.push(own(format!("PARTITION TABLE {name} ON COLUMN {}", columns[column].0)));
        }
        let columns = columns
            .into_iter()
            .map(|(name, of_type, required)| Column {
                name: name.to_string(),
                family: of_type.family,
                required,
            })
            .collect();
        Table { name, columns, partition, key, unique: Vec::new() }
    }

    fn column(&mut self, name: &str, of_type: ColumnType, required: bool) -> Phrase {
        let name = Phrase::word(name);
        let of_type = Phrase::each(Role::Fixed, of_type.texts, vec![name.clone()]);
        let rest = match required {
            true => Phrase::word(" NOT NULL"),
            false => Phrase::nothing(),
        };
        Phrase::new(Role::Fixed, "{0} {1}{2}", vec![name, of_type, rest])
    }

    fn indexes(&mut self, table: &mut Table, steps: &mut Vec<Step>) {
        for number in 0..self.random.below(4) {
            let first = self.index_key(table);
            let second = self.index_key(table);
            let keys = match self.random.chance(1, 2) || first == second {
                true => first,
                false => format!("{first}, {second}"),
            };
            let condition = match self.random.chance(1, 4) {
                true => format!(" WHERE {}", self.index_condition(table)),
                false => String::new(),
            };
            let name = &table.name;
            // An index changes no answer: the other databases need none.
            steps.push(own(format!("CREATE INDEX I{number}_{name} ON {name} ({keys}){condition}")));
        }
        if self.random.chance(1, 4) {
            self.unique_index(table, steps);
        }
    }

    /// Indexes that come and go, and views, while there are rows.
    pub(super) fn later_schema(&mut self, steps: &mut Vec<Step>) {
        let place = self.random.below(self.tables.len() as u64) as usize;
        let table = self.tables[place].clone();
        let name = &table.name;
        self.later += 1;
        let number = self.later;
        match self.random.below(3) {
            0 => {
                let keys = self.index_key(&table);
                steps.push(own(format!("CREATE INDEX L{number} ON {name} ({keys})")));
            }
            1 if self.dropped < number && number > 1 => {
                self.dropped = number;
                steps.push(own(format!("DROP INDEX L{} IF EXISTS", number - 1)));
            }
            _ => self.later_view(number, place, steps),
        }
    }

    fn index_key(&mut self, table: &Table) -> String {
        let column = self.pick(&table.columns).clone();
        let name = column.name;
        match (self.random.chance(1, 4), column.family) {
            (true, Family::Integer) => format!("ABS({name})"),
            (true, Family::Text) => format!("UPPER({name})"),
            (true, Family::Decimal | Family::Float) => format!("{name} + 1"),
            (true, Family::Timestamp) => format!("TRUNCATE(DAY, {name})"),
            _ => name,
        }
    }

    fn index_condition(&mut self, table: &Table) -> String {
        let column = self.pick(&table.columns).clone();
        match column.family {
            Family::Integer if self.random.chance(2, 3) => {
                format!("{} {} {}", column.name, self.pick(&[">", "<", "="]), self.pick(&[0, 1, 2]))
            }
            Family::Text if self.random.chance(1, 2) => format!("{} > 'a'", column.name),
            _ => format!("{} IS NOT NULL", column.name),
        }
    }

    /// A unique index over the partitioning column, or any, and another.
    fn unique_index(&mut self, table: &mut Table, steps: &mut Vec<Step>) {
        let first = table.partition.unwrap_or(0);
        let second = self.random.below(table.columns.len() as u64) as usize;
        let nullable = !table.columns[second].required;
        if first == second || (nullable && !self.may(Known::EqualNulls)) {
            return;
        }
        let name = table.name.clone();
        let keys = format!("{}, {}", table.columns[first].name, table.columns[second].name);
        let text = format!("CREATE UNIQUE INDEX U_{name} ON {name} ({keys})");
        let postgres = format!("{text} NULLS NOT DISTINCT");
        steps.push(Step::Schema(Phrase::each(Role::Fixed, [&text, &text, &postgres], Vec::new())));
        table.unique = vec![first, second];
    }
}
