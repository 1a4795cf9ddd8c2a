//! How long the rows of a table live (`USING TTL`), as the catalog keeps it.

use crate::catalog::{Catalog, CatalogTable};
use crate::query;
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::{ExpiringTable, Statement, TableDefinition};
use lockstep_sql::ast::TtlUnit;
use lockstep_types::IndexId;
use std::fmt;

const SECOND_US: i64 = 1_000_000;

/// `USING TTL` of a table: a row goes once the time in a column is that long ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeToLive {
    /// How many of the unit.
    pub value: u32,
    /// The unit.
    pub unit: TtlUnit,
    /// The column with the row's time.
    pub column: String,
    /// The most rows that one transaction deletes, of all or of a partition's.
    pub batch_size: u32,
    /// The most such transactions a second.
    pub max_frequency: u32,
}

impl TimeToLive {
    /// The greatest number in a clause.
    pub const MAX_NUMBER: u32 = i32::MAX as u32;
    /// BATCH_SIZE where there is none.
    pub const BATCH_SIZE: u32 = 1_000;
    /// MAX_FREQUENCY where there is none.
    pub const MAX_FREQUENCY: u32 = 1;

    /// How long a row lives, in microseconds; the longest times are all the same.
    pub fn lifetime_us(&self) -> i64 {
        let seconds = match self.unit {
            TtlUnit::Seconds => 1,
            TtlUnit::Minutes => 60,
            TtlUnit::Hours => 3_600,
            TtlUnit::Days => 86_400,
        };
        i64::from(self.value).saturating_mul(seconds * SECOND_US)
    }

    /// The index of a table by which rows are found whose time is over; none if no index has the
    /// column first. One over the column alone is the best.
    pub fn index(&self, table: &TableDefinition) -> Option<IndexId> {
        let column = table.columns.iter().position(|column| column.name == self.column)?;
        let first = Some(&IndexKey::Column(column as u16));
        let usable = table.indexes.iter().enumerate().filter(|(_, index)| {
            let is_whole = index.predicate.is_none() && !index.building && !index.hidden;
            is_whole && index.keys.first() == first
        });
        let best = usable.min_by_key(|(_, index)| index.keys.len());
        best.map(|(place, _)| IndexId(place as u16))
    }
}

/// The clause, with every number that has a default.
impl fmt::Display for TimeToLive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            TtlUnit::Seconds => "SECONDS",
            TtlUnit::Minutes => "MINUTES",
            TtlUnit::Hours => "HOURS",
            TtlUnit::Days => "DAYS",
        };
        let TimeToLive { value, column, batch_size, max_frequency, .. } = self;
        write!(
            f,
            "USING TTL {value} {unit} ON COLUMN {column} BATCH_SIZE {batch_size} \
             MAX_FREQUENCY {max_frequency}"
        )
    }
}

impl Catalog {
    /// The tables whose rows go when their time is over, in name order.
    pub fn expiring_tables(&self) -> impl Iterator<Item = ExpiringTable> {
        self.tables.values().filter_map(|table| expiring(table))
    }

    /// The statement of [`ExpiringTable::by`] with this text, for replay.
    pub fn expire_of_text(&self, text: &str) -> Option<Statement> {
        query::expire_of_text(self, text)
    }
}

fn expiring(table: &CatalogTable) -> Option<ExpiringTable> {
    let time_to_live = table.time_to_live.as_ref()?;
    let definition = &table.definition;
    let index = time_to_live.index(definition);
    Some(ExpiringTable {
        name: definition.name.clone(),
        table: definition.id,
        is_replicated: definition.is_replicated(),
        lifetime_us: time_to_live.lifetime_us(),
        batch_rows: time_to_live.batch_size,
        max_frequency: time_to_live.max_frequency,
        by: index.and_then(|index| Some((index, query::expire(definition, index)?))),
    })
}
