//! What runs of copies with logs did, and what must hold of them.

use super::{Logs, Role};
use lockstep_host::recovery::Recovered;
use lockstep_host::recovery::assembly::AssemblyPlan;
use lockstep_types::HostId;
use std::collections::BTreeMap;
use std::fmt;

/// Rounds in which everything has to come to rest.
const REST_ROUNDS: usize = 300;

/// What runs did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Numbers that were answered.
    pub answered: u64,
    /// Starts of all hosts, those that were broken off not counted.
    pub starts: u64,
    /// Power cuts of all hosts, those right after a takeover, and those during a start.
    pub cuts_of_all: u64,
    /// See there.
    pub cuts_after_takeovers: u64,
    /// See there.
    pub cuts_while_starting: u64,
    /// Power cuts of one host.
    pub cuts_of_one: u64,
    /// Epochs that began while hosts ran.
    pub takeovers: u64,
    /// Copies that had entries which the next epoch does not have, or were not in sync.
    pub diverged: u64,
    /// Recoveries of copies in sync whose logs had replaced entries, and those entries.
    pub with_replaced: u64,
    /// See there.
    pub replaced: u64,
    /// Recoveries of copies in sync that began with a snapshot.
    pub from_snapshots: u64,
    /// Logs that got entries from another host at a start.
    pub completed: u64,
    /// Logs whose torn ends were cut off.
    pub torn: u64,
    /// Copies that were loaded, and that came in sync after that.
    pub loaded: u64,
    /// See there.
    pub in_sync_again: u64,
    /// Directories whose data were given up.
    pub gave_up_data: u64,
    /// Snapshots of hosts, and segments of logs that went.
    pub saves: u64,
    /// See there.
    pub pruned: u64,
}

impl Report {
    /// Adds what another run did.
    pub fn add(&mut self, other: &Report) {
        self.answered += other.answered;
        self.starts += other.starts;
        self.cuts_of_all += other.cuts_of_all;
        self.cuts_after_takeovers += other.cuts_after_takeovers;
        self.cuts_while_starting += other.cuts_while_starting;
        self.cuts_of_one += other.cuts_of_one;
        self.takeovers += other.takeovers;
        self.diverged += other.diverged;
        self.with_replaced += other.with_replaced;
        self.replaced += other.replaced;
        self.from_snapshots += other.from_snapshots;
        self.completed += other.completed;
        self.torn += other.torn;
        self.loaded += other.loaded;
        self.in_sync_again += other.in_sync_again;
        self.gave_up_data += other.gave_up_data;
        self.saves += other.saves;
        self.pruned += other.pruned;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} numbers answered; {} power cuts of all hosts, {} of them right after a takeover, \
             {} during a start, {} of one host; {} starts, {} takeovers; {} logs had {} replaced \
             entries, {} recoveries began with a snapshot, {} logs were completed, {} torn; {} \
             copies diverged, {} were loaded, {} came in sync, {} directories given up; {} \
             snapshots, {} segments pruned",
            self.answered,
            self.cuts_of_all,
            self.cuts_after_takeovers,
            self.cuts_while_starting,
            self.cuts_of_one,
            self.starts,
            self.takeovers,
            self.with_replaced,
            self.replaced,
            self.from_snapshots,
            self.completed,
            self.torn,
            self.diverged,
            self.loaded,
            self.in_sync_again,
            self.gave_up_data,
            self.saves,
            self.pruned
        )
    }
}

/// What is known of all entries, which no host knows.
#[derive(Default)]
pub(super) struct Truth {
    /// The entry of each number that was answered.
    pub(super) answered: BTreeMap<u64, u64>,
    /// What was logged in an epoch at an entry.
    logged: BTreeMap<(u32, u64), u64>,
    /// The last epoch that began, and what its leader had then.
    epoch: u32,
    before: Vec<(u32, u64)>,
}

impl Truth {
    pub(super) fn note_logged(&mut self, place: (u32, u64), number: u64) {
        let twice = self.logged.insert(place, number);
        assert_eq!(twice, None, "an epoch has one leader");
    }

    /// An epoch begins after these entries: all others of earlier epochs are void.
    pub(super) fn begin_epoch(&mut self, epoch: u32, log: &[(u32, u64)]) {
        (self.epoch, self.before) = (epoch, log.to_vec());
    }

    /// A log has what was answered, in its places.
    pub(super) fn check_answered(&self, log: &[(u32, u64)]) -> Result<(), String> {
        let at = |entry: u64| log.get(entry as usize - 1).map(|(_, number)| *number);
        let lost = self.answered.iter().find(|(number, entry)| at(**entry) != Some(**number));
        lost.map_or(Ok(()), |(number, entry)| {
            let found = at(*entry);
            Err(format!("{number} was answered as entry {entry}, and {found:?} is there"))
        })
    }

    /// A log has nothing that a later epoch replaced, and nothing that was never logged there.
    fn check_current(&self, log: &[(u32, u64)]) -> Result<(), String> {
        for (entry, (epoch, number)) in (1..).zip(log) {
            let is_current = match *epoch < self.epoch {
                true => self.before.get(entry as usize - 1) == Some(&(*epoch, *number)),
                false => self.logged.get(&(*epoch, entry)) == Some(number),
            };
            if !is_current {
                return Err(format!(
                    "entry {entry} is {number} of epoch {epoch}, which epoch {} replaced",
                    self.epoch
                ));
            }
        }
        Ok(())
    }
}

impl Logs {
    /// What must hold of hosts that have started together.
    pub(super) fn judge_start(
        &self,
        recovered: &BTreeMap<usize, Recovered<Vec<(u32, u64)>>>,
        plans: &BTreeMap<usize, AssemblyPlan>,
    ) -> Result<(), String> {
        let in_sync = self.placement.in_sync.iter().map(|host| host.0 as usize);
        let mut first: Option<(usize, &Vec<(u32, u64)>)> = None;
        for number in in_sync {
            let own = recovered.get(&number).filter(|_| plans[&number].own[0]);
            let own = own.ok_or(format!("the copy of host {number} was in sync, and is not"))?;
            let log = &own.state;
            let fails = |what| format!("after a start of all, at host {number}: {what}");
            self.truth.check_answered(log).map_err(fails)?;
            self.truth.check_current(log).map_err(fails)?;
            let (other, same) = *first.get_or_insert((number, log));
            if same != log {
                return Err(format!("hosts {other} and {number} differ after a start of all"));
            }
        }
        Ok(())
    }

    /// Faults stop: all copies come in sync and are equal, and everything is answered.
    pub(super) fn come_to_rest(&mut self) -> Result<(), String> {
        self.hosts.iter_mut().for_each(|host| host.is_cut_off = false);
        self.change_epoch()?;
        for _ in 0..REST_ROUNDS {
            if self.is_at_rest() {
                let leader = self.placement.leader;
                self.truth.check_answered(&self.hosts[leader].log)?;
                self.report.answered = self.truth.answered.len() as u64;
                return Ok(());
            }
            let is_unkept = |host: &super::Host| host.learning.is_some_and(|it| !it.is_kept);
            if self.hosts.iter().any(is_unkept) {
                self.save_all();
            }
            for host in 0..self.hosts.len() {
                self.attend(host)?;
                self.end_round(host);
                (0..2).try_for_each(|_| self.step_store(host))?;
                (0..3).try_for_each(|_| self.step_save(host))?;
            }
            for (from, to) in self.links.keys().copied().collect::<Vec<_>>() {
                for _ in 0..40 {
                    self.deliver_piece(from, to)?;
                    self.deliver_receipt(from, to)?;
                }
            }
        }
        Err("the copies do not come to rest once faults stop".to_string())
    }

    fn is_at_rest(&self) -> bool {
        let leader = self.placement.leader;
        let Role::Leader(state) = &self.hosts[leader].role else { return false };
        let is_equal = |host: &HostId| self.hosts[host.0 as usize].log == self.hosts[leader].log;
        self.placement.in_sync.len() == self.hosts.len()
            && state.gate.is_idle()
            && state.round.is_empty()
            && self.placement.in_sync.iter().all(is_equal)
    }
}
