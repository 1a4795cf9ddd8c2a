//! The terminal: line editing, statements of several lines, and a history that is kept.

use super::completion::SqlHelper;
use super::link::Interrupt;
use super::script::ScriptReader;
use super::session::{Flow, Session};
use rustyline::error::ReadlineError;
use rustyline::history::{FileHistory, History, SearchDirection};
use rustyline::{CompletionType, Config, Editor};
use std::path::PathBuf;

const MAX_HISTORY: usize = 10_000;
/// Entries that `history` lists.
const LISTED_HISTORY: usize = 100;

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

fn failed(error: ReadlineError) -> String {
    format!("the terminal cannot be used: {error}")
}

/// What a line asks of the prompt itself.
enum OfPrompt {
    /// List the entries.
    History,
    /// Edit an entry again.
    Recall(String),
}

/// The line editor with its history.
struct Prompt {
    editor: Editor<SqlHelper, FileHistory>,
    file: Option<PathBuf>,
}

impl Prompt {
    fn open() -> Result<Prompt, String> {
        let config = Config::builder().max_history_size(MAX_HISTORY).map_err(failed)?;
        let config = config.completion_type(CompletionType::List).build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        let file = history_file();
        if let Some(path) = &file {
            // The first session has none.
            let _ = editor.load_history(path);
        }
        Ok(Prompt { editor, file })
    }

    /// Adds an entry, in the file as well: a session that is killed leaves what it ran.
    fn remember(&mut self, entry: &str) {
        if !matches!(self.editor.add_history_entry(entry), Ok(true)) {
            return;
        }
        if let Some(path) = &self.file
            && let Err(error) = self.editor.append_history(path)
        {
            eprintln!("lockstep: the history is not kept in {}: {error}", path.display());
            self.file = None;
        }
    }

    /// Understands `history` and `recall NUMBER`.
    fn command_of(&self, line: &str) -> Option<OfPrompt> {
        let mut words = line.trim().trim_end_matches(';').split_whitespace();
        let (word, number) = (words.next()?, words.next());
        if word.eq_ignore_ascii_case("history") && number.is_none() {
            return Some(OfPrompt::History);
        }
        if !word.eq_ignore_ascii_case("recall") || words.next().is_some() {
            return None;
        }
        let place = number?.parse::<usize>().ok()?.checked_sub(1)?;
        Some(OfPrompt::Recall(self.entry(place)?))
    }

    fn entry(&self, place: usize) -> Option<String> {
        let found = self.editor.history().get(place, SearchDirection::Forward);
        found.ok().flatten().map(|found| found.entry.into_owned())
    }

    fn list(&self) {
        let count = self.editor.history().len();
        for place in count.saturating_sub(LISTED_HISTORY)..count {
            if let Some(entry) = self.entry(place) {
                println!("{:>5}  {}", place + 1, entry.replace('\n', "\n       "));
            }
        }
    }
}

/// Reads and runs statements until the end of the input or `exit`. Ctrl-C gives up what is typed;
/// pressed again at the empty prompt that it leaves, it ends the session.
///
/// # Errors
/// The terminal cannot be used.
pub fn run(session: &mut Session<'_>, interrupt: &Interrupt) -> Result<(), String> {
    let mut prompt = Prompt::open()?;
    let server = session.server();
    println!("lockstep sql, connected to {server}; `help` lists commands, `exit` leaves");
    let mut reader = ScriptReader::default();
    let mut entry = String::new();
    let mut initial = String::new();
    let mut was_interrupted = false;
    loop {
        let before = if reader.is_open() { entry.clone() } else { String::new() };
        interrupt.clear();
        // The schema may have changed with what ran last.
        let names = session.names();
        prompt.editor.set_helper(Some(SqlHelper { names, before, ..SqlHelper::default() }));
        let text = if reader.is_open() { "     ...> " } else { "lockstep> " };
        let recalled = std::mem::take(&mut initial);
        match prompt.editor.readline_with_initial(text, (&recalled, "")) {
            Ok(line) => {
                was_interrupted = false;
                if !reader.is_open()
                    && let Some(command) = prompt.command_of(&line)
                {
                    match command {
                        OfPrompt::History => prompt.list(),
                        OfPrompt::Recall(recalled) => initial = recalled,
                    }
                    continue;
                }
                entry.push_str(&line);
                entry.push('\n');
                let pieces = reader.push_line(&line);
                if !reader.is_open() {
                    // A statement of several lines comes back as one entry.
                    prompt.remember(entry.trim());
                    entry.clear();
                }
                interrupt.clear();
                if session.run("line", &pieces) == Flow::Exit {
                    return Ok(());
                }
                was_interrupted = interrupt.is_requested();
            }
            Err(ReadlineError::Interrupted) => {
                let has_text = prompt.editor.helper().is_some_and(|h| h.has_text.get());
                let is_empty = !reader.is_open() && !has_text;
                if is_empty && was_interrupted {
                    return Ok(());
                }
                if is_empty {
                    println!("Ctrl-C again, Ctrl-D or `exit` leaves.");
                }
                was_interrupted = true;
                reader.abandon();
                entry.clear();
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
    }
}
