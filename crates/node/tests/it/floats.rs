//! FLOAT values at the edges: NULL, NaN, infinity, both zeros. Whatever compares, sorts, groups or
//! finds them agrees with one order, row by row and in batches, at one site and at several.

use crate::durability::{data, new_disk};
use crate::support::{Peer, start, start_with};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_types::Datum::{Float, Int, Null, Text};
use lockstep_types::float::{NAN, float_of_word};
use std::cmp::Ordering;

/// Doubles in their order; those of one row are equal. The first are NULL.
const ASCENDING: [&[f64]; 9] = [
    &[-1.7e308, f64::NEG_INFINITY],
    &[NAN, f64::from_bits(0xfff8_0000_0000_0001)],
    &[-1.6e308],
    &[-1.5],
    &[-0.0, 0.0],
    &[5e-324],
    &[2.0],
    &[f64::MAX],
    &[f64::INFINITY],
];
const NULL_RANK: usize = 0;
const NAN_RANK: usize = 1;

const SCHEMA: &str = "\
    CREATE TABLE plain (id INTEGER NOT NULL PRIMARY KEY, f FLOAT, d DECIMAL, i BIGINT);
    PARTITION TABLE plain ON COLUMN id;
    CREATE TABLE other (id INTEGER NOT NULL PRIMARY KEY, f FLOAT);
    PARTITION TABLE other ON COLUMN id;
    CREATE INDEX other_f ON other (f);
    CREATE TABLE pairs (id INTEGER NOT NULL PRIMARY KEY, f FLOAT);
    CREATE INDEX pairs_f ON pairs (f, id);
    CREATE TABLE loose (id INTEGER NOT NULL PRIMARY KEY, f FLOAT);
    CREATE TABLE single (f FLOAT NOT NULL PRIMARY KEY);
    CREATE VIEW grouped (f, n, least, most) AS
        SELECT f, COUNT(*), MIN(f), MAX(f) FROM plain GROUP BY f;";

/// A host whose queries run in batches or row by row, with a row for each double.
struct Case {
    _server: Server,
    peer: Peer,
    /// Ids with the ranks of their values.
    rows: Vec<(usize, usize)>,
}

impl Case {
    fn new(sites: u32, option: &str) -> Case {
        let server = start(sites, &[option]);
        let mut peer = Peer::login(server.client_address());
        peer.run(SCHEMA);
        let rows = fill(&mut peer);
        Case { _server: server, peer, rows }
    }

    /// Ids of rows, in order, as an answer has them.
    fn ids(&self, mut chosen: Vec<usize>) -> String {
        chosen.sort_unstable();
        let texts: Vec<String> = chosen.iter().map(usize::to_string).collect();
        texts.join("\n")
    }

    fn expect_ids(&self, is_chosen: impl Fn(usize) -> bool) -> String {
        let chosen = self.rows.iter().filter(|(_, rank)| is_chosen(*rank));
        self.ids(chosen.map(|(id, _)| *id).collect())
    }
}

/// Inserts a row for each double into all tables; gives ids and ranks.
fn fill(peer: &mut Peer) -> Vec<(usize, usize)> {
    let ranked = ASCENDING.iter().enumerate();
    let all = ranked.flat_map(|(rank, row)| row.iter().map(move |value| (rank, *value)));
    let mut rows = Vec::new();
    // So that insertion order is not the order.
    for (id, (rank, value)) in all.rev().enumerate() {
        let (key, value) = (Int(id as i64), Float(value));
        for (table, values) in [
            ("PLAIN", &[key, value, Text("0"), Int(0)][..]),
            ("OTHER", &[key, value]),
            ("PAIRS", &[key, value]),
            ("LOOSE", &[key, value]),
        ] {
            let answer = peer.call(&format!("{table}.insert"), values);
            assert_eq!((answer.status, answer.text.as_str()), (1, ""), "{table} {value}");
        }
        rows.push((id, rank));
    }
    rows
}

/// Each way of executing, at one site and at three.
fn each_case(mut test: impl FnMut(&mut Case)) {
    for sites in [1, 3] {
        for option in ["min_batch_rows=0", "min_batch_rows=1000000"] {
            test(&mut Case::new(sites, option));
        }
    }
}

/// The rank of a double of an answer.
fn rank_of(text: &str) -> usize {
    let value = match text {
        "NULL" => return NULL_RANK,
        "inf" => f64::INFINITY,
        text => float_of_word(text).unwrap_or_else(|| text.parse().expect("a double")),
    };
    let is_in = |row: &&[f64]| row.iter().any(|of| *of == value || of.is_nan() && value.is_nan());
    ASCENDING.iter().position(is_in).expect("a value that was inserted")
}

fn ranks(answer: &str) -> Vec<usize> {
    answer.split('\n').map(rank_of).collect()
}

/// Whether two values in an order fulfil a comparison.
type Holds = fn(Ordering) -> bool;

const OPERATORS: [(&str, Holds); 6] = [
    ("=", Ordering::is_eq),
    ("<>", Ordering::is_ne),
    ("<", Ordering::is_lt),
    ("<=", Ordering::is_le),
    (">", Ordering::is_gt),
    (">=", Ordering::is_ge),
];

#[test]
fn comparisons_with_parameters_follow_one_order() {
    each_case(|case| {
        for table in ["plain", "other", "pairs"] {
            for (operator, holds) in OPERATORS {
                let query = format!("SELECT id FROM {table} WHERE f {operator} ? ORDER BY id");
                for (rank, given) in ASCENDING.iter().enumerate() {
                    let expected = case.expect_ids(|row| {
                        row != NULL_RANK && rank != NULL_RANK && holds(row.cmp(&rank))
                    });
                    for value in *given {
                        let answer = case.peer.call("@AdHoc", &[Text(&query), Float(*value)]);
                        assert_eq!(answer.rows, expected, "{query} {value}: {answer:?}");
                    }
                }
            }
            let between = format!("SELECT id FROM {table} WHERE f BETWEEN ? AND ? ORDER BY id");
            let one_of = format!("SELECT id FROM {table} WHERE f IN (?, ?) ORDER BY id");
            for (a, low) in ASCENDING.iter().enumerate().skip(1) {
                for (b, high) in ASCENDING.iter().enumerate().skip(1) {
                    let given = [Text(&between), Float(low[0]), Float(high[0])];
                    let expected = case.expect_ids(|rank| a <= rank && rank <= b);
                    assert_eq!(case.peer.call("@AdHoc", &given).rows, expected, "{given:?}");
                    let given = [Text(&one_of), Float(low[0]), Float(high[0])];
                    let expected = case.expect_ids(|rank| rank == a || rank == b);
                    assert_eq!(case.peer.call("@AdHoc", &given).rows, expected, "{given:?}");
                }
            }
        }
    });
}

#[test]
fn joins_and_subqueries_follow_one_order() {
    each_case(|case| {
        let rows = case.rows.clone();
        for (left, right) in [("plain", "pairs"), ("pairs", "other"), ("plain", "loose")] {
            for (operator, holds) in OPERATORS {
                let query = format!(
                    "SELECT l.id, r.id FROM {left} l JOIN {right} r ON l.f {operator} r.f \
                     ORDER BY l.id, r.id"
                );
                let mut expected = Vec::new();
                for (a, a_rank) in &rows {
                    let is_match = |b: usize| a_rank.min(&b) > &NULL_RANK && holds(a_rank.cmp(&b));
                    let matching = rows.iter().filter(|(_, rank)| is_match(*rank));
                    expected.extend(matching.map(|(b, _)| format!("{a},{b}")));
                }
                assert_eq!(case.peer.run(&query), expected.join("\n"), "{query}");
            }
        }
        let is_value = |rank| rank != NULL_RANK;
        for (condition, expected) in [
            ("f IN (SELECT f FROM pairs)", case.expect_ids(is_value)),
            ("EXISTS (SELECT 1 FROM pairs p WHERE p.f = plain.f)", case.expect_ids(is_value)),
            ("f <= ALL (SELECT f FROM pairs WHERE f IS NOT NULL)", case.expect_ids(|r| r == 1)),
            ("f = ANY (SELECT f FROM pairs WHERE f < -1.6E308)", case.expect_ids(|r| r == 1)),
            ("f IS NULL", case.expect_ids(|rank| rank == NULL_RANK)),
            ("f IS NOT NULL", case.expect_ids(is_value)),
            ("f = f", case.expect_ids(is_value)),
            ("f < f", case.expect_ids(|_| false)),
            ("f IS NOT DISTINCT FROM (SELECT MIN(f) FROM loose)", case.expect_ids(|r| r == 1)),
            ("-f = f", case.expect_ids(|rank| rank == 1 || rank == rank_of("0"))),
            ("f < d", case.expect_ids(|rank| is_value(rank) && rank < rank_of("0"))),
            ("f < i", case.expect_ids(|rank| is_value(rank) && rank < rank_of("0"))),
            ("d > f", case.expect_ids(|rank| is_value(rank) && rank < rank_of("0"))),
            (
                "NULLIF(f, (SELECT MIN(f) FROM loose)) IS NULL",
                case.expect_ids(|rank| rank <= NAN_RANK),
            ),
        ] {
            let query = format!("SELECT id FROM plain WHERE {condition} ORDER BY id");
            assert_eq!(case.peer.run(&query), expected, "{query}");
        }
    });
}

#[test]
fn sorts_groups_and_aggregates_follow_one_order() {
    each_case(|case| {
        let mut all: Vec<usize> = case.rows.iter().map(|(_, rank)| *rank).collect();
        all.sort_unstable();
        let mut each = all.clone();
        each.dedup();
        for table in ["plain", "other", "pairs"] {
            let mut query = |text: String| ranks(&case.peer.run(&text.replace("TABLE", table)));
            assert_eq!(query("SELECT f FROM TABLE ORDER BY f".into()), all, "{table}");
            let falling: Vec<usize> = all.iter().rev().copied().collect();
            assert_eq!(query("SELECT f FROM TABLE ORDER BY f DESC".into()), falling, "{table}");
            let first = query("SELECT f FROM TABLE ORDER BY f LIMIT 3".into());
            assert_eq!(first, all[..3], "{table}");
            let after = query("SELECT f FROM TABLE WHERE f IS NOT NULL ORDER BY f LIMIT 2".into());
            assert_eq!(after, [NAN_RANK; 2], "{table}");
            assert_eq!(query("SELECT DISTINCT f FROM TABLE ORDER BY f".into()), each, "{table}");
            let groups = "SELECT f FROM TABLE GROUP BY f ORDER BY f";
            assert_eq!(query(groups.into()), each, "{table}");
            let union = "SELECT f FROM TABLE UNION SELECT f FROM TABLE ORDER BY f";
            assert_eq!(query(union.into()), each, "{table}");
            assert_eq!(query("SELECT MIN(f) FROM TABLE".into()), [NAN_RANK], "{table}");
            assert_eq!(query("SELECT MAX(f) FROM TABLE".into()), [each.len() - 1], "{table}");
            let positive = "SELECT MIN(f) FROM TABLE WHERE f > (SELECT MIN(f) FROM loose)";
            assert_eq!(query(positive.into()), [NAN_RANK + 1], "{table}");
            let most = "SELECT MAX(f) FROM TABLE WHERE f < -1.6E308";
            assert_eq!(query(most.into()), [NAN_RANK], "{table}");
            let mut count = |text: &str| case.peer.run(&text.replace("TABLE", table));
            let values = all.iter().filter(|rank| **rank != NULL_RANK).count();
            let expected = format!("{values},{}", each.len() - 1);
            assert_eq!(count("SELECT COUNT(f), COUNT(DISTINCT f) FROM TABLE"), expected, "{table}");
            let ranked = count("SELECT RANK() OVER (ORDER BY f) FROM TABLE ORDER BY f, id");
            let rank = |of: &usize| 1 + all.iter().filter(|other| *other < of).count();
            let expected: Vec<String> = all.iter().map(|of| rank(of).to_string()).collect();
            assert_eq!(ranked, expected.join("\n"), "{table}");
        }
        let view = case.peer.run("SELECT f, n, least, most FROM grouped ORDER BY f");
        let rows: Vec<Vec<&str>> = view.split('\n').map(|row| row.split(',').collect()).collect();
        for (row, rank) in rows.iter().zip(&each) {
            let count = case.rows.iter().filter(|(_, of)| of == rank).count();
            assert_eq!(row[1], count.to_string(), "{view}");
            assert_eq!([row[0], row[2], row[3]].map(rank_of), [*rank; 3], "{view}");
        }
        assert_eq!(rows.len(), each.len(), "{view}");
    });
}

#[test]
fn what_nan_is_computed_to() {
    each_case(|case| {
        let nan = case.rows.iter().find(|(_, rank)| *rank == NAN_RANK).expect("a row of NaN").0;
        let one = format!("FROM plain WHERE id = {nan}");
        for (expression, expected) in [
            ("-X", "NaN"),
            ("ABS(X)", "NaN"),
            ("FLOOR(X)", "NaN"),
            ("CAST(X AS FLOAT)", "NaN"),
            ("CAST(X AS VARCHAR)", "NaN"),
            ("CASE WHEN X = X THEN X ELSE 0.0E0 END", "NaN"),
            ("SUM(X)", "NaN"),
            ("MIN(X)", "NaN"),
        ] {
            let query = format!("SELECT {} {one}", expression.replace('X', "f"));
            assert_eq!(case.peer.run(&query), expected, "{query}");
        }
        for (expression, part) in [
            ("X + 1.0E0", "Invalid result value (nan) from floating point '+' operator"),
            ("X / X", "Invalid result value (nan) from floating point '/' operator"),
            ("0.0E0 / 0.0E0", "Invalid result value (-nan) from floating point '/' operator"),
            ("SQRT(X)", "Invalid result value (nan) from floating point function SQRT"),
            ("CAST(X AS BIGINT)", "out of range"),
            ("CAST(X AS DECIMAL)", "out of range"),
            ("AVG(X)", "Invalid result value (nan) from floating point"),
        ] {
            let query = format!("SELECT {} {one}", expression.replace('X', "f"));
            let answer = case.peer.sql(&query);
            assert_ne!(answer.status, 1, "{query}");
            assert!(answer.text.contains(part), "{query}: {answer:?}");
        }
        let answer = case.peer.sql("SELECT SUM(f) FROM plain WHERE f < 0.0E0");
        assert!(answer.text.contains("Invalid result value (nan)"), "{answer:?}");
    });
}

#[test]
fn changes_find_rows_by_nan_and_keys_are_unique() {
    each_case(|case| {
        let nan = Float(f64::from_bits(0xffff_ffff_ffff_ffff));
        assert_eq!(case.peer.call("SINGLE.insert", &[nan]).status, 1);
        let again = case.peer.call("SINGLE.insert", &[Float(NAN)]);
        assert_eq!(again.status, -2, "{again:?}");
        assert!(again.text.contains("Constraint Type UNIQUE"), "{again:?}");
        assert_eq!(case.peer.call("SINGLE.insert", &[Float(0.0)]).status, 1);
        assert_eq!(case.peer.call("SINGLE.insert", &[Float(-0.0)]).status, -2);
        assert_ne!(case.peer.call("SINGLE.insert", &[Null]).status, 1);
        let found = [Text("SELECT f FROM single WHERE f = ?"), nan];
        assert_eq!(case.peer.call("@AdHoc", &found).rows, "NaN");
        assert_eq!(case.peer.call("SINGLE.upsert", &[nan]).rows, "1");
        assert_eq!(case.peer.run("SELECT COUNT(*) FROM single"), "2");
        for table in ["plain", "other", "pairs"] {
            let text = |text: &str| text.replace("TABLE", table);
            let update = text("UPDATE TABLE SET f = ? WHERE f = ?");
            let two = Float(2.0);
            assert_eq!(case.peer.call("@AdHoc", &[Text(&update), nan, two]).rows, "1", "{table}");
            assert_eq!(case.peer.call("@AdHoc", &[Text(&update), two, nan]).rows, "3", "{table}");
            let delete = text("DELETE FROM TABLE WHERE f <= ?");
            assert_eq!(case.peer.call("@AdHoc", &[Text(&delete), two]).rows, "8", "{table}");
            assert_eq!(case.peer.call("@AdHoc", &[Text(&delete), nan]).rows, "0", "{table}");
        }
        assert_eq!(case.peer.call("SINGLE.delete", &[nan]).rows, "1");
        assert_eq!(case.peer.run("SELECT f FROM single"), "0");
    });
}

/// All values with their ids.
fn values(peer: &mut Peer) -> Vec<String> {
    let queries = ["plain", "other", "pairs"].map(|t| format!("SELECT id, f FROM {t} ORDER BY id"));
    queries.iter().map(|query| peer.run(query)).collect()
}

#[test]
fn logs_snapshots_and_replay_keep_nan() {
    let disk = new_disk(3);
    let start = || {
        let server = start_with(3, &[], Some(data(&disk, Durability::Sync)));
        let server = server.expect("the host starts");
        let peer = Peer::login(server.client_address());
        (server, peer)
    };
    let (server, mut peer) = start();
    peer.run(SCHEMA);
    fill(&mut peer);
    let written = values(&mut peer);
    let digests = server.stop_with_digests().expect("it stops");
    let (server, mut peer) = start();
    assert_eq!(values(&mut peer), written, "from the log");
    let saved = peer.call("@SnapshotSave", &[Text(""), Text("floats"), Int(1)]);
    assert_eq!(saved.status, 1, "{saved:?}");
    peer.run("UPDATE pairs SET f = (SELECT MIN(f) FROM loose) WHERE f IS NULL");
    let written = values(&mut peer);
    let changed = server.stop_with_digests().expect("it stops");
    assert_ne!(changed, digests);
    let (server, mut peer) = start();
    assert_eq!(values(&mut peer), written, "from the snapshot and the log");
    assert_eq!(peer.run("SELECT COUNT(*) FROM pairs WHERE f = (SELECT MIN(f) FROM loose)"), "4");
    assert_eq!(server.stop_with_digests().expect("it stops"), changed);
}
