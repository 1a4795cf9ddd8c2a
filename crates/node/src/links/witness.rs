//! What is different at a witness, and between it and the hosts: it votes, and has no sites, no
//! copies and no calls.

use super::membership::Membership;
use lockstep_cluster::{ClusterState, HostState};
use lockstep_host::serving::Turn;
use lockstep_types::HostId;

impl Membership {
    /// Whether this process is a witness.
    pub(super) fn is_witness(&self) -> bool {
        self.shape().is_witness(self.host())
    }

    /// Whether this process or another one is a witness, so that the two exchange nothing but what
    /// is of the control plane.
    pub(super) fn is_with_witness(&self, other: HostId) -> bool {
        self.is_witness() || self.shape().is_witness(other)
    }

    /// A member by its role and number.
    pub(super) fn named(&self, host: HostId) -> String {
        match self.shape().is_witness(host) {
            true => format!("the witness (host {host})"),
            false => format!("host {host}"),
        }
    }

    /// What this process is.
    pub(super) fn own_role(&self) -> &'static str {
        if self.is_witness() { "witness" } else { "host" }
    }

    /// The witness takes part, or does not any more.
    pub(super) fn note_witness_turn(&self, turn: Turn) {
        match turn {
            _ if self.facts.drain.has_begun() => {}
            Turn::CutOff(standing) => tracing::error!(
                ?standing,
                "the witness is not connected with a majority of the cluster: its vote counts \
                 again when it is"
            ),
            Turn::Out | Turn::NotMember | Turn::Removed => tracing::error!(
                "the hosts have taken the witness out of the cluster: it takes part again once \
                 they hear it"
            ),
            Turn::Resumed | Turn::Serves => {
                tracing::warn!("the witness takes part in the cluster again");
            }
        }
    }

    /// Logs which members take part that did not before, and which do not any more: at a witness
    /// the hosts, at a host the witness. What happens to hosts, hosts report by their placements.
    pub(super) fn log_members(&self, before: Option<&ClusterState>, after: &ClusterState) {
        let Some(before) = before.filter(|before| before.id == after.id) else { return };
        let others = after.hosts.iter().filter(|(host, _)| **host != self.host());
        for (&host, record) in others.filter(|(host, _)| self.is_with_witness(**host)) {
            let was_up = before.hosts.get(&host).map(|was| was.state == HostState::Up);
            let (name, epoch) = (self.named(host), after.epoch);
            match (was_up, record.state) {
                (Some(true), HostState::Down) => tracing::error!(%epoch, "{name} is lost"),
                (Some(false), HostState::Up) => tracing::warn!(%epoch, "{name} takes part again"),
                _ => {}
            }
        }
    }
}
