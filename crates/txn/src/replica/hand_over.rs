//! A leader is moved on purpose: drain, seal, open.
//!
//! *Drain*: the leader admits no more calls, which wait, and ends what it has begun, until the
//! target has received everything and nothing is undecided. *Seal*: the leader is sealed for the
//! next epoch, as in a takeover, and reports its end. *Open*: the control plane names the target as
//! the leader of that epoch, which it opens as after a takeover; the calls that waited go there. Up
//! to the seal it can be given up, and the leader goes on in its epoch. After the seal only a new
//! epoch ends it, whose leader the target need not be.

use super::{ReplicaStream, SealReport};
use lockstep_types::HostId;

/// How far a hand-over is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandOverStage {
    /// The leader admits no calls, and waits for the target.
    Drain,
    /// The leader is sealed: the next epoch is the control plane's.
    Sealed,
    /// The target leads.
    Done,
    /// The leader, or another copy, leads: not the target.
    GivenUp,
}

/// A hand-over of the leader of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    target: HostId,
    /// The epoch that it begins.
    epoch: u32,
    stage: HandOverStage,
}

impl HandOver {
    /// Begins to hand the lead to a follower; `None` if that is not in sync, or the leader leads no
    /// more.
    pub fn begin(target: HostId, stream: &ReplicaStream) -> Option<HandOver> {
        stream.received(target).filter(|_| !stream.is_sealed())?;
        let epoch = stream.epoch().checked_add(1)?;
        Some(HandOver { target, epoch, stage: HandOverStage::Drain })
    }

    /// Who is to lead.
    pub fn target(&self) -> HostId {
        self.target
    }

    /// The epoch in which it is to lead.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// How far it is.
    pub fn stage(&self) -> HandOverStage {
        self.stage
    }

    /// Whether the leader admits calls: they wait while it drains, and go elsewhere when it is
    /// sealed.
    pub fn admits_calls(&self) -> bool {
        self.stage == HandOverStage::GivenUp
    }

    /// Something has happened at the leader. `is_quiet`: nothing is undecided there, and everything
    /// that it logged is in the stream. Seals the leader when the target has received all of it.
    pub fn advance(&mut self, is_quiet: bool, stream: &mut ReplicaStream) -> Option<SealReport> {
        assert!(stream.epoch() < self.epoch, "the leader's epoch is the one before");
        let is_received = stream.received(self.target) == Some(stream.end());
        if self.stage != HandOverStage::Drain || !is_quiet || !is_received {
            return None;
        }
        let report = stream.seal(self.epoch)?;
        self.stage = HandOverStage::Sealed;
        assert!(stream.is_sealed() && report.end == stream.end(), "the leader ends here");
        Some(report)
    }

    /// The target is lost, or the leader is not to move any more. True: the leader goes on in its
    /// epoch, and calls that wait run here. False: the leader is sealed, and waits for a new epoch.
    pub fn give_up(&mut self) -> bool {
        assert_ne!(self.stage, HandOverStage::Done, "the target leads");
        if self.stage == HandOverStage::Drain {
            self.stage = HandOverStage::GivenUp;
        }
        self.admits_calls()
    }

    /// The control plane has begun an epoch with this leader.
    pub fn placed(&mut self, epoch: u32, leader: HostId) -> HandOverStage {
        assert!(epoch >= self.epoch, "epochs ascend");
        assert!(
            self.stage != HandOverStage::Drain || leader != self.target,
            "a follower leads when the leader before is sealed"
        );
        self.stage = match leader == self.target {
            true => HandOverStage::Done,
            false => HandOverStage::GivenUp,
        };
        self.stage
    }
}
