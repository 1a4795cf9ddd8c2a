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
    Ok(())
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
