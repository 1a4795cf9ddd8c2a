//! Leaders that are moved on purpose, as the control plane of this host has them: who hears of
//! them, how a move of a leader here is completed, and when it is given up.

use super::membership::{Membership, now};
use lockstep_cluster::{Command, Epoch};
use lockstep_host::hand_over::{PlannedMove, moves_of};

/// Between two proposals of the same move: one may be lost.
const PROPOSE_AGAIN_US: u64 = 100_000;

/// The moves that this host knows of.
#[derive(Default)]
pub(super) struct Moves {
    /// Those that are planned, as the sites know them, and since when.
    planned: Vec<(PlannedMove, u64)>,
    are_new: bool,
    /// Those of leaders here that are drained and sealed.
    drained: Vec<PlannedMove>,
    propose_us: u64,
}

impl Membership {
    /// The leaders that are to be moved, when they have changed.
    pub(super) fn take_moves(&mut self) -> Option<Vec<PlannedMove>> {
        let is_due = std::mem::take(&mut self.moves.are_new);
        is_due.then(|| self.moves.planned.iter().map(|(planned, _)| *planned).collect())
    }

    /// The state has changed.
    pub(super) fn note_moves(&mut self) {
        let Some(state) = self.state() else { return };
        let (moves, now_us) = (moves_of(state), now().us);
        let known = &self.moves.planned;
        if known.iter().map(|(planned, _)| planned).eq(&moves) {
            return;
        }
        let since = |planned: PlannedMove| {
            let before = known.iter().find(|(before, _)| *before == planned);
            before.copied().unwrap_or((planned, now_us))
        };
        self.moves.planned = moves.into_iter().map(since).collect();
        self.moves.are_new = true;
    }

    /// A leader here is drained and sealed: its move is completed.
    pub(super) fn complete_move(&mut self, planned: PlannedMove) {
        self.moves.drained.push(planned);
        self.moves.propose_us = 0;
        self.attend_to_moves();
    }

    /// Proposes what is due for the moves of leaders here.
    pub(super) fn attend_to_moves(&mut self) {
        let now = now();
        if self.moves.planned.is_empty() && self.moves.drained.is_empty()
            || now.us < self.moves.propose_us
        {
            return;
        }
        let Some(state) = self.state() else { return };
        let epoch_of = |planned: &PlannedMove| state.partitions[planned.partition.index()].epoch.0;
        let is_open = |planned: &&PlannedMove| epoch_of(planned) <= planned.epoch.into();
        let drained: Vec<PlannedMove> =
            self.moves.drained.iter().filter(is_open).copied().collect();
        let own = self.host();
        let limit_us = self.facts.options.hand_over_timeout_ms.us() as u64;
        let is_late = |(planned, since_us): &&(PlannedMove, u64)| {
            let is_here = state.partitions[planned.partition.index()].leader == own;
            is_here && now.us.saturating_sub(*since_us) > limit_us && !drained.contains(planned)
        };
        let late: Vec<PlannedMove> =
            self.moves.planned.iter().filter(is_late).map(|(planned, _)| *planned).collect();
        self.moves.propose_us = now.us + PROPOSE_AGAIN_US;
        for PlannedMove { partition, to, epoch } in drained.iter().copied() {
            // A lease that is given up holds nobody else up.
            if self.control().seal(partition, now) {
                let epoch = Epoch(epoch.into());
                self.propose(Command::CompleteHandOver { partition, to, epoch });
            }
        }
        for PlannedMove { partition, to, epoch } in late {
            tracing::warn!(%partition, %to, "a leader stays: what is in progress takes long");
            let epoch = Epoch(epoch.into());
            self.propose(Command::GiveUpHandOver { partition, epoch });
        }
        self.moves.drained = drained;
    }
}
