//! Every limit on a statement: just within it the statement works, over it the refusal names the
//! option, and the connection goes on.

use crate::support::{Peer, start};
use lockstep_types::Datum::{Int, Text};

fn list(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(", ")
}

/// For each option: its setting, a text within it, and one over it.
fn statements() -> Vec<(&'static str, String, String)> {
    let spaces = |count: usize| format!("SELECT n FROM t{}", " ".repeat(count - 15));
    let batch = |count: usize| vec!["SELECT n FROM t"; count].join("; ");
    let columns = |count: usize| format!("SELECT {} FROM t", list(count, |_| "n".to_string()));
    let table =
        |count: usize| format!("CREATE TABLE w ({})", list(count, |n| format!("c{n} TINYINT")));
    let group = |count: usize| {
        format!("SELECT COUNT(*) FROM t GROUP BY {}", list(count, |n| format!("n + {n}")))
    };
    let joined =
        |count: usize| format!("SELECT COUNT(*) FROM {}", list(count, |n| format!("t a{n}")));
    let nested_tables = |count: usize| {
        let inner = list(count - 1, |n| format!("t a{n}"));
        format!("SELECT n FROM t WHERE n IN (SELECT COUNT(*) FROM {inner})")
    };
    let in_list =
        |count: usize| format!("SELECT n FROM t WHERE n IN ({})", list(count, |n| n.to_string()));
    let nested =
        |depth: usize| format!("SELECT {}n{} FROM t", "(".repeat(depth), ")".repeat(depth));
    let subqueries = |depth: usize| {
        format!(
            "SELECT n FROM t{}{}",
            " WHERE n IN (SELECT n FROM t".repeat(depth),
            ")".repeat(depth)
        )
    };
    vec![
        ("max_statement_bytes=100", spaces(100), spaces(101)),
        ("max_statements=3", batch(3), batch(4)),
        ("max_columns=6", columns(6), columns(7)),
        ("max_columns=6", table(6), table(7)),
        ("max_columns=6", group(6), group(7)),
        ("max_joined_tables=4", joined(4), joined(5)),
        ("max_joined_tables=4", nested_tables(4), nested_tables(5)),
        ("max_in_list=5", in_list(5), in_list(6)),
        ("max_nesting_depth=20", nested(10), nested(30)),
        ("max_nesting_depth=20", subqueries(2), subqueries(30)),
    ]
}

#[test]
fn statements_over_a_limit_are_refused_by_the_name_of_its_option() {
    for (setting, within, over) in statements() {
        let server = start(1, &[setting]);
        let mut peer = Peer::login(server.client_address());
        peer.run("CREATE TABLE t (n BIGINT NOT NULL, PRIMARY KEY (n))");
        peer.run(&within);
        let answer = peer.sql(&over);
        let option = setting.split('=').next().expect("a name");
        assert_eq!((answer.status, answer.rows.as_str()), (-2, ""), "{over}: {answer:?}");
        assert!(answer.text.contains(&format!("option {option})")), "{over}: {answer:?}");
        peer.run("SELECT n FROM t");
    }
}

#[test]
fn parameters_over_their_number_are_refused_by_name() {
    let server = start(1, &["max_parameters=3"]);
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (n BIGINT NOT NULL, PRIMARY KEY (n))");
    let within = peer
        .call("@AdHoc", &[Text("SELECT n FROM t WHERE n IN (?, ?, ?)"), Int(1), Int(2), Int(3)]);
    assert_eq!(within.status, 1, "{within:?}");
    for text in [
        "SELECT n FROM t WHERE n IN (?, ?, ?, ?)",
        "CREATE PROCEDURE P AS SELECT n FROM t WHERE n IN (?, ?, ?, ?)",
    ] {
        let answer = peer.call("@AdHoc", &[Text(text), Int(1), Int(2), Int(3), Int(4)]);
        assert_eq!(answer.status, -2, "{answer:?}");
        assert!(answer.text.contains("option max_parameters)"), "{answer:?}");
    }
}

/// What a statement may use while it runs, and that what it changed is undone.
#[test]
fn work_over_a_limit_fails_with_nothing_changed() {
    for (setting, text) in [
        ("max_temporary_bytes=1048576", "SELECT COUNT(*) FROM (SELECT DISTINCT v || 'x' FROM t) s"),
        ("max_temporary_bytes=1048576", "SELECT v || 'x', COUNT(*) FROM t GROUP BY v || 'x'"),
        ("max_temporary_bytes=1048576", "SELECT a.n, RANK() OVER (ORDER BY a.v || 'x') FROM t a"),
        (
            "max_undo_bytes=65536",
            "UPDATE t SET v = v || 'x'; UPDATE t SET v = v || 'y'; DELETE FROM t",
        ),
        (
            "max_undo_bytes=65536",
            "DELETE FROM t WHERE n < 1000; UPDATE t SET v = 'x'; UPDATE t SET v = 'y'",
        ),
        ("max_response_bytes=1048576", "SELECT n, v FROM t"),
    ] {
        for sites in [1, 3] {
            let server = start(sites, &[setting]);
            let mut peer = Peer::login(server.client_address());
            peer.run(
                "CREATE TABLE t (n BIGINT NOT NULL, v VARCHAR(2000), PRIMARY KEY (n));
                PARTITION TABLE t ON COLUMN n;",
            );
            let filler = "f".repeat(1500);
            let frames: Vec<u8> = (0..4000)
                .flat_map(|n| {
                    let value = format!("{n}{filler}");
                    let values = crate::support::parameters(&[Int(n), Text(&value)]);
                    crate::support::call_frame("T.insert", n, &values)
                })
                .collect();
            peer.send(&frames);
            (0..4000).for_each(|_| assert_eq!(peer.answer().status, 1));
            let answer = peer.sql(text);
            let option = setting.split('=').next().expect("a name");
            assert_eq!((answer.status, answer.rows.as_str()), (-2, ""), "{text}: {answer:?}");
            assert!(answer.text.contains(&format!("option {option})")), "{text}: {answer:?}");
            let sums = peer.run("SELECT COUNT(*), MIN(n), MAX(n), MAX(CHAR_LENGTH(v)) FROM t");
            assert_eq!(sums, "4000,0,3999,1504", "{text}");
        }
    }
}
