//! Every limit is enforced, by name, and nothing overflows the stack.

use lockstep_sql::{Limits, parse_batch, parse_expression};

/// The limits that refuse soon, to keep the tests small.
fn small() -> Limits {
    Limits {
        batch_bytes: 4000,
        statement_bytes: 2000,
        statements: 3,
        nesting_depth: 40,
        parameters: 3,
        columns: 4,
        joined_tables: 3,
        in_list: 5,
    }
}

#[track_caller]
fn refused(text: &str, limit: &str) {
    let error = parse_batch(text, &small()).expect_err("over the limit");
    assert!(error.message.ends_with(&format!("option max_{limit})")), "{}", error.message);
}

#[track_caller]
fn accepted(text: &str) {
    parse_batch(text, &small()).expect("within the limits");
}

#[test]
fn lengths_are_limited() {
    accepted(&format!("SELECT '{}' FROM t", "x".repeat(1900)));
    refused(&format!("SELECT '{}' FROM t", "x".repeat(2000)), "statement_bytes");
    // A procedure is one statement, whatever stands between its semicolons.
    let half = format!("SELECT '{}' FROM t; ", "x".repeat(1200));
    accepted(&half.repeat(2));
    refused(&format!("CREATE PROCEDURE p AS BEGIN {}END", half.repeat(2)), "statement_bytes");
    refused(&half.repeat(4), "statement_bytes");
}

#[test]
fn counts_are_limited() {
    accepted("SELECT 1;SELECT 2;SELECT 3");
    refused("SELECT 1;SELECT 2;SELECT 3;SELECT 4", "statements");
    accepted("SELECT ?, ?, ? FROM t");
    refused("SELECT ? FROM t WHERE a = ? AND b = ? AND c = ?", "parameters");
    accepted("SELECT ?, ?, ? FROM t; SELECT ?, ?, ? FROM t");
    accepted("SELECT a, b, c, d FROM t");
    refused("SELECT a, b, c, d, e FROM t", "columns");
    refused("SELECT f(a, b, c, d, e) FROM t", "columns");
    refused("SELECT a FROM t WHERE (1, 2, 3, 4, 5) = (1, 2, 3, 4, 5)", "columns");
    refused("SELECT a FROM t GROUP BY a, b, c, d, e", "columns");
    refused("SELECT a FROM t ORDER BY a, b, c, d, e", "columns");
    refused("CREATE TABLE t (a INT, b INT, c INT, d INT, e INT)", "columns");
    refused("CREATE INDEX i ON t (a, b, c, d, e)", "columns");
    refused("INSERT INTO t VALUES (1, 2, 3, 4, 5)", "columns");
    accepted("SELECT 1 FROM a, b, c");
    refused("SELECT 1 FROM a, b, c, d", "joined_tables");
    refused("SELECT 1 FROM a, b WHERE x IN (SELECT 1 FROM c, d)", "joined_tables");
    refused("SELECT 1 FROM a JOIN b ON 1 = 1 JOIN c ON 1 = 1 JOIN d ON 1 = 1", "joined_tables");
    accepted("SELECT 1 FROM a, b WHERE EXISTS (SELECT 1 FROM c); SELECT 1 FROM a, b, c");
    accepted("SELECT a FROM t WHERE a IN (1, 2, 3, 4, 5)");
    refused("SELECT a FROM t WHERE a IN (1, 2, 3, 4, 5, 6)", "in_list");
}

/// The ways to nest, each as what opens a level, what stands inside, and what closes it.
const NESTS: &[(&str, &str, &str)] = &[
    ("(", "1", ")"),
    ("NOT ", "TRUE", ""),
    ("- ", "1", ""),
    ("+", "1", ""),
    ("abs(", "1", ")"),
    ("1 + (", "1", ")"),
    ("a OR b AND c = d + e * (", "1", ")"),
    ("a OR b AND NOT c = d + e * -f(", "1", ")"),
    ("a IN (", "1", ")"),
    ("a BETWEEN b AND (", "1", ")"),
    ("CASE WHEN a THEN ", "1", " END"),
    ("CASE ", "1", " WHEN 1 THEN 2 END"),
    ("CAST(", "1", " AS INTEGER)"),
    ("TRIM(", "1", ")"),
    ("(1, ", "1", ")"),
    ("(SELECT ", "1", " FROM t)"),
    ("EXISTS (SELECT a FROM t WHERE ", "1", ")"),
    ("a IN (SELECT a FROM t WHERE ", "1", ")"),
    ("a = ANY (SELECT a FROM t ORDER BY ", "1", ")"),
    ("(SELECT a FROM (SELECT a FROM t WHERE ", "1 = 1", ") x)"),
    ("a OR b AND c = d + e * (SELECT x FROM t JOIN u ON ", "1", ")"),
    ("((SELECT 1 FROM t) UNION (SELECT ", "1", " FROM t))"),
    ("(WITH c AS (SELECT ", "1", " FROM t) SELECT a FROM c)"),
    ("SUM(a) OVER (PARTITION BY ", "1", ")"),
];

/// Parses in a thread with the stack that threads have by default.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap();
    thread.join().expect("no overflow, no panic");
}

#[test]
fn nesting_ends_in_an_error_not_in_an_overflow() {
    on_a_small_stack(|| {
        let limits = Limits { joined_tables: u32::MAX, ..Limits::default() };
        for (open, inside, close) in NESTS {
            let deep = format!("{}{inside}{}", open.repeat(20_000), close.repeat(20_000));
            let error = parse_expression(&deep, &limits).expect_err(open);
            assert!(
                error.message.ends_with("option max_nesting_depth)"),
                "{open}: {}",
                error.message
            );
        }
        for (open, close) in [("(", ")"), ("(SELECT 1 FROM t UNION (SELECT 1 FROM t) UNION ", ")")]
        {
            let deep = format!("{}SELECT 1{}", open.repeat(9_000), close.repeat(9_000));
            let error = parse_batch(&deep, &limits).expect_err(open);
            assert!(
                error.message.ends_with("option max_nesting_depth)"),
                "{open}: {}",
                error.message
            );
        }
        let deep = format!("SELECT 1 FROM {}t", "(".repeat(20_000));
        let error = parse_batch(&deep, &limits).expect_err("joins");
        assert!(error.message.ends_with("option max_nesting_depth)"), "{}", error.message);
    });
}

#[test]
fn the_deepest_accepted_trees_can_be_used_on_a_small_stack() {
    on_a_small_stack(|| {
        let limits = Limits { joined_tables: u32::MAX, ..Limits::default() };
        for (open, inside, close) in NESTS {
            let text = |depth| format!("{}{inside}{}", open.repeat(depth), close.repeat(depth));
            let fits = |depth: &usize| parse_expression(&text(*depth), &limits).is_ok();
            let deepest = (1..600).take_while(fits).last().expect("one level at least");
            assert!(deepest >= 40, "{open} nests only {deepest} times");
            let tree = parse_expression(&text(deepest), &limits).unwrap();
            assert!(!tree.clone().to_string().is_empty());
        }
    });
}

#[test]
fn long_chains_are_no_deep_trees() {
    on_a_small_stack(|| {
        let limits = Limits::default();
        for chain in [" AND a = 1", " OR a = 1"] {
            let text = format!("a = 1{}", chain.repeat(50_000));
            parse_expression(&text, &limits).expect(chain);
        }
        // Sums lean to the left: their height is limited like any other.
        let sum = |terms: usize| format!("1{}", " + 1".repeat(terms));
        parse_expression(&sum(400), &limits).expect("a sum of 401 terms");
        let error = parse_expression(&sum(600), &limits).expect_err("a sum of 601 terms");
        assert!(error.message.ends_with("option max_nesting_depth)"), "{}", error.message);
        // Sums within sums add up.
        let mut tall = "1".to_string();
        for _ in 0..40 {
            tall = format!("({tall}){}", " + 1".repeat(40));
        }
        let error = parse_expression(&tall, &limits).expect_err("a tower of sums");
        assert!(error.message.ends_with("option max_nesting_depth)"), "{}", error.message);
    });
}
