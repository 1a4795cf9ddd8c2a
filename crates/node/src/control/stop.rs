//! The orderly stop by an administrator, in VoltDB's steps: `@PrepareShutdown`, from which on no
//! work is taken; `@Quiesce`, after which everything done before is durable; `@Shutdown`, with
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

/// How long a stop waits for the last file of a snapshot that counts, in microseconds: without it
/// the next start replays the log.
const FINISH_PATIENCE_US: i64 = 10_000_000;

/// The stop of a host.
#[derive(Default)]
pub(super) struct Stop {
    /// The number of the stop that is prepared, which is the time of that in microseconds.
    prepared_us: Option<i64>,
    /// When the log is to report again that one is prepared.
    remind_us: i64,
    ending: Ending,
    /// The calls that wait until the log is durable.
    quiescing: Vec<(Origin, Receiver<()>)>,
}

/// How far a stop with a snapshot has come, and the call that waits for it.
#[derive(Default)]
enum Ending {
    /// There is none.
    #[default]
    None,
    /// The snapshot has not begun.
    Requested(Origin),
    /// The snapshot is being saved.
    Saving(Origin),
    /// The snapshot is there. Until this time the host removes what is not needed any more.
    Tidying { origin: Origin, until_us: i64 },
    /// Another host has ordered the stop, and the snapshot of this host counts already. Until this
    /// time the host waits for the end of it.
    Finishing { origin: Origin, until_us: i64 },
}

/// What follows from the end of the last snapshot.
enum LastSnapshot {
    /// The host goes on.
    Nothing,
    /// The host ends, and those with it whose copies it had saved.
    End(Origin),
    /// This host ends. The others are asked by the host that ordered the stop.
    EndAlone(Origin),
    /// The call is refused, and the host goes on.
    Refused(Origin, Failure),
}

impl Stop {
    /// Prepares one; returns its number.
    fn prepare(&mut self, now_us: i64) -> i64 {
        self.remind_us = now_us + REMIND_US;
        *self.prepared_us.get_or_insert(now_us)
    }

    /// Cancels the prepared one; returns whether there was one.
    ///
    /// # Errors
    /// The host stops already.
    fn cancel(&mut self) -> Result<bool, Failure> {
        self.check_not_ending()?;
        Ok(self.prepared_us.take().is_some())
    }

    fn check_not_ending(&self) -> Result<(), Failure> {
        match self.ending {
            Ending::None => Ok(()),
            _ => Err(Failure::graceful("The host saves its snapshot and stops already")),
        }
    }

    /// Checks the number that a call of `@Shutdown` gives.
    ///
    /// # Errors
    /// It is not that of the prepared stop.
    fn check_number(&self, given: Option<i64>) -> Result<(), Failure> {
        match given.is_some() && given == self.prepared_us {
            true => Ok(()),
            false => Err(Failure::graceful(
                "@Shutdown takes no parameter, or the number that @PrepareShutdown gave, to save a \
                 snapshot before the host stops",
            )),
        }
    }

    /// For how many minutes a stop has been prepared, if it is time to report it.
    fn reminder_minutes(&mut self, now_us: i64) -> Option<u64> {
        let prepared_us = self.prepared_us?;
        if now_us < self.remind_us {
            return None;
        }
        self.remind_us = now_us + REMIND_US;
        Some(Elapsed::between_us(prepared_us, now_us).ms() / 60_000)
    }

    /// The calls whose log is durable.
    fn quiesced(&mut self) -> Vec<Origin> {
        let is_over = |synced: &Receiver<()>| synced.try_recv() != Err(TryRecvError::Empty);
        let quiescing = std::mem::take(&mut self.quiescing);
        let (over, waiting): (Vec<_>, Vec<_>) =
            quiescing.into_iter().partition(|(_, synced)| is_over(synced));
        self.quiescing = waiting;
        over.into_iter().map(|(origin, _)| origin).collect()
    }

    /// The end that waits for nothing any more.
    fn take_end(&mut self, is_tidying: bool, now_us: i64) -> LastSnapshot {
        let end = match self.ending {
            Ending::Tidying { origin, until_us } if !is_tidying || now_us >= until_us => {
                LastSnapshot::End(origin)
            }
            Ending::Finishing { origin, until_us } if now_us >= until_us => {
                LastSnapshot::EndAlone(origin)
            }
            _ => return LastSnapshot::Nothing,
        };
        self.ending = Ending::None;
        end
    }

    /// The stop that another host has ordered waits for the snapshot of this host.
    fn finish_snapshot(&mut self, origin: Origin, now_us: i64) {
        self.ending = Ending::Finishing { origin, until_us: now_us + FINISH_PATIENCE_US };
    }

    /// Whether the snapshot of a stop begins now, given that nothing else is in its way.
    fn begin_snapshot(&mut self, is_free: bool) -> bool {
        match self.ending {
            Ending::Requested(origin) if is_free => {
                self.ending = Ending::Saving(origin);
                true
            }
            _ => false,
        }
    }

    /// The snapshot is there, or cannot be saved.
    fn snapshot_ended(
        &mut self,
        result: Result<(), String>,
        is_tidying: bool,
        now_us: i64,
    ) -> LastSnapshot {
        let origin = match self.ending {
            Ending::Saving(origin) => origin,
            Ending::Finishing { origin, .. } => {
                self.ending = Ending::None;
                return LastSnapshot::EndAlone(origin);
            }
            _ => return LastSnapshot::Nothing,
        };
        self.ending = Ending::None;
        match result {
            Ok(()) if is_tidying => {
                self.ending = Ending::Tidying { origin, until_us: now_us + TIDY_PATIENCE_US };
                LastSnapshot::Nothing
            }
            Ok(()) => LastSnapshot::End(origin),
            Err(problem) => {
                let text = format!(
                    "The host does not stop, because its snapshot could not be saved: {problem}. \
                     Call @Shutdown again, without a parameter to stop without it, or \
                     @CancelShutdown."
                );
                LastSnapshot::Refused(origin, Failure::graceful(text))
            }
        }
    }
}

impl Control {
    /// `@PrepareShutdown`.
    pub(super) fn prepare_shutdown(&mut self, origin: Origin) -> Result<(), Failure> {
        let number = self.stop.prepare(clock::now_us());
        self.facts.intake.set_stopping(true);
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
        if self.stop.cancel()? {
            tracing::warn!("the prepared shutdown is cancelled: calls are accepted again");
        }
        self.facts.intake.set_stopping(false);
        self.answer_status(origin)
    }

    /// `@Shutdown`: the host ends in order, and its connections with it. A call is answered only
    /// if it fails.
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
                self.end_without_saving(origin);
                return Ok(());
            }
            Some(Ok(Parameter::Scalar(_, Datum::Int(number)))) => Some(number),
            Some(Ok(Parameter::Scalar(_, Datum::Text(text)))) => text.trim().parse().ok(),
            Some(_) => None,
        };
        self.stop.check_number(number)?;
        if !self.facts.keeps_snapshots(self.log_pruner.is_some()) {
            return Err(Failure::graceful(
                "This host has no directory to save a snapshot in. Save one elsewhere by \
                 @SnapshotSave, then call @Shutdown without a parameter.",
            ));
        }
        self.stop.check_not_ending()?;
        self.stop.ending = Ending::Requested(origin);
        self.attend_to_stop();
        Ok(())
    }

    /// Begins the last snapshot once nothing is in its way, and answers the calls that wait for the
    /// log.
    pub(super) fn attend_to_stop(&mut self) {
        let now_us = clock::now_us();
        // An administrator may have abandoned it.
        if let Some(minutes) = self.stop.reminder_minutes(now_us) {
            tracing::warn!(
                minutes,
                "a prepared shutdown is neither finished nor cancelled, and all calls are refused: \
                 call @Shutdown or @CancelShutdown on the admin port"
            );
        }
        let end = self.stop.take_end(self.is_tidying(), now_us);
        self.follow_last_snapshot(end);
        for origin in self.stop.quiesced() {
            // Where the log has failed, the host is about to report that and stop.
            let _ = self.answer_status(origin);
        }
        if self.stop.begin_snapshot(self.is_free_for_snapshot())
            && let Err(problem) = self.begin_last_snapshot()
        {
            self.last_snapshot_ended(Err(problem));
        }
    }

    /// Of several hosts, all save their copies, which the one orders that leads.
    fn begin_last_snapshot(&mut self) -> Result<(), String> {
        if self.facts.keeps_own_copies() && !self.facts.placement().leads_control() {
            return Err("another host orders snapshots now".to_string());
        }
        self.begin_automatic_snapshot()
    }

    /// The snapshot after which the host ends is there, or cannot be had: then the host goes on.
    pub(super) fn last_snapshot_ended(&mut self, result: Result<(), String>) {
        let is_tidying = self.is_tidying();
        let last = self.stop.snapshot_ended(result, is_tidying, clock::now_us());
        self.follow_last_snapshot(last);
    }

    fn follow_last_snapshot(&mut self, last: LastSnapshot) {
        match last {
            LastSnapshot::Nothing => {}
            LastSnapshot::End(origin) => self.end_saved(origin),
            LastSnapshot::EndAlone(origin) => self.end(origin),
            LastSnapshot::Refused(origin, failure) => self.answer_failure(origin, &failure),
        }
    }

    /// A stop without a snapshot, or the one that follows the snapshot of all hosts: that host
    /// orders it when all have written their copies, and the last file of this one may be missing.
    fn end_without_saving(&mut self, origin: Origin) {
        let is_first = matches!(self.stop.ending, Ending::None);
        match is_first && self.has_copies_that_count() {
            true => self.stop.finish_snapshot(origin, clock::now_us()),
            false => self.end(origin),
        }
    }

    /// The last snapshot is there: what it is of ends.
    fn end_saved(&mut self, origin: Origin) {
        match self.facts.keeps_own_copies() {
            true => self.end_all_hosts(origin),
            false => self.end(origin),
        }
    }

    fn end(&mut self, origin: Origin) {
        let facts = Arc::clone(&self.facts);
        let Some(stop) = facts.on_shutdown.get() else { return };
        tracing::info!("shut down by an administrator");
        // Without a byte: it only ends the wait for this call, so that the host can stop.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::NO_PROCEDURE;
    use crate::own_call::OwnCall;
    use lockstep_types::ThreadId;

    const NOW_US: i64 = 1_000_000_000_000;

    fn origin() -> Origin {
        Origin {
            thread: ThreadId(0),
            connection: OwnCall::Restore.key(),
            handle: 7,
            arrived_us: NOW_US,
            procedure: NO_PROCEDURE,
            weight: 0,
        }
    }

    #[test]
    fn a_stop_waits_for_its_snapshot_and_for_what_follows_it() {
        let mut stop = Stop::default();
        assert!(stop.check_number(None).is_err(), "no stop is prepared");
        let number = stop.prepare(NOW_US);
        assert_eq!(stop.prepare(NOW_US + 5), number, "the first one stays");
        assert!(stop.check_number(Some(number + 1)).is_err());
        assert!(stop.check_number(Some(number)).is_ok());
        assert!(!stop.begin_snapshot(true), "no call has asked for it");
        stop.ending = Ending::Requested(origin());
        assert!(stop.cancel().is_err());
        assert!(!stop.begin_snapshot(false), "another snapshot is in the way");
        assert!(stop.begin_snapshot(true));
        assert!(!stop.begin_snapshot(true), "it begins once");
        let ended = stop.snapshot_ended(Ok(()), true, NOW_US);
        assert!(matches!(ended, LastSnapshot::Nothing));
        assert!(matches!(stop.take_end(true, NOW_US), LastSnapshot::Nothing));
        let ended = stop.take_end(true, NOW_US + TIDY_PATIENCE_US);
        assert!(matches!(ended, LastSnapshot::End(_)));
        assert!(matches!(stop.take_end(false, NOW_US), LastSnapshot::Nothing), "it ends once");
    }

    #[test]
    fn a_stop_that_another_host_ordered_waits_for_the_last_file_of_its_snapshot() {
        let late_us = NOW_US + FINISH_PATIENCE_US;
        for result in [Ok(()), Err("full".to_string())] {
            let mut stop = Stop::default();
            stop.finish_snapshot(origin(), NOW_US);
            assert!(!stop.begin_snapshot(true), "no other one begins");
            assert!(matches!(stop.take_end(false, late_us - 1), LastSnapshot::Nothing));
            let ended = stop.snapshot_ended(result, true, NOW_US);
            assert!(matches!(ended, LastSnapshot::EndAlone(_)), "with a snapshot or without one");
            assert!(matches!(stop.take_end(false, late_us), LastSnapshot::Nothing), "it ends once");
        }
        let mut stop = Stop::default();
        stop.finish_snapshot(origin(), NOW_US);
        assert!(matches!(stop.take_end(false, late_us), LastSnapshot::EndAlone(_)), "a slow disk");
    }

    #[test]
    fn a_host_whose_last_snapshot_fails_goes_on() {
        let mut stop = Stop::default();
        stop.prepare(NOW_US);
        let ended = stop.snapshot_ended(Err("full".to_string()), false, NOW_US);
        assert!(matches!(ended, LastSnapshot::Nothing), "it is not the one of a stop");
        stop.ending = Ending::Requested(origin());
        assert!(stop.begin_snapshot(true));
        match stop.snapshot_ended(Err("full".to_string()), false, NOW_US) {
            LastSnapshot::Refused(_, failure) => assert!(failure.message.contains("full")),
            _ => panic!("the call is refused"),
        }
        assert_eq!(stop.cancel().ok(), Some(true));
        assert_eq!(stop.cancel().ok(), Some(false));
    }

    #[test]
    fn a_prepared_stop_is_reported_again_and_again() {
        let mut stop = Stop::default();
        assert_eq!(stop.reminder_minutes(NOW_US), None);
        stop.prepare(NOW_US);
        assert_eq!(stop.reminder_minutes(NOW_US + REMIND_US - 1), None);
        assert_eq!(stop.reminder_minutes(NOW_US + REMIND_US), Some(1));
        assert_eq!(stop.reminder_minutes(NOW_US + REMIND_US), None);
        assert_eq!(stop.reminder_minutes(NOW_US + 3 * REMIND_US), Some(3));
    }
}
