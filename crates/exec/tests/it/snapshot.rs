//! Snapshots of databases: loaded into the same partition, and into other numbers of them.

use super::support::*;
use lockstep_exec::Database;
use lockstep_exec::snapshot::{DatabaseRehash, DatabaseRestore, RestoreFault, SavedTable};
use lockstep_plan_ir::{AggregateFunction, TableDefinition};
use lockstep_types::{Datum, HashRing, PartitionId, SqlType, TableId};

const ITEMS: u32 = 0;
const TOTALS: u32 = 1;
const EVERYWHERE: u32 = 2;

/// ITEMS by ID, with a view of partial groups; EVERYWHERE is replicated.
fn schema() -> Vec<TableDefinition> {
    let columns = || {
        let (id, kind) = (not_null("ID", SqlType::BigInt), column("KIND", SqlType::BigInt));
        vec![id, kind, column("PRICE", SqlType::BigInt)]
    };
    let mut items = table(ITEMS, "ITEMS", columns(), vec![index("PK", &[0], true)]);
    items.partition_columns = vec![0];
    let sum = (AggregateFunction::Sum, Some(2), None);
    let count = (AggregateFunction::CountStar, None, None);
    let mut totals = view(TOTALS, "TOTALS", &mut items, &[1], &[count, sum]);
    totals.is_partial = true;
    let everywhere = table(EVERYWHERE, "EVERYWHERE", columns(), vec![index("PK2", &[0], true)]);
    vec![items, totals, everywhere]
}

/// Databases of N partitions, with rows.
fn filled(count: u32) -> Vec<Database> {
    let ring = HashRing::new(count);
    let fill = |number: u32| {
        let mut database = partition(number, count, schema());
        for id in 0..500 {
            let row = || vec![int(id), int(id % 7), int(id * 3)];
            if ring.partition_of(Datum::Int(id)) == PartitionId(number) {
                must(&mut database, insert(ITEMS, row()));
            }
            must(&mut database, insert(EVERYWHERE, row()));
        }
        let some = scan_where(0, ITEMS, Some(equal(big(0, 1), int(3))));
        must(&mut database, delete(ITEMS, some));
        database.commit();
        database
    };
    (0..count).map(fill).collect()
}

fn rows(database: &mut Database, table: u32) -> Vec<String> {
    let output = vec![big(0, 0), big(0, 1), big(0, 2)];
    let all = must(database, query(scan(0, table), output));
    all.split(" / ").map(str::to_string).collect()
}

/// All rows of some partitions, in order.
fn sorted(databases: &mut [Database], table: u32) -> Vec<String> {
    let mut all: Vec<String> = databases.iter_mut().flat_map(|one| rows(one, table)).collect();
    all.sort();
    all
}

fn saved(database: &mut Database) -> (Vec<SavedTable>, Vec<u8>) {
    let tables = database.begin_snapshot(300, |_| true).into_iter().map(|table| SavedTable {
        number: table.table,
        name: table.name.to_string(),
        used_slots: table.used_slots,
        free_head: table.free_head,
        columns: table.columns,
    });
    let tables = tables.collect();
    let mut records = Vec::new();
    database.snapshot_step(&mut records, usize::MAX);
    assert!(!database.has_snapshot());
    (tables, records)
}

#[test]
fn the_same_partition_has_the_same_rows_in_the_same_order() {
    for mut database in filled(2) {
        let (tables, records) = saved(&mut database);
        let mut other = partition(database.options().partition.0, 2, schema());
        let mut restore = DatabaseRestore::new(&other, &tables).expect("the same schema");
        restore.add(&records).expect("sound");
        restore.finish(&mut other).expect("whole");
        for table in [ITEMS, TOTALS, EVERYWHERE] {
            assert_eq!(rows(&mut other, table), rows(&mut database, table));
        }
        // The next row takes the same slot, and the view goes on.
        for one in [&mut database, &mut other] {
            must(one, insert(EVERYWHERE, vec![int(1000), int(1), int(1)]));
        }
        assert_eq!(rows(&mut other, EVERYWHERE), rows(&mut database, EVERYWHERE));
        let again = DatabaseRestore::new(&other, &tables).err();
        assert!(matches!(again, Some(RestoreFault::Schema(problem)) if problem.contains("rows")));
    }
}

#[test]
fn other_numbers_of_partitions_share_the_rows() {
    for (from, to) in [(2, 1), (1, 3), (3, 2)] {
        let files: Vec<_> = filled(from).iter_mut().map(saved).collect();
        let load = |number: u32| {
            let mut database = partition(number, to, schema());
            for (place, (tables, records)) in files.iter().enumerate() {
                let rehash = match place {
                    0 => DatabaseRehash::new(&database, tables),
                    _ => DatabaseRehash::behind_others(&database, tables),
                };
                let rehash = rehash.expect("the same schema");
                rehash.add(&mut database, records).expect("sound");
            }
            database.fill_all_views().expect("they fit");
            database
        };
        let mut loaded: Vec<Database> = (0..to).map(load).collect();
        let mut expected = filled(to);
        assert_eq!(sorted(&mut loaded, ITEMS), sorted(&mut expected, ITEMS), "{from} to {to}");
        assert_eq!(sorted(&mut loaded, TOTALS), sorted(&mut expected, TOTALS), "{from} to {to}");
        let everywhere = sorted(&mut expected[..1], EVERYWHERE);
        for one in &mut loaded {
            assert_eq!(sorted(std::slice::from_mut(one), EVERYWHERE), everywhere);
        }
    }
}

#[test]
fn another_schema_is_refused() {
    let mut database = filled(1).remove(0);
    let (mut tables, records) = saved(&mut database);
    let other = partition(0, 1, schema());
    let mut cut = DatabaseRestore::new(&other, &tables).expect("the same schema");
    let cut = cut.add(&records[..records.len() - 1]);
    assert!(matches!(cut, Err(RestoreFault::Record(at, _)) if at > 0), "{cut:?}");
    tables[0].columns.pop();
    let fault = DatabaseRestore::new(&other, &tables).err();
    assert!(matches!(fault, Some(RestoreFault::Schema(problem)) if problem.contains("columns")));
    tables.remove(0);
    tables[0].name = "GONE".to_string();
    assert_eq!(tables[0].number, TableId(TOTALS));
    let fault = DatabaseRehash::new(&other, &tables).err();
    assert!(matches!(fault, Some(RestoreFault::Schema(problem)) if problem.contains("GONE")));
}
