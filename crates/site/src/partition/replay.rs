//! Replay: entries of the log run again through the functions that ran them first.
//!
//! Calls, ad hoc statements and loads are replayed by [`Site::call`], [`Site::statements`] and
//! [`Site::load`] under the header of their entry, marked as repeated, so that they are not
//! logged again; rounds of committed transactions by [`Site::replay_round`]. Between entries
//! nothing is undecided. Entries of what failed do not run: so whatever runs succeeded before, and
//! runs without the limits of the host ([`Site::begin_replay`]).

use super::Site;
use crate::message::{FragmentTask, SchemaTask};
use lockstep_base::growing::GrowingMap;
use lockstep_exec::arena::Arena;
use lockstep_exec::database::{Database, ExecutionLimits, TransactionContext};
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::procedure::{PartsHere, PreparedProcedure, run_parts};
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::{EntryHeader, LogBuffer, OrderedStream};
use lockstep_types::{Failure, ParameterSet, PartitionId, TransactionId};
use std::sync::Arc;

impl<H, A, C: Clone> Site<H, A, C> {
    /// The entries of a log follow, up to [`Site::go_on_behind`]: they run without limits, which
    /// may be other ones than those with which they succeeded, and nothing is logged.
    pub fn begin_replay(&mut self) {
        assert!(self.is_idle(), "replay begins when nothing is in progress");
        if !self.is_replaying() {
            let limits = self.database.set_limits(ExecutionLimits::NONE);
            self.replayed_without = Some(limits);
        }
    }

    /// Whether entries of a log run.
    pub(super) fn is_replaying(&self) -> bool {
        self.replayed_without.is_some()
    }

    /// A call that only reads follows, between two entries: it runs with the limits of the host.
    pub fn begin_read(&mut self) {
        assert!(self.is_idle() && !self.database.has_undo(), "a copy is read between entries");
        let limits = self.replayed_without.take().expect("entries run here");
        self.replayed_without = Some(self.database.set_limits(limits));
    }

    /// The read has ended: entries follow, without limits again.
    pub fn end_read(&mut self) {
        assert!(!self.database.has_undo(), "a read changes nothing");
        let none = self.replayed_without.take().expect("entries run here");
        self.replayed_without = Some(self.database.set_limits(none));
        self.limit_time(None);
    }

    /// Runs what a committed transaction did here in one round.
    ///
    /// # Errors
    /// A part fails, which it did not when it ran first: nothing of it is done.
    pub fn replay_round(
        &mut self,
        header: &EntryHeader,
        entries: &[PartitionEntries],
        tasks: &[FragmentTask],
    ) -> Result<(), Failure> {
        assert!(self.initiator.is_decided(), "replay stops for nothing");
        let mark = self.database.begin(&TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition: true,
            single_partition: false,
            read_only: false,
        });
        // What other partitions have to do stands in their logs.
        let mut elsewhere = Vec::new();
        let ran = self.run_entries(entries).and_then(|()| self.run_tasks(tasks, &mut elsewhere));
        match ran {
            Ok(_) => self.database.commit(),
            Err(_) => self.database.rollback_to(mark),
        }
        ran.map(|_| ())
    }

    /// Runs what a committed call of one round did here. `home` is where its statements run if it
    /// is one of a single-partition procedure, and whether it addresses the partition itself.
    ///
    /// # Errors
    /// As for [`Site::replay_round`], or the call has no parts any more.
    pub fn replay_one_round(
        &mut self,
        header: &EntryHeader,
        procedure: &PreparedProcedure,
        home: Option<(PartitionId, bool)>,
        parameters: &[u8],
    ) -> Result<(), Failure> {
        assert!(self.initiator.is_decided(), "replay stops for nothing");
        let given = ParameterSet::new(parameters);
        let given = given.map_err(|error| Failure::graceful(error.to_string()))?;
        let (ring, mut places) = (Arc::clone(&self.database.options().ring), Vec::new());
        let at = home.map(|(partition, _)| partition);
        if !procedure.place_parts(given, at, &ring, &Arena::new(), &mut places) {
            let name = &procedure.definition().name;
            return Err(Failure::unexpected(format!("{name} is no procedure of one round")));
        }
        let mark = self.database.begin(&TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition: true,
            single_partition: false,
            read_only: false,
        });
        let home = home.map(|(_, addresses_partition)| addresses_partition);
        let here = PartsHere { procedure, given, places: &places, home, skips_entries: false };
        let mut answer = self.answer_memory.pop().unwrap_or_default();
        let ran = run_parts(&mut self.database, &here, &mut answer);
        self.recycle(answer);
        match ran {
            Ok(()) => self.database.commit(),
            Err(_) => self.database.rollback_to(mark),
        }
        ran
    }

    /// Makes the images of rows that a call left.
    ///
    /// # Errors
    /// They do not fit what is here: nothing of them is done.
    pub fn replay_effects(&mut self, header: &EntryHeader, images: &[u8]) -> Result<(), Failure> {
        assert!(self.initiator.is_decided(), "replay stops for nothing");
        let mark = self.database.begin(&TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition: true,
            single_partition: true,
            read_only: false,
        });
        let made = self.database.apply_images(images);
        if made.is_ok() {
            self.database.note_images(mark, images);
        }
        match made {
            Ok(()) => self.database.commit(),
            Err(_) => self.database.rollback_to(mark),
        }
        made
    }

    /// Carries out a change of the catalog that was committed, at this partition alone; `built` are
    /// entries of global indexes that came from other partitions. New log entries are of the
    /// catalog that [`Site::go_on_behind`] is given.
    ///
    /// # Errors
    /// It fails, which it did not when it ran first: nothing of it is done.
    pub fn replay_change(
        &mut self,
        header: &EntryHeader,
        task: &SchemaTask<C>,
        built: &[PartitionEntries],
    ) -> Result<(), Failure> {
        assert!(self.initiator.is_decided() && self.is_replaying(), "replay stops for nothing");
        assert!(task.snapshot.is_none(), "the beginning of a snapshot changes nothing");
        self.database.begin(&TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition: true,
            single_partition: false,
            read_only: false,
        });
        let prepared = match &task.swap {
            Some(swap) => self.database.prepare_swap(&swap.pairs).map(drop),
            None => self.database.prepare_change(&task.changes),
        };
        let prepared = prepared.and_then(|()| match built {
            [] => Ok(()),
            built => self.database.build_entries(built).map(drop),
        });
        self.database.commit();
        match prepared {
            Ok(()) => self.database.commit_change(),
            Err(_) => self.database.rollback_change(),
        }
        prepared.map_err(|error| error.to_failure())
    }

    /// The coordinator's messages are numbered from 1 again: it is another one.
    pub fn expect_new_coordinator(&mut self) {
        assert!(self.is_idle(), "a coordinator is replaced when nothing is in progress");
        self.stream = OrderedStream::new(self.early_messages);
    }

    /// The data, to be filled from a snapshot before anything runs.
    pub fn database_mut(&mut self) -> &mut Database {
        assert!(self.is_idle(), "data are filled when nothing is in progress");
        &mut self.database
    }

    /// The log was replayed up to the entry with this number: new entries, and new transaction
    /// ids, follow it; another source orders them.
    pub fn go_on_behind(
        &mut self,
        (source, sequence): (LogSource, u64),
        last: TransactionId,
        catalog_version: u64,
    ) {
        self.expect_new_coordinator();
        if let Some(limits) = self.replayed_without.take() {
            self.database.set_limits(limits);
        }
        self.logged = GrowingMap::default();
        self.log = LogBuffer::new(self.partition, source, sequence);
        self.log.set_catalog_version(catalog_version);
        self.initiator.advance_past(last);
        self.database.maintain();
    }
}
