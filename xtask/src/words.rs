//! Words that the project does not use any more, and what it writes in their place.
//!
//! Text that was written before the list keeps them until somebody works on it: `xtask/words.txt`
//! has the number of uses in each file, which may fall and never rise. `cargo xtask words` writes
//! it again with the numbers that have fallen.

use std::collections::BTreeMap;
use std::path::Path;

use crate::finding::Finding;
use crate::lexer;
use crate::tree::Tree;

/// A word or phrase, in lower case, and what to write.
const WORDS: &[(&str, &str)] = &[
    ("announced", "prefetched, or the verb that is meant"),
    ("anew", "again"),
    ("ask ahead", "prefetch"),
    ("behind", "after, following; depends on"),
    ("hand over", "forward, transfer"),
    ("handed over", "forwarded, transferred"),
    ("hands over", "forwards, transfers"),
    ("has room", "has space, has capacity"),
    ("leg", "hop (of a request), unit (of work)"),
    ("legs", "hops (of a request), units (of work)"),
    ("misled", "stale routing"),
    ("outgrown", "misrouted after a schema change"),
    ("so many", "N, or the number that is meant"),
    ("strangers", "partitions that are not enlisted"),
    ("take back", "undo, roll back"),
    ("taken back", "undone, rolled back"),
    ("takes back", "undoes, rolls back"),
    ("told", "reported, notified"),
    ("under way", "in progress, in flight"),
    ("whoever", "the user, the caller, the thread that"),
];

/// Where the numbers of uses are kept.
const LIMITS: &str = "xtask/words.txt";
/// Dated records, and what is about words: they stay as they were written.
const LEFT_ALONE: &[&str] = &["CHANGELOG.md", "docs/decisions/", "corpus/", "xtask/src/words.rs"];
/// How the first line of the file explains itself.
const HEAD: &str = "# Uses of words that new text does not have (cargo xtask words lowers them)";

/// Lines where each word is used in each file.
type Uses<'t> = BTreeMap<(&'t str, &'static str), Vec<usize>>;

/// Checks that no file has more of these words than it had.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let limits = match read_limits(tree.text(LIMITS).unwrap_or("")) {
        Ok(limits) => limits,
        Err(line) => {
            let message = "this line is not `COUNT PATH WORD`".to_string();
            return vec![Finding::new(LIMITS, line, "words", message)];
        }
    };
    let mut findings = Vec::new();
    for ((path, word), lines) in &uses(tree) {
        let limit = limits.get(&(path.to_string(), word.to_string())).copied().unwrap_or(0);
        if lines.len() <= limit {
            continue;
        }
        let write = WORDS.iter().find(|(known, _)| known == word).map_or("", |(_, write)| write);
        for line in lines {
            let message = format!(
                "\"{word}\" {} times > {limit} (write: {write}), here among others",
                lines.len()
            );
            findings.push(Finding::new(path, *line, "words", message));
        }
    }
    findings
}

/// Writes the file of limits again: each is at most what it was, and no more than is used.
///
/// # Errors
/// The file cannot be read or written.
pub fn lower(root: &Path, tree: &Tree) -> Result<(), String> {
    let text = tree.text(LIMITS);
    let limits = read_limits(text.unwrap_or("")).map_err(|line| format!("{LIMITS}:{line}"))?;
    let mut lines = vec![HEAD.to_string()];
    for ((path, word), used) in &uses(tree) {
        let limit = limits.get(&(path.to_string(), word.to_string())).copied();
        // The first file takes in all that there is.
        let limit = if text.is_none() { used.len() } else { limit.unwrap_or(0).min(used.len()) };
        if limit > 0 {
            lines.push(format!("{limit} {path} {word}"));
        }
    }
    lines.push(String::new());
    std::fs::write(root.join(LIMITS), lines.join("\n")).map_err(|e| format!("{LIMITS}: {e}"))
}

/// The limits by path and word; an error is the line that cannot be read.
fn read_limits(text: &str) -> Result<BTreeMap<(String, String), usize>, usize> {
    let mut limits = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#')) {
        let mut parts = line.splitn(3, ' ');
        let (count, path, word) = (parts.next(), parts.next(), parts.next());
        match (count.and_then(|count| count.parse().ok()), path, word) {
            (Some(count), Some(path), Some(word)) => {
                limits.insert((path.to_string(), word.to_string()), count);
            }
            _ => return Err(number),
        }
    }
    Ok(limits)
}

fn uses(tree: &Tree) -> Uses<'_> {
    let mut uses = Uses::new();
    for (path, text) in &tree.files {
        if LEFT_ALONE.iter().any(|kept| path.starts_with(kept)) {
            continue;
        }
        let prose = match path.rsplit_once('.') {
            Some((_, "rs")) => prose_of(text),
            Some((_, "md")) => text.clone(),
            _ => continue,
        };
        let prose = prose.to_ascii_lowercase();
        for (word, _) in WORDS {
            let found: Vec<usize> =
                lexer::word_positions(&prose, word).map(|at| lexer::line_of(&prose, at)).collect();
            if !found.is_empty() {
                uses.insert((path, *word), found);
            }
        }
    }
    uses
}

/// The comments and the contents of literals of a Rust source, its code blanked.
fn prose_of(source: &str) -> String {
    let code = lexer::mask(source).code;
    let kept = source.bytes().zip(code.bytes());
    let bytes = kept.map(|(byte, code)| if code == b' ' || byte == b'\n' { byte } else { b' ' });
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "/// Runs anew.\nfn behind() { log(\"it is Behind\") } // behind\n";

    fn messages(limits: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&[("crates/a/src/lib.rs", SOURCE), (LIMITS, limits)]);
        check(&tree).into_iter().map(|finding| (finding.line, finding.message)).collect()
    }

    #[test]
    fn words_in_comments_and_literals_count_and_names_in_code_do_not() {
        let found = messages("");
        let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 2], "{found:?}");
        assert!(found[1].1.starts_with("\"behind\" 2 times > 0 (write: after"), "{found:?}");
    }

    #[test]
    fn what_a_file_had_before_is_let_through() {
        let had = "# head\n1 crates/a/src/lib.rs anew\n2 crates/a/src/lib.rs behind\n";
        assert_eq!(messages(had), []);
        let fewer = had.replace("2 ", "1 ");
        assert_eq!(messages(&fewer).len(), 2);
        assert_eq!(messages("x y\n"), [(1, "this line is not `COUNT PATH WORD`".to_string())]);
    }

    #[test]
    fn records_of_the_past_keep_their_words() {
        let text = "It runs anew.";
        let tree = Tree::of(&[("docs/decisions/a.md", text), ("CHANGELOG.md", text)]);
        assert!(check(&tree).is_empty());
        assert_eq!(check(&Tree::of(&[("docs/a.md", text)])).len(), 1);
    }
}
