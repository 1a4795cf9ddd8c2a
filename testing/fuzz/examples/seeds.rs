//! Writes the inputs that fuzzing starts from to `corpus/<target>`, out of the records in the
//! repository's `corpus/`. Run it before a first run, and after records changed.

use std::fs;
use std::io;
use std::path::Path;

/// Targets with the record files that make their seeds.
const SEEDS: &[(&str, &[&str])] = &[
    ("wire_request", &["login", "invocations"]),
    ("wire_response", &["responses"]),
    ("table_view", &["tables"]),
    ("log_entry", &["log_entries"]),
];

fn main() -> io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (target, files) in SEEDS {
        let folder = here.join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        for file in *files {
            let text = fs::read_to_string(here.join(format!("../../corpus/wire/{file}.txt")))?;
            for (number, bytes) in records(&text).into_iter().enumerate() {
                fs::write(folder.join(format!("{file}-{number}")), bytes)?;
            }
        }
    }
    for target in ["sql_parse", "sql_bind"] {
        let folder = here.join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        for (number, statement) in statements(&here.join("../../corpus/slt"))?.iter().enumerate() {
            fs::write(folder.join(format!("slt-{number}")), statement)?;
        }
    }
    Ok(())
}

/// The SQL of every record of the SQL corpus.
fn statements(folder: &Path) -> io::Result<Vec<String>> {
    let mut statements = Vec::new();
    for entry in fs::read_dir(folder)? {
        let text = fs::read_to_string(entry?.path())?;
        for record in text.split("\n\n") {
            let lines = record.lines().skip_while(|line| {
                ["#", "skipif", "onlyif", "statement", "query"].iter().any(|w| line.starts_with(w))
            });
            let sql: Vec<&str> = lines.take_while(|line| *line != "----").collect();
            statements.push(sql.join("\n"));
        }
    }
    Ok(statements)
}

/// The bytes of each record: its indented lines, up to the meaning behind `=`.
fn records(text: &str) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut digits = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(hex) = line.strip_prefix("  ") {
            digits.extend(hex.chars().filter(|c| !c.is_whitespace()));
        } else if line.starts_with('=') {
            let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).ok();
            records.push((0..digits.len()).step_by(2).filter_map(byte).collect());
            digits.clear();
        }
    }
    records
}
