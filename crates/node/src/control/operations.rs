//! System procedures that operate a host: pausing it, checking it, and those that answer about
//! features which have nothing to show here.

use super::Control;
use super::resources::give_free_memory_back;
use super::system::text_parameter;
use crate::clock;
use crate::message::Origin;
use lockstep_types::{Datum, Failure, Parameter, SqlType, TableBuilder, TableSchema};
use lockstep_wire_volt::Invocation;

use SqlType::{BigInt, Integer};

/// The failure of a call that only administrators may make.
pub(super) fn not_available(name: &str) -> Failure {
    Failure::unexpected(format!("{name} is not available to this client"))
}

/// `@Promote`: there is no other cluster that this one could be a replica of.
pub(super) fn promote() -> Result<(), Failure> {
    Err(Failure::graceful("@Promote issued on a non-replica cluster. No action taken."))
}

type Columns = [(&'static str, SqlType)];

/// Appends one table.
fn write_table(out: &mut Vec<u8>, columns: &Columns, rows: &[&[Datum<'_>]]) {
    let schema = TableSchema::new(columns);
    let mut table = TableBuilder::begin(out, &schema);
    for row in rows {
        table.row(&schema, row);
    }
    table.finish();
}

pub(super) fn is_null(invocation: &Invocation<'_>, index: usize) -> bool {
    matches!(invocation.parameters.get(index), Some(Ok(Parameter::Scalar(_, Datum::Null))) | None)
}

impl Control {
    /// `@Pause` and `@Resume`.
    pub(super) fn set_paused(&mut self, origin: Origin, paused: bool) -> Result<(), Failure> {
        self.facts.intake.set_paused(paused);
        match paused {
            true => tracing::warn!("paused by an administrator: clients only read"),
            false => tracing::warn!("resumed by an administrator: clients write again"),
        }
        self.answer_status(origin)
    }

    /// `@GC`: gives the system back what the allocator holds free.
    pub(super) fn collect_garbage(&mut self, origin: Origin) -> Result<(), Failure> {
        let columns = &[("SYSTEM_GC_DURATION_NANOS", BigInt)];
        let began_ns = clock::monotonic_ns();
        give_free_memory_back();
        let took_ns = clock::monotonic_ns().saturating_sub(began_ns);
        self.answer_tables(origin, |out| {
            write_table(out, columns, &[&[Datum::Int(took_ns as i64)]]);
            1
        });
        Ok(())
    }

    /// `@SystemClockSkew`: one host has no other to differ from.
    pub(super) fn clock_skew(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let action = text_parameter(invocation, 0).unwrap_or("null");
        if !action.eq_ignore_ascii_case("COLLECT") {
            return Err(Failure::graceful(format!(
                "@SystemClockSkew cannot do {action}; it can COLLECT"
            )));
        }
        let (id, now_ms) = (self.facts.host_id(), clock::now_us() / 1000);
        let columns = &[("NODE_CURRENT_TIME", BigInt), ("HOST_ID", Integer)];
        self.answer_tables(origin, |out| {
            write_table(out, columns, &[&[Datum::Int(now_ms), id]]);
            1
        });
        Ok(())
    }

    /// `@ProfCtl`: answered as by a VoltDB server that was built without a profiler, with a status
    /// text about that.
    pub(super) fn control_profiler(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let command = text_parameter(invocation, 0);
        let known = ["SAMPLER_START", "GPERF_ENABLE", "GPERF_DISABLE"];
        let result = match command {
            None => "No command.".to_string(),
            Some(command) if known.iter().any(|known| command.eq_ignore_ascii_case(known)) => {
                let text = format!(
                    "@ProfCtl {command} has no effect: the host has no profiler. Use a profiler of \
                     the operating system, such as perf, on its process."
                );
                self.answer_with_text(origin, &text, |out| profiler_table(out, command));
                return Ok(());
            }
            Some(command) => format!("Invalid command: {command}"),
        };
        self.answer_tables(origin, |out| profiler_table(out, &result));
        Ok(())
    }

    /// `@Note`: a line in the log.
    pub(super) fn note(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let Some(text) = text_parameter(invocation, 0) else {
            return Err(Failure::graceful("@Note requires a text as its parameter"));
        };
        tracing::info!(text, "note");
        self.answer_status(origin)
    }
}

/// The table that `@ProfCtl` answers with.
fn profiler_table(out: &mut Vec<u8>, result: &str) -> u16 {
    write_table(out, &[("Result", SqlType::Varchar)], &[&[Datum::Text(result)]]);
    1
}
