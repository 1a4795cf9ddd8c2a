//! What a piece of input asks for: SQL, or one of the shell's own commands.

use super::arguments::{self, Literal};

/// What `show` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// Tables and views.
    Tables,
    /// Procedures, generated ones included.
    Procedures,
    /// Classes of procedures.
    Classes,
    /// Functions of users.
    Functions,
    /// Scheduled calls.
    Tasks,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command<'a> {
    /// A statement for the server; `ddl` when it changes the schema.
    Sql {
        /// Whether it changes the schema.
        ddl: bool,
    },
    /// Call a procedure.
    Execute {
        /// Its name as the server knows it.
        procedure: &'a str,
        /// What to pass.
        arguments: Vec<Literal>,
    },
    /// Show the plan of a statement.
    Explain(&'a str),
    /// Show the plans of a procedure.
    ExplainProcedure(&'a str),
    /// Show how a view is kept up.
    ExplainView(&'a str),
    /// List something.
    Show(Listed),
    /// Describe a table or view.
    Describe(&'a str),
    /// Load the classes of a jar file.
    LoadClasses(&'a str),
    /// Remove classes by patterns.
    RemoveClasses(&'a str),
    /// Print what there is to type.
    Help,
    /// Print a line.
    Echo(&'a str),
    /// Leave.
    Exit,
}

/// Why a piece is no command: what, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError {
    /// What is wrong and what would be right.
    pub message: String,
    /// Offset into the piece.
    pub offset: usize,
}

impl CommandError {
    /// An error at a byte of the piece.
    pub fn new(offset: usize, message: impl Into<String>) -> CommandError {
        CommandError { message: message.into(), offset }
    }
}

/// What `help` prints.
pub const HELP: &str = "\
Statements end with `;`. Commands end with `;` or with their line:
  exec PROCEDURE [VALUE, ...]   call a procedure: numbers, 'text', NULL, X'hex'
  explain STATEMENT;            show a statement's plan
  explainproc PROCEDURE         show the plans of a procedure's statements
  explainview VIEW              show how a view is kept up
  show tables                   list tables and views
  show procedures               list procedures
  show classes                  list classes of procedures
  show functions                list functions of users
  show tasks                    list scheduled calls
  describe TABLE                show columns, keys, indexes and partitioning
  load classes FILE.jar         load the classes of Java procedures and functions
  remove classes PATTERN        remove classes: com.acme.Old, com.acme.*, com.acme.**
  file -inlinebatch LINE        run what follows, up to a line LINE, as one call
  echo TEXT                     print a line
  help                          print this
  exit                          leave
";

/// The words that begin a schema change.
const DDL: [&str; 5] = ["create", "alter", "drop", "partition", "dr"];

fn split_word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(text.len());
    text.split_at(end)
}

/// Whether the end of the line ends this piece: it is a command of the shell that does not go on
/// after a comma. `explain` does not count, because the statement behind it may take many lines.
pub fn ends_with_its_line(piece: &str) -> bool {
    let word = split_word(piece.trim_start()).0.to_ascii_lowercase();
    match word.as_str() {
        "exec" | "execute" => !piece.trim_end().ends_with(','),
        "explainproc" | "explainview" | "show" | "list" | "describe" | "desc" | "help" | "echo"
        | "load" | "remove" | "exit" | "quit" => true,
        _ => false,
    }
}

/// The line that ends a batch of statements, if this line begins one: `file -inlinebatch LINE`.
pub fn batch_end(line: &str) -> Option<&str> {
    let mut words = line.trim().trim_end_matches(';').split_whitespace();
    let begins = words.next()?.eq_ignore_ascii_case("file")
        && words.next()?.eq_ignore_ascii_case("-inlinebatch");
    words.next().filter(|_| begins && words.next().is_none())
}

/// What a statement may be sent together with, without waiting for its answer: statements of one
/// kind give the same results in whatever order they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// It reads.
    Read,
    /// It adds one row that it states.
    Row,
}

/// The kind of a statement; `None`: it has to run by itself.
pub fn ahead(piece: &str) -> Option<Ahead> {
    let upper = piece.to_ascii_uppercase();
    match split_word(&upper).0 {
        "SELECT" | "VALUES" => Some(Ahead::Read),
        "INSERT" | "UPSERT" => {
            // Several rows may be those of several partitions, which other rows can overtake.
            let dense: String = upper.split_whitespace().collect();
            let one_row = !dense.contains("SELECT") && !dense.contains("),(");
            one_row.then_some(Ahead::Row)
        }
        _ => None,
    }
}

/// Understands a piece.
///
/// # Errors
/// A command of the shell is not as `help` says.
pub fn parse(piece: &str) -> Result<Command<'_>, CommandError> {
    let (word, rest) = split_word(piece);
    let rest_offset = piece.len() - rest.trim_start().len();
    let rest = rest.trim();
    let one_name = |what: &str| match rest.split_whitespace().count() {
        1 => Ok(rest),
        _ => Err(CommandError::new(rest_offset, format!("{word} takes one {what}"))),
    };
    match word.to_ascii_lowercase().as_str() {
        "exec" | "execute" => execute(rest, rest_offset),
        "load" => classes(rest, rest_offset, "load", "jar file").map(Command::LoadClasses),
        "remove" => classes(rest, rest_offset, "remove", "pattern").map(Command::RemoveClasses),
        "explain" if !rest.is_empty() => Ok(Command::Explain(rest)),
        "explain" => Err(CommandError::new(rest_offset, "explain takes a statement")),
        "explainproc" => one_name("procedure").map(Command::ExplainProcedure),
        "explainview" => one_name("view").map(Command::ExplainView),
        "show" | "list" => show(rest, rest_offset),
        "describe" | "desc" => one_name("table").map(Command::Describe),
        "help" => Ok(Command::Help),
        "echo" => Ok(Command::Echo(rest)),
        "exit" | "quit" => Ok(Command::Exit),
        other => Ok(Command::Sql { ddl: DDL.contains(&other) }),
    }
}

fn execute(rest: &str, offset: usize) -> Result<Command<'_>, CommandError> {
    let end = rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len());
    let (procedure, values) = rest.split_at(end);
    if procedure.is_empty() {
        return Err(CommandError::new(offset, "exec takes the name of a procedure"));
    }
    let arguments = arguments::parse(values)
        .map_err(|error| CommandError { offset: offset + end + error.offset, ..error })?;
    Ok(Command::Execute { procedure, arguments })
}

/// What stands behind `load classes` and `remove classes`: it may be quoted.
fn classes<'a>(
    rest: &'a str,
    offset: usize,
    verb: &str,
    what: &str,
) -> Result<&'a str, CommandError> {
    let (word, argument) = split_word(rest);
    let argument = argument.trim();
    let bare = argument.strip_prefix('\'').and_then(|quoted| quoted.strip_suffix('\''));
    let argument = bare.unwrap_or(argument);
    if !word.eq_ignore_ascii_case("classes") || argument.is_empty() {
        return Err(CommandError::new(offset, format!("{verb} takes CLASSES and a {what}")));
    }
    Ok(argument)
}

fn show(rest: &str, offset: usize) -> Result<Command<'_>, CommandError> {
    match rest.to_ascii_lowercase().as_str() {
        "tables" => Ok(Command::Show(Listed::Tables)),
        "procedures" | "procs" => Ok(Command::Show(Listed::Procedures)),
        "classes" => Ok(Command::Show(Listed::Classes)),
        "functions" => Ok(Command::Show(Listed::Functions)),
        "tasks" => Ok(Command::Show(Listed::Tasks)),
        _ => Err(CommandError::new(
            offset,
            format!("show lists tables, procedures, classes, functions or tasks, not '{rest}'"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_understood() {
        for (piece, command) in [
            ("SELECT 1", "Sql { ddl: false }"),
            ("partition table t on column c", "Sql { ddl: true }"),
            (
                "Exec Vote 5551234, 2",
                "Execute { procedure: \"Vote\", arguments: [\
                Bare(\"5551234\"), Bare(\"2\")] }",
            ),
            ("exec @Ping", "Execute { procedure: \"@Ping\", arguments: [] }"),
            ("explain select\n 1", "Explain(\"select\\n 1\")"),
            ("explainproc Vote", "ExplainProcedure(\"Vote\")"),
            ("show  Procs", "Show(Procedures)"),
            ("desc votes", "Describe(\"votes\")"),
            ("echo a  b", "Echo(\"a  b\")"),
            ("load classes a/b.jar", "LoadClasses(\"a/b.jar\")"),
            ("LOAD Classes 'a b.jar'", "LoadClasses(\"a b.jar\")"),
            ("remove classes com.acme.**", "RemoveClasses(\"com.acme.**\")"),
            ("quit", "Exit"),
        ] {
            assert_eq!(parse(piece).map(|c| format!("{c:?}")), Ok(command.to_string()), "{piece}");
        }
    }

    #[test]
    fn statements_go_ahead_where_order_does_not_matter() {
        for (piece, kind) in [
            ("select 1 from t", Some(Ahead::Read)),
            ("INSERT into t values (1, 'a')", Some(Ahead::Row)),
            ("upsert into t (a) values (1)", Some(Ahead::Row)),
            ("insert into t values (1) , (2)", None),
            ("insert into t select * from u", None),
            ("update t set a = 1", None),
            ("with x as (select 1 from t) delete from t", None),
            ("exec p 1", None),
        ] {
            assert_eq!(ahead(piece), kind, "{piece}");
        }
    }

    #[test]
    fn wrong_commands_name_the_place() {
        for (piece, offset, part) in [
            ("show", 4, "not ''"),
            ("show all", 5, "not 'all'"),
            ("describe a b", 9, "one table"),
            ("exec", 4, "name of a procedure"),
            ("load classes", 5, "load takes CLASSES and a jar file"),
            ("remove tables a", 7, "remove takes CLASSES and a pattern"),
            ("exec p 'a", 7, "does not end"),
            ("explain ", 8, "takes a statement"),
        ] {
            let error = parse(piece).expect_err(piece);
            assert_eq!(error.offset, offset, "{piece}: {error:?}");
            assert!(error.message.contains(part), "{piece}: {error:?}");
        }
    }
}
