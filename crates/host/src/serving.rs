//! Whether a host serves, as its control plane has it: not while it is not connected with a
//! majority of the cluster, and not after the others have put it out.

use lockstep_cluster::{Control, HostState, Standing};
use lockstep_types::HostId;

/// How far a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The cluster is being formed.
    Forming,
    /// It serves, or does so again once it is in a majority.
    Serving,
    /// The other hosts go on without it.
    Out,
    /// It is not of the cluster any more.
    Removed,
}

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The cluster runs without this host, which has never served.
    NotMember,
    /// The host serves nothing until it is connected with a majority.
    CutOff(Standing),
    /// The others have put it out: it serves nothing.
    Out,
    /// It was put out, and has the only copies of partitions that nobody else could serve: it takes
    /// part again, with these.
    Resumed,
    /// It serves again.
    Serves,
    /// It was removed from the cluster: no process of it takes part again.
    Removed,
}

/// Whether a host serves.
#[derive(Debug)]
pub struct Serving {
    stage: Stage,
    is_cut_off: bool,
    /// All hosts of a cluster that was formed start again, and wait for each other.
    resumes: bool,
    /// If the cluster runs already, the host joins it.
    joins: bool,
    /// Since when it could begin again as a host without data.
    free_since_us: Option<u64>,
}

impl Default for Serving {
    fn default() -> Serving {
        Serving {
            stage: Stage::Forming,
            is_cut_off: false,
            resumes: false,
            joins: false,
            free_since_us: None,
        }
    }
}

impl Serving {
    /// Of a host whose cluster was formed by an earlier run: it is not up before all hosts are back
    /// that have copies.
    pub fn resuming() -> Serving {
        Serving { resumes: true, ..Serving::default() }
    }

    /// Of a host that has nothing: where the cluster runs without it, it joins.
    pub fn joining() -> Serving {
        Serving { joins: true, ..Serving::default() }
    }

    /// The cluster is formed: the host begins to serve.
    pub fn begin(&mut self) {
        assert!(!self.is_out(), "a host that was put out before it served ends");
        self.stage = Stage::Serving;
    }

    /// Whether this host, which the others have put out, is to begin again as one without data,
    /// after it could do so for this long. To be asked from time to time.
    pub fn is_to_begin_again(&mut self, control: &Control, after_us: u64, now_us: u64) -> bool {
        if self.stage != Stage::Out || !Serving::is_free(control, now_us) {
            self.free_since_us = None;
            return false;
        }
        let since_us = *self.free_since_us.get_or_insert(now_us);
        now_us.saturating_sub(since_us) >= after_us
    }

    /// Whether the cluster needs nothing of this host: no copy counts that it has, and without its
    /// vote the others are a majority. Of several that could go, those with greater numbers wait
    /// until the first one is back.
    fn is_free(control: &Control, now_us: u64) -> bool {
        let own = control.member().host();
        let Some(state) = control.state().filter(|state| state.is_formed()) else { return false };
        if control.standing() != Standing::Majority || state.partitions_of(own).next().is_some() {
            return false;
        }
        let stays = |host: &HostId| {
            let is_up = state.hosts[host].state == HostState::Up;
            *host != own && (is_up || *host > own) && control.detector().is_connected(*host, now_us)
        };
        2 * state.voters().filter(stays).count() > state.voters().count()
    }

    /// Whether the cluster is being formed.
    pub fn is_forming(&self) -> bool {
        self.stage == Stage::Forming
    }

    /// Whether the others have put it out, or removed it.
    pub fn is_out(&self) -> bool {
        matches!(self.stage, Stage::Out | Stage::Removed)
    }

    /// Whether calls are refused.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Whether the other hosts let this one answer for all partitions that it leads.
    pub fn may_answer(control: &Control, now_us: u64) -> bool {
        let until_us = |partition| control.answers_until_us(partition, now_us).unwrap_or(0);
        control.leases().led().into_iter().all(|partition| until_us(partition) > now_us)
    }

    /// Whether the cluster runs, and this host, which has nothing, may ask to take part in it.
    pub fn may_join(control: &Control) -> bool {
        let member = control.member();
        let Some(state) = control.state().filter(|state| state.is_formed()) else { return false };
        let Some(record) = state.hosts.get(&member.host()) else { return false };
        let is_listed = record.incarnation == member.incarnation();
        let has_copies = state.partitions_of(member.host()).next().is_some();
        is_listed && control.votes_if_needed() && record.state != HostState::Up && !has_copies
    }

    /// Whether the cluster is formed and this host may serve in it, at a time of the clock that
    /// leases are counted by, once it is connected with the hosts that `agrees` gives.
    pub fn may_begin(control: &Control, agrees: impl Fn(HostId) -> bool, now_us: u64) -> bool {
        let Some(state) = control.state().filter(|state| state.is_formed()) else { return false };
        let up = state.hosts.iter().filter(|(_, record)| record.state == HostState::Up);
        let own = control.member().host();
        let mut others = up.map(|(host, _)| *host).filter(|host| *host != own);
        let is_member = control.is_up() && control.standing() == Standing::Majority;
        is_member && others.all(agrees) && Serving::may_answer(control, now_us)
    }

    /// What has changed by a time, of the clock that leases are counted by; to be asked until it is
    /// nothing. It is for hosts of clusters whose partitions have several copies.
    pub fn poll(&mut self, control: &Control, now_us: u64) -> Option<Turn> {
        let member = control.member();
        let state = control.state().filter(|state| state.is_formed())?;
        let Some(record) = state.hosts.get(&member.host()) else {
            self.is_cut_off = true;
            let before = std::mem::replace(&mut self.stage, Stage::Removed);
            return (before != Stage::Removed).then_some(Turn::Removed);
        };
        let is_known = record.incarnation == member.incarnation();
        let is_up = !is_known || record.state == HostState::Up;
        let standing = control.standing();
        let has_copies = || state.partitions_of(member.host()).next().is_some();
        match (self.stage, is_up) {
            (Stage::Forming, false) if self.resumes && has_copies() => None,
            (Stage::Forming, false) if self.joins && !has_copies() => None,
            (Stage::Forming, true) | (Stage::Out, false) | (Stage::Removed, _) => None,
            (stage @ (Stage::Forming | Stage::Serving), false) => {
                (self.stage, self.is_cut_off) = (Stage::Out, true);
                Some(if stage == Stage::Forming { Turn::NotMember } else { Turn::Out })
            }
            (Stage::Out, true) => {
                self.stage = Stage::Serving;
                Some(Turn::Resumed)
            }
            // Before the others have confirmed what it leads they may have gone on without it.
            (Stage::Serving, true) if self.is_cut_off => {
                let serves = standing == Standing::Majority && Serving::may_answer(control, now_us);
                self.is_cut_off = !serves;
                serves.then_some(Turn::Serves)
            }
            (Stage::Serving, true) => {
                self.is_cut_off = standing != Standing::Majority;
                self.is_cut_off.then_some(Turn::CutOff(standing))
            }
        }
    }
}
