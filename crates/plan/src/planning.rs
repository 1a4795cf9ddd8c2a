//! What planning depends on besides the schema: rules that are off, limits, and how many rows the
//! tables hold.

use crate::rules::{Rule, RuleSet};
use lockstep_types::{TableId, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the module. Plain data: the one that plans says what is known. Nothing here changes an
/// answer but `local_data`, which declarations keep from then on.
#[derive(Debug, Clone)]
pub struct Planning {
    /// Rules that are switched off.
    pub disabled_rules: RuleSet,
    /// Up to N sources of an inner join all orders are weighed; the order of more is found
    /// step by step.
    pub max_ordered_sources: u32,
    /// Procedures that are created for one partition are WITH LOCAL DATA.
    pub local_data: bool,
    /// What is known of the data; may be out of date, and empty.
    pub statistics: Arc<Statistics>,
}

impl Default for Planning {
    fn default() -> Self {
        Planning {
            disabled_rules: RuleSet::EMPTY,
            max_ordered_sources: 8,
            local_data: false,
            statistics: Arc::default(),
        }
    }
}

impl Planning {
    /// Whether a rule is switched on.
    pub fn uses(&self, rule: Rule) -> bool {
        !self.disabled_rules.contains(rule)
    }
}

/// What is known of the data of a database.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Number of partitions.
    pub partitions: u32,
    /// By table.
    pub tables: BTreeMap<TableId, TableStatistics>,
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics { partitions: 1, tables: BTreeMap::new() }
    }
}

/// What is known of a table's rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableStatistics {
    /// Its rows over all partitions; those of one partition for a replicated table.
    pub rows: u64,
    /// By column; what is missing is not known.
    pub columns: Vec<ColumnStatistics>,
}

/// What is known of a column's values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnStatistics {
    /// Number of distinct values, over all partitions; 0 for unknown.
    pub distinct: u64,
    /// Values at equal steps through the rows in the column's order, NULLs left out, the least
    /// and the greatest included; empty for unknown.
    pub bounds: Vec<Value>,
}
