//! No text makes the parser panic, loop, or point outside the text.

use lockstep_sql::{Limits, parameterize, parse_batch, parse_expression, split_script};

/// Statements that use most of the grammar; the tests cut, mix and spoil them.
const STATEMENTS: &[&str] = &[
    "SELECT DISTINCT a.b AS c, COUNT(*), SUM(DISTINCT x) FROM t a LEFT JOIN u ON a.i = u.i \
     WHERE a.x BETWEEN 1 AND 2 OR NOT a.y IN (1, 2.5, 3e5) GROUP BY a.b HAVING COUNT(*) > 1 \
     ORDER BY c DESC NULLS LAST LIMIT 5 OFFSET ?",
    "WITH RECURSIVE r (n) AS (SELECT 1 FROM o UNION ALL SELECT n + 1 FROM r WHERE n < 9) \
     SELECT * FROM r INTERSECT (SELECT TOP 3 q.* FROM q)",
    "SELECT CASE x WHEN 1 THEN 'a''b' ELSE X'00ff' END, CAST(y AS VARCHAR(5 BYTES)), \
     EXTRACT(YEAR FROM ts), TRIM(LEADING 'x' FROM s), RANK() OVER (PARTITION BY a ORDER BY b) \
     FROM t WHERE (a, b) >= (SELECT 1, 2 FROM t) AND EXISTS (SELECT 1 FROM u) AND s LIKE 'a%' \
     ESCAPE '\\' AND c = ANY (SELECT d FROM v) AND e IS NOT DISTINCT FROM f",
    "UPSERT INTO t (a, b) VALUES (?, DEFAULT)",
    "UPDATE t AS x SET x.a = -1, b = DEFAULT WHERE c STARTS WITH 'é' ORDER BY a LIMIT 1",
    "DELETE FROM t WHERE a IS NULL; -- done\nTRUNCATE TABLE t /* all */",
    "CREATE TABLE t (a INTEGER DEFAULT -5 NOT NULL, b VARCHAR(10) UNIQUE, CONSTRAINT k PRIMARY \
     KEY (a), LIMIT PARTITION ROWS 10 EXECUTE (DELETE FROM t WHERE a < 3)) USING TTL 10 MINUTES \
     ON COLUMN a BATCH_SIZE 5",
    "CREATE PROCEDURE p PARTITION ON TABLE t COLUMN a PARAMETER 1 ALLOW r AS BEGIN SELECT 1 FROM \
     t; INSERT INTO t SELECT CASE WHEN 1 = 1 THEN 2 END FROM u; END",
    "CREATE TASK k ON SCHEDULE CRON 0 0 */2 * * ? PROCEDURE @Ping WITH (1, -2, 'x') ON ERROR LOG",
    "ALTER TABLE t ADD COLUMN c FLOAT BEFORE d; DROP VIEW v IF EXISTS; EXPLAIN SELECT 1",
    "CREATE STREAM s PARTITION ON COLUMN a EXPORT TO TOPIC x ON INSERT WITH KEY (a) (a INT)",
];

/// A small generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

/// Parses both ways; whatever comes out must be about the text.
fn check(text: &str) {
    let limits = Limits::default();
    match parse_batch(text, &limits) {
        Ok(statements) => {
            for statement in statements {
                assert_eq!(text.get(statement.span.range()), Some(statement.text.as_str()));
            }
        }
        Err(error) => {
            assert!(text.get(error.span.range()).is_some(), "{error:?} in {text:?}");
            let line = text.lines().count().max(1) as u32 + 1;
            assert!((1..=line).contains(&error.span.line), "{error:?} in {text:?}");
            assert!(error.render(text).contains('^'));
        }
    }
    let _ = parse_expression(text, &limits);
    let _ = parameterize(text, &limits);
    let _ = split_script(text, &limits);
}

#[test]
fn every_prefix_of_a_statement_parses_or_is_refused() {
    for statement in STATEMENTS {
        parse_batch(statement, &Limits::default()).expect(statement);
        for end in (0..statement.len()).filter(|end| statement.is_char_boundary(*end)) {
            check(&statement[..end]);
            check(&statement[end..]);
        }
    }
}

#[test]
fn spoiled_statements_parse_or_are_refused() {
    let mut random = Random(7);
    let pieces: Vec<&str> =
        STATEMENTS.iter().flat_map(|text| text.split_inclusive([' ', '(', ',', ')'])).collect();
    for _ in 0..30_000 {
        let mut text = String::new();
        for _ in 0..random.below(20) {
            text.push_str(pieces[random.below(pieces.len())]);
        }
        check(&text);
    }
}

#[test]
fn odd_characters_parse_or_are_refused() {
    let mut random = Random(11);
    let odd = [
        "'", "\"", ";", "--", "/*", "*/", "\n", "\r", "\t", "é", "𝄞", "\u{0}", "$", "$$", "@", "#",
        "\\", "`", "[", "]", "{", "}", "?", "?1", ":x", "0x1f", "1e", "1e5", ".5", "5.", "1L",
        "X'", "N'a'", "E'a'", "U&'a'", "B'1'", "||", "<=>", "!=", "!", "::", "->", "~", "^", "&",
        "|", "SELECT", "a", "1", "(", ")", ",", ".", " ", "\u{feff}", "\u{a0}", "CASE", "END",
        "BEGIN",
    ];
    for _ in 0..60_000 {
        let mut text = String::new();
        for _ in 0..random.below(12) {
            text.push_str(odd[random.below(odd.len())]);
        }
        check(&text);
    }
}
