//! What a piece of input asks for: SQL, or one of the shell's own commands.

use super::arguments::{self, Literal};

/// What `show` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// Tables, views and streams.
    Tables,
    /// Views.
    Views,
    /// Streams.
    Streams,
    /// Indexes.
    Indexes,
    /// Procedures, generated ones included.
    Procedures,
    /// Classes of procedures.
    Classes,
    /// Functions of users.
    Functions,
    /// Scheduled calls.
    Tasks,
    /// Topics.
    Topics,
    /// Roles.
    Roles,
    /// Users.
    Users,
    /// The host's configuration.
    Configuration,
}

/// What can be listed, by the words of `show`; the first word of each is the one that is shown.
const LISTED: [(&[&str], Listed); 12] = [
    (&["tables"], Listed::Tables),
    (&["views"], Listed::Views),
    (&["streams"], Listed::Streams),
    (&["indexes", "indices"], Listed::Indexes),
    (&["procedures", "procs", "proc"], Listed::Procedures),
    (&["classes"], Listed::Classes),
    (&["functions"], Listed::Functions),
    (&["tasks"], Listed::Tasks),
    (&["topics"], Listed::Topics),
    (&["roles"], Listed::Roles),
    (&["users"], Listed::Users),
    (&["config", "configuration"], Listed::Configuration),
];

/// The words of [`LISTED`] that are shown.
pub fn listed_words() -> impl Iterator<Item = &'static str> {
    LISTED.iter().map(|(words, _)| words[0])
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
    /// Show how a view is maintained.
    ExplainView(&'a str),
    /// List something; tables and indexes, of one table only.
    Show(Listed, Option<&'a str>),
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
    /// Print a line to standard error.
    EchoError(&'a str),
    /// Show the statistics of statements that a query over `statistics(...)` asks for.
    QueryStatistics(&'a str),
    /// Run files.
    File {
        /// Their names.
        files: Vec<String>,
        /// Each as one batch.
        batch: bool,
    },
    /// Show times or not; none: the other way than now.
    Timing(Option<bool>),
    /// Show a column of a row in a line or not; none: the other way than now.
    Expanded(Option<bool>),
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
  exec PROCEDURE [VALUE, ...]   call a procedure: numbers, 'text', NULL, X'hex', [1, 2, 3]
  explain STATEMENT;            show a statement's plan
  explainproc PROCEDURE         show the plans of a procedure's statements
  explainview VIEW              show how a view is maintained
  querystats QUERY;             run a query over statistics(SELECTOR, DELTA)
  show WORD                     list tables, views, streams, indexes, procedures, classes,
                                functions, tasks, topics, roles, users or config
  describe TABLE                show columns, keys, indexes and partitioning
  load classes FILE.jar         load the classes of Java procedures and functions
  remove classes PATTERN        remove classes: com.acme.Old, com.acme.*, com.acme.**
  file FILE ...                 run the statements of files
  file -batch FILE              run the statements of a file as one call
  file -inlinebatch LINE        run the lines that follow, up to a line LINE, as one call
  echo TEXT, echoerror TEXT     print a line, to standard output or standard error
  recall NUMBER, history        edit an earlier entry, list the entries (at a prompt)
  help, \\?                      print this
  exit, quit, \\q                leave
  \\d [TABLE]                    list tables, or describe one
  \\timing [on|off]              print the time of each result, or do not
  \\x [on|off]                   print each column of a row on a line, or do not
At a prompt, Ctrl-C cancels the statement that runs; a second one at an empty prompt leaves.
";

/// The words that begin a schema change.
const DDL: [&str; 5] = ["create", "alter", "drop", "partition", "dr"];

fn split_word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(text.len());
    text.split_at(end)
}

/// Whether a line that begins a piece is one whole command, whatever it has in it: a directive
/// (`\\d`, and what other databases' shells call `.tables`), or text to print.
pub fn is_whole_line(line: &str) -> bool {
    let line = line.trim_start();
    let word = split_word(line).0;
    line.starts_with(['\\', '.'])
        || word.eq_ignore_ascii_case("echo")
        || word.eq_ignore_ascii_case("echoerror")
}

/// Whether the end of the line ends this piece: it is a command of the shell that does not go on
/// after a comma. `explain` does not count, because its statement may take many lines.
pub fn ends_with_its_line(piece: &str) -> bool {
    let word = split_word(piece.trim_start()).0.to_ascii_lowercase();
    match word.as_str() {
        "exec" | "execute" => !piece.trim_end().ends_with(','),
        "explainproc" | "explainview" | "show" | "list" | "describe" | "desc" | "help" | "load"
        | "remove" | "file" | "history" | "recall" | "exit" | "quit" => true,
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
    if piece.starts_with(['\\', '.']) {
        return directive(piece);
    }
    let (word, rest) = split_word(piece);
    let rest_offset = piece.len() - rest.trim_start().len();
    let rest = rest.trim();
    let one_name = |what: &str| match rest.split_whitespace().count() {
        1 => Ok(rest),
        _ => Err(CommandError::new(rest_offset, format!("{word} takes one {what}"))),
    };
    let statement = |what: &str| match rest.is_empty() {
        false => Ok(rest),
        true => Err(CommandError::new(rest_offset, format!("{word} takes a {what}"))),
    };
    match word.to_ascii_lowercase().as_str() {
        "exec" | "execute" => execute(rest, rest_offset),
        "load" => classes(rest, rest_offset, "load", "jar file").map(Command::LoadClasses),
        "remove" => classes(rest, rest_offset, "remove", "pattern").map(Command::RemoveClasses),
        "explain" => statement("statement").map(Command::Explain),
        "querystats" => statement("query").map(Command::QueryStatistics),
        "explainproc" => one_name("procedure").map(Command::ExplainProcedure),
        "explainview" => one_name("view").map(Command::ExplainView),
        "show" | "list" => show(rest, rest_offset),
        "describe" | "desc" => one_name("table").map(Command::Describe),
        "file" => file(rest, rest_offset),
        "help" => Ok(Command::Help),
        "echo" => Ok(Command::Echo(rest)),
        "echoerror" => Ok(Command::EchoError(rest)),
        "recall" | "history" => {
            Err(CommandError::new(0, format!("{word} is a command of the prompt, on its own line")))
        }
        "exit" | "quit" => Ok(Command::Exit),
        other => Ok(Command::Sql { ddl: DDL.contains(&other) }),
    }
}

/// Directives of other shells, and what does the same here.
const OTHER_DIRECTIVES: [(&str, &str); 14] = [
    (".tables", "show tables"),
    (".schema", "\\d"),
    (".indexes", "show indexes"),
    (".quit", "\\q"),
    (".exit", "\\q"),
    (".help", "\\?"),
    (".read", "file"),
    ("\\dt", "show tables"),
    ("\\dv", "show views"),
    ("\\di", "show indexes"),
    ("\\df", "show procedures"),
    ("\\du", "show users"),
    ("\\h", "\\?"),
    ("\\i", "file"),
];

/// A directive: `\\` or `.`, a word, and what it takes.
fn directive(piece: &str) -> Result<Command<'_>, CommandError> {
    let (word, rest) = split_word(piece);
    let rest_offset = piece.len() - rest.trim_start().len();
    let rest = rest.trim();
    let nothing = |command| match rest {
        "" => Ok(command),
        _ => Err(CommandError::new(rest_offset, format!("{word} takes nothing"))),
    };
    let switch = || match rest.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "on" => Ok(Some(true)),
        "off" => Ok(Some(false)),
        _ => Err(CommandError::new(rest_offset, format!("{word} takes on or off, not '{rest}'"))),
    };
    match (word, rest.split_whitespace().count()) {
        ("\\d", 0) => Ok(Command::Show(Listed::Tables, None)),
        ("\\d", 1) => Ok(Command::Describe(rest)),
        ("\\d", _) => Err(CommandError::new(rest_offset, "\\d takes one table")),
        ("\\q", _) => nothing(Command::Exit),
        ("\\?", _) => nothing(Command::Help),
        ("\\timing", _) => switch().map(Command::Timing),
        ("\\x", _) => switch().map(Command::Expanded),
        _ => {
            let same = OTHER_DIRECTIVES.iter().find(|(other, _)| *other == word);
            let hint = same.map_or(String::new(), |(_, ours)| format!("`{ours}` does that; "));
            let message = format!("there is no command {word}: {hint}\\? lists the commands");
            Err(CommandError::new(0, message))
        }
    }
}

/// `file` with the names of files, each quoted or not.
fn file(rest: &str, offset: usize) -> Result<Command<'static>, CommandError> {
    let (first, behind) = split_word(rest);
    let batch = first.eq_ignore_ascii_case("-batch");
    let mut names = if batch { behind } else { rest }.trim();
    let mut files = Vec::new();
    while let Some(first) = names.chars().next() {
        let (name, after) = match first {
            '\'' | '"' => names[1..].split_once(first).ok_or_else(|| {
                CommandError::new(offset, "the name of a file begins with a quote and has no end")
            })?,
            _ => names.split_at(names.find(char::is_whitespace).unwrap_or(names.len())),
        };
        if name.starts_with('-') || name.is_empty() {
            let message =
                format!("file takes -batch, -inlinebatch or names of files, not '{name}'");
            return Err(CommandError::new(offset, message));
        }
        files.push(name.to_string());
        names = after.trim_start();
    }
    if files.is_empty() {
        return Err(CommandError::new(offset, "file takes the name of a file"));
    }
    Ok(Command::File { files, batch })
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

/// What stands after `load classes` and `remove classes`: it may be quoted.
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
    let (word, name) = split_word(rest);
    let word = word.to_ascii_lowercase();
    let found = LISTED.iter().find(|(words, _)| words.contains(&word.as_str()));
    let name = Some(name.trim()).filter(|name| !name.is_empty());
    match (found, name) {
        (Some((_, Listed::Tables | Listed::Indexes)), Some(name)) if name.contains(' ') => {
            Err(CommandError::new(offset, format!("show {word} takes one table")))
        }
        (Some((_, listed @ (Listed::Tables | Listed::Indexes))), name) => {
            Ok(Command::Show(*listed, name))
        }
        (Some((_, listed)), None) => Ok(Command::Show(*listed, None)),
        _ => {
            let words: Vec<&str> = listed_words().collect();
            let message = format!("show lists {}, not '{rest}'", words.join(", "));
            Err(CommandError::new(offset, message))
        }
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
            ("show  Procs", "Show(Procedures, None)"),
            ("list indexes T", "Show(Indexes, Some(\"T\"))"),
            ("desc votes", "Describe(\"votes\")"),
            ("echo a  b", "Echo(\"a  b\")"),
            ("load classes a/b.jar", "LoadClasses(\"a/b.jar\")"),
            ("LOAD Classes 'a b.jar'", "LoadClasses(\"a b.jar\")"),
            ("remove classes com.acme.**", "RemoveClasses(\"com.acme.**\")"),
            ("quit", "Exit"),
            ("\\d", "Show(Tables, None)"),
            ("\\d  votes", "Describe(\"votes\")"),
            ("\\timing", "Timing(None)"),
            ("\\x ON", "Expanded(Some(true))"),
            ("\\?", "Help"),
            ("\\q", "Exit"),
            ("file a.sql 'b c.sql'", "File { files: [\"a.sql\", \"b c.sql\"], batch: false }"),
            ("FILE -Batch \"a;b.sql\"", "File { files: [\"a;b.sql\"], batch: true }"),
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
            ("show", 4, "show lists tables, views, "),
            ("show roles r", 5, "not 'roles r'"),
            ("\\foo bar", 0, "no command \\foo: \\? lists"),
            ("\\D", 0, "no command \\D"),
            (".tables", 0, "no command .tables: `show tables` does that"),
            ("\\d a b", 3, "one table"),
            ("\\q now", 3, "takes nothing"),
            ("\\x maybe", 3, "on or off, not 'maybe'"),
            ("file", 4, "the name of a file"),
            ("file -bath x", 5, "not '-bath'"),
            ("file 'a", 5, "no end"),
            ("recall 2", 0, "command of the prompt"),
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
