//! The selector TRANSACTIONS: at how many partitions each procedure's calls ran, and what they
//! waited there. VoltDB has none like it.

use super::{Common, Row, Table, View, number, text};
use crate::statistics::TransactionCounters;
use lockstep_types::SqlType::{BigInt, Integer, Varchar};
use std::collections::BTreeMap;

pub(super) const TABLES: &[Table] = &[
    Table {
        common: Common::Time,
        own: &[
            ("PROCEDURE", Varchar),
            ("CALLS", BigInt),
            ("SINGLE_PARTITION", BigInt),
            ("FEW_PARTITIONS", BigInt),
            ("ALL_PARTITIONS", BigInt),
            ("ROUNDS", BigInt),
            ("ENLARGEMENTS", BigInt),
            ("SPECULATIVE_RUNS", BigInt),
            ("REPEATED_RUNS", BigInt),
        ],
        rows: calls,
    },
    Table {
        common: Common::Site,
        own: &[
            ("PARTITION_ID", Integer),
            ("PROCEDURE", Varchar),
            ("ROUNDS", BigInt),
            ("TOTAL_WAIT_US", BigInt),
            ("AVG_WAIT_US", BigInt),
            ("MAX_WAIT_US", BigInt),
            ("TOTAL_STOPPED_US", BigInt),
            ("MAX_STOPPED_US", BigInt),
            ("SPECULATIVE_ROUNDS", BigInt),
            ("REPEATED_ROUNDS", BigInt),
            ("HELD_CALLS", BigInt),
            ("TOTAL_HELD_US", BigInt),
            ("MAX_HELD_US", BigInt),
            ("SPECULATIVE_CALLS", BigInt),
            ("REPEATED_CALLS", BigInt),
        ],
        rows: waits,
    },
];

/// Over the whole cluster.
fn calls(view: &View) -> Vec<Row> {
    let mut all: BTreeMap<&str, TransactionCounters> = BTreeMap::new();
    for (name, counters) in view.replicas().flat_map(|replica| &replica.transactions) {
        all.entry(name).or_default().merge(counters);
    }
    let row = |(name, counters): (&str, TransactionCounters)| {
        vec![
            text(name),
            number(counters.calls()),
            number(counters.single_partition()),
            number(counters.few_partitions),
            number(counters.all_partitions),
            number(counters.rounds),
            number(counters.enlargements),
            number(counters.speculative_calls + counters.speculative_fragments),
            number(counters.repeated_calls + counters.repeated_fragments),
        ]
    };
    all.into_iter().filter(|(_, counters)| counters.calls() > 0).map(row).collect()
}

/// At each partition: rounds of multi-partition transactions, and calls that did not run at once.
fn waits(view: &View) -> Vec<Row> {
    let mut rows = Vec::new();
    for snapshot in view.replicas() {
        for (name, counters) in &snapshot.transactions {
            if counters.fragments + counters.held_calls + counters.speculative_calls == 0 {
                continue;
            }
            rows.push(vec![
                snapshot.site(),
                snapshot.partition(),
                text(name),
                number(counters.fragments),
                number(counters.waited_us.sum),
                number(counters.waited_us.mean(counters.fragments)),
                number(counters.waited_us.max),
                number(counters.stopped_us.sum),
                number(counters.stopped_us.max),
                number(counters.speculative_fragments),
                number(counters.repeated_fragments),
                number(counters.held_calls),
                number(counters.held_us.sum),
                number(counters.held_us.max),
                number(counters.speculative_calls),
                number(counters.repeated_calls),
            ]);
        }
    }
    rows
}
