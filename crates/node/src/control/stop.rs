//! The orderly stop by an administrator, in VoltDB's steps: `@PrepareShutdown`, from which on no
//! work is taken; `@Quiesce`, behind which everything done before is durable; `@Shutdown`, with
//! the number that the first one gave to save a snapshot on the way, so that the next start has
//! nothing to run again; or `@CancelShutdown`.

use super::Control;
use crate::clock;
use crate::message::Origin;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::schema::Handled;
use lockstep_types::SqlType::BigInt;
use lockstep_types::{Datum, Failure, Parameter, Status, TableBuilder, TableSchema};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

/// How often the log says that a stop is prepared, in microseconds.
const REMIND_US: i64 = 60_000_000;

/// How long the end waits until old snapshots are removed and the log before the new one is given
/// up, in microseconds: the next start does it, too.
const TIDY_PATIENCE_US: i64 = 10_000_000;

/// How far the stop of a host is.
#[derive(Default)]
pub(super) struct Stop {
    /// The number of the stop that is prepared, which is the time of that in microseconds.
    prepared: Option<i64>,
    /// When the log is to say again that one is prepared.
    remind_us: i64,
    /// Who waits for a snapshot and the end; the snapshot has begun.
    saving: Option<(Origin, bool)>,
    /// Who waits for the end, the snapshot being there, and until when the host cleans up first.
    ending: Option<(Origin, i64)>,
    /// Who waits until the log is durable.
    quiescing: Vec<(Origin, Receiver<()>)>,
}

impl Control {
    /// `@PrepareShutdown`.
    pub(super) fn prepare_shutdown(&mut self, origin: Origin) -> Result<(), Failure> {
        let number = *self.stop.prepared.get_or_insert_with(clock::now_us);
        self.facts.intake.set_stopping(true);
        self.stop.remind_us = clock::now_us() + REMIND_US;
        tracing::warn!(
            "a shutdown is prepared: all calls are refused until @Shutdown or @CancelShutdown"
        );
        self.answer_tables(origin, |out| {
            let schema = TableSchema::new(&[("STATUS", BigInt)]);
            let mut table = TableBuilder::begin(out, &schema);
            table.row(&schema, &[Datum::Int(number)]);
            table.finish();
            1
        });
        Ok(())
    }

    /// `@CancelShutdown`.
    pub(super) fn cancel_shutdown(&mut self, origin: Origin) -> Result<(), Failure> {
        if self.stop.saving.is_some() || self.stop.ending.is_some() {
            return Err(Failure::graceful("The host saves its snapshot and stops already"));
        }
        if self.stop.prepared.take().is_some() {
            tracing::warn!("the prepared shutdown is cancelled: calls are accepted again");
        }
        self.facts.intake.set_stopping(false);
        self.answer_status(origin)
    }

    /// `@Shutdown`: the host ends in order, and its connections with it: nobody is answered but
    /// by a failure.
    pub(super) fn shut_down(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        if self.facts.on_shutdown.get().is_none() {
            return Err(Failure::graceful("This host ends with the program that it is part of."));
        }
        let number = match invocation.parameters.get(0) {
            None => {
                self.end(origin);
                return Ok(());
            }
            Some(Ok(Parameter::Scalar(_, Datum::Int(number)))) => Some(number),
            Some(Ok(Parameter::Scalar(_, Datum::Text(text)))) => text.trim().parse().ok(),
            Some(_) => None,
        };
        if number.is_none() || number != self.stop.prepared {
            return Err(Failure::graceful(
                "@Shutdown takes no parameter, or the number that @PrepareShutdown gave, to save a \
                 snapshot before the host stops",
            ));
        }
        if self.facts.data_disk.is_none() {
            return Err(Failure::graceful(
                "This host has no directory to save a snapshot in. Save one elsewhere by \
                 @SnapshotSave, then call @Shutdown without a parameter.",
            ));
        }
        if self.stop.saving.is_some() || self.stop.ending.is_some() {
            return Err(Failure::graceful("The host saves its snapshot and stops already"));
        }
        self.stop.saving = Some((origin, false));
        self.attend_to_stop();
        Ok(())
    }

    /// Begins the last snapshot once nothing is in its way, and tells who waits for the log.
    pub(super) fn attend_to_stop(&mut self) {
        self.remind_of_stop();
        if let Some((origin, until_us)) = self.stop.ending
            && (!self.is_tidying() || clock::now_us() >= until_us)
        {
            self.stop.ending = None;
            self.end(origin);
        }
        let is_over = |given: &Receiver<()>| given.try_recv() != Err(TryRecvError::Empty);
        let (over, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.stop.quiescing).into_iter().partition(|(_, g)| is_over(g));
        self.stop.quiescing = waiting;
        for (origin, _) in over {
            // Where the log has failed, the host is about to say so and stop.
            let _ = self.answer_status(origin);
        }
        if let Some((origin, false)) = self.stop.saving
            && self.is_free_for_snapshot()
        {
            self.stop.saving = Some((origin, true));
            if let Err(problem) = self.begin_automatic_snapshot() {
                self.last_snapshot_ended(Err(problem));
            }
        }
    }

    /// Logs from time to time that a shutdown is prepared: an administrator may have abandoned it.
    fn remind_of_stop(&mut self) {
        let Some(prepared_us) = self.stop.prepared else { return };
        let now_us = clock::now_us();
        if now_us < self.stop.remind_us {
            return;
        }
        self.stop.remind_us = now_us + REMIND_US;
        let minutes = Elapsed::between_us(prepared_us, now_us).ms() / 60_000;
        tracing::warn!(
            minutes,
            "a prepared shutdown is neither finished nor cancelled, and all calls are refused: \
             call @Shutdown or @CancelShutdown on the admin port"
        );
    }

    /// The snapshot behind which the host ends is there, or cannot be had: then the host goes on.
    pub(super) fn last_snapshot_ended(&mut self, result: Result<(), String>) {
        let Some((origin, true)) = self.stop.saving else { return };
        self.stop.saving = None;
        match result {
            Ok(()) if self.is_tidying() => {
                self.stop.ending = Some((origin, clock::now_us() + TIDY_PATIENCE_US));
            }
            Ok(()) => self.end(origin),
            Err(problem) => {
                let text = format!(
                    "The host does not stop, because its snapshot could not be saved: {problem}. \
                     Call @Shutdown again, without a parameter to stop without it, or \
                     @CancelShutdown."
                );
                self.answer_failure(origin, &Failure::graceful(text));
            }
        }
    }

    fn end(&mut self, origin: Origin) {
        let facts = Arc::clone(&self.facts);
        let Some(stop) = facts.on_shutdown.get() else { return };
        tracing::info!("shut down by an administrator");
        // Not a byte: only that nobody waits for this call when the host stops.
        self.send_answer(origin, Status::Success, Vec::new());
        stop();
    }

    /// `@Quiesce`: answers when everything that was answered before is durable.
    pub(super) fn quiesce(&mut self, origin: Origin) -> Result<Handled, Failure> {
        match self.log_pruner.as_ref().and_then(|log| log.sync(Arc::clone(&self.bell))) {
            Some(synced) => {
                self.stop.quiescing.push((origin, synced));
                Ok(Handled::Pending)
            }
            None => self.answer_status(origin).map(|()| Handled::Answered),
        }
    }
}
