//! Runs the scripts in `testscripts/`: text in, tree or error out.
//!
//! A script is a list of cases separated by blank lines. A case is a directive line, the input,
//! a line `----`, and the expected output. Directives: `batch` and `expression` show the tree,
//! `spans` shows a batch with positions, `canonical` shows queries and expressions as they are
//! written back, `parameterize` shows a key and the constants taken out,
//! `split` shows where statements end. `REWRITE=1 cargo test` writes the present output into the
//! scripts.

use crate::dump::dump;
use lockstep_sql::ast::Statement;
use lockstep_sql::{
    Limits, ScriptStatement, SqlError, parameterize, parse_batch, parse_expression,
    parse_statement, split_script,
};
use std::path::Path;

#[test]
fn scripts_give_the_expected_trees() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut cases = 0;
    for file in &files {
        cases += run_script(file);
    }
    assert!(cases > 100, "only {cases} cases were found");
}

#[allow(clippy::disallowed_methods)]
fn rewriting() -> bool {
    std::env::var("REWRITE").is_ok()
}

fn run_script(file: &Path) -> usize {
    let script = std::fs::read_to_string(file).unwrap();
    let mut out = String::new();
    let mut cases = 0;
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut input = Vec::new();
        for line in lines.by_ref() {
            out.push_str(line);
            out.push('\n');
            if line == "----" {
                break;
            }
            input.push(line);
        }
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.is_empty()) {
            expected.push(line);
        }
        let input = input.join("\n");
        let actual = run_case(line, &input);
        if !rewriting() {
            assert_eq!(actual.trim_end(), expected.join("\n"), "{}: {input}", file.display());
        }
        out.push_str(actual.trim_end());
        out.push('\n');
        cases += 1;
    }
    if rewriting() {
        std::fs::write(file, out).unwrap();
    }
    cases
}

fn run_case(directive: &str, input: &str) -> String {
    let limits = Limits::default();
    let result = match directive {
        "batch" => batch(input, false),
        "spans" => batch(input, true),
        "expression" => {
            parse_expression(input, &limits).map(|tree| dump(&format!("{tree:?}"), false))
        }
        "canonical" => canonical(input),
        "parameterize" => parameterized(input),
        "split" => split_script(input, &limits).map(|statements| {
            let show = |statement: &ScriptStatement| {
                let text = &input[statement.span.range()];
                format!("<{text}>{}\n", if statement.ended { "" } else { " goes on" })
            };
            statements.iter().map(show).collect()
        }),
        other => panic!("unknown directive {other}"),
    };
    match result {
        Ok(text) => text,
        Err(error) => {
            let lines = error.render(input);
            lines.lines().map(|line| format!("! {}\n", line.trim_end())).collect()
        }
    }
}

fn batch(input: &str, spans: bool) -> Result<String, SqlError> {
    let mut out = String::new();
    for parsed in parse_batch(input, &Limits::default())? {
        assert_eq!(parsed.text, &input[parsed.span.range()]);
        out.push_str(&format!("{:?}", parsed.kind()));
        if parsed.parameter_count > 0 {
            out.push_str(&format!(" parameters={}", parsed.parameter_count));
        }
        if spans {
            out.push_str(&format!(" <{}>", parsed.text));
        }
        out.push('\n');
        out.push_str(&dump(&format!("{:?}", parsed.statement), spans));
        out.push('\n');
    }
    match out.is_empty() {
        true => Ok("nothing".to_string()),
        false => Ok(out),
    }
}

/// The canonical text, which must parse to a tree with the same canonical text.
fn canonical(input: &str) -> Result<String, SqlError> {
    let limits = Limits::default();
    let starts = input.trim_start().to_uppercase();
    if starts.starts_with("SELECT") || starts.starts_with("WITH") || starts.starts_with("(SELECT") {
        let text = canonical_query(input)?;
        assert_eq!(canonical_query(&text).unwrap(), text);
        return Ok(text);
    }
    let text = parse_expression(input, &limits)?.to_string();
    assert_eq!(parse_expression(&text, &limits).unwrap().to_string(), text);
    Ok(text)
}

/// The key and the constants, each of which must be a literal of the tree, at the same place.
fn parameterized(input: &str) -> Result<String, SqlError> {
    let limits = Limits::default();
    let Some(parameterized) = parameterize(input, &limits)? else {
        return Ok("as it is".to_string());
    };
    let tree = format!("{:?}", parse_statement(input, &limits)?.statement);
    let mut out = format!("{}\n", parameterized.key);
    for extracted in &parameterized.literals {
        let node = format!("Literal({:?}), span: {:?}", extracted.literal, extracted.span);
        assert!(tree.contains(&node), "{node} in {tree}");
        out.push_str(&format!("{:?} at {}\n", extracted.literal, extracted.span.offset));
    }
    Ok(out)
}

fn canonical_query(input: &str) -> Result<String, SqlError> {
    match parse_statement(input, &Limits::default())?.statement {
        Statement::Query(query) => Ok(query.to_string()),
        other => panic!("not a query: {other:?}"),
    }
}
