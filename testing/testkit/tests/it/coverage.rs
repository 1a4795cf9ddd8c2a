//! `corpus/coverage.md` names every part of the dialect with the record that shows it: the records
//! are there, and every function that the planner knows is answered in one of them.

use super::{corpus, files};
use lockstep_testkit::slt;
use std::collections::BTreeMap;

/// The corpus: file names without extension, with the text.
fn texts() -> BTreeMap<String, String> {
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().to_string();
        (name, std::fs::read_to_string(&path).expect("a file of the corpus"))
    };
    files("slt", "slt").into_iter().map(read).collect()
}

/// What an item's line says after its name: the file and the piece, or why there is none.
fn shown_by(line: &str) -> Option<Result<(&str, &str), &str>> {
    if let Some((_, reason)) = line.split_once(": not, ") {
        return Some(Err(reason));
    }
    let line = line.trim_end().strip_suffix('`')?;
    let start = line.match_indices(": `").map(|(at, _)| at + 3).find(|at| {
        let name: String = line[*at..].chars().take_while(|c| *c != '`').collect();
        line[at + name.len()..].starts_with("` `")
    })?;
    line[start..].split_once("` `").map(Ok)
}

#[test]
fn every_item_has_its_record() {
    let texts = texts();
    let list = std::fs::read_to_string(corpus().join("coverage.md")).expect("the list");
    let mut sections: Vec<(String, usize, usize)> = Vec::new();
    let mut faults = Vec::new();
    for line in list.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push((title.to_string(), 0, 0));
        }
        let (true, Some(section)) = (line.starts_with("- "), sections.last_mut()) else { continue };
        match shown_by(line) {
            Some(Ok((file, piece))) if texts.get(file).is_some_and(|t| t.contains(piece)) => {
                section.1 += 1;
            }
            Some(Err(reason)) if !reason.is_empty() => section.2 += 1,
            _ => faults.push(line),
        }
    }
    for (title, shown, missing) in &sections {
        println!("{title}: {shown} of {} shown", shown + missing);
    }
    let sum = |count: fn(&(String, usize, usize)) -> usize| sections.iter().map(count).sum();
    let (shown, missing): (usize, usize) = (sum(|s| s.1), sum(|s| s.2));
    println!("in all {shown} of {} shown, {missing} not, with the reason", shown + missing);
    assert!(shown > 300, "the list is not whole");
    assert!(faults.is_empty(), "no such record:\n{}", faults.join("\n"));
}

#[test]
fn every_function_is_answered() {
    let mut answered = String::new();
    let mut refused = String::new();
    for text in texts().values() {
        let [answers, errors] = slt::statements(text).expect("records");
        answered.push_str(&answers.join("\n").to_uppercase());
        answered.push('\n');
        refused.push_str(&errors.join("\n").to_uppercase());
        refused.push('\n');
    }
    let names: Vec<&str> = lockstep_plan::function_names().collect();
    let lacking: Vec<&&str> = names.iter().filter(|name| !calls(&answered, name)).collect();
    let guarded = names.iter().filter(|name| calls(&refused, name)).count();
    println!("functions: {} of {} answered", names.len() - lacking.len(), names.len());
    println!("functions with a record of wrong input: {guarded}");
    assert!(lacking.is_empty(), "no record answers {lacking:?}");
}

/// Whether statements have the name as a word of its own.
fn calls(statements: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '\'';
    statements.match_indices(name).any(|(at, _)| {
        let before = statements[..at].chars().next_back();
        let after = statements[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}
