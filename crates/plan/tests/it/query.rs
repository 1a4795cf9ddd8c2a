//! Plans as scripts: statements in; the plan as EXPLAIN shows it, result columns, parameters and
//! guards, or the refusal, out.
//!
//! A script is a list of blocks, apart by blank lines. A block's first line is `> ` and what is
//! planned: DDL, a statement as sent ad hoc, or `procedure ` and a statement of a procedure that
//! runs at one partition. The lines below are what comes of it.

use lockstep_plan::plan_ir::Statement;
use lockstep_plan::{
    Catalog, Explaining, NativeProcedures, NativeSource, PlanContext, explain, plan_statement,
};
use lockstep_sql::ast::StatementKind;
use lockstep_sql::{Limits, parse_batch, parse_statement};
use std::fmt::Write;

#[test]
fn single_tables() {
    run("single_tables", include_str!("query/single_tables.txt"));
}

#[test]
fn joins() {
    run("joins", include_str!("query/joins.txt"));
}

#[test]
fn partitions() {
    run("partitions", include_str!("query/partitions.txt"));
}

#[test]
fn changes() {
    run("changes", include_str!("query/changes.txt"));
}

#[test]
fn global_indexes() {
    run("global_indexes", include_str!("query/global_indexes.txt"));
}

#[test]
fn types() {
    run("types", include_str!("query/types.txt"));
}

pub struct NoNatives;

impl NativeProcedures for NoNatives {
    fn find(&self, _name: &str) -> Option<NativeSource> {
        None
    }
}

fn run(name: &str, script: &str) {
    let mut catalog = Catalog::default();
    let mut actual = String::new();
    for block in script.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let head = block.lines().take_while(|line| line.starts_with("# ")).count();
        let lines: Vec<&str> = block.lines().collect();
        for line in &lines[..=head] {
            writeln!(actual, "{line}").expect("text");
        }
        let command = lines[head].strip_prefix("> ").expect("a block has a command");
        writeln!(actual, "{}\n", answer(&mut catalog, command).trim_end()).expect("text");
    }
    let (expected, actual) = (script.trim(), actual.trim());
    assert!(
        actual == expected,
        "script {name} differs at line {}; it now gives:\n\n{actual}\n",
        expected.lines().zip(actual.lines()).take_while(|(a, b)| a == b).count() + 1
    );
}

fn answer(catalog: &mut Catalog, command: &str) -> String {
    let (context, sql) = match command.strip_prefix("procedure ") {
        Some(sql) => (PlanContext::SinglePartition, sql),
        None => (PlanContext::MultiPartition, command),
    };
    let limits = Limits::default();
    let batch = match parse_batch(sql, &limits) {
        Ok(batch) => batch,
        Err(error) => return format!("no SQL: {error}"),
    };
    if batch.iter().all(|statement| statement.kind() == StatementKind::Ddl) {
        return match catalog.apply(&batch, &NoNatives) {
            Ok(change) => {
                *catalog = change.catalog;
                "done".to_string()
            }
            Err(error) => format!("refused: {error}"),
        };
    }
    let statement = parse_statement(sql, &limits).expect("it was parsed above");
    match plan_statement(catalog, &statement, context) {
        Ok(plan) => text(catalog, &plan, context),
        Err(error) => {
            let place =
                error.span.map_or_else(String::new, |span| format!(" (at column {})", span.column));
            format!("refused: {error}{place}")
        }
    }
}

fn text(catalog: &Catalog, plan: &Statement, context: PlanContext) -> String {
    let explaining = Explaining {
        catalog,
        planning: &catalog.planning,
        in_procedure: context == PlanContext::SinglePartition,
        partition_of: &|_| None,
        counts: &[],
    };
    let mut text = format!("{}\n", explain(plan, &explaining));
    let columns: Vec<String> = plan
        .result
        .names()
        .iter()
        .zip(plan.result.types())
        .map(|(name, sql_type)| format!("{name} {sql_type}"))
        .collect();
    if plan.read_only {
        writeln!(text, "gives {}", columns.join(", ")).expect("text");
    }
    if !plan.parameters.is_empty() {
        let parameters: Vec<String> = plan
            .parameters
            .iter()
            .map(|p| format!("{}{}", p.sql_type, if p.is_array { "[]" } else { "" }))
            .collect();
        writeln!(text, "takes {}", parameters.join(", ")).expect("text");
    }
    for guard in &plan.guards {
        let value = match &guard.value {
            Some(value) => format!("{:?}", value.node),
            None => "unrestricted".to_string(),
        };
        writeln!(text, "guards {}: {value}", guard.table_name).expect("text");
    }
    text
}
