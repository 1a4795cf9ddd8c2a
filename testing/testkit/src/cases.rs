//! Lists of small statements that differ in one place, each with its answer in the same line.
//!
//! ```text
//! cases SELECT {} FROM t ORDER BY id
//! ABS(a) => INTEGER 7 / 7 / NULL
//! a, a + 1 => INTEGER,BIGINT 7 | 8 / -7 | -6 / NULL | NULL
//! ABS('x') => error incompatible data type
//!
//! cases INSERT INTO t VALUES (1, {}); SELECT a FROM t; DELETE FROM t
//! 127 => TINYINT 127
//! ```
//!
//! Each line's text takes the place of `{}`. An answer shows the types of the columns and then the
//! rows, ` / ` between rows and ` | ` between values; `none` stands for no rows. The counts of
//! changed rows are left out beside other tables; ` ; ` stands between tables. An error shows a
//! part of the message. ` ;; ` in a template stands between calls of their own: all are made, the
//! answer is the first error or what all gave; `ok` stands for schema changes alone.

use crate::configuration::Configuration;
use crate::slt::{execute, show_value};
use lockstep_client::Connection;
use lockstep_client::rows::Table;
use lockstep_types::Value;

/// Where a case's text stands in the template.
const PLACE: &str = "{}";
/// Between a case's text and its answer.
const ARROW: &str = " => ";
/// Between the calls of one case.
const CALLS: &str = " ;; ";
/// How many queries are sent as one batch; a batch that differs is run again one by one.
const QUERIES_AT_ONCE: usize = 16;
/// In front of what the planner says.
const COMPILING: &str = "SQL error while compiling query: ";

/// A record of cases.
#[derive(Debug)]
pub struct Cases {
    /// The statement around the texts.
    template: String,
    /// Texts and answers, those not yet known empty.
    cases: Vec<(String, String)>,
}

impl Cases {
    /// Reads the lines after the header, whose rest is the template.
    #[must_use]
    pub fn read(template: &str, lines: &[&str]) -> Option<Cases> {
        let case = |line: &&str| {
            let (text, answer) = line.split_once(ARROW).unwrap_or((line, ""));
            (text.trim().to_string(), answer.trim().to_string())
        };
        let cases = lines.iter().map(case).collect();
        template.contains(PLACE).then(|| Cases { template: template.to_string(), cases })
    }

    /// How many cases there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cases.len()
    }

    /// The statements, and whether each is refused.
    pub(crate) fn statements(&self) -> impl Iterator<Item = (String, bool)> {
        let is_error = |number: usize| self.cases[number].1.starts_with("error");
        (0..self.cases.len()).map(move |number| (self.statement(number), is_error(number)))
    }

    /// The answers as they are written.
    #[must_use]
    pub fn expected(&self) -> String {
        self.written(|number| self.cases[number].1.clone())
    }

    /// The answers of a server; an error whose text holds what is expected counts as expected.
    #[must_use]
    pub fn answer(&self, connection: &mut Connection, configuration: &Configuration) -> String {
        let mut found: Vec<Option<String>> = vec![None; self.cases.len()];
        let is_query = self.template.starts_with("SELECT") && !self.template.contains(';');
        if is_query {
            let answered = |number: &usize| {
                let answer = &self.cases[*number].1;
                !answer.is_empty() && !answer.starts_with("error ")
            };
            let queries: Vec<usize> = (0..self.cases.len()).filter(answered).collect();
            for batch in queries.chunks(QUERIES_AT_ONCE).filter(|batch| batch.len() > 1) {
                self.answer_batch(connection, configuration, batch, &mut found);
            }
        }
        for (number, answer) in found.iter_mut().enumerate() {
            if answer.is_none() {
                *answer = Some(self.answer_one(connection, configuration, number));
            }
        }
        self.written(|number| found[number].clone().unwrap_or_default())
    }

    /// Takes the answers of queries that all give what they must.
    fn answer_batch(
        &self,
        connection: &mut Connection,
        configuration: &Configuration,
        batch: &[usize],
        found: &mut [Option<String>],
    ) {
        let statements: Vec<String> = batch.iter().map(|number| self.statement(*number)).collect();
        let Ok(tables) = configuration.execute(connection, &(statements.join(";") + ";")) else {
            return;
        };
        if tables.len() == batch.len() {
            for (number, table) in batch.iter().zip(&tables) {
                let shown = show(std::slice::from_ref(table));
                if shown == self.cases[*number].1 {
                    found[*number] = Some(shown);
                }
            }
        }
    }

    fn answer_one(
        &self,
        connection: &mut Connection,
        configuration: &Configuration,
        number: usize,
    ) -> String {
        let statement = self.statement(number);
        let mut tables = Vec::new();
        let mut first_error = None;
        for call in statement.split(CALLS) {
            let result = match call.strip_prefix("exec ") {
                Some(call) => execute(connection, call),
                None => configuration.execute(connection, call),
            };
            match result {
                Ok(given) => tables.extend(given),
                Err(message) => first_error = first_error.or(Some(message)),
            }
        }
        match first_error {
            None => show(&tables),
            Some(message) => match self.cases[number].1.strip_prefix("error ") {
                Some(part) if one_line(&message).contains(part) => self.cases[number].1.clone(),
                _ => format!("error {}", essence(&message)),
            },
        }
    }

    fn statement(&self, number: usize) -> String {
        self.template.replace(PLACE, &self.cases[number].0)
    }

    fn written(&self, answer: impl Fn(usize) -> String) -> String {
        let line = |number: usize| format!("{}{ARROW}{}\n", self.cases[number].0, answer(number));
        (0..self.cases.len()).map(line).collect()
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The message without its frame, in one line.
fn essence(message: &str) -> String {
    let line = one_line(message);
    let unquoted = line.rsplit_once("\" - ").map_or(line.as_str(), |(_, rest)| rest);
    let rest = match line.find("\" unexpected ") {
        Some(at) => line[at + 2..].split(';').next().unwrap_or_default(),
        None => unquoted,
    };
    let rest = rest.trim_start_matches("status -2: ").trim_start_matches("VOLTDB ERROR: ");
    let rest = rest.trim_start_matches("SQL ERROR ").trim_start_matches(COMPILING);
    rest.split(" at line ").next().unwrap_or_default().to_string()
}

fn show(tables: &[Table]) -> String {
    let is_count = |table: &&Table| table.names == ["modified_tuples"];
    let done = [vec![Value::Int(0)]];
    let is_status = |table: &&Table| table.names == ["STATUS"] && table.rows == done;
    let results: Vec<&Table> = tables.iter().filter(|table| !is_status(table)).collect();
    let rows: Vec<&Table> = results.iter().copied().filter(|table| !is_count(table)).collect();
    let told = if rows.is_empty() { results } else { rows };
    match told.is_empty() {
        true => "ok".to_string(),
        false => told.into_iter().map(show_table).collect::<Vec<_>>().join(" ; "),
    }
}

fn show_table(table: &Table) -> String {
    let types: Vec<String> = table.types.iter().map(ToString::to_string).collect();
    let row = |row: &Vec<_>| row.iter().map(show_value).collect::<Vec<_>>().join(" | ");
    let rows: Vec<String> = table.rows.iter().map(row).collect();
    match rows.is_empty() {
        true => format!("{} none", types.join(",")),
        false => format!("{} {}", types.join(","), rows.join(" / ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_texts_with_answers() {
        let cases = Cases::read("SELECT {} FROM t", &["1 + 1 => INTEGER 2", "new"]);
        let cases = cases.expect("a template with a place");
        assert_eq!(cases.count(), 2);
        assert_eq!(cases.statement(0), "SELECT 1 + 1 FROM t");
        assert_eq!(cases.expected(), "1 + 1 => INTEGER 2\nnew => \n");
        assert!(Cases::read("SELECT 1", &[]).is_none());
    }
}
