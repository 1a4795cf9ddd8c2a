//! The tables of `@ValidatePartitioning`.

use crate::statistics::ThreadSnapshot;
use lockstep_types::{Datum, HostId, SqlType, TableBuilder, TableSchema};

/// The tables of `@ValidatePartitioning`: misplaced rows per site and table, and that every site
/// hashes alike, because they share one ring.
pub(super) fn write(out: &mut Vec<u8>, host: HostId, snapshots: &[ThreadSnapshot]) -> u16 {
    let host = Datum::Int(host.0.into());
    let site = [
        ("HOST_ID", SqlType::Integer),
        ("SITE_ID", SqlType::Integer),
        ("PARTITION_ID", SqlType::Integer),
    ];
    let rows = [("TABLE", SqlType::Varchar), ("MISPARTITIONED_ROWS", SqlType::BigInt)];
    let schema = TableSchema::new(&[&site[..], &rows[..]].concat());
    let mut table = TableBuilder::begin(out, &schema);
    let replicas = || snapshots.iter().flat_map(|thread| &thread.replicas);
    for snapshot in replicas() {
        let (site, partition) = (snapshot.site(), snapshot.partition());
        let misplaced = snapshot.mispartitioned.as_deref().unwrap_or(&[]);
        for statistics in &snapshot.tables {
            let found = misplaced.iter().find(|(id, _)| *id == statistics.table);
            let count = found.map_or(0, |(_, count)| *count as i64);
            let name = Datum::Text(&statistics.name);
            let (site, partition) = (site.as_datum(), partition.as_datum());
            table.row(&schema, &[host, site, partition, name, Datum::Int(count)]);
        }
    }
    table.finish();
    let hashing = [("HASHINATOR_MATCHES", SqlType::TinyInt)];
    let schema = TableSchema::new(&[&site[..], &hashing[..]].concat());
    let mut table = TableBuilder::begin(out, &schema);
    for snapshot in replicas() {
        let (site, partition) = (snapshot.site(), snapshot.partition());
        table.row(&schema, &[host, site.as_datum(), partition.as_datum(), Datum::Int(1)]);
    }
    table.finish();
    2
}
