//! The terminal: line editing, statements of several lines, and a history that is kept.

use super::completion::SqlHelper;
use super::script::ScriptReader;
use super::session::{Flow, Session};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use std::path::PathBuf;

const MAX_HISTORY: usize = 10_000;

/// Where the history is kept: `$XDG_STATE_HOME/lockstep/history`, else `~/.lockstep_history`.
fn history_file() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    match folder("XDG_STATE_HOME") {
        Some(state) => {
            let path = PathBuf::from(state).join("lockstep");
            std::fs::create_dir_all(&path).ok()?;
            Some(path.join("history"))
        }
        None => Some(PathBuf::from(folder("HOME")?).join(".lockstep_history")),
    }
}

/// Reads and runs statements until the end of the input or `exit`.
///
/// # Errors
/// The terminal cannot be used.
pub fn run(session: &mut Session<'_>, server: &str) -> Result<(), String> {
    let failed = |error: ReadlineError| format!("the terminal cannot be used: {error}");
    let config = Config::builder().max_history_size(MAX_HISTORY).map_err(failed)?;
    let config = config.completion_type(CompletionType::List).build();
    let mut editor: Editor<SqlHelper, FileHistory> = Editor::with_config(config).map_err(failed)?;
    let history = history_file();
    if let Some(path) = &history {
        // The first session has none.
        let _ = editor.load_history(path);
    }
    println!("lockstep sql, connected to {server}; `help` lists commands, `exit` leaves");
    let mut reader = ScriptReader::default();
    let mut entry = String::new();
    loop {
        let before = if reader.is_open() { entry.clone() } else { String::new() };
        // The schema may have changed with what ran last.
        let names = session.names();
        editor.set_helper(Some(SqlHelper { names, before }));
        let prompt = if reader.is_open() { "     ...> " } else { "lockstep> " };
        match editor.readline(prompt) {
            Ok(line) => {
                entry.push_str(&line);
                entry.push('\n');
                let pieces = reader.push_line(&line);
                if !reader.is_open() {
                    // A statement of several lines comes back as one entry.
                    let _ = editor.add_history_entry(entry.trim());
                    entry.clear();
                }
                if session.run("line", &pieces) == Flow::Stop {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => {
                reader.abandon();
                entry.clear();
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        }
    }
    if let Some(path) = &history
        && let Err(error) = editor.save_history(path)
    {
        eprintln!("lockstep: the history is not kept in {}: {error}", path.display());
    }
    Ok(())
}
