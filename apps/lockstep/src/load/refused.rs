//! Records that were refused: counted, shown, and kept in a file.

use crate::csv::Dialect;
use crate::csv::writer::{Rules, write_text};
use std::fs::File;
use std::io::{BufWriter, Write};

/// Refused records that are shown; more stand in the file only.
const SHOWN: u64 = 10;

/// Where refused records go.
pub struct Refused {
    /// What the input is called.
    source: String,
    file: Option<(String, BufWriter<File>)>,
    /// How many so far.
    pub count: u64,
    line: Vec<u8>,
}

impl Refused {
    /// Writes to a file if one is named.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(source: &str, file: Option<&str>) -> Result<Refused, String> {
        let file = file.map(|name| {
            let failed = |error: std::io::Error| format!("{name}: {error}");
            let mut file = BufWriter::new(File::create(name).map_err(failed)?);
            file.write_all(b"line,reason,record\n").map_err(failed)?;
            Ok::<_, String>((name.to_string(), file))
        });
        let file = file.transpose()?;
        Ok(Refused { source: source.to_string(), file, count: 0, line: Vec::new() })
    }

    /// Takes note of a record; the column is 0 where only the line is known.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(
        &mut self,
        (line, column): (u64, u64),
        reason: &str,
        text: &[u8],
    ) -> Result<(), String> {
        self.count += 1;
        if self.count <= SHOWN {
            let place = match column {
                0 => format!("{}:{line}", self.source),
                column => format!("{}:{line}:{column}", self.source),
            };
            eprintln!("{place}: {reason}");
            if self.count == SHOWN && self.file.is_none() {
                eprintln!("further refused records are counted; --errors-file keeps them all");
            }
        }
        let Some((name, file)) = &mut self.file else { return Ok(()) };
        let rules =
            Rules { dialect: Dialect::default(), null: String::new(), read_as_null: Vec::new() };
        self.line.clear();
        self.line.extend_from_slice(line.to_string().as_bytes());
        for text in [reason, &String::from_utf8_lossy(text)] {
            self.line.push(b',');
            write_text(&mut self.line, text, &rules)?;
        }
        self.line.push(b'\n');
        file.write_all(&self.line).map_err(|error| format!("{name}: {error}"))
    }

    /// Writes what is left to the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(&mut self) -> Result<(), String> {
        match &mut self.file {
            Some((name, file)) => file.flush().map_err(|error| format!("{name}: {error}")),
            None => Ok(()),
        }
    }
}
