//! The planner's rules by name. Each one makes plans better and none changes an answer, so each
//! can be switched off: tests run a statement with and without it and compare.

use std::fmt;

/// One row of the table of rules.
#[derive(Debug, Clone, Copy)]
pub struct RuleInfo {
    /// The rule.
    pub rule: Rule,
    /// Its name in options and reports.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub meaning: &'static str,
}

macro_rules! rules {
    ($($rule:ident $name:literal $meaning:literal;)*) => {
        /// A rule of the planner.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Rule {
            $(#[doc = $meaning] $rule,)*
        }

        /// All rules; a rule's number in a [`RuleSet`] is its place here.
        pub const RULES: &[RuleInfo] = &[
            $(RuleInfo { rule: Rule::$rule, name: $name, meaning: $meaning },)*
        ];
    };
}

rules! {
    FlattenDerivedTables "flatten_derived_tables"
        "Plain derived and common tables become part of the query that reads them.";
    SimplifyOuterJoins "simplify_outer_joins"
        "Outer joins whose NULL-filled rows no condition lets through become inner joins.";
    ImpliedConditions "implied_conditions"
        "What is known of a column is tested of all columns that are equal to it.";
    PushFilters "push_filters"
        "Conditions over derived tables are tested within them, before they are grouped.";
    IndexAccess "index_access"
        "Tables are read through an index where its key's first parts are restricted.";
    IndexLists "index_lists"
        "IN lists, array parameters and constant subqueries become index lookups.";
    IndexRanges "index_ranges"
        "Comparisons become the ends of an index range.";
    IndexOrder "index_order"
        "ORDER BY is left to an index that gives the order.";
    IndexExtremes "index_extremes"
        "MIN and MAX without groups are read from the end of an index.";
    JoinOrder "join_order"
        "Inner joins are ordered by cost instead of as written.";
    IndexJoins "index_joins"
        "The right side of a join is looked up in an index for each row of the left.";
    HashJoins "hash_joins"
        "Equality joins keep the right side in a hash table.";
    SemiJoins "semi_joins"
        "Correlated EXISTS and IN of WHERE become semi and anti joins.";
    PartitionWork "partition_work"
        "Joins, filters and groups of rows that lie together run at the partitions.";
    MoveSmallerSide "move_smaller_side"
        "Of a join across partitions the smaller table is sent to all partitions and joined there.";
    PartialAggregation "partial_aggregation"
        "Aggregates are computed at each partition and merged.";
    LocalGroups "local_groups"
        "Groups that hold the partitioning column are finished at the partitions.";
    PushLimits "push_limits"
        "LIMIT, with its order, cuts at each partition first.";
    PushDistinct "push_distinct"
        "DISTINCT drops duplicates at each partition first.";
    PushOutput "push_output"
        "Result columns with subqueries are computed where the rows are.";
    PartitionLists "partition_lists"
        "Where partitioning columns are in a list of values, only their partitions are asked.";
    GlobalIndexes "global_indexes"
        "Where the key of a global index is known, the index says where the rows are.";
    OnePartition "one_partition"
        "A query whose partitioning columns equal one value runs at that value's partition.";
}

/// A set of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleSet(u64);

impl RuleSet {
    /// No rule.
    pub const EMPTY: RuleSet = RuleSet(0);

    /// The set with just one rule.
    pub fn of(rule: Rule) -> RuleSet {
        RuleSet(1 << rule as u32)
    }

    /// Whether a rule is in the set.
    pub fn contains(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u32) != 0
    }

    /// The set with another rule.
    #[must_use]
    pub fn with(self, rule: Rule) -> RuleSet {
        RuleSet(self.0 | RuleSet::of(rule).0)
    }

    /// The set as a number: bit N is rule N of [`RULES`].
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The set of a number; bits that are no rule are left out.
    pub fn from_bits(bits: u64) -> RuleSet {
        let all = RULES.iter().fold(0, |all, info| all | RuleSet::of(info.rule).0);
        RuleSet(bits & all)
    }

    /// The rules of names with commas between.
    ///
    /// # Errors
    /// Names the first that is no rule, and all that there are.
    pub fn parse(names: &str) -> Result<RuleSet, String> {
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.into_iter().try_fold(RuleSet::EMPTY, |set, name| {
            match RULES.iter().find(|info| info.name == name) {
                Some(info) => Ok(set.with(info.rule)),
                None => {
                    let all: Vec<&str> = RULES.iter().map(|info| info.name).collect();
                    Err(format!("there is no planner rule '{name}'; they are {}", all.join(", ")))
                }
            }
        })
    }
}

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = RULES.iter().filter(|info| self.contains(info.rule)).map(|info| info.name);
        f.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_from_names_and_numbers() {
        let set = RuleSet::parse("hash_joins, semi_joins").expect("both are rules");
        assert!(set.contains(Rule::HashJoins) && set.contains(Rule::SemiJoins));
        assert!(!set.contains(Rule::JoinOrder));
        assert_eq!(set.to_string(), "hash_joins,semi_joins");
        assert_eq!(RuleSet::from_bits(set.bits()), set);
        assert_eq!(RuleSet::from_bits(u64::MAX).to_string().split(',').count(), RULES.len());
        let error = RuleSet::parse("hash_join").expect_err("no rule");
        assert!(error.contains("'hash_join'") && error.contains("push_limits"), "{error}");
    }
}
