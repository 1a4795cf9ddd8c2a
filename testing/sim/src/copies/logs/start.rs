//! All hosts start from their directories, by the code that serves.

use super::saves::read_rows;
use super::store::Store;
use super::streams::number_of;
use super::{CLUSTER, LIMITS, Logs, PARTITION, Role};
use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{LogEnd, LogPosition};
use lockstep_durability::directory::rejoin;
use lockstep_durability::recovery::{BeginFault, LogPiece, Others, Outcome, RecoveryLog};
use lockstep_durability::snapshot::Manifest;
use lockstep_env::Disk;
use lockstep_host::recovery::assembly::{Assembly, AssemblyPlan, HostReport, assemble};
use lockstep_host::recovery::{Recovered, RecoveryHost, ReplayError, ReplaySummary, recover};
use lockstep_txn::EntryReader;
use lockstep_txn::replica::{EpochHistory, FollowerStream, Receipts, ReplicaStream};
use lockstep_types::{HostId, TransactionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The surroundings of the recovery of one host.
struct Recovery<'a> {
    log: RecoveryLog<'a>,
    /// Its own log of the partition counts.
    is_own: bool,
    /// Entries that a later epoch replaced.
    replaced: u64,
}

impl RecoveryHost for Recovery<'_> {
    type State = Vec<(u32, u64)>;

    fn load(&mut self, manifest: Option<&Manifest>) -> Result<Vec<(u32, u64)>, BeginFault> {
        let Some(manifest) = manifest.filter(|_| self.is_own) else { return Ok(Vec::new()) };
        let rows = read_rows(&**self.log.disk, manifest);
        rows.map_err(|problem| BeginFault::Snapshot(Some(problem)))
    }

    fn replay(
        &mut self,
        mut state: Vec<(u32, u64)>,
        end: LogPosition,
        outcome: &Outcome,
    ) -> Result<(Vec<(u32, u64)>, ReplaySummary), ReplayError> {
        if !self.is_own {
            return Ok((state, ReplaySummary::default()));
        }
        let stopped = |problem: String| ReplayError::Stopped(problem);
        let mut blocks = self.log.partition(PARTITION.0, end).map_err(stopped)?;
        while let Some(body) = blocks.next_body().map_err(|error| stopped(error.to_string()))? {
            let mut reader = EntryReader::new(body);
            while let Some(entry) = reader.read().map_err(|error| stopped(error.to_string()))? {
                let source = reader.source();
                let is_void = outcome.is_replaced(PARTITION, source, entry.sequence);
                self.replaced += u64::from(is_void);
                if is_void || entry.sequence <= state.len() as u64 {
                    continue;
                }
                if entry.sequence != state.len() as u64 + 1 {
                    return Err(stopped(format!("entry {} comes next", entry.sequence)));
                }
                state.push((source.epoch, number_of(&entry.header)));
            }
        }
        Ok((state, ReplaySummary::default()))
    }
}

/// What a host's directory has, before it starts.
struct Found {
    disk: Arc<dyn Disk>,
    log_end: LogEnd,
}

impl Logs {
    /// All hosts start together, once more where the power is cut meanwhile.
    pub(super) fn start(&mut self) -> Result<(), String> {
        loop {
            let fails_at = self.random.chance(1, 6).then(|| self.random.below(4) as usize);
            if self.start_until(fails_at)? {
                return Ok(());
            }
            self.report.cuts_while_starting += 1;
            self.cut_all();
        }
    }

    fn log_of<'a>(&self, disk: &'a Arc<dyn Disk>, others: Option<&'a Others>) -> RecoveryLog<'a> {
        RecoveryLog { disk, cluster: CLUSTER, until: None, faults: self.broken.log, others }
    }

    /// Starts the hosts; false if the power is cut at one of them.
    fn start_until(&mut self, fails_at: Option<usize>) -> Result<bool, String> {
        let (mut reports, mut found) = (BTreeMap::new(), BTreeMap::new());
        for number in 0..self.hosts.len() {
            let disk = self.disk(number);
            if rejoin::read(&*disk).map_err(|error| error.to_string())?.is_some() {
                continue;
            }
            let (report, log_end) = self.report_of(number, &disk)?;
            reports.insert(HostId(number as u32), report);
            found.insert(number, Found { disk, log_end });
        }
        let mut plans: BTreeMap<usize, AssemblyPlan> = BTreeMap::new();
        for number in found.keys() {
            match assemble(HostId(*number as u32), &reports, self.broken.start)? {
                Assembly::Complete(plan) => drop(plans.insert(*number, plan)),
                Assembly::Out => {}
                Assembly::Waits(hosts) => return Err(format!("the start waits for {hosts:?}")),
            }
        }
        let mut recovered = BTreeMap::new();
        for (number, plan) in &plans {
            self.complete_log(*number, plan, (&reports, &mut found))?;
            let own = self.recover_host(*number, plan, &found[number].disk)?;
            if fails_at == Some(*number) {
                return Ok(false);
            }
            recovered.insert(*number, own);
        }
        self.judge_start(&recovered, &plans)?;
        self.begin_life(recovered)?;
        Ok(true)
    }

    /// What a host reports of its directory.
    fn report_of(
        &self,
        number: usize,
        disk: &Arc<dyn Disk>,
    ) -> Result<(HostReport, LogEnd), String> {
        let log = self.log_of(disk, None);
        let kept = log.kept(1)?;
        let (ends, log_end) = log.copy_ends(1, kept.as_ref())?;
        let report = HostReport {
            directory: ClusterId([number as u8; 16]),
            members: None,
            replaces: false,
            placement: self.hosts[number].known.clone(),
            ends,
            saved: kept.map_or(TransactionId(0), |kept| kept.transaction_id()),
        };
        Ok((report, log_end))
    }

    /// The log of a host gets what it lacks.
    fn complete_log(
        &mut self,
        number: usize,
        plan: &AssemblyPlan,
        (reports, found): (&BTreeMap<HostId, HostReport>, &mut BTreeMap<usize, Found>),
    ) -> Result<(), String> {
        let mut lacked = Vec::new();
        for (partition, after) in &plan.lacks {
            let winner = plan.winners[partition.index()];
            let end = &reports[&winner].ends[partition.index()];
            let mut pieces: Vec<LogPiece> = Vec::new();
            let winners = self.log_of(&found[&(winner.0 as usize)].disk, None);
            winners.pieces_after((*partition, end), *after, |piece| {
                pieces.push(piece);
                Ok(())
            })?;
            lacked.push((*partition, pieces));
        }
        if lacked.is_empty() {
            return Ok(());
        }
        self.report.completed += 1;
        let settings = self.settings();
        let own = found.get_mut(&number).expect("it has reported");
        let log_end = std::mem::take(&mut own.log_end);
        let added = self.log_of(&found[&number].disk, None).add_pieces(settings, log_end, &lacked);
        added.map_err(|error| error.to_string())
    }

    fn recover_host(
        &mut self,
        number: usize,
        plan: &AssemblyPlan,
        disk: &Arc<dyn Disk>,
    ) -> Result<Recovered<Vec<(u32, u64)>>, String> {
        let (own, settled) = (plan.own.clone(), plan.settled.clone());
        let others = Others { own, facts: vec![Vec::new()], settled };
        let log = self.log_of(disk, Some(&others));
        let candidates = log.candidates(1).map_err(|error| error.to_string())?;
        let mut host = Recovery { log, is_own: plan.own[0], replaced: 0 };
        let run = self.hosts[number].incarnation;
        let recovered = recover(&mut host, &log, 1, &candidates, run)
            .map_err(|problem| format!("host {number} cannot start: {problem}"))?;
        if plan.own[0] {
            let (tail, end) = (recovered.outcome.tails[0].sequence, plan.ends[0].end);
            if tail != end || recovered.state.len() as u64 != end {
                return Err(format!(
                    "host {number} has {} entries by a survey up to {tail}, and the log that \
                     counts ends with {end}",
                    recovered.state.len()
                ));
            }
            self.report.with_replaced += u64::from(host.replaced > 0);
            self.report.replaced += host.replaced;
            self.report.from_snapshots += u64::from(recovered.from_snapshot);
        }
        self.report.torn += u64::from(recovered.end.torn.is_some());
        Ok(recovered)
    }

    /// The placement is in force again in a new epoch.
    fn begin_life(
        &mut self,
        recovered: BTreeMap<usize, Recovered<Vec<(u32, u64)>>>,
    ) -> Result<(), String> {
        self.sealed.clear();
        self.placement.epoch += 1;
        let epoch = self.placement.epoch;
        let in_sync = self.placement.in_sync.clone();
        self.placement.leader =
            in_sync[self.random.below(in_sync.len() as u64) as usize].0 as usize;
        let joins = (0..self.hosts.len()).filter(|number| !recovered.contains_key(number));
        for number in joins.collect::<Vec<_>>() {
            self.join(number)?;
        }
        let mut end = 0;
        for (number, own) in recovered {
            let (disk, settings, faults) = (self.disk(number), self.settings(), self.broken.log);
            let last = own.state.len() as u64;
            let host = &mut self.hosts[number];
            host.store = Some(Store::open(disk, settings, (own.end, last), faults)?);
            host.incarnation = own.outcome.next_source().incarnation;
            host.role = Role::Waiting;
            if !in_sync.contains(&HostId(number as u32)) {
                continue;
            }
            (host.log, end) = (own.state, last);
            let history = EpochHistory::of_epoch(epoch);
            let mut copy = FollowerStream::new(epoch, last, history, Receipts::WhenDurable);
            copy.inject(self.broken.streams);
            host.role = Role::Follower(Box::new(copy));
        }
        let leader = self.placement.leader;
        self.truth.begin_epoch(epoch, &self.hosts[leader].log);
        self.place_hosts();
        let followers = in_sync.iter().filter(|host| host.0 as usize != leader);
        let followers: Vec<(HostId, u64)> = followers.map(|host| (*host, end)).collect();
        let history = EpochHistory::of_epoch(epoch);
        let stream = ReplicaStream::open(epoch, end, history, &followers, [], LIMITS);
        self.lead(leader, stream);
        self.report.starts += 1;
        Ok(())
    }
}
