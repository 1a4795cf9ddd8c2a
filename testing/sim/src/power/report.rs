//! What runs did, to be added up and shown.

use std::fmt;

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Recoveries.
    pub recoveries: u64,
    /// Calls that began.
    pub calls: u64,
    /// Those that were answered with success, and that were told to have failed.
    pub answered: [u64; 2],
    /// Those that were told that nobody knows.
    pub unknown: u64,
    /// Lives with an asynchronous log.
    pub asynchronous: u64,
    /// Answered calls that it had to have, and that it might lose.
    pub covered: [u64; 2],
    /// Changes of the schema that it lost.
    pub lost_changes: u64,
    /// Turns of connections that were had in order.
    pub turns: u64,
    /// Those that were cut off and are there, and that are not.
    pub cut_off: [u64; 2],
    /// Lives that ended by a cut, a failing disk, a failing sync, a full disk, in order, in order
    /// after a full disk.
    pub ends: [u64; 6],
    /// Changes of the schema that began, were answered with success and with a failure; and of
    /// those that were cut off: builds that went on, and changes that are not there, and that are.
    pub changes: [u64; 6],
    /// Exchanges of tables that began, and other classes.
    pub without_text: [u64; 2],
    /// Changes that had to be refused: requested, and refused in the same life or the next.
    pub refusals: [u64; 2],
    /// Transactions that delete rows whose time is over, rows that they were answered to have
    /// deleted, and rows that had gone after recoveries.
    pub expiries: [u64; 3],
    /// Reads that were answered while the log waited for space.
    pub read_while_full: u64,
    /// Disks that failed in a group commit, a change of segments, pruning, a snapshot, the removal
    /// of an old one, a recovery.
    pub struck: [u64; 6],
    /// Snapshots that are whole, that were given up, and segments of the log that went.
    pub saves: [u64; 3],
    /// Recoveries that began with a snapshot, and older beginnings that were compared with them.
    pub beginnings: [u64; 2],
    /// Digests of changes that were compared with those.
    pub digests: u64,
    /// Damaged files of snapshots, and recoveries that passed over a snapshot or gave up for it.
    pub damaged_snapshots: u64,
    /// See there.
    pub passed_over: u64,
    /// See there.
    pub given_up_for_damage: u64,
    /// Logs with a torn end.
    pub torn: u64,
    /// Entries that ran again.
    pub replayed: u64,
    /// Transactions left out.
    pub left_out: u64,
    /// Calls at one partition that have an entry, and failed or were withdrawn.
    pub void_calls: u64,
    /// Yes votes that could not be repeated.
    pub unrepeatable: u64,
    /// Votes that became a no after all participants had voted yes, and transactions whose
    /// participants all voted yes again after that.
    pub changed_votes: [u64; 2],
    /// Damage that was reported.
    pub damaged: u64,
    /// A hash of everything that happened.
    pub trace: u64,
}

impl Report {
    /// Adds what another run did.
    pub fn add(&mut self, other: &Report) {
        fn all<const N: usize>(sums: &mut [u64; N], counts: &[u64; N]) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        all(&mut self.answered, &other.answered);
        all(&mut self.cut_off, &other.cut_off);
        all(&mut self.covered, &other.covered);
        all(&mut self.ends, &other.ends);
        all(&mut self.changes, &other.changes);
        all(&mut self.without_text, &other.without_text);
        all(&mut self.refusals, &other.refusals);
        all(&mut self.expiries, &other.expiries);
        all(&mut self.struck, &other.struck);
        all(&mut self.saves, &other.saves);
        all(&mut self.beginnings, &other.beginnings);
        self.digests += other.digests;
        all(&mut self.changed_votes, &other.changed_votes);
        for (sum, count) in [
            (&mut self.recoveries, other.recoveries),
            (&mut self.calls, other.calls),
            (&mut self.unknown, other.unknown),
            (&mut self.turns, other.turns),
            (&mut self.asynchronous, other.asynchronous),
            (&mut self.lost_changes, other.lost_changes),
            (&mut self.damaged_snapshots, other.damaged_snapshots),
            (&mut self.passed_over, other.passed_over),
            (&mut self.given_up_for_damage, other.given_up_for_damage),
            (&mut self.torn, other.torn),
            (&mut self.read_while_full, other.read_while_full),
            (&mut self.replayed, other.replayed),
            (&mut self.left_out, other.left_out),
            (&mut self.void_calls, other.void_calls),
            (&mut self.unrepeatable, other.unrepeatable),
            (&mut self.damaged, other.damaged),
        ] {
            *sum += count;
        }
        self.trace ^= other.trace;
        lockstep_base::random::split_mix(&mut self.trace);
    }
}

impl Report {
    fn votes(&self) -> String {
        let [to_no, to_yes_again] = self.changed_votes;
        format!("{to_no} became no after all were yes, {to_yes_again} times all were yes again")
    }

    fn schema_changes(&self) -> String {
        let [begun, made, refused, gone_on, undone, late] = self.changes;
        let [exchanges, classes] = self.without_text;
        let [wrong, refused_wrong] = self.refusals;
        format!(
            "{begun} changes: {made} made, {refused} refused, {late} cut off and there, {undone} \
             cut off and not, {gone_on} builds that went on behind a recovery; of all {exchanges} \
             exchanges of tables, {classes} other classes, {wrong} that had to be refused, of \
             which {refused_wrong} were answered"
        )
    }
}

impl Report {
    fn replays(&self) -> String {
        format!(
            "{} torn ends, {} entries ran again, {} transactions left out, {} times for a yes \
             that could not be repeated, {} calls that failed or were withdrawn",
            self.torn, self.replayed, self.left_out, self.unrepeatable, self.void_calls
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [done, failed] = self.answered;
        let [there, absent] = self.cut_off;
        let [cuts, disks, syncs, full, in_order, emptied] = self.ends;
        let [groups, segments, pruning, snapshots, removals, recoveries] = self.struck;
        let [saved, given_up, pruned] = self.saves;
        let ([from_snapshots, compared], [kept, might_go]) = (self.beginnings, self.covered);
        let mut line = |name: &str, text: String| writeln!(f, "{name:>12}  {text}");
        line(
            "calls",
            format!(
                "{}: {done} answered, {failed} told to have failed, {} that nobody knows, \
                 {there} cut off and there, {absent} cut off and not; {} turns had in order",
                self.calls, self.unknown, self.turns
            ),
        )?;
        line(
            "lives",
            format!(
                "ended by {cuts} cuts, {disks} failing disks, {syncs} failing syncs, {full} full \
                 disks, {in_order} in order, {emptied} in order behind a full disk; {} reads \
                 answered while the log waited for space",
                self.read_while_full
            ),
        )?;
        line(
            "asynchronous",
            format!(
                "{} lives: of the answered calls {kept} behind which a sync began, {might_go} \
                 others; {} changes of the schema lost",
                self.asynchronous, self.lost_changes
            ),
        )?;
        line("schema", self.schema_changes())?;
        let [batches, told, gone] = self.expiries;
        line(
            "aging",
            format!("{batches} transactions, {told} rows answered, {gone} gone behind recoveries"),
        )?;
        line(
            "disks failed",
            format!(
                "in group commits {groups}, changes of segments {segments}, pruning {pruning}, \
                 snapshots {snapshots}, removal of old ones {removals}, recoveries {recoveries}"
            ),
        )?;
        line(
            "snapshots",
            format!("{saved} whole, {given_up} given up, {pruned} segments of the log pruned"),
        )?;
        line(
            "recoveries",
            format!(
                "{}, {from_snapshots} from snapshots, {compared} older beginnings compared, {} \
                 digests; {}",
                self.recoveries,
                self.digests,
                self.replays()
            ),
        )?;
        line("votes", self.votes())?;
        line(
            "damage",
            format!(
                "{} places of the log, all reported; {} files of snapshots: {} recoveries passed \
                 over one, {} gave up",
                self.damaged, self.damaged_snapshots, self.passed_over, self.given_up_for_damage
            ),
        )
    }
}
