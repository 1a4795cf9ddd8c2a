//! A session with a server: runs pieces one after the other and prints what comes of them.

use super::arguments::{self, Declared, Literal};
use super::command::{self, Ahead, Command, CommandError, Listed};
use super::completion::Names;
use super::describe;
use super::format::{self, Format};
use super::link::Link;
use super::script::Piece;
use super::{input, place};
use lockstep_client::rows::Table;
use lockstep_client::{CallOptions, ClientError, OwnedResponse, ParameterWriter};
use lockstep_types::outcome::NO_APPLICATION_STATUS;
use lockstep_types::{Datum, SqlType, Value};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

/// What a run of pieces came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// There may be more.
    Continue,
    /// An error ended the input.
    Failed,
    /// `exit`.
    Exit,
}

/// Most statements that are sent before the first is answered.
const AHEAD: usize = 64;

/// A session.
pub struct Session<'o> {
    link: Link,
    format: Format,
    /// Whether the time of a result is shown.
    timing: bool,
    continue_on_error: bool,
    out: &'o mut dyn Write,
    errors: &'o mut dyn Write,
    /// Whether anything went wrong so far.
    pub failed: bool,
    /// Files that run within each other.
    pub file_depth: usize,
    /// Parameters by procedure, read when a procedure is called first.
    types: Option<BTreeMap<String, Vec<Declared>>>,
    /// What there is to complete, read at a prompt; none after a schema change.
    names: Option<Names>,
}

/// What went wrong with a piece, and where in it.
pub struct Trouble {
    message: String,
    offset: Option<usize>,
    /// The connection is of no more use.
    lost: bool,
}

impl Trouble {
    /// Trouble at no place of the statement.
    pub fn new(message: impl Into<String>) -> Trouble {
        Trouble { message: message.into(), offset: None, lost: false }
    }
}

impl From<CommandError> for Trouble {
    fn from(error: CommandError) -> Trouble {
        Trouble { message: error.message, offset: Some(error.offset), lost: false }
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        let lost = error.is_connection_lost();
        let message = match error {
            ClientError::Refused { text, .. } if !text.is_empty() => text,
            other => other.to_string(),
        };
        Trouble { message, offset: None, lost }
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Trouble {
        Trouble { lost: true, ..Trouble::new(format!("the output cannot be written: {error}")) }
    }
}

impl<'o> Session<'o> {
    /// A session over a connection that is logged in.
    pub fn new(
        link: Link,
        format: Format,
        continue_on_error: bool,
        out: &'o mut dyn Write,
        errors: &'o mut dyn Write,
    ) -> Session<'o> {
        Session {
            link,
            format,
            timing: true,
            continue_on_error,
            out,
            errors,
            failed: false,
            file_depth: 0,
            types: None,
            names: None,
        }
    }

    /// The server's address, as it was given.
    pub fn server(&self) -> &str {
        self.link.address()
    }

    /// Runs pieces in order, each as a transaction of its own.
    pub fn run(&mut self, source: &str, pieces: &[Piece]) -> Flow {
        let mut rest = pieces;
        while let Some((first, behind)) = rest.split_first() {
            let together = self.together(rest);
            let flow = if together > 1 {
                let (queries, next) = rest.split_at(together);
                rest = next;
                self.run_ahead(source, queries)
            } else {
                rest = behind;
                self.run_reported(source, first)
            };
            if flow != Flow::Continue {
                return flow;
            }
            if self.link.is_interrupted() {
                return Flow::Failed;
            }
        }
        Flow::Continue
    }

    /// Runs a piece and reports what went wrong with it.
    fn run_reported(&mut self, source: &str, piece: &Piece) -> Flow {
        self.run_one(piece).unwrap_or_else(|trouble| self.report(source, piece, &trouble))
    }

    /// How many pieces in front can be sent before the first is answered. Where the session
    /// stops at an error, nothing after it may have changed anything.
    fn together(&self, pieces: &[Piece]) -> usize {
        let kind = |piece: &Piece| command::ahead(&piece.text);
        match pieces.first().and_then(kind) {
            None => 1,
            Some(Ahead::Row) if !self.continue_on_error => 1,
            first => pieces_in_front(pieces, |piece| kind(piece) == first).min(AHEAD),
        }
    }

    /// Runs pieces that are sent together, and prints what they give in their order.
    fn run_ahead(&mut self, source: &str, pieces: &[Piece]) -> Flow {
        if let Err(trouble) = self.restore_link() {
            return self.report(source, &pieces[0], &trouble);
        }
        let mut submitted = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let mut parameters = ParameterWriter::default();
            parameters.text(&piece.text);
            let options = CallOptions::default();
            let sent = self.link.run(|c| c.submit("@AdHoc", parameters.bytes(), &options));
            submitted.push((Instant::now(), sent));
        }
        for (piece, (start, sent)) in pieces.iter().zip(submitted) {
            let result = sent
                .and_then(|handle| self.link.run(|connection| connection.wait(handle)))
                .and_then(|response| Ok(response.tables()?))
                .and_then(|tables| {
                    tables.iter().try_for_each(|table| self.print(table, start.elapsed()))?;
                    Ok(self.out.flush()?)
                });
            if let Err(trouble) = result {
                match self.report(source, piece, &trouble) {
                    Flow::Continue => {}
                    stopped => return stopped,
                }
            }
        }
        Flow::Continue
    }

    /// Prints an error of the session's own, without a statement.
    pub fn report_text(&mut self, text: &str) {
        self.failed = true;
        // There is nowhere else to report that output cannot be written.
        let _ = self.out.flush();
        let _ = self.errors.write_all(text.as_bytes());
    }

    /// Prints what went wrong with a piece; whether the session goes on.
    fn report(&mut self, source: &str, piece: &Piece, trouble: &Trouble) -> Flow {
        let offset = trouble.offset.or_else(|| place::locate(&piece.text, &trouble.message));
        if self.link.is_interrupted() {
            // The terminal has echoed ^C on the line.
            self.report_text("\n");
        }
        self.report_text(&place::render(source, piece, offset, &trouble.message));
        if trouble.lost || !self.continue_on_error { Flow::Failed } else { Flow::Continue }
    }

    fn run_one(&mut self, piece: &Piece) -> Result<Flow, Trouble> {
        let text = piece.text.as_str();
        if piece.batch {
            self.run_batch(text)?;
            self.out.flush()?;
            return Ok(Flow::Continue);
        }
        match command::parse(text)? {
            Command::Exit => return Ok(Flow::Exit),
            Command::File { files, batch } => return self.run_files(&files, batch),
            Command::Help => self.out.write_all(command::HELP.as_bytes())?,
            Command::Echo(line) => writeln!(self.out, "{line}")?,
            Command::EchoError(line) => {
                self.out.flush()?;
                writeln!(self.errors, "{line}")?;
            }
            Command::Timing(wanted) => {
                self.timing = wanted.unwrap_or(!self.timing);
                let shown = if self.timing { "shown" } else { "not shown" };
                writeln!(self.out, "Times are {shown}.")?;
            }
            Command::Expanded(wanted) => self.expand(wanted)?,
            Command::Sql { ddl: true } => self.change_schema(text)?,
            Command::Sql { ddl: false } => self.show_call("@AdHoc", text)?,
            Command::Explain(statement) => self.explain("@Explain", statement)?,
            Command::ExplainProcedure(name) => self.explain("@ExplainProc", name)?,
            Command::ExplainView(name) => self.explain("@ExplainView", name)?,
            Command::QueryStatistics(query) => {
                self.execute("@QueryStats", &[Literal::Text(query.to_string())])?;
            }
            Command::Execute { procedure, arguments } => self.execute(procedure, &arguments)?,
            Command::Show(listed, of) => self.show(listed, of)?,
            Command::Describe(name) => self.describe(name)?,
            Command::LoadClasses(file) => self.load_classes(file)?,
            Command::RemoveClasses(patterns) => self.update_classes(None, Some(patterns))?,
        }
        self.out.flush()?;
        Ok(Flow::Continue)
    }

    fn run_files(&mut self, files: &[String], batch: bool) -> Result<Flow, Trouble> {
        for file in files {
            match input::run_file(self, file, batch).map_err(Trouble::new)? {
                Flow::Continue => {}
                stopped => return Ok(stopped),
            }
        }
        Ok(Flow::Continue)
    }

    fn expand(&mut self, wanted: Option<bool>) -> Result<(), Trouble> {
        if !self.format.is_for_people() {
            return Err(Trouble::new("\\x is for results as tables (--format table)"));
        }
        self.format = match wanted.unwrap_or(self.format == Format::Table) {
            true => Format::Expanded,
            false => Format::Table,
        };
        let shown = if self.format == Format::Expanded { "a line for each" } else { "in a table" };
        writeln!(self.out, "Columns are shown {shown}.")?;
        Ok(())
    }

    /// The time of a result, if it is to be shown.
    fn shown(&self, elapsed: Duration) -> Option<Duration> {
        self.timing.then_some(elapsed)
    }

    /// Connects again if the connection is lost and the session has a prompt.
    fn restore_link(&mut self) -> Result<(), Trouble> {
        if self.link.restore()? {
            (self.types, self.names) = (None, None);
            writeln!(self.out, "Reconnected to {}.", self.link.address())?;
        }
        Ok(())
    }

    fn call(
        &mut self,
        procedure: &str,
        parameters: &ParameterWriter,
    ) -> Result<(OwnedResponse, Vec<Table>, Duration), Trouble> {
        self.restore_link()?;
        let start = Instant::now();
        let response = self.link.run(|connection| connection.call(procedure, parameters))?;
        let elapsed = start.elapsed();
        let tables = response.tables()?;
        Ok((response, tables, elapsed))
    }

    fn call_with_text(&mut self, procedure: &str, text: &str) -> Result<Vec<Table>, Trouble> {
        let mut parameters = ParameterWriter::default();
        parameters.text(text);
        Ok(self.call(procedure, &parameters)?.1)
    }

    /// The names of the schema: those that were read last while there is no connection, and none
    /// when the server does not give them.
    pub fn names(&mut self) -> Names {
        if let Some(connection) = self.link.open_connection() {
            // Other clients change schemas too: the server notifies.
            if connection.take_notices().catalog_changed {
                (self.types, self.names) = (None, None);
            }
            if self.names.is_none() {
                self.names = self.read_names();
            }
        }
        self.names.clone().unwrap_or_default()
    }

    fn read_names(&mut self) -> Option<Names> {
        let columns = self.call_with_text("@SystemCatalog", "COLUMNS").ok()?;
        let procedures = self.call_with_text("@SystemCatalog", "PROCEDURES").ok()?;
        Some(Names::read(columns.first()?, procedures.first()?))
    }

    fn change_schema(&mut self, text: &str) -> Result<(), Trouble> {
        (self.types, self.names) = (None, None);
        let mut parameters = ParameterWriter::default();
        parameters.text(text);
        let (response, _, _) = self.call("@AdHoc", &parameters)?;
        self.print_success()?;
        self.print_advice(&response)
    }

    /// Runs several statements as one call.
    fn run_batch(&mut self, text: &str) -> Result<(), Trouble> {
        (self.types, self.names) = (None, None);
        let mut parameters = ParameterWriter::default();
        parameters.text(text);
        let (response, tables, elapsed) = self.call("@AdHoc", &parameters)?;
        for table in &tables {
            // Schema changes answer with a status.
            match &table.names[..] {
                [name] if name == "STATUS" => self.print_success()?,
                _ => self.print(table, elapsed)?,
            }
        }
        self.print_advice(&response)
    }

    fn print_success(&mut self) -> Result<(), Trouble> {
        if self.format.is_for_people() {
            writeln!(self.out, "Command succeeded.")?;
        }
        Ok(())
    }

    /// What the server has to say about what succeeded, a line each.
    fn print_advice(&mut self, response: &OwnedResponse) -> Result<(), Trouble> {
        if self.format.is_for_people() {
            for line in response.view().application_text.unwrap_or("").lines() {
                writeln!(self.out, "Note: {line}")?;
            }
        }
        Ok(())
    }

    fn show_call(&mut self, procedure: &str, text: &str) -> Result<(), Trouble> {
        let mut parameters = ParameterWriter::default();
        parameters.text(text);
        let (_, tables, elapsed) = self.call(procedure, &parameters)?;
        tables.iter().try_for_each(|table| self.print(table, elapsed))
    }

    /// Shows plans as text: their lines are what people read, which a cell shows as escapes.
    fn explain(&mut self, procedure: &str, text: &str) -> Result<(), Trouble> {
        let mut parameters = ParameterWriter::default();
        parameters.text(text);
        let (response, tables, _) = self.call(procedure, &parameters)?;
        for table in tables {
            if !self.format.is_for_people() {
                self.print(&table, Duration::ZERO)?;
                continue;
            }
            for row in &table.rows {
                let lines: Vec<String> = row.iter().map(format::text).collect();
                writeln!(self.out, "{}", lines.join("\n").trim())?;
            }
        }
        self.print_advice(&response)
    }

    fn execute(&mut self, procedure: &str, literals: &[Literal]) -> Result<(), Trouble> {
        let types = self.parameter_types(procedure)?;
        let mut parameters = ParameterWriter::default();
        for (place, literal) in literals.iter().enumerate() {
            arguments::write(&mut parameters, literal, types.get(place).copied())
                .map_err(|message| Trouble::new(format!("value {}: {message}", place + 1)))?;
        }
        let (response, tables, elapsed) = self.call(procedure, &parameters)?;
        for table in &tables {
            self.print(table, elapsed)?;
        }
        let view = response.view();
        if self.format.is_for_people()
            && (view.application_status != NO_APPLICATION_STATUS || view.application_text.is_some())
        {
            let text = view.application_text.unwrap_or("");
            let line = format!("application status {}: {text}", view.application_status);
            writeln!(self.out, "{}", line.trim_end_matches(": "))?;
        }
        // A success without tables may say what is wrong, as that of @QueryStats.
        if let (true, Some(text)) = (tables.is_empty(), view.status_text) {
            writeln!(self.out, "{text}")?;
        } else if tables.is_empty() && self.format.is_for_people() {
            write!(self.out, "{}", format::rows_line(0, self.shown(elapsed)))?;
        }
        Ok(())
    }

    /// What a procedure declares of its parameters; empty where that is not listed.
    fn parameter_types(&mut self, procedure: &str) -> Result<Vec<Declared>, Trouble> {
        if procedure.starts_with('@') {
            return Ok(arguments::system_types(procedure));
        }
        let key = procedure.to_ascii_lowercase();
        if self.types.as_ref().is_none_or(|types| !types.contains_key(&key)) {
            let tables = self.call_with_text("@SystemCatalog", "PROCEDURECOLUMNS")?;
            self.types = Some(tables.first().map(describe::parameter_types).unwrap_or_default());
        }
        let types = self.types.as_ref().and_then(|types| types.get(&key));
        Ok(types.cloned().unwrap_or_default())
    }

    fn show(&mut self, listed: Listed, of: Option<&str>) -> Result<(), Trouble> {
        let start = Instant::now();
        let (procedure, selector) = match listed {
            Listed::Tables | Listed::Views | Listed::Streams => ("@SystemCatalog", "TABLES"),
            Listed::Indexes => ("@SystemCatalog", "INDEXINFO"),
            Listed::Procedures => ("@SystemCatalog", "PROCEDURES"),
            Listed::Classes => ("@SystemCatalog", "CLASSES"),
            Listed::Functions => ("@SystemCatalog", "FUNCTIONS"),
            Listed::Tasks => ("@SystemCatalog", "TASKS"),
            Listed::Topics => ("@SystemCatalog", "TOPICS"),
            Listed::Roles => ("@SystemCatalog", "ROLES"),
            Listed::Users => ("@SystemCatalog", "USERS"),
            Listed::Configuration => ("@SystemInformation", "DEPLOYMENT"),
        };
        let tables = self.call_with_text(procedure, selector)?;
        let elapsed = start.elapsed();
        let Some(catalog) = tables.first() else { return Ok(()) };
        let of_table = of.map(|name| describe::named(catalog, name));
        let catalog = of_table.as_ref().unwrap_or(catalog);
        let shown = match listed {
            Listed::Tables => describe::tables(catalog),
            Listed::Views => describe::of_kind(catalog, "VIEW"),
            Listed::Streams => describe::of_kind(catalog, "STREAM"),
            Listed::Indexes => describe::indexes(catalog),
            Listed::Procedures => describe::procedures(catalog),
            _ => catalog.clone(),
        };
        self.print(&shown, elapsed)
    }

    fn load_classes(&mut self, file: &str) -> Result<(), Trouble> {
        let jar = std::fs::read(file).map_err(|error| {
            Trouble::new(format!("the jar file {file} cannot be read: {error}"))
        })?;
        self.update_classes(Some(&jar), None)
    }

    fn update_classes(&mut self, jar: Option<&[u8]>, removed: Option<&str>) -> Result<(), Trouble> {
        let mut parameters = ParameterWriter::default();
        parameters.scalar(SqlType::Varbinary, jar.map_or(Datum::Null, Datum::Bytes));
        parameters.scalar(SqlType::Varchar, removed.map_or(Datum::Null, Datum::Text));
        (self.types, self.names) = (None, None);
        self.call("@UpdateClasses", &parameters)?;
        self.print_success()
    }

    fn describe(&mut self, name: &str) -> Result<(), Trouble> {
        let start = Instant::now();
        let mut read = |selector| {
            let tables = self.call_with_text("@SystemCatalog", selector)?;
            tables.into_iter().next().ok_or_else(|| {
                Trouble::new(format!("the server sent no table for @SystemCatalog {selector}"))
            })
        };
        let catalog = describe::CatalogTables {
            tables: read("TABLES")?,
            columns: read("COLUMNS")?,
            indexes: read("INDEXINFO")?,
            keys: read("PRIMARYKEYS")?,
        };
        let Some((columns, notes)) = catalog.describe(name) else {
            let message = format!("object not found: {}", name.to_ascii_uppercase());
            return Err(Trouble::new(message));
        };
        self.print(&columns, start.elapsed())?;
        if self.format.is_for_people() {
            notes.iter().try_for_each(|note| writeln!(self.out, "{note}"))?;
        }
        Ok(())
    }

    /// Writes a result of any size, until the user cancels it.
    fn write_result(&mut self, text: &str) -> Result<(), Trouble> {
        for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
            if self.link.is_interrupted() {
                return Err(Trouble::new("canceled: the rest of the result is not printed"));
            }
            self.out.write_all(chunk)?;
        }
        Ok(())
    }

    /// Prints a result table; the count of changed rows and the status of commands get a line of
    /// their own where people read.
    fn print(&mut self, table: &Table, elapsed: Duration) -> Result<(), Trouble> {
        if !self.format.is_for_people() {
            self.write_result(&format::render(table, self.format))?;
            return Ok(());
        }
        match (&table.names[..], &table.rows[..]) {
            ([name], [row]) if name == "modified_tuples" => {
                let count = match row[..] {
                    [Value::Int(count)] => count,
                    _ => 0,
                };
                write!(self.out, "{}", format::changed_line(count, self.shown(elapsed)))?;
            }
            _ => {
                self.write_result(&format::render(table, self.format))?;
                let line = format::rows_line(table.rows.len(), self.shown(elapsed));
                writeln!(self.out, "\n{line}")?;
            }
        }
        Ok(())
    }
}

/// Written between two looks for Ctrl-C.
const CHUNK_BYTES: usize = 64 * 1024;

fn pieces_in_front(pieces: &[Piece], is_wanted: impl Fn(&Piece) -> bool) -> usize {
    pieces.iter().take_while(|piece| is_wanted(piece)).count()
}
