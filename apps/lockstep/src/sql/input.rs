//! Input of several statements: texts, files and standard input, read line by line.

use super::place;
use super::script::{Piece, ScriptReader};
use super::session::{Flow, Session};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// Most statements that are read before the first of them runs, so that neighbouring queries can
/// be sent together.
const PIECES_AHEAD: usize = 256;
/// Read at once from a file or from standard input.
const BUFFER_BYTES: usize = 64 * 1024;
/// Files that can be open within each other.
const MAX_FILE_DEPTH: usize = 32;

/// Runs texts, then files; standard input if there are neither.
///
/// # Errors
/// A file cannot be read.
pub fn run_all(
    session: &mut Session<'_>,
    texts: &[&String],
    files: &[&String],
) -> Result<Flow, String> {
    if texts.is_empty() && files.is_empty() {
        return run_reader(session, "stdin", io::stdin());
    }
    for text in texts {
        match run_reader(session, "-e", text.as_bytes())? {
            Flow::Continue => {}
            stopped => return Ok(stopped),
        }
    }
    for file in files {
        let opened = File::open(file).map_err(|error| format!("{file}: {error}"))?;
        match run_reader(session, file, opened)? {
            Flow::Continue => {}
            stopped => return Ok(stopped),
        }
    }
    Ok(Flow::Continue)
}

/// `file NAME`: runs the statements of a file, as one batch if so asked.
///
/// # Errors
/// The file cannot be read, or files include each other without end.
pub fn run_file(session: &mut Session<'_>, file: &str, batch: bool) -> Result<Flow, String> {
    if session.file_depth >= MAX_FILE_DEPTH {
        return Err(format!(
            "{file}: files are nested {MAX_FILE_DEPTH} deep, which is the limit: does one include \
             itself?"
        ));
    }
    let opened = File::open(file).map_err(|error| format!("{file}: {error}"))?;
    session.file_depth += 1;
    let flow = if batch {
        io::read_to_string(opened).map_err(|error| format!("{file}: {error}")).map(|text| {
            let piece = Piece { text, line: 1, column: 1, batch: true };
            session.run(file, std::slice::from_ref(&piece))
        })
    } else {
        run_reader(session, file, opened)
    };
    session.file_depth -= 1;
    // `exit` in a file ends the file.
    flow.map(|flow| if flow == Flow::Exit { Flow::Continue } else { flow })
}

/// Runs input as it comes: what is complete runs before more is waited for.
fn run_reader(session: &mut Session<'_>, source: &str, input: impl Read) -> Result<Flow, String> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let mut reader = ScriptReader::default();
    let mut pieces = Vec::new();
    let mut line = String::new();
    loop {
        line.clear();
        let read = input.read_line(&mut line).map_err(|error| format!("{source}: {error}"))?;
        if read == 0 {
            break;
        }
        pieces.extend(reader.push_line(line.trim_end_matches(['\n', '\r'])));
        if pieces.len() >= PIECES_AHEAD || !input.buffer().contains(&b'\n') {
            match session.run(source, &pieces) {
                Flow::Continue => pieces.clear(),
                stopped => return Ok(stopped),
            }
        }
    }
    let rest = reader.finish();
    pieces.extend(rest.as_ref().ok().into_iter().flatten().cloned());
    let flow = session.run(source, &pieces);
    if let (Flow::Continue, Err(error)) = (flow, rest) {
        let offset = Some(error.offset);
        session.report_text(&place::render(source, &error.piece, offset, &error.message));
        return Ok(Flow::Failed);
    }
    Ok(flow)
}
