//! Answers of the control thread.

use super::Control;
use crate::catalog::HostCatalog;
use crate::clock;
use crate::message::{Envelope, ForwardedAnswer, Origin};
use lockstep_base::elapsed::Elapsed;
use lockstep_host::catalog::Routing;
use lockstep_types::{Datum, Failure, Outcome, SqlType, Status, TableBuilder, TableSchema};
use lockstep_wire_volt::response;
use lockstep_wire_volt::topology::{ProcedureEntry, ProcedureRouting, write_procedures};

impl Control {
    pub(super) fn answer_failure(&mut self, origin: Origin, failure: &Failure) {
        let mut frame = Vec::new();
        let text = Some(failure.message.as_str());
        response::write_simple(&mut frame, origin.handle, failure.status, text);
        self.send_answer(origin, failure.status, frame);
    }

    /// Answers with the tables that `write` appends and counts.
    pub(super) fn answer_tables(
        &mut self,
        origin: Origin,
        write: impl FnOnce(&mut Vec<u8>) -> u16,
    ) {
        self.answer_tables_with(origin, None, write);
    }

    /// The same, with the application's text.
    pub(super) fn answer_tables_with(
        &mut self,
        origin: Origin,
        application_text: Option<String>,
        write: impl FnOnce(&mut Vec<u8>) -> u16,
    ) {
        let mut frame = Vec::new();
        let start = response::begin(&mut frame);
        let outcome = Outcome { application_text, ..Outcome::success(write(&mut frame)) };
        let waited = Elapsed::between_us(origin.arrived_us, clock::now_us());
        response::finish(&mut frame, start, origin.handle, &outcome, waited);
        let limit = self.facts.options.max_response_bytes.to_usize();
        if let Err(failure) = response::check_size(frame.len(), limit) {
            return self.answer_failure(origin, &failure);
        }
        self.send_answer(origin, Status::Success, frame);
    }

    /// Answers with the table of management procedures: STATUS 0.
    pub(super) fn answer_status(&mut self, origin: Origin) -> Result<(), Failure> {
        self.answer_tables(origin, write_status);
        Ok(())
    }

    /// Answers with tables and a status text.
    pub(super) fn answer_with_text(
        &mut self,
        origin: Origin,
        text: &str,
        write: impl FnOnce(&mut Vec<u8>) -> u16,
    ) {
        let mut frame = Vec::new();
        let start = response::begin(&mut frame);
        let outcome = Outcome::success(write(&mut frame));
        let waited = Elapsed::between_us(origin.arrived_us, clock::now_us());
        let handle = origin.handle;
        response::finish_with_text(&mut frame, start, handle, &outcome, Some(text), waited);
        let limit = self.facts.options.max_response_bytes.to_usize();
        if let Err(failure) = response::check_size(frame.len(), limit) {
            return self.answer_failure(origin, &failure);
        }
        self.send_answer(origin, Status::Success, frame);
    }

    /// Answers, as VoltDB does for wrong arguments of procedures about snapshots, with success and
    /// what is wrong as the only row of a table.
    pub(super) fn answer_error_table(&mut self, origin: Origin, text: &str) {
        self.answer_with_text(origin, text, |out| {
            let schema = TableSchema::new(&[("ERR_MSG", SqlType::Varchar)]);
            let mut table = TableBuilder::begin(out, &schema);
            table.row(&schema, &[Datum::Text(text)]);
            table.finish();
            1
        });
    }

    pub(super) fn send_answer(&mut self, origin: Origin, status: Status, frame: Vec<u8>) {
        let answer = ForwardedAnswer { origin, status, frame };
        if origin.thread == self.facts.placement().control_thread() {
            return self.own_answers.push_back(answer);
        }
        self.outbox.send(origin.thread, Envelope::Answer(answer));
    }
}

/// Appends a response frame with the tables that `write` appends and counts.
pub(super) fn write_tables(
    frame: &mut Vec<u8>,
    handle: i64,
    arrived_us: i64,
    now_us: i64,
    write: impl FnOnce(&mut Vec<u8>) -> u16,
) {
    let start = response::begin(frame);
    let table_count = write(frame);
    let waited = Elapsed::between_us(arrived_us, now_us);
    response::finish(frame, start, handle, &Outcome::success(table_count), waited);
}

/// One table, one row: STATUS 0.
pub(super) fn write_status(out: &mut Vec<u8>) -> u16 {
    let schema = TableSchema::new(&[("STATUS", SqlType::BigInt)]);
    let mut table = TableBuilder::begin(out, &schema);
    table.row(&schema, &[Datum::Int(0)]);
    table.finish();
    1
}

/// The table of `@SystemCatalog PROCEDURES`.
pub(super) fn procedures(out: &mut Vec<u8>, catalog: &HostCatalog) -> u16 {
    let remarks: Vec<String> = catalog
        .procedures()
        .iter()
        .map(|procedure| lockstep_plan::procedure_remarks(&catalog.plan, &procedure.definition))
        .collect();
    let entry = |(procedure, more)| -> ProcedureEntry<'_> {
        let (procedure, more): (&crate::catalog::HostProcedure, &String) = (procedure, more);
        ProcedureEntry {
            more,
            name: &procedure.definition.name,
            read_only: procedure.definition.read_only,
            compound: procedure.definition.is_compound(),
            effects: procedure.definition.effects,
            routing: match procedure.routing {
                _ if procedure.changes_replicated => ProcedureRouting::Multi,
                // Clients know routing by one parameter; what else there is the server does.
                Routing::Multi
                | Routing::Parameters
                | Routing::Entries
                | Routing::Via
                | Routing::Outside => ProcedureRouting::Multi,
                Routing::Directed => ProcedureRouting::Directed,
                Routing::Parameter { index, column_type } => {
                    ProcedureRouting::ByParameter { parameter: index, column_type }
                }
            },
        }
    };
    write_procedures(out, catalog.procedures().iter().zip(&remarks).map(entry))
}
