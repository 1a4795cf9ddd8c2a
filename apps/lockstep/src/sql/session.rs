//! A session with a server: runs pieces one after the other and prints what comes of them.

use super::arguments::{self, Literal};
use super::command::{self, Ahead, Command, CommandError, Listed};
use super::completion::Names;
use super::describe;
use super::format::{self, Format};
use super::place;
use super::script::Piece;
use lockstep_client::rows::Table;
use lockstep_client::{CallOptions, ClientError, Connection, OwnedResponse, ParameterWriter};
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
    /// `exit`, or an error that ends the session.
    Stop,
}

/// Most statements that are sent before the first is answered.
const AHEAD: usize = 64;

/// A session.
pub struct Session<'o> {
    connection: Connection,
    format: Format,
    continue_on_error: bool,
    out: &'o mut dyn Write,
    errors: &'o mut dyn Write,
    /// Whether anything went wrong so far.
    pub failed: bool,
    /// Parameter types by procedure, read when a procedure is called first.
    types: Option<BTreeMap<String, Vec<SqlType>>>,
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
    fn new(message: impl Into<String>) -> Trouble {
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
        connection: Connection,
        format: Format,
        continue_on_error: bool,
        out: &'o mut dyn Write,
        errors: &'o mut dyn Write,
    ) -> Session<'o> {
        let (failed, types, names) = (false, None, None);
        Session { connection, format, continue_on_error, out, errors, failed, types, names }
    }

    /// Runs pieces in order. Neighbouring schema changes go to the server as one call, which is
    /// faster and all or nothing; each by itself where the session goes on after errors.
    pub fn run(&mut self, source: &str, pieces: &[Piece]) -> Flow {
        let mut rest = pieces;
        while let Some((first, behind)) = rest.split_first() {
            let is_ddl = |piece: &Piece| {
                !piece.batch
                    && matches!(command::parse(&piece.text), Ok(Command::Sql { ddl: true }))
            };
            let ddl = pieces_in_front(rest, is_ddl);
            let together = self.together(rest);
            if together > 1 {
                let (batch, next) = rest.split_at(together);
                rest = next;
                match self.run_ahead(source, batch) {
                    Flow::Stop => return Flow::Stop,
                    Flow::Continue => continue,
                }
            }
            let (batch, next) = match ddl {
                count if count > 1 && !self.continue_on_error => rest.split_at(count),
                _ => (std::slice::from_ref(first), behind),
            };
            rest = next;
            let result = match batch {
                [piece] => self.run_one(piece),
                batch => self.change_schema(batch).map(|()| Flow::Continue),
            };
            match result {
                Ok(Flow::Continue) => {}
                Ok(Flow::Stop) => return Flow::Stop,
                Err(trouble) => {
                    self.report(source, batch, &trouble);
                    if trouble.lost || !self.continue_on_error {
                        return Flow::Stop;
                    }
                }
            }
        }
        Flow::Continue
    }

    /// How many pieces in front can be sent before the first is answered. Where the session
    /// stops at an error, nothing behind it may have changed anything.
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
        let mut submitted = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let mut parameters = ParameterWriter::default();
            parameters.text(&piece.text);
            let options = CallOptions::default();
            submitted.push(self.connection.submit("@AdHoc", parameters.bytes(), &options));
        }
        for (piece, handle) in pieces.iter().zip(submitted) {
            let start = Instant::now();
            let result = handle
                .and_then(|handle| self.connection.wait(handle))
                .and_then(|response| response.tables())
                .map_err(Trouble::from)
                .and_then(|tables| {
                    tables.iter().try_for_each(|table| self.print(table, start.elapsed()))?;
                    Ok(self.out.flush()?)
                });
            if let Err(trouble) = result {
                self.report(source, std::slice::from_ref(piece), &trouble);
                if trouble.lost || !self.continue_on_error {
                    return Flow::Stop;
                }
            }
        }
        Flow::Continue
    }

    /// Prints an error of the session's own, without a statement.
    pub fn report_text(&mut self, text: &str) {
        self.failed = true;
        // There is nowhere else to say that errors cannot be written.
        let _ = self.errors.write_all(text.as_bytes());
    }

    fn report(&mut self, source: &str, batch: &[Piece], trouble: &Trouble) {
        let located = batch.iter().find_map(|piece| {
            let offset = trouble.offset.or_else(|| place::locate(&piece.text, &trouble.message));
            offset.map(|offset| (piece, offset))
        });
        let (piece, offset) = match located {
            Some((piece, offset)) => (piece, Some(offset)),
            None => (&batch[0], None),
        };
        self.report_text(&place::render(source, piece, offset, &trouble.message));
    }

    fn run_one(&mut self, piece: &Piece) -> Result<Flow, Trouble> {
        let text = piece.text.as_str();
        match command::parse(text)? {
            Command::Exit => return Ok(Flow::Stop),
            Command::Help => self.out.write_all(command::HELP.as_bytes())?,
            Command::Echo(line) => writeln!(self.out, "{line}")?,
            Command::Sql { ddl: true } => self.change_schema(std::slice::from_ref(piece))?,
            Command::Sql { ddl: false } => self.show_call("@AdHoc", text)?,
            Command::Explain(statement) => self.explain("@Explain", statement)?,
            Command::ExplainProcedure(name) => self.explain("@ExplainProc", name)?,
            Command::ExplainView(name) => self.explain("@ExplainView", name)?,
            Command::Execute { procedure, arguments } => self.execute(procedure, &arguments)?,
            Command::Show(listed) => self.show(listed)?,
            Command::Describe(name) => self.describe(name)?,
            Command::LoadClasses(file) => self.load_classes(file)?,
            Command::RemoveClasses(patterns) => self.update_classes(None, Some(patterns))?,
        }
        self.out.flush()?;
        Ok(Flow::Continue)
    }

    fn call(
        &mut self,
        procedure: &str,
        parameters: &ParameterWriter,
    ) -> Result<(OwnedResponse, Vec<Table>, Duration), Trouble> {
        let start = Instant::now();
        let response = self.connection.call(procedure, parameters)?;
        let elapsed = start.elapsed();
        let tables = response.tables()?;
        Ok((response, tables, elapsed))
    }

    fn call_with_text(&mut self, procedure: &str, text: &str) -> Result<Vec<Table>, Trouble> {
        let mut parameters = ParameterWriter::default();
        parameters.text(text);
        Ok(self.call(procedure, &parameters)?.1)
    }

    /// The names of the schema; empty when the server does not give them.
    pub fn names(&mut self) -> Names {
        // Other clients change schemas too: the server says so.
        if self.connection.take_notices().catalog_changed {
            (self.types, self.names) = (None, None);
        }
        if self.names.is_none() {
            let mut read = |selector| self.call_with_text("@SystemCatalog", selector);
            let tables = (read("COLUMNS"), read("PROCEDURES"));
            self.names = match tables {
                (Ok(columns), Ok(procedures)) => match (columns.first(), procedures.first()) {
                    (Some(columns), Some(procedures)) => Some(Names::read(columns, procedures)),
                    _ => None,
                },
                _ => None,
            };
        }
        self.names.clone().unwrap_or_default()
    }

    fn change_schema(&mut self, batch: &[Piece]) -> Result<(), Trouble> {
        (self.types, self.names) = (None, None);
        let texts: Vec<&str> = batch.iter().map(|piece| piece.text.as_str()).collect();
        let mut parameters = ParameterWriter::default();
        parameters.text(&format!("{};", texts.join(";\n")));
        let (response, _, _) = self.call("@AdHoc", &parameters)?;
        if self.format == Format::Table {
            for _ in batch {
                writeln!(self.out, "Command succeeded.")?;
            }
        }
        self.print_advice(&response)
    }

    /// What the server has to say about what succeeded, a line each.
    fn print_advice(&mut self, response: &OwnedResponse) -> Result<(), Trouble> {
        if self.format == Format::Table {
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
            if self.format != Format::Table {
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
        if self.format == Format::Table
            && (view.application_status != NO_APPLICATION_STATUS || view.application_text.is_some())
        {
            let text = view.application_text.unwrap_or("");
            let line = format!("application status {}: {text}", view.application_status);
            writeln!(self.out, "{}", line.trim_end_matches(": "))?;
        }
        // A success without tables may say what is wrong, as that of @QueryStats.
        if let (true, Some(text)) = (tables.is_empty(), view.status_text) {
            writeln!(self.out, "{text}")?;
        } else if tables.is_empty() && self.format == Format::Table {
            write!(self.out, "{}", format::rows_line(0, elapsed))?;
        }
        Ok(())
    }

    /// The declared types of a procedure's parameters; empty when nobody knows them.
    fn parameter_types(&mut self, procedure: &str) -> Result<Vec<SqlType>, Trouble> {
        if procedure.starts_with('@') {
            return Ok(arguments::system_types(procedure).to_vec());
        }
        let key = procedure.to_ascii_lowercase();
        if self.types.as_ref().is_none_or(|types| !types.contains_key(&key)) {
            let tables = self.call_with_text("@SystemCatalog", "PROCEDURECOLUMNS")?;
            self.types = Some(tables.first().map(describe::parameter_types).unwrap_or_default());
        }
        let types = self.types.as_ref().and_then(|types| types.get(&key));
        Ok(types.cloned().unwrap_or_default())
    }

    fn show(&mut self, listed: Listed) -> Result<(), Trouble> {
        let start = Instant::now();
        let (selector, shape): (_, fn(&Table) -> Table) = match listed {
            Listed::Tables => ("TABLES", describe::tables),
            Listed::Procedures => ("PROCEDURES", describe::procedures),
            Listed::Classes => ("CLASSES", Table::clone),
            Listed::Functions => ("FUNCTIONS", Table::clone),
            Listed::Tasks => ("TASKS", Table::clone),
        };
        let tables = self.call_with_text("@SystemCatalog", selector)?;
        let elapsed = start.elapsed();
        tables.first().map_or(Ok(()), |table| self.print(&shape(table), elapsed))
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
        if self.format == Format::Table {
            writeln!(self.out, "Command succeeded.")?;
        }
        Ok(())
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
        if self.format == Format::Table {
            notes.iter().try_for_each(|note| writeln!(self.out, "{note}"))?;
        }
        Ok(())
    }

    /// Prints a result table; the count of changed rows and the status of commands get a line of
    /// their own where people read.
    fn print(&mut self, table: &Table, elapsed: Duration) -> Result<(), Trouble> {
        if self.format != Format::Table {
            self.out.write_all(format::render(table, self.format).as_bytes())?;
            return Ok(());
        }
        match (&table.names[..], &table.rows[..]) {
            ([name], [row]) if name == "modified_tuples" => {
                let count = match row[..] {
                    [Value::Int(count)] => count,
                    _ => 0,
                };
                let plural = if count == 1 { "" } else { "s" };
                writeln!(
                    self.out,
                    "({count} row{plural} changed in {:.3} s)",
                    elapsed.as_secs_f64()
                )?;
            }
            _ => {
                self.out.write_all(format::render(table, self.format).as_bytes())?;
                writeln!(self.out, "\n{}", format::rows_line(table.rows.len(), elapsed))?;
            }
        }
        Ok(())
    }
}

fn pieces_in_front(pieces: &[Piece], is_wanted: impl Fn(&Piece) -> bool) -> usize {
    pieces.iter().take_while(|piece| is_wanted(piece)).count()
}
