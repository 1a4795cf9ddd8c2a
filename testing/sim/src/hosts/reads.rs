//! Reads that copies answer.

use super::host::Host;
use super::replica::{Following, Held};
use super::{Answer, Said, Shared};
use crate::plans::{LocalWork, Request};
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_types::{HostId, PartitionId};

/// How stale reads of a run may be.
pub(super) fn bound_us(seed: u64) -> u64 {
    [5_000, 30_000, 100_000, 2_000_000][(seed % 4) as usize]
}

impl Host {
    /// Answers a call of a client of this host at a copy here, if that is current enough.
    pub(super) fn read_at_copy(
        &mut self,
        (call, partition): (usize, PartitionId),
        work: &LocalWork,
        shared: &mut Shared,
    ) -> bool {
        let Some(bound_us) = shared.reads_bound_us else { return false };
        let LocalWork::Statements(statements, None) = work else { return false };
        let mut followers = self.placement.followers_of(partition).iter();
        // The judge knows since when a change of an account was to be seen.
        let is_judged = matches!(shared.requests.get(&call), Some(Request::Statements(asked))
            if asked.iter().all(|(sql, _)| sql.contains("FROM accounts")));
        if !statements.read_only || !is_judged || followers.all(|thread| thread.host() != self.id) {
            return false;
        }
        let leader = self.placement.leader_of(partition).host();
        let (boot_us, version) = (self.boot_us, self.version);
        let replica = self.replicas.get_mut(&partition).filter(|it| it.learning.is_none());
        let following = replica.and_then(|replica| replica.following.as_mut());
        let Some(Following { follower, .. }) = following.filter(|it| it.version == version) else {
            return false;
        };
        if follower.asks_position(bound_us, boot_us) {
            let said = CopyMessage::AskPosition(boot_us);
            self.out.push((leader, Said::Copy(OfCopy { partition, copy: self.id, said })));
        }
        let Some(staleness_us) = follower.staleness_us(bound_us, boot_us) else {
            shared.report.reads_too_stale += 1;
            return false;
        };
        shared.report.reads_at_copies += 1;
        let mut tables = Vec::new();
        let outcome = follower
            .read(self.now_us, |site, header| site.statements(header, statements, &mut tables));
        let staleness_us = Some(staleness_us);
        shared.answers.push(Answer { staleness_us, ..Answer::new(call, outcome, tables) });
        true
    }

    pub(super) fn tell_position(
        &mut self,
        (partition, copy): (PartitionId, HostId),
        asked_us: u64,
        shared: &mut Shared,
    ) {
        let Some(replica) = self.replicas.get(&partition) else { return };
        if !replica.leads || replica.leading.is_none() {
            return;
        }
        let entry = replica.position();
        let said = CopyMessage::Position(asked_us, entry);
        let said = Said::Copy(OfCopy { partition, copy, said });
        self.send_when_safe(shared, (partition, entry), Held { to: copy, said });
    }

    pub(super) fn note_position(
        &mut self,
        partition: PartitionId,
        asked_us: u64,
        position: u64,
        shared: &Shared,
    ) {
        let position = if shared.faults.read_before_applied { 0 } else { position };
        let replica = self.replicas.get_mut(&partition);
        if let Some(following) = replica.and_then(|replica| replica.following.as_mut()) {
            following.follower.note_position(asked_us, position);
        }
    }
}
