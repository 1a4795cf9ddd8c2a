//! Random scripts, a short run against each reference; and the scripts of defects that were found.
//!
//! `SEED=n STATEMENTS=m cargo test -p lockstep-testkit generated` runs others than the kept ones;
//! `random-sql` runs many, with its progress shown.

use lockstep_node::options::{Count, Options};
use lockstep_node::{RULES, RuleSet};
use lockstep_testkit::campaign::{Arena, Campaign, Reference};
use lockstep_testkit::comparison::compare;
use lockstep_testkit::generator::{Dialect, Phrase, Role, ScriptSize, Step, script};
use lockstep_testkit::host::TestHost;
use lockstep_testkit::shrink::shrink;
use lockstep_testkit::system::{Answer, Cell, System};
use std::io::ErrorKind;
use std::path::Path;

/// A number from the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => otherwise,
    }
}

fn no_difference(reference: Reference, statements: u64) {
    let (seed, statements) = (setting("SEED", 1), setting("STATEMENTS", statements));
    let report = match (Campaign { reference, seed, statements }).run() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            assert!(std::env::var_os("LOCKSTEP_REQUIRE_POSTGRES").is_none(), "{error}");
            println!("NOT RUN: {error}");
            return;
        }
        report => report.expect("databases that start"),
    };
    let texts: Vec<String> =
        report.differences.iter().map(|(seed, text)| format!("-- seed {seed}\n{text}")).collect();
    assert!(texts.is_empty(), "{}", texts.join("\n"));
    let tally = report.tally;
    assert!(tally.answered > 10 * tally.refused, "too much is refused: {tally:?}");
    assert!(tally.answered > 2 * tally.empty, "too little is found: {tally:?}");
    assert!(tally.answered > 100 * tally.by_order, "too much is excused: {tally:?}");
}

#[test]
fn one_site_and_three_sites_give_the_same_answers() {
    no_difference(Reference::Sites, 6_000);
}

#[test]
fn plans_without_a_rule_give_the_same_answers() {
    no_difference(Reference::Rules, 800);
}

#[test]
fn views_are_what_their_queries_give() {
    no_difference(Reference::Views, 5_000);
}

#[test]
fn sqlite_gives_the_same_answers() {
    no_difference(Reference::Sqlite, 8_000);
}

#[test]
fn postgres_gives_the_same_answers() {
    no_difference(Reference::Postgres, 5_000);
}

const SIZE: ScriptSize = ScriptSize { statements: 60, rows: 14, changes_of_ten: 3, views: 1 };

#[test]
fn a_seed_gives_one_script() {
    let steps = script(7, SIZE, Dialect::Sqlite);
    assert_eq!(steps, script(7, SIZE, Dialect::Sqlite));
    assert_ne!(steps, script(8, SIZE, Dialect::Sqlite));
    assert!(steps.iter().any(|step| matches!(step, Step::Same(..) | Step::Query { .. })));
}

/// Answers every statement with its length; one that holds a word, wrongly.
struct Liar {
    word: &'static str,
    created: bool,
}

impl System for Liar {
    fn name(&self) -> String {
        format!("liar about {}", self.word)
    }

    fn dialect(&self) -> Dialect {
        Dialect::Lockstep
    }

    fn run(&mut self, sql: &str, _gives_rows: bool) -> Answer {
        self.created |= sql.contains("CREATE TABLE");
        let lies = self.created && sql.contains(self.word);
        let count = if lies { -1 } else { sql.len() as i64 };
        Answer::Rows { types: Vec::new(), rows: vec![vec![Cell::Integer(count)]] }
    }
}

#[test]
fn a_difference_is_found_and_its_script_made_small() {
    let value = |text: &str| Phrase::new(Role::Condition, text, Vec::new());
    let condition =
        Phrase::new(Role::Condition, "({0} AND {1})", vec![value("a LIKE b"), value("c")]);
    let body = Phrase::new(Role::Fixed, "SELECT 1 WHERE {0}", vec![condition]);
    let steps = [
        Step::Schema(Phrase::word("CREATE TABLE t (a INTEGER)")),
        Step::Change(Phrase::word("INSERT INTO t VALUES (1)")),
        Step::Query { body: Phrase::word("SELECT 2"), tail: None },
        Step::Query { body, tail: Some(Phrase::word(" ORDER BY 1")) },
        Step::Change(Phrase::word("DELETE FROM t")),
    ];
    let run = |steps: &[Step]| {
        let mut honest = Liar { word: "no such word", created: false };
        let mut liar = Liar { word: "LIKE", created: false };
        Ok(compare(steps, &mut [&mut honest, &mut liar]))
    };
    let found = run(&steps).and_then(|c| c.difference.ok_or(ErrorKind::Other.into()));
    let found = found.expect("a difference");
    assert_eq!(found.step, 3);
    let smaller = shrink(&steps, &found, run).expect("databases that never fail");
    let texts: Vec<String> = smaller.iter().map(Step::sql).collect();
    assert_eq!(texts, ["CREATE TABLE t (a INTEGER)", "SELECT 1 WHERE a LIKE b"]);
}

#[test]
fn a_view_that_is_not_its_query_is_a_difference() {
    let steps = [
        Step::Schema(Phrase::word("CREATE TABLE t (a INTEGER)")),
        Step::Change(Phrase::word("INSERT INTO t VALUES (1)")),
        Step::Same(Phrase::word("SELECT a FROM t"), Phrase::word("SELECT a + 1 FROM t")),
    ];
    let mut arena = Arena::open(Reference::Views).expect("nothing to start");
    let found = arena.run(&steps, 1).expect("hosts").difference.expect("a difference");
    assert_eq!(
        (found.step, found.answers.map(|a| a.trim().to_string())),
        (2, ["1".into(), "2".into()])
    );
}

/// Scripts with the answers after each statement, a line `--> ` for each row. Rows are in the
/// order of their text, an error is `--> refused`, and what has no such line must not fail.
#[test]
fn kept_scripts_give_their_answers() {
    let files = super::files("seeds", "sql");
    assert!(!files.is_empty(), "corpus/seeds holds scripts");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a script");
        for sites in [1, 3] {
            for rules in [RuleSet::EMPTY, every_rule()] {
                check(&file, &text, sites, rules);
            }
        }
    }
}

fn every_rule() -> RuleSet {
    RULES.iter().fold(RuleSet::EMPTY, |set, info| set.with(info.rule))
}

/// Runs a kept script without these rules; batches are tried where rules are.
fn check(file: &Path, text: &str, sites: u32, off: RuleSet) {
    let min_batch_rows = Count(if off == RuleSet::EMPTY { 0 } else { u64::MAX });
    let options = Options { min_batch_rows, disabled_rules: off, ..Options::default() };
    let host = TestHost::start_with(sites, options).expect("a host");
    let mut connection = host.connect().expect("a connection");
    for (sql, expected) in statements(text) {
        let at = format!("{}, {sites} sites, without {off}: {sql}", file.display());
        let found = match connection.sql(&sql) {
            Err(_) if expected == ["refused"] => continue,
            Err(error) => panic!("{at}: {error}"),
            Ok(tables) => tables,
        };
        if expected.is_empty() {
            continue;
        }
        let mut rows: Vec<String> = found
            .iter()
            .flat_map(|table| &table.rows)
            .map(|row| row.iter().map(|v| v.to_string()).collect::<Vec<_>>().join(" | "))
            .collect();
        rows.sort();
        let rows = if rows.is_empty() { vec!["nothing".to_string()] } else { rows };
        assert_eq!(rows, expected, "{at}");
    }
}

/// The statements of a script, each with its answer.
fn statements(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        match (line.strip_prefix("--> "), found.last_mut()) {
            (Some(row), Some((_, rows))) => rows.push(row.to_string()),
            _ if line.starts_with("--") => {}
            _ => {
                open += line;
                open.push('\n');
                if let Some(sql) = open.trim_end().strip_suffix(';') {
                    found.push((sql.to_string(), Vec::new()));
                    open.clear();
                }
            }
        }
    }
    assert!(open.trim().is_empty(), "a statement without its semicolon: {open}");
    found
}
