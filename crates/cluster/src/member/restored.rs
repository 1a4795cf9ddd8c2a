//! What a member that starts again can say of the cluster before it has heard of the others.

use super::Restored;
use crate::command::Command;
use crate::error::ClusterError;
use crate::faults::Faults;
use crate::log_entry::EntryBody;
use crate::message::Proposal;
use crate::state::ClusterState;

impl Restored {
    /// The newest state that the log leads to, whether all of it is known to be committed or not:
    /// whatever this member has acted on is in it. What never was committed can only have taken
    /// copies out of service. `None` where the cluster was not formed.
    ///
    /// # Errors
    /// The log contradicts itself.
    pub fn newest_state(&self) -> Result<Option<ClusterState>, ClusterError> {
        let unsound = |error: crate::FormatError| ClusterError::Restored(error.to_string());
        let Some(snapshot) = &self.snapshot else { return Ok(None) };
        let mut state = ClusterState::decode(&snapshot.state).map_err(unsound)?;
        for entry in self.entries.iter().filter(|entry| entry.index > snapshot.index) {
            let EntryBody::Proposal(bytes) = &entry.body else { continue };
            let proposal = Proposal::decode(bytes).map_err(unsound)?;
            let number = (proposal.incarnation, proposal.sequence);
            let Some(record) = state.hosts.get_mut(&proposal.from.host()) else { continue };
            let is_current = record.raft_id() == proposal.from && record.incarnation <= number.0;
            if !is_current || record.last_proposal >= number {
                continue;
            }
            record.last_proposal = number;
            if let Ok(command) = Command::decode(&proposal.command) {
                state.apply(&command, Faults::default());
            }
        }
        Ok(state.is_formed().then_some(state))
    }
}
