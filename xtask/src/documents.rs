//! Documents and code say the same: links lead somewhere, named paths and functions exist, and
//! every crate is in ARCHITECTURE.md.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::lexer;
use crate::tree::Tree;

/// What a newcomer finds at the root.
const ROOT_DOCUMENTS: &[&str] =
    &["README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"];
/// Folders that a path in a document may start with.
const TOP_FOLDERS: &[&str] =
    &["crates", "apps", "testing", "corpus", "java", "docs", "xtask", ".ci", ".cargo"];
/// Where workspace packages live, each in a folder of its own.
const PACKAGE_PARENTS: &[&str] = &["crates/", "apps/", "testing/"];
/// First parts of Rust paths that are not ours.
const FOREIGN_ROOTS: &[&str] = &["std", "core", "alloc", "clippy", "org", "sqlparser", "mio"];
/// Words that introduce a named item in code.
const DEFINING_WORDS: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "union", "macro_rules!"];

/// Checks all documents of the tree.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in ROOT_DOCUMENTS {
        if !tree.exists(name) {
            findings.push(Finding::new(name, 1, "root document", "missing"));
        }
    }
    if let Some(text) = tree.text("ARCHITECTURE.md") {
        check_packages_named(tree, text, &mut findings);
    }
    let definitions = Definitions::collect(tree);
    for (path, text) in tree.files.iter().filter(|(path, _)| path.ends_with(".md")) {
        let lines = prose_lines(text);
        check_links(tree, path, &lines, &mut findings);
        if path == "ARCHITECTURE.md" || path.starts_with("docs/life-of") {
            check_code_spans(tree, &definitions, path, &lines, &mut findings);
        }
    }
    findings
}

fn check_packages_named(tree: &Tree, text: &str, findings: &mut Vec<Finding>) {
    for folder in tree.packages() {
        let counts = folder == "xtask" || PACKAGE_PARENTS.iter().any(|p| folder.starts_with(p));
        let short = folder.rsplit('/').next().unwrap_or(folder);
        let named = [folder, short].iter().any(|name| {
            text.match_indices(name).any(|(at, _)| is_whole_name(text, at, name.len()))
        });
        if counts && !named {
            let message = format!("`{folder}` is not named");
            findings.push(Finding::new("ARCHITECTURE.md", 1, "package without a place", message));
        }
    }
}

/// Whether the name at `at` is not a part of a longer one (`plan` in `plan-ir`).
fn is_whole_name(text: &str, at: usize, length: usize) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let before = text[..at].chars().next_back().is_some_and(part);
    let after = text[at + length..].chars().next().is_some_and(part);
    !before && !after
}

/// The lines of a document with their numbers, those of code blocks left out.
fn prose_lines(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut inside_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside_block = !inside_block;
        } else if !inside_block {
            lines.push((index + 1, line));
        }
    }
    lines
}

fn check_links(tree: &Tree, path: &str, lines: &[(usize, &str)], findings: &mut Vec<Finding>) {
    for (number, line) in lines {
        for target in link_targets(line) {
            if let Some(message) = broken_link(tree, path, &target) {
                findings.push(Finding::new(path, *number, "link", message));
            }
        }
    }
}

/// The targets of `[text](target)` in a line, code spans left out.
fn link_targets(line: &str) -> Vec<String> {
    let mut plain = String::new();
    for (index, part) in line.split('`').enumerate() {
        plain.push_str(if index % 2 == 0 { part } else { "x" });
    }
    let mut targets = Vec::new();
    for (at, _) in plain.match_indices("](") {
        let rest = &plain[at + 2..];
        if let Some(end) = rest.find(')') {
            let target = rest[..end].split_whitespace().next().unwrap_or_default();
            targets.push(target.to_string());
        }
    }
    targets
}

fn broken_link(tree: &Tree, path: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let resolved = if file.is_empty() { path.to_string() } else { resolve(path, file)? };
    if resolved.starts_with("../") {
        return None; // outside the repository: nothing to check against
    }
    if !tree.exists(&resolved) {
        return Some(format!("{target} leads to {resolved}, which does not exist"));
    }
    let text = tree.text(&resolved).filter(|_| resolved.ends_with(".md"))?;
    let known = prose_lines(text).into_iter().filter_map(|(_, line)| heading_anchor(line));
    if !anchor.is_empty() && !known.into_iter().any(|name| name == anchor) {
        return Some(format!("{target}: {resolved} has no heading #{anchor}"));
    }
    None
}

/// `target` as seen from the folder of `path`; `..` beyond the root stays in front.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchor that code hosts make of a heading.
fn heading_anchor(line: &str) -> Option<String> {
    let title = line.trim_start_matches('#');
    if title.len() == line.len() || !title.starts_with(' ') {
        return None;
    }
    let mut anchor = String::new();
    for c in title.trim().to_lowercase().chars() {
        if c.is_alphanumeric() || c == '-' || c == '_' {
            anchor.push(c);
        } else if c == ' ' {
            anchor.push('-');
        }
    }
    Some(anchor)
}

/// Names that the workspace's Rust files define.
struct Definitions {
    everywhere: BTreeSet<String>,
    by_file: Vec<(String, BTreeSet<String>)>,
}

impl Definitions {
    fn collect(tree: &Tree) -> Definitions {
        let mut definitions = Definitions { everywhere: BTreeSet::new(), by_file: Vec::new() };
        for (path, text) in tree.files.iter().filter(|(path, _)| path.ends_with(".rs")) {
            let names = defined_names(&lexer::mask(text).code);
            definitions.everywhere.extend(names.iter().cloned());
            definitions.by_file.push((path.clone(), names));
        }
        definitions
    }

    /// Whether a file below `folder` (or named `folder`) defines `name`.
    fn below(&self, folder: &str, name: &str) -> bool {
        let prefix = format!("{folder}/");
        let inside = |path: &str| path.starts_with(&prefix) || path == folder;
        self.by_file.iter().any(|(path, names)| inside(path) && names.contains(name))
    }

    /// The names of all files whose path ends with `suffix`; empty if there is no such file.
    fn files_ending(&self, suffix: &str) -> Vec<&BTreeSet<String>> {
        let tail = format!("/{suffix}");
        let matches = |path: &str| path == suffix || path.ends_with(&tail);
        self.by_file.iter().filter(|(path, _)| matches(path)).map(|(_, names)| names).collect()
    }
}

fn defined_names(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in code.lines() {
        let mut words = line.split_whitespace().peekable();
        while let Some(word) = words.next() {
            if DEFINING_WORDS.contains(&word)
                && let Some(next) = words.peek()
            {
                names.insert(identifier(next));
            }
        }
    }
    // Variants and fields open their line.
    for line in code.lines().map(str::trim_start) {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let name = identifier(line);
        let rest = line[name.len()..].trim_start();
        if !name.is_empty() && rest.starts_with([',', '(', '{', ':', '=']) {
            names.insert(name);
        }
    }
    names.remove("");
    names
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn check_code_spans(
    tree: &Tree,
    definitions: &Definitions,
    path: &str,
    lines: &[(usize, &str)],
    findings: &mut Vec<Finding>,
) {
    for (number, line) in lines {
        for span in line.split('`').skip(1).step_by(2) {
            if let Some(message) = stale_span(tree, definitions, span.trim()) {
                findings.push(Finding::new(path, *number, "stale name", message));
            }
        }
    }
}

/// Why a code span names something that is gone, if it does.
fn stale_span(tree: &Tree, definitions: &Definitions, span: &str) -> Option<String> {
    if span.contains(['<', '*', '{', '$']) || span.starts_with("../") {
        return None;
    }
    if let Some((file, name)) = span.split_once(": ").filter(|(file, _)| file.ends_with(".rs")) {
        return stale_file_item(definitions, file, identifier(name));
    }
    if span.contains(char::is_whitespace) {
        return None;
    }
    let top = span.split('/').next().unwrap_or_default();
    if span.contains('/') && TOP_FOLDERS.contains(&top) {
        let missing = !tree.exists(span);
        return missing.then(|| format!("`{span}` does not exist"));
    }
    if span.contains("::") && !span.contains("://") {
        return stale_rust_path(tree, definitions, span);
    }
    None
}

fn stale_file_item(definitions: &Definitions, file: &str, name: String) -> Option<String> {
    let files = definitions.files_ending(file);
    if files.is_empty() {
        return Some(format!("there is no file {file}"));
    }
    let known = files.iter().any(|names| names.contains(&name));
    (!known).then(|| format!("{file} has no `{name}`"))
}

fn stale_rust_path(tree: &Tree, definitions: &Definitions, span: &str) -> Option<String> {
    let parts: Vec<String> = span.split("::").map(identifier).collect();
    let (first, last) = (parts.first()?, parts.last()?);
    if FOREIGN_ROOTS.contains(&first.as_str()) || last.is_empty() {
        return None;
    }
    let short = first.strip_prefix("lockstep_").unwrap_or(first).replace('_', "-");
    let folder = PACKAGE_PARENTS
        .iter()
        .map(|parent| format!("{parent}{short}"))
        .find(|folder| tree.exists(&format!("{folder}/Cargo.toml")));
    let known = match &folder {
        Some(folder) => parts[1..].iter().all(|part| is_module_or_item(definitions, folder, part)),
        None => parts.iter().all(|part| definitions.everywhere.contains(part)),
    };
    (!known).then(|| match folder {
        Some(folder) => format!("{folder} does not define `{span}`"),
        None => format!("nothing defines `{span}`"),
    })
}

fn is_module_or_item(definitions: &Definitions, folder: &str, name: &str) -> bool {
    definitions.below(folder, name)
        || definitions.by_file.iter().any(|(path, _)| {
            path.starts_with(&format!("{folder}/"))
                && (path.ends_with(&format!("/{name}.rs")) || path.contains(&format!("/{name}/")))
        })
}

#[cfg(test)]
mod tests;
