//! What the word before the cursor may become: statements and commands at a line's start, tables,
//! columns and procedures where they are wanted, and words of the grammar.

use super::command;
use lockstep_client::rows::Table;
use lockstep_types::Value;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::cell::Cell;
use std::collections::BTreeMap;

/// What a line may begin with.
const BEGINNINGS: [&str; 28] = [
    "ALTER",
    "CREATE",
    "DELETE",
    "DESCRIBE",
    "DROP",
    "ECHO",
    "ECHOERROR",
    "EXEC",
    "EXIT",
    "EXPLAIN",
    "EXPLAINPROC",
    "EXPLAINVIEW",
    "FILE",
    "HELP",
    "HISTORY",
    "INSERT",
    "LIST",
    "PARTITION",
    "QUERYSTATS",
    "QUIT",
    "RECALL",
    "SELECT",
    "SHOW",
    "TRUNCATE",
    "UPDATE",
    "UPSERT",
    "VALUES",
    "WITH",
];
/// The names of a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Columns by table, both in upper case.
    pub tables: BTreeMap<String, Vec<String>>,
    /// Procedures as the server has them.
    pub procedures: Vec<String>,
}

fn column_of<'t>(table: &'t Table, name: &str) -> impl Fn(&'t [Value]) -> Option<&'t str> {
    let place = table.names.iter().position(|n| n == name);
    move |row| match row.get(place?)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

impl Names {
    /// The names in the catalog's tables COLUMNS and PROCEDURES.
    pub fn read(columns: &Table, procedures: &Table) -> Names {
        let mut names = Names::default();
        let (table, column) = (column_of(columns, "TABLE_NAME"), column_of(columns, "COLUMN_NAME"));
        for row in &columns.rows {
            if let (Some(table), Some(column)) = (table(row), column(row)) {
                names.tables.entry(table.to_string()).or_default().push(column.to_string());
            }
        }
        let procedure = column_of(procedures, "PROCEDURE_NAME");
        names
            .procedures
            .extend(procedures.rows.iter().filter_map(|r| procedure(r)).map(str::to_string));
        names
    }
}

/// Completes lines.
#[derive(Debug, Default)]
pub struct SqlHelper {
    /// What there is to name.
    pub names: Names,
    /// What stands in the lines before of the same statement.
    pub before: String,
    /// Whether the line that is edited has text.
    pub has_text: Cell<bool>,
}

impl Helper for SqlHelper {}
impl Highlighter for SqlHelper {}
impl Validator for SqlHelper {}
impl Hinter for SqlHelper {
    type Hint = String;

    /// Gives no hints; it sees every state of the line.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.has_text.set(!line.trim().is_empty());
        None
    }
}

impl Completer for SqlHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let line = &line[..line.floor_char_boundary(cursor)];
        Ok(complete(&self.before, line, &self.names))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The place in `line` that the candidates go to, and the candidates. `line` ends at the cursor;
/// `before` is what stands in front of it.
pub fn complete(before: &str, line: &str, names: &Names) -> (usize, Vec<String>) {
    let is_name = |c: char| is_word(c) || c == '@' || c == '.';
    let start = line
        .rfind(|c: char| !is_name(c))
        .map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
    let typed = &line[start..];
    let text = format!("{before}\n{}", &line[..start]).to_ascii_uppercase();
    // Within quotes and comments nothing is a name.
    if text.matches('\'').count() % 2 == 1
        || text.rsplit('\n').next().is_some_and(|l| l.contains("--"))
    {
        return (start, Vec::new());
    }
    let statement = text.rsplit(';').next().unwrap_or(&text);
    let words: Vec<&str> =
        statement.split(|c: char| !is_word(c)).filter(|w| !w.is_empty()).collect();
    let last = statement.trim_end().rsplit(|c: char| !is_word(c) && c != ',').next().unwrap_or("");
    let listed: Vec<String> =
        command::listed_words().map(|word| word.to_ascii_uppercase()).collect();
    let mut found: Vec<&str> = Vec::new();
    match (words.first().copied(), last) {
        (Some("EXEC" | "EXECUTE" | "EXPLAINPROC"), _) if words.len() == 1 => {
            let prefix = typed.to_ascii_uppercase();
            let is_meant = |name: &&String| name.to_ascii_uppercase().starts_with(&prefix);
            return (start, names.procedures.iter().filter(is_meant).cloned().collect());
        }
        (Some("EXEC" | "EXECUTE" | "EXPLAINPROC"), _) => return (start, Vec::new()),
        (Some("SHOW" | "LIST"), _) if words.len() == 1 => {
            found.extend(listed.iter().map(String::as_str))
        }
        (None, _) => found.extend(BEGINNINGS),
        (
            _,
            "FROM" | "JOIN" | "INTO" | "UPDATE" | "TABLE" | "DESCRIBE" | "DESC" | "EXPLAINVIEW",
        ) => {
            found.extend(names.tables.keys().map(String::as_str));
        }
        _ => {
            let whole = format!("{before}\n{line}").to_ascii_uppercase();
            let tables = tables_of(&whole, names);
            if let Some((owner, _)) = typed.rsplit_once('.') {
                let owner = owner.to_ascii_uppercase();
                let columns = tables.iter().filter(|(name, _)| *name == owner).flat_map(|t| t.1);
                let start = start + owner.len() + 1;
                let typed = &line[start..];
                return (start, matching(typed, columns.map(String::as_str).collect()));
            }
            found.extend(tables.iter().flat_map(|(_, columns)| *columns).map(String::as_str));
            if tables.is_empty() {
                found.extend(names.tables.values().flatten().map(String::as_str));
            }
            found.extend(names.tables.keys().map(String::as_str));
            // Words of the grammar would be all of it, if nothing were typed.
            if !typed.is_empty() {
                found.extend(lockstep_sql::keywords().map(|word| -> &str { word }));
            }
        }
    }
    (start, matching(typed, found))
}

/// The tables that a statement names, by their names and by those that it gives them.
fn tables_of<'n>(statement: &str, names: &'n Names) -> Vec<(String, &'n Vec<String>)> {
    let words: Vec<&str> =
        statement.split(|c: char| !is_word(c)).filter(|w| !w.is_empty()).collect();
    let mut tables = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let Some(columns) = names.tables.get(*word) else { continue };
        tables.push((word.to_string(), columns));
        let alias = match words.get(place + 1) {
            Some(&"AS") => words.get(place + 2),
            other => other,
        };
        if let Some(alias) = alias {
            tables.push((alias.to_string(), columns));
        }
    }
    tables.dedup_by(|a, b| a.0 == b.0);
    tables
}

/// Those that begin with what is typed, in its case, each once.
fn matching(typed: &str, candidates: Vec<&str>) -> Vec<String> {
    let prefix = typed.to_ascii_uppercase();
    let lower = !typed.chars().any(char::is_uppercase);
    let mut found: Vec<String> = candidates
        .into_iter()
        .filter(|candidate| candidate.starts_with(&prefix))
        .map(|candidate| if lower { candidate.to_lowercase() } else { candidate.to_string() })
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|candidate| seen.insert(candidate.clone()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        let columns = |columns: &[&str]| columns.iter().map(|c| c.to_string()).collect();
        names.tables.insert("ACCOUNT".to_string(), columns(&["ID", "OWNER", "BALANCE"]));
        names.tables.insert("ORDERS".to_string(), columns(&["ID", "TOTAL"]));
        names.procedures = vec!["ACCOUNT.insert".to_string(), "Vote".to_string()];
        names
    }

    #[test]
    fn words_are_completed_by_what_stands_before_them() {
        let names = names();
        for (before, line, start, found) in [
            ("", "sel", 0, &["select"][..]),
            ("", "SHO", 0, &["SHOW"]),
            ("", "show t", 5, &["tables", "tasks", "topics"]),
            ("", "select * from a", 14, &["account"]),
            ("", "select * from ", 14, &["account", "orders"]),
            ("", "insert into O", 12, &["ORDERS"]),
            ("", "describe ", 9, &["account", "orders"]),
            ("", "exec vo", 5, &["Vote"]),
            ("", "exec account.", 5, &["ACCOUNT.insert"]),
            ("", "exec Vote a", 10, &[]),
            ("", "select * from account where bala", 28, &["balance"]),
            ("", "select o. from orders o where o.to", 32, &["total"]),
            ("", "select a.b from account as a where a.o", 37, &["owner"]),
            ("select * from account", "where ow", 6, &["owner"]),
            ("", "select 1; sel", 10, &["select"]),
            ("", "select 'from ", 13, &[]),
            ("", "-- from ", 8, &[]),
            ("", "select tota", 7, &["total"]),
        ] {
            let (at, candidates) = complete(before, line, &names);
            assert_eq!(
                (at, candidates),
                (start, found.iter().map(|f| f.to_string()).collect()),
                "{line}"
            );
        }
        let (_, found) = complete("", "select * from account order b", &names);
        assert!(found.contains(&"by".to_string()) && found.contains(&"balance".to_string()));
    }

    #[test]
    fn any_text_can_stand_before_the_cursor() {
        for line in ["é", "select é", "€.", "..", "'", "@", "select \u{1f600}."] {
            complete("", line, &names());
        }
    }
}
