//! Global indexes through the protocol: duplicates anywhere, bulk loads, indexes on tables that
//! are written at the same time, limits.

use crate::support::{Peer, start};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType, TableBuilder, TableSchema};
use std::thread;

use Datum::{Bytes, Int, Text};

const TABLE: &str = "CREATE TABLE sub (id BIGINT NOT NULL PRIMARY KEY, nbr VARCHAR(20));
    PARTITION TABLE sub ON COLUMN id;";
const INDEX: &str = "CREATE GLOBAL UNIQUE INDEX sub_nbr ON sub (nbr)";

/// Rows that the entries lack or say otherwise, and their numbers: `0,0` and twice the same.
fn differences(peer: &mut Peer) -> String {
    let rows = peer.run("SELECT COUNT(*) FROM sub");
    let entries = peer.run("SELECT COUNT(*) FROM \"SUB_NBR#ENTRIES\"");
    let pairs = peer.run("SELECT id, nbr FROM sub ORDER BY id");
    let held = peer.run("SELECT id, nbr FROM \"SUB_NBR#ENTRIES\" ORDER BY id");
    assert_eq!(pairs, held);
    format!("{rows},{entries}")
}

#[test]
fn a_duplicate_anywhere_is_refused_by_index_and_value_and_changes_nothing() {
    for sites in [1, 3] {
        let server = start(sites, &[]);
        let mut peer = Peer::login(server.client_address());
        peer.run(TABLE);
        peer.run(INDEX);
        for id in 0..20 {
            let inserted = peer.call("SUB.insert", &[Int(id), Text(&format!("n{id}"))]);
            assert_eq!(inserted.rows, "1", "{inserted:?}");
        }
        for answer in [
            peer.call("SUB.insert", &[Int(100), Text("n7")]),
            peer.call("SUB.upsert", &[Int(100), Text("n7")]),
            peer.call("SUB.update", &[Int(3), Text("n7"), Int(3)]),
            peer.sql("INSERT INTO sub VALUES (100, 'n7')"),
            peer.sql("UPDATE sub SET nbr = 'n7' WHERE id < 5"),
        ] {
            assert!(answer.status < 0, "{answer:?}");
            assert!(answer.text.contains("SUB_NBR") && answer.text.contains("n7"), "{answer:?}");
        }
        assert_eq!(differences(&mut peer), "20,20");
        // The row's own faults are named before those of its entry.
        let double = peer.call("SUB.insert", &[Int(7), Text("n7")]);
        assert!(double.text.contains("Table CatalogId SUB\n"), "{double:?}");
        // Nor is an index built over doubles, be they at one partition or at several.
        peer.run("DROP INDEX sub_nbr");
        peer.run("UPDATE sub SET nbr = 'n7' WHERE id IN (3, 4, 5)");
        let built = peer.sql(INDEX);
        assert!(built.status < 0, "{built:?}");
        assert!(built.text.contains("SUB_NBR") && built.text.contains("n7"), "{built:?}");
    }
}

#[test]
fn procedures_with_declared_partitions_keep_the_index_wherever_its_entries_live() {
    let server = start(5, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(TABLE);
    peer.run(INDEX);
    peer.run(
        "CREATE PROCEDURE Exchange PARTITION ON TABLE sub COLUMN id PARAMETER 0
            AND ON TABLE sub COLUMN id PARAMETER 1
            AS BEGIN DELETE FROM sub WHERE id = ?; INSERT INTO sub VALUES (?, ?); END;
        CREATE PROCEDURE Both PARTITION ON TABLE sub COLUMN id PARAMETER 0
            AND ON TABLE sub COLUMN id PARAMETER 2
            AS BEGIN INSERT INTO sub VALUES (?, ?); INSERT INTO sub VALUES (?, ?); END",
    );
    for id in 0..10 {
        let (first, second) = (format!("a{id}"), format!("b{id}"));
        let values = [Int(id), Text(&first), Int(id + 100), Text(&second)];
        assert_eq!(peer.call("Both", &values).status, 1);
        let moved = peer.call("Exchange", &[Int(id), Int(id + 200), Text(&first)]);
        assert_eq!(moved.status, 1, "{moved:?}");
    }
    assert_eq!(differences(&mut peer), "20,20");
}

#[test]
fn clients_that_insert_the_same_keys_at_the_same_time_get_each_once() {
    const CLIENTS: i64 = 4;
    const KEYS: i64 = 50;
    let server = start(3, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(TABLE);
    peer.run(INDEX);
    let address = server.client_address();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            thread::spawn(move || {
                let mut peer = Peer::login(address);
                let insert = |key: i64| {
                    let id = client * KEYS + key;
                    peer.call("SUB.insert", &[Int(id), Text(&key.to_string())]).status
                };
                (0..KEYS).map(insert).filter(|status| *status == 1).count()
            })
        })
        .collect();
    let inserted: usize = clients.into_iter().map(|c| c.join().expect("a client")).sum();
    assert_eq!(inserted as i64, KEYS);
    assert_eq!(differences(&mut peer), "50,50");
}

/// A row moves between partitions all the time, and calls by its other key follow it: those that
/// read or change it, and those that change its entry in an index as well.
#[test]
fn calls_by_the_key_follow_a_row_that_keeps_moving() {
    let server = start(3, &["max_index_lookups=1"]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE sub (id BIGINT NOT NULL PRIMARY KEY, nbr VARCHAR(20), tag BIGINT,
            n BIGINT);
        PARTITION TABLE sub ON COLUMN id;
        CREATE GLOBAL UNIQUE INDEX sub_nbr ON sub (nbr) INCLUDE (tag);
        CREATE PROCEDURE Add PARTITION ON TABLE sub COLUMN id VIA GLOBAL INDEX sub_nbr PARAMETER 0
            AS UPDATE sub SET n = n + 1 WHERE nbr = ?;
        CREATE PROCEDURE Tag PARTITION ON TABLE sub COLUMN id VIA GLOBAL INDEX sub_nbr PARAMETER 1
            AS UPDATE sub SET tag = tag + ? WHERE nbr = ?;",
    );
    peer.run("INSERT INTO sub VALUES (0, 'n', 0, 0)");
    let address = server.client_address();
    let callers: Vec<_> = (0..3)
        .map(|_| {
            thread::spawn(move || {
                let mut peer = Peer::login(address);
                for _ in 0..200 {
                    let added = peer.call("Add", &[Text("n")]);
                    assert_eq!((added.status, added.rows.as_str()), (1, "1"), "{added:?}");
                    let tagged = peer.call("Tag", &[Int(1), Text("n")]);
                    assert_eq!((tagged.status, tagged.rows.as_str()), (1, "1"), "{tagged:?}");
                    let added = peer.sql("UPDATE sub SET n = n + 1 WHERE nbr = 'n'");
                    assert_eq!((added.status, added.rows.as_str()), (1, "1"), "{added:?}");
                }
            })
        })
        .collect();
    let mut id = 0;
    while callers.iter().any(|caller| !caller.is_finished()) {
        // Both statements are one transaction.
        let moved = peer.sql(&format!(
            "INSERT INTO sub SELECT {}, nbr || 'x', tag, n FROM sub WHERE id = {id};
             DELETE FROM sub WHERE id = {id};
             UPDATE sub SET nbr = 'n' WHERE id = {};",
            id + 1,
            id + 1
        ));
        assert_eq!(moved.status, 1, "{moved:?}");
        id += 1;
    }
    callers.into_iter().for_each(|caller| caller.join().expect("no call was refused"));
    assert_eq!(peer.run("SELECT nbr, tag, n FROM sub"), "n,600,1200");
    assert!(id > 10, "it moved {id} times");
}

#[test]
fn an_index_is_built_while_clients_write() {
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(TABLE);
    let address = server.client_address();
    let clients: Vec<_> = (0..3)
        .map(|client: i64| {
            thread::spawn(move || {
                let mut peer = Peer::login(address);
                for step in 0..300 {
                    let id = client * 1000 + step;
                    let answer = peer.call("SUB.insert", &[Int(id), Text(&format!("n{id}"))]);
                    assert_eq!(answer.status, 1, "{answer:?}");
                    if step % 3 == 0 {
                        let answer = peer.call("SUB.delete", &[Int(id)]);
                        assert_eq!(answer.rows, "1", "{answer:?}");
                    }
                }
            })
        })
        .collect();
    for _ in 0..5 {
        peer.run(INDEX);
        peer.run("DROP INDEX sub_nbr");
    }
    peer.run(INDEX);
    clients.into_iter().for_each(|client| client.join().expect("a client"));
    assert_eq!(differences(&mut peer), "600,600");
}

#[test]
fn bulk_loads_keep_the_index() {
    load_keeps_the_index(1);
    load_keeps_the_index(2);
}

fn load_keeps_the_index(sites: u32) {
    let server = start(sites, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(TABLE);
    peer.run(INDEX);
    let mut load = |id: i64, upsert: bool, keys: &[&str]| {
        let schema = TableSchema::new(&[("ID", SqlType::BigInt), ("NBR", SqlType::Varchar)]);
        let mut bytes = Vec::new();
        let mut table = TableBuilder::begin(&mut bytes, &schema);
        for key in keys {
            table.row(&schema, &[Int(id), Text(key)]);
        }
        table.finish();
        let mut writer = ParameterWriter::default();
        let place = id.to_le_bytes();
        writer.scalar(SqlType::Varbinary, Bytes(&place)).text("SUB");
        writer.scalar(SqlType::TinyInt, Int(upsert.into())).table(&bytes);
        peer.call_with("@LoadSinglepartitionTable", &writer)
    };
    for id in 0..10 {
        assert_eq!(load(id, false, &[&format!("n{id}")]).rows, "1");
    }
    let refused = load(10, false, &["n3"]);
    assert!(refused.status < 0 && refused.text.contains("SUB_NBR"), "{refused:?}");
    // The second row of one key replaces the first.
    assert_eq!(load(10, true, &["m1", "m2"]).rows, "2");
    assert_eq!(differences(&mut peer), "11,11");
}

#[test]
fn a_statement_that_changes_too_many_entries_names_the_option() {
    let server = start(2, &["max_entry_changes_bytes=65536"]);
    let mut peer = Peer::login(server.client_address());
    peer.run(TABLE);
    peer.run(INDEX);
    for id in 0..3000 {
        peer.call("SUB.insert", &[Int(id), Text(&format!("a long number {id}"))]);
    }
    let refused = peer.sql("UPDATE sub SET nbr = nbr || '!'");
    assert!(refused.status < 0 && refused.text.contains("max_entry_changes_bytes"), "{refused:?}");
    assert_eq!(peer.run("DELETE FROM sub WHERE id < 100"), "100");
    assert_eq!(differences(&mut peer), "2900,2900");
}

#[test]
fn listings_show_an_index_and_no_table_of_its_entries() {
    let server = start(3, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(TABLE);
    peer.run(INDEX);
    for id in 0..30 {
        peer.call("SUB.insert", &[Int(id), Text(&format!("n{id}"))]);
    }
    let calls = [
        ("@Statistics", vec![Text("TABLE"), Int(0)]),
        ("@Statistics", vec![Text("INDEX"), Int(0)]),
        ("@Statistics", vec![Text("PROCEDURE"), Int(0)]),
        ("@ValidatePartitioning", vec![]),
        ("@SystemCatalog", vec![Text("TABLES")]),
        ("@SystemCatalog", vec![Text("COLUMNS")]),
        ("@SystemCatalog", vec![Text("INDEXINFO")]),
        ("@SystemCatalog", vec![Text("PRIMARYKEYS")]),
        ("@SystemCatalog", vec![Text("KEYS")]),
        ("@SystemCatalog", vec![Text("PROCEDURES")]),
        ("@SystemCatalog", vec![Text("PROCEDURECOLUMNS")]),
    ];
    for (procedure, values) in calls {
        let answer = peer.call(procedure, &values);
        assert_eq!(answer.status, 1, "{procedure} {values:?}: {answer:?}");
        assert!(!answer.rows.contains('#'), "{procedure} {values:?}: {answer:?}");
    }
    let indexes = peer.call("@Statistics", &[Text("INDEX"), Int(0)]).rows;
    let lines: Vec<&str> = indexes.lines().filter(|line| line.contains(",SUB_NBR,SUB,")).collect();
    let entries = lines.iter().map(|line| line.split(',').rev().nth(1).expect("ENTRY_COUNT"));
    let sum: i64 = entries.map(|count| count.parse::<i64>().expect("a count")).sum();
    assert_eq!((lines.len(), sum), (3, 30), "{indexes}");
}

/// Tables that are exchanged take the entries of their global indexes along; where one has no
/// equal, nothing is exchanged and the error says which.
#[test]
fn swapped_tables_take_their_entries_along() {
    for sites in [1, 3] {
        let server = start(sites, &[]);
        let mut peer = Peer::login(server.client_address());
        peer.run(TABLE);
        peer.run(
            "CREATE TABLE more (id BIGINT NOT NULL PRIMARY KEY, nbr VARCHAR(20));
            PARTITION TABLE more ON COLUMN id;",
        );
        peer.run(INDEX);
        for id in 0..20 {
            peer.run(&format!("INSERT INTO sub VALUES ({id}, 'n{id}')"));
            peer.run(&format!("INSERT INTO more VALUES ({}, 'n{id}')", id + 100));
        }
        let swap = |peer: &mut Peer| peer.call("@SwapTables", &[Text("sub"), Text("more")]);
        let refused = swap(&mut peer);
        assert!(refused.status < 0 && refused.text.contains("SUB_NBR"), "{refused:?}");
        assert_eq!(peer.run("SELECT id FROM sub WHERE nbr = 'n7'"), "7");
        peer.run("CREATE GLOBAL UNIQUE INDEX more_nbr ON more (nbr)");
        let swapped = swap(&mut peer);
        assert_eq!((swapped.status, swapped.rows.as_str()), (1, "40"), "{swapped:?}");
        assert_eq!(differences(&mut peer), "20,20");
        assert_eq!(peer.run("SELECT id FROM sub WHERE nbr = 'n7'"), "107");
        assert_eq!(peer.run("SELECT id FROM more WHERE nbr = 'n7'"), "7");
        let double = peer.call("SUB.insert", &[Int(500), Text("n7")]);
        assert!(double.status < 0 && double.text.contains("SUB_NBR"), "{double:?}");
        let entries =
            peer.call("@SwapTables", &[Text("SUB_NBR#ENTRIES"), Text("MORE_NBR#ENTRIES")]);
        assert!(entries.status < 0, "{entries:?}");
    }
}

/// Batches of rows, in the order of a table's columns, with a partition for each where several
/// columns say it.
#[test]
fn rows_of_tables_with_several_partitioning_columns_are_divided() {
    for sites in [1, 3] {
        let server = start(sites, &[]);
        let mut peer = Peer::login(server.client_address());
        peer.run(
            "CREATE TABLE two (a BIGINT NOT NULL, b VARCHAR(9) NOT NULL, n INTEGER,
                PRIMARY KEY (a, b));
            PARTITION TABLE two ON COLUMNS (b, a);
            CREATE GLOBAL UNIQUE INDEX two_n ON two (n);",
        );
        let schema = TableSchema::new(&[
            ("A", SqlType::BigInt),
            ("B", SqlType::Varchar),
            ("N", SqlType::Integer),
        ]);
        let load = |peer: &mut Peer, rows: std::ops::Range<i64>, same: i64| {
            let mut table = Vec::new();
            let mut builder = TableBuilder::begin(&mut table, &schema);
            for row in rows {
                let name = format!("b{row}");
                builder.row(&schema, &[Int(row % 7), Text(&name), Int(row.max(same))]);
            }
            builder.finish();
            let mut writer = ParameterWriter::default();
            writer.text("two").scalar(SqlType::TinyInt, Int(0)).table(&table);
            peer.call_with("@LoadMultipartitionTable", &writer)
        };
        let loaded = load(&mut peer, 0..200, 0);
        assert_eq!((loaded.status, loaded.rows.as_str()), (1, "200"), "{loaded:?}");
        let double = load(&mut peer, 200..210, 205);
        assert!(double.status < 0 && double.text.contains("TWO_N"), "{double:?}");
        assert_eq!(peer.run("SELECT COUNT(*) FROM two"), "200");
        assert_eq!(peer.run("SELECT COUNT(*) FROM \"TWO_N#ENTRIES\""), "200");
        for row in (0..200).step_by(17) {
            let found = format!("SELECT n FROM two WHERE a = {} AND b = 'b{row}'", row % 7);
            assert_eq!(peer.run(&found), row.to_string());
            assert_eq!(peer.run(&format!("SELECT b FROM two WHERE n = {row}")), format!("b{row}"));
        }
    }
}
