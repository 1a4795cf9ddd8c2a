//! What is broken in a run, and what it did.

use lockstep_site::Faults;
use lockstep_txn::replica::ReplicaFaults;
use std::fmt;

/// What is broken in the hosts.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostFaults {
    /// In the control plane. `serve_after_lease`: a lease counts for a while after its end.
    pub cluster: lockstep_cluster::Faults,
    /// In the streams between copies.
    pub streams: ReplicaFaults,
    /// In the protocol of transactions.
    pub site: Faults,
    /// A new leader takes what it has no decision on for committed.
    pub lose_vote: bool,
    /// A new leader counts each yes in its log, void or not.
    pub trust_logged_yes: bool,
    /// A call that was handed to a host that is lost is sent again.
    pub resend_handed_call: bool,
    /// A leader goes on without a copy that lags, and no epoch says so.
    pub shrink_without_epoch: bool,
    /// A leader that is to be moved goes on to take calls, also when its stream is sealed.
    pub run_after_seal: bool,
    /// A copy takes its data for current as soon as the leader has said how far the log is.
    pub read_before_applied: bool,
    /// Rows are deleted before their time is over.
    pub expire_early: bool,
    /// A host that takes the coordinator over deletes no expired rows.
    pub stop_expiring: bool,
    /// Leaders forget asks of copies for their data: no judge is to notice it.
    pub lose_asks: bool,
}

/// What a run did, or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls that succeeded.
    pub answered: u64,
    /// Calls that failed, with nothing done.
    pub failed: u64,
    /// Calls whose outcome is not known.
    pub unknown: u64,
    /// Processes that were killed.
    pub killed: u64,
    /// Hosts that the control plane has put out.
    pub lost: u64,
    /// Those of them whose process ran and noticed it.
    pub false_suspicions: u64,
    /// Hosts that were put out and took part again, because they have the only copies.
    pub resumed: u64,
    /// How often a host noticed that it is not connected with a majority.
    pub minorities: u64,
    /// What was withheld because its host had no lease.
    pub lease_refusals: u64,
    /// Pauses that lasted longer than a lease.
    pub long_pauses: u64,
    /// Connections that were cut in one direction, and in both.
    pub one_way_cuts: u64,
    /// See `one_way_cuts`.
    pub cuts: u64,
    /// Sessions that ended with what was in flight.
    pub sessions: u64,
    /// Epochs after the first one.
    pub epochs: u64,
    /// Copies that came to lead, and leaders that went on with other copies.
    pub leaders: u64,
    /// See `leaders`.
    pub reopened: u64,
    /// Calls that were refused because a partition could not be served, and those that ended as
    /// unknown because of that.
    pub refused_unavailable: u64,
    /// See `refused_unavailable`.
    pub ended_unavailable: u64,
    /// Changes of the schema that were made, and calls that were planned again after one.
    pub changes: u64,
    /// See `changes`.
    pub planned_again: u64,
    /// The last changes that coordinators which took over have found, made and undone.
    pub changes_found_made: u64,
    /// See `changes_found_made`.
    pub changes_found_undone: u64,
    /// How often a call went from an index to a row, or back.
    pub hops: u64,
    /// Those of these calls that waited for a placement that their sender had already.
    pub ahead: u64,
    /// Runs at whose end partitions could not be served.
    pub left_unavailable: u64,
    /// Coordinators that took over.
    pub coordinators: u64,
    /// Leaders that were moved on purpose.
    pub moved: u64,
    /// Coordinators that were.
    pub coordinators_moved: u64,
    /// Hosts that were put out, ran, and began again by themselves.
    pub began_again: u64,
    /// Processes that were started in place of lost ones.
    pub started_again: u64,
    /// Those that took part.
    pub joined: u64,
    /// Copies that asked for their data.
    pub load_attempts: u64,
    /// Those of them that had asked before.
    pub loads_again: u64,
    /// Asks for data that were lost.
    pub asks_lost: u64,
    /// Asks that were repeated, because nothing had come of them.
    pub asks_repeated: u64,
    /// Copies that lacked too much, and began again.
    pub loads_too_slow: u64,
    /// Copies that had their data.
    pub loaded: u64,
    /// Copies that came in sync again.
    pub in_sync: u64,
    /// Copies that were to be loaded at hosts which had stayed.
    pub reloads: u64,
    /// Changes of K.
    pub k_changes: u64,
    /// Moves of copies that were proposed.
    pub copy_moves: u64,
    /// Hosts that were added.
    pub added: u64,
    /// Hosts that were removed.
    pub removed: u64,
    /// Copies that came to lead at hosts which had come back.
    pub returned_leaders: u64,
    /// Runs that ended with more lost than the cluster survives.
    pub stuck: u64,
    /// Edges of the order of transactions over lists.
    pub edges: u64,
    /// Reads that copies have answered, and those that they left to leaders.
    pub reads_at_copies: u64,
    /// See `reads_at_copies`.
    pub reads_too_stale: u64,
    /// Transactions that were to delete expired rows.
    pub deletions: u64,
    /// Expired rows that they are known to have deleted, and those of them that a host has had
    /// deleted which had taken over.
    pub expired: u64,
    /// See `expired`.
    pub expired_after_takeover: u64,
    /// Orders of TPC-C that were answered, payments, orders that were delivered, and orders of
    /// unknown items that were rolled back.
    pub orders: u64,
    /// See `orders`.
    pub payments: u64,
    /// See `orders`.
    pub deliveries: u64,
    /// See `orders`.
    pub rollbacks: u64,
    /// Those of the orders and payments that were of several warehouses.
    pub remote: u64,
    /// Reads of all tables of TPC-C.
    pub snapshots: u64,
}

impl Report {
    fn numbers(&mut self) -> [&mut u64; 57] {
        [
            &mut self.answered,
            &mut self.failed,
            &mut self.unknown,
            &mut self.killed,
            &mut self.lost,
            &mut self.false_suspicions,
            &mut self.resumed,
            &mut self.minorities,
            &mut self.lease_refusals,
            &mut self.long_pauses,
            &mut self.one_way_cuts,
            &mut self.cuts,
            &mut self.sessions,
            &mut self.epochs,
            &mut self.leaders,
            &mut self.reopened,
            &mut self.coordinators,
            &mut self.refused_unavailable,
            &mut self.ended_unavailable,
            &mut self.left_unavailable,
            &mut self.changes,
            &mut self.planned_again,
            &mut self.changes_found_made,
            &mut self.changes_found_undone,
            &mut self.hops,
            &mut self.ahead,
            &mut self.moved,
            &mut self.coordinators_moved,
            &mut self.began_again,
            &mut self.started_again,
            &mut self.joined,
            &mut self.load_attempts,
            &mut self.loads_again,
            &mut self.asks_lost,
            &mut self.asks_repeated,
            &mut self.loads_too_slow,
            &mut self.loaded,
            &mut self.in_sync,
            &mut self.reloads,
            &mut self.k_changes,
            &mut self.copy_moves,
            &mut self.added,
            &mut self.removed,
            &mut self.returned_leaders,
            &mut self.stuck,
            &mut self.edges,
            &mut self.reads_at_copies,
            &mut self.reads_too_stale,
            &mut self.deletions,
            &mut self.expired,
            &mut self.expired_after_takeover,
            &mut self.orders,
            &mut self.payments,
            &mut self.deliveries,
            &mut self.rollbacks,
            &mut self.remote,
            &mut self.snapshots,
        ]
    }

    /// What it did of TPC-C.
    fn fmt_tpcc(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { orders, payments, deliveries, rollbacks, remote, snapshots, .. } = self;
        write!(
            f,
            "; {orders} orders, {payments} payments, {deliveries} orders delivered and {rollbacks} \
             rolled back, {remote} orders and payments of several warehouses, {snapshots} reads of \
             all warehouses"
        )
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Report) {
        let mut other = *other;
        for (sum, number) in self.numbers().into_iter().zip(other.numbers()) {
            *sum += *number;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} calls answered, {} failed, {} unknown; {} hosts killed, {} put out, {} of these \
             running, {} resumed; {} minorities, {} answers without a lease withheld, {} long \
             pauses, {} cuts in one direction and {} in both, {} sessions lost; {} epochs, {} \
             leaders took over, {} went on with other copies, {} coordinators took over; {} \
             calls refused and {} ended because of lost partitions, which {} runs had at their \
             ends; {} changes of the schema, {} calls planned again, {} and {} found made and \
             undone by coordinators that took over; {} hops, {} of them ahead of a placement; \
             {} leaders and {} coordinators moved; {} hosts begun again by themselves, {} \
             started again, {} joined; {} loads of copies begun, {} of them again, {} asks \
             repeated, {} too slow, {} ended, {} copies in sync again, {} at hosts that stayed, \
             {} changes of K, {} copies moved, {} hosts added and {} removed, {} leaders at \
             hosts that came back; {} runs lost too much; {} edges between transactions over \
             lists without a cycle; {} reads answered by copies, {} left to leaders; {} \
             deletions of {} expired rows, {} of them after a takeover",
            self.answered,
            self.failed,
            self.unknown,
            self.killed,
            self.lost,
            self.false_suspicions,
            self.resumed,
            self.minorities,
            self.lease_refusals,
            self.long_pauses,
            self.one_way_cuts,
            self.cuts,
            self.sessions,
            self.epochs,
            self.leaders,
            self.reopened,
            self.coordinators,
            self.refused_unavailable,
            self.ended_unavailable,
            self.left_unavailable,
            self.changes,
            self.planned_again,
            self.changes_found_made,
            self.changes_found_undone,
            self.hops,
            self.ahead,
            self.moved,
            self.coordinators_moved,
            self.began_again,
            self.started_again,
            self.joined,
            self.load_attempts,
            self.loads_again,
            self.asks_repeated,
            self.loads_too_slow,
            self.loaded,
            self.in_sync,
            self.reloads,
            self.k_changes,
            self.copy_moves,
            self.added,
            self.removed,
            self.returned_leaders,
            self.stuck,
            self.edges,
            self.reads_at_copies,
            self.reads_too_stale,
            self.deletions,
            self.expired,
            self.expired_after_takeover
        )?;
        self.fmt_tpcc(f)
    }
}
