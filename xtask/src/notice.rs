//! The file NOTICE: a line for each crate that the program links, with a licence of the crate's.

use crate::finding::Finding;
use crate::tree::Tree;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const FILE: &str = "NOTICE";
/// The heading of the list of crates; the list ends with the first line that is not indented.
const HEADING: &str = "Crates that are linked into the program";
/// What releases are built for: other targets link other crates.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Crates that the program links, by name, with the licences that each offers.
///
/// # Errors
/// `cargo tree` fails.
pub fn read_linked(root: &Path) -> Result<BTreeMap<String, String>, String> {
    let output = Command::new("cargo")
        .args(["tree", "--offline", "--package", "lockstep", "--target", TARGET])
        .args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}|{l}"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cargo tree did not start: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(parse_linked(&String::from_utf8_lossy(&output.stdout)))
}

/// Third-party packages of the lines `name version (folder)|licences`; ours have a folder.
fn parse_linked(text: &str) -> BTreeMap<String, String> {
    let mut linked = BTreeMap::new();
    for line in text.lines() {
        let Some((package, licences)) = line.split_once('|') else { continue };
        let licences = licences.trim_end_matches(" (*)");
        if let (Some(name), false) = (package.split(' ').next(), package.contains('(')) {
            linked.insert(name.to_string(), licences.to_string());
        }
    }
    linked
}

/// Checks NOTICE against what is linked.
pub fn check(tree: &Tree, linked: &BTreeMap<String, String>) -> Vec<Finding> {
    check_text(tree.text(FILE).unwrap_or(""), linked)
}

fn check_text(text: &str, linked: &BTreeMap<String, String>) -> Vec<Finding> {
    let listed = parse_notice(text);
    let mut findings = Vec::new();
    for (name, licences) in linked {
        let offered = || licences.split([' ', '/']).filter(|word| *word != "OR");
        match listed.get(name.as_str()) {
            None => findings.push(finding(1, format!("crate {name} ({licences}) has no line"))),
            Some((line, chosen)) if !offered().any(|offer| offer == *chosen) => {
                findings.push(finding(*line, format!("{name} is offered under {licences}")));
            }
            Some(_) => {}
        }
    }
    for (name, (line, _)) in &listed {
        if !linked.contains_key(*name) {
            findings.push(finding(*line, format!("crate {name} is not linked")));
        }
    }
    findings
}

fn finding(line: usize, message: String) -> Finding {
    Finding::new(FILE, line, "notice", message)
}

/// The crates of the list: their lines and licences.
fn parse_notice(text: &str) -> BTreeMap<&str, (usize, &str)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with(HEADING));
    let list = lines.skip(1).take_while(|(_, line)| line.is_empty() || line.starts_with(' '));
    list.filter_map(|(number, line)| {
        let mut words = line.split_whitespace();
        Some((words.next()?, (number + 1, words.next()?)))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTICE: &str = "LockstepDB\n\nCrates that are linked into the program `lockstep`:\n\n    \
                          one  MIT\n    two  Apache-2.0\n\nThe jar:\n\n    asm  BSD-3-Clause\n";

    #[test]
    fn crates_without_a_line_and_lines_without_a_crate_are_found() {
        let tree = "lockstep v0.1.0 (/a/folder)|Apache-2.0\none v1.0.0|Apache-2.0 OR MIT\n\
                    two v0.3.1|MIT/Apache-2.0 (*)\n";
        let mut linked = parse_linked(tree);
        assert_eq!(linked.len(), 2);
        assert_eq!(check_text(NOTICE, &linked), []);
        linked.insert("three".to_string(), "MIT".to_string());
        linked.insert("two".to_string(), "Unlicense OR MIT".to_string());
        linked.remove("one");
        let found: Vec<String> =
            check_text(NOTICE, &linked).iter().map(|f| f.to_string()).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        for part in ["three (MIT) has no line", "two is offered under", "one is not linked"] {
            assert!(found.iter().any(|text| text.contains(part)), "{part} in {found:?}");
        }
    }
}
