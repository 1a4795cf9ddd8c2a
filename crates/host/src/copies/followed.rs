//! A copy that follows, as the thread of the links has it.

use super::{FollowedPiece, Sends, ToThread};
use crate::follower::codec::{CopyMessage, OfCopy};
use lockstep_txn::replica::{FollowerStream, NotTaken, Piece, Receipt, Taken, ToFollower};
use lockstep_types::{HostId, PartitionId, ThreadId};

/// A copy that follows.
pub(super) struct Followed {
    pub(super) stream: FollowerStream,
    /// The site that applies it.
    pub(super) site: ThreadId,
    /// The leader of the newest epoch that is known here.
    pub(super) leader: ThreadId,
    /// That epoch.
    pub(super) epoch: u32,
    /// Entries are applied only when all copies have them.
    pub(super) waits_for_safe: bool,
    /// Its entries go to a command log.
    pub(super) is_logged: bool,
}

pub(super) fn send(
    sends: &mut Sends,
    to: ThreadId,
    (partition, copy): (PartitionId, HostId),
    said: CopyMessage,
) {
    sends.push((to, ToThread::Copy(OfCopy { partition, copy, said })));
}

/// A message of the leader.
pub(super) fn take_stream(
    followed: &mut Followed,
    own: (PartitionId, HostId),
    (message, digest): (ToFollower, Option<(u64, u64)>),
    (sends, to_log): (&mut Sends, &mut Vec<(PartitionId, Piece)>),
) -> Result<(), String> {
    let Followed { stream, site, leader, epoch, waits_for_safe, is_logged } = followed;
    if stream.is_sealed() && message.epoch == *epoch {
        stream.follow(*epoch);
    }
    let piece = match stream.take(message) {
        Taken::Append(piece) => {
            to_log.extend(is_logged.then(|| (own.0, piece.clone())));
            Some(piece)
        }
        Taken::Positions => None,
        // Of an epoch that is over, or of one that this host hears of soon.
        Taken::Repeated | Taken::Refused(NotTaken::OldEpoch { .. }) => return Ok(()),
        Taken::Refused(NotTaken::Gap { .. }) => {
            let after = Receipt { epoch: stream.epoch(), position: stream.reconnect() };
            send(sends, *leader, own, CopyMessage::Resume(after));
            return Ok(());
        }
        Taken::Refused(why) => {
            return Err(format!("entries of partition {} that cannot follow: {why:?}", own.0));
        }
    };
    let horizon = match waits_for_safe {
        true => stream.settled().min(stream.safe()),
        false => stream.settled(),
    };
    let piece = FollowedPiece { partition: own.0, piece, horizon, digest };
    sends.push((*site, ToThread::Follow(piece)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::Copies;
    use crate::placement::{ClusterPlacement, Placement};
    use lockstep_cluster::Shape;
    use lockstep_txn::log_entry::LogSource;
    use std::collections::BTreeMap;

    /// Up to which entry a copy applies what it gets, whose leader says what is safe and settled.
    fn horizon(answer_reads: bool, (safe, settled): (u64, u64)) -> u64 {
        let shape =
            Shape { hosts: 2, witnesses: 0, sites_per_host: 1, partitions_per_site: 1, k: 1 };
        let first = ClusterPlacement::first(&shape).expect("the shape fits");
        let leader = first.partitions[0].leader.host();
        let own = HostId(1 - leader.0);
        let placement = Placement::of_cluster(own, &first);
        let mut copies = Copies::waiting(own);
        if answer_reads {
            copies.answer_reads();
        }
        let mut sends = Vec::new();
        copies.begin(&placement, &BTreeMap::new(), &mut sends).expect("nobody has said anything");
        let partition = PartitionId(0);
        let epoch = placement.epoch_of(partition);
        let source = LogSource { epoch, ..LogSource::default() };
        let piece = Some(Piece { source, first: 1, entries: 5, bytes: [0; 8][..].into() });
        let said = CopyMessage::Stream(ToFollower { epoch, safe, settled, piece }, None);
        let message = OfCopy { partition, copy: own, said };
        copies.take(leader, message, &mut sends).expect("a message of the leader");
        match sends.pop() {
            Some((_, ToThread::Follow(FollowedPiece { horizon, .. }))) => horizon,
            _ => panic!("a piece for the copy's site"),
        }
    }

    #[test]
    fn a_copy_that_answers_reads_applies_only_what_is_safe() {
        assert_eq!(horizon(false, (2, 4)), 4, "the leader and this copy have it");
        assert_eq!(horizon(true, (2, 4)), 2, "what is read is on all disks");
        assert_eq!(horizon(true, (5, 4)), 4, "nothing is read that may be undone");
    }
}
