//! A host: its copies, and the coordinator if it has that. One thread has all of it here; what the
//! thread of the links gives to a site still arrives later.

use super::expiry::{HostExpiry, deletion_of};
use super::learning::Joining;
use super::replica::{At, Following, Held, Replica};
use super::{Answer, HostCall, Said, Shared};
use crate::plans::{Planned, Request};
use lockstep_cluster::{Command, Epoch};
use lockstep_host::HostTime;
use lockstep_host::coordinator::{self, CoordinatorHost, Overtaken};
use lockstep_host::copies::FollowedPiece;
use lockstep_host::follower::codec::OfCopy;
use lockstep_host::hand_over::{MovesAtCoordinator, PlannedMove};
use lockstep_host::index_hops::waits_for_placement;
use lockstep_host::partition;
use lockstep_host::placement::Placement;
use lockstep_host::several::CoordinatorCall;
use lockstep_host::unavailable::{Unavailable, UnavailableCalls, cannot_serve};
use lockstep_site::fence::EndedChange;
use lockstep_site::{
    Coordinator, CoordinatorOutput, FromPartition, MultiCall, Numbered, OneRoundCalls,
    OneRoundFinished,
};
use lockstep_txn::replica::ReplicaStream;
use lockstep_types::{Failure, HostId, Outcome, PartitionId, Status, TransactionId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Where a call of a client of this host may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    Host(HostId),
    /// It goes from host to host.
    Anywhere,
}

/// A call of a client of this host that has no answer.
pub(super) struct Handed {
    pub(super) at: Where,
    pub(super) request: Request,
    /// When it came, by the wall clock.
    pub(super) since_us: i64,
    /// The only partition that it needs.
    pub(super) partition: Option<PartitionId>,
}

/// What a host's sites have.
pub(super) struct Host {
    pub(super) id: HostId,
    /// The run of its process.
    pub(super) run: u64,
    /// How far it is that joins a cluster which runs.
    pub(super) joining: Joining,
    /// The wall clock and the monotonic clock, when what happens now began.
    pub(super) now_us: i64,
    pub(super) boot_us: u64,
    pub(super) placement: Arc<Placement>,
    /// The version of the catalog in force.
    pub(super) version: u64,
    pub(super) replicas: BTreeMap<PartitionId, Replica>,
    pub(super) coordinator: Option<Coordinator<usize, u64>>,
    pub(super) one_rounds: OneRoundCalls,
    /// Where rows go when their time is over, what this host knows of that.
    pub(super) expiry: Option<HostExpiry>,
    /// Messages to itself.
    pub(super) own: VecDeque<Said>,
    /// Leaders that are to be moved, and those here that are sealed for it.
    pub(super) moves: MovesAtCoordinator,
    pub(super) drained: Vec<PlannedMove>,
    /// Those that follow from now on, with their streams.
    pub(super) stepped_down: Vec<(PartitionId, ReplicaStream)>,
    /// Calls and reports that wait for another placement, or for a partition to be led here.
    pub(super) waiting: Vec<Said>,
    /// What it has sealed, for its links.
    pub(super) sealed: Vec<OfCopy>,
    pub(super) handed: BTreeMap<usize, Handed>,
    /// By partition, until when this host may answer, by its monotonic clock.
    pub(super) leases_us: Vec<u64>,
    /// It takes no calls.
    pub(super) is_cut_off: bool,
    /// The change of the schema in progress, where the coordinator is.
    pub(super) changing: Option<usize>,
    pub(super) unavailable: Unavailable,
    pub(super) unavailable_calls: UnavailableCalls,
    /// What the control plane is to change.
    pub(super) proposals: Vec<Command>,
    /// Messages to other hosts.
    pub(super) out: Vec<(HostId, Said)>,
}

impl Host {
    pub(super) fn new(placement: Placement, shared: &Shared, now_us: i64) -> Host {
        let id = placement.host();
        let partitions = (0..placement.partition_count()).map(PartitionId);
        let is_here = |partition: &PartitionId| {
            let mut threads = placement.followers_of(*partition).iter();
            placement.leader_of(*partition).host() == id || threads.any(|it| it.host() == id)
        };
        let replica =
            |partition| (partition, Replica::first(partition, &placement, shared, now_us));
        let replicas = partitions.filter(is_here).map(replica).collect();
        let coordinator =
            (placement.coordinator().host() == id).then(|| coordinator_of(&placement, shared, 0));
        let (partition_count, is_here) = (placement.partition_count(), coordinator.is_some());
        let expiry = shared.expiry.map(|limits| HostExpiry::new(partition_count, limits, is_here));
        Host {
            id,
            run: 1,
            joining: Joining::Joined,
            now_us,
            boot_us: 0,
            version: 0,
            replicas,
            coordinator,
            one_rounds: OneRoundCalls::new(16, shared.limits.stop_everything),
            expiry,
            own: VecDeque::new(),
            moves: MovesAtCoordinator::default(),
            drained: Vec::new(),
            stepped_down: Vec::new(),
            waiting: Vec::new(),
            sealed: Vec::new(),
            handed: BTreeMap::new(),
            leases_us: vec![0; placement.partition_count() as usize],
            is_cut_off: false,
            changing: None,
            unavailable: Unavailable::new(placement.partition_count()),
            unavailable_calls: UnavailableCalls::default(),
            proposals: Vec::new(),
            out: Vec::new(),
            placement: Arc::new(placement),
        }
    }

    pub(super) fn send(&mut self, to: HostId, said: Said) {
        match to == self.id {
            true => self.own.push_back(said),
            false => self.out.push((to, said)),
        }
    }

    /// Whether this host may answer for a partition, after what it answers was executed.
    fn may_answer(&self, partition: PartitionId) -> bool {
        let is_led = self.replicas.get(&partition).is_some_and(|it| it.leading.is_some());
        !is_led || self.leases_us[partition.index()] > self.boot_us
    }

    pub(super) fn send_when_safe(
        &mut self,
        shared: &mut Shared,
        (partition, entry): (PartitionId, u64),
        held: Held,
    ) {
        let may_answer = self.may_answer(partition);
        let replica = self.replicas.get_mut(&partition).expect("it has a copy");
        if !may_answer {
            shared.report.lease_refusals += 1;
            return replica.gate.keep(entry, held);
        }
        if let Some(Held { to, said }) = replica.gate.pass(entry, held) {
            self.send(to, said);
        }
    }

    pub(super) fn follow_catalog(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// A client of this host calls.
    pub(super) fn call(&mut self, call: usize, request: Request, shared: &mut Shared) {
        if self.is_cut_off {
            return shared.refuse(call, "the host is not connected with a majority");
        }
        let catalog = shared.catalogs.get_mut(&self.version).expect("it is in force");
        let ring = shared.ring.clone();
        let planned = catalog.plan(call, &request, &ring, &mut self.one_rounds);
        let mut only = None;
        let (to, said) = match planned {
            Planned::Partition(partition, _)
                if self.refuse_unavailable(call, partition, shared) =>
            {
                return;
            }
            Planned::Partition(partition, work)
                if self.read_at_copy((call, partition), &work, shared) =>
            {
                return;
            }
            Planned::Partition(partition, work) => {
                only = Some(partition);
                let leader = self.placement.leader_of(partition).host();
                let (catalog_version, epoch) = (self.version, self.placement.epoch());
                (leader, Said::Call(partition, HostCall { call, work, catalog_version, epoch }))
            }
            Planned::Several(several) => {
                (self.placement.coordinator().host(), Said::Multi(Box::new(several)))
            }
            Planned::Multi { declared, home, work } => {
                let several = CoordinatorCall::Multi(Box::new(MultiCall {
                    origin: call,
                    procedure_number: 0,
                    catalog_version: self.version,
                    time_limit: None,
                    declared,
                    home,
                    led: None,
                    work,
                }));
                (self.placement.coordinator().host(), Said::Multi(Box::new(several)))
            }
        };
        let is_led = matches!(&said, Said::Call(_, call) if call.is_led());
        let at = if is_led { Where::Anywhere } else { Where::Host(to) };
        let since_us = self.now_us;
        self.handed.insert(call, Handed { at, request, since_us, partition: only });
        self.send(to, said);
    }

    /// Takes messages until none is left that this host has sent to itself.
    pub(super) fn take_all(&mut self, shared: &mut Shared) {
        while let Some(said) = self.own.pop_front() {
            self.take(said, shared);
        }
    }

    pub(super) fn take(&mut self, said: Said, shared: &mut Shared) {
        if let Joining::Waits(early) = &mut self.joining {
            return early.push(said);
        }
        match said {
            Said::Epoch(_) => unreachable!("the links take it"),
            Said::Call(partition, call)
                if call.is_led() && waits_for_placement(call.epoch, &self.placement) =>
            {
                shared.report.ahead += 1;
                self.waiting.push(Said::Call(partition, call));
            }
            Said::Call(partition, call) => match self.leads(partition) {
                true => {
                    partition::take_call(&mut At { host: self, shared, partition }, call);
                }
                false => self.wait_for_lead(partition, call, shared),
            },
            Said::Multi(call) => self.take_several(*call, shared),
            Said::Answer(answer) if deletion_of(answer.call).is_some() => {
                self.deletion_ended(&answer, shared);
            }
            Said::Answer(answer) => {
                if self.handed.remove(&answer.call).is_some() {
                    shared.answers.push(*answer);
                }
            }
            Said::ToPartition(message) => self.take_from_coordinator(message, shared),
            Said::FromPartition(FromPartition::Fenced(report))
                if report.epoch > self.placement.epoch() || self.coordinator.is_none() =>
            {
                self.waiting.push(Said::FromPartition(FromPartition::Fenced(report)));
            }
            Said::FromPartition(answer) => {
                if self.coordinator.is_some() {
                    coordinator::receive(&mut Of { host: self, shared }, answer, &mut Vec::new());
                    self.attend_to_moves(shared);
                }
            }
            Said::Copy(message) => self.copy_said(message, shared),
            Said::Follow(piece) => self.follow(piece, shared),
            Said::Load(partition, part) => self.take_load(partition, part, shared),
            Said::LoadAgain(partition, attempt) => self.load_again(partition, attempt, shared),
            Said::AskCatalog(host) => self.give_catalog(host),
            Said::GiveCatalog(version) => self.take_catalog(version, shared),
            Said::Open(opening) => self.open(*opening, shared),
            Said::Placement(placement) => self.follow_placement(placement, shared),
            Said::Change(call) => self.take_change(call, shared),
            Said::Moves(moves) => self.take_moves(&moves, shared),
            Said::HandOver(planned) => self.begin_hand_over(planned, shared),
            Said::MoveCoordinator(to) => self.move_coordinator(to, shared),
            Said::Bounced(call, epoch) => self.take_bounced(call, epoch, shared),
            Said::Poll(partition, version, polls) => self.poll_expired(partition, version, &polls),
            Said::Polled(version, found) => self.take_polled(version, found, shared),
        }
    }

    fn take_several(&mut self, call: CoordinatorCall<usize, u64>, shared: &mut Shared) {
        let is_refused = self.unavailable.is_any();
        if self.coordinator.is_some() && !is_refused {
            let of = &mut Of { host: self, shared };
            return coordinator::submit(of, call, &mut Vec::new());
        }
        let origin = match call {
            CoordinatorCall::Multi(call) => call.origin,
            CoordinatorCall::OneRound(origin, _) => origin,
        };
        match self.coordinator.is_some() {
            true => {
                shared.report.refused_unavailable += 1;
                let failure = cannot_serve(&self.unavailable.all());
                self.refuse_by_message(origin, failure, shared);
            }
            false => self.bounce(origin, shared),
        }
    }

    fn leads(&self, partition: PartitionId) -> bool {
        self.replicas.get(&partition).is_some_and(|replica| replica.leads)
    }

    fn wait_for_lead(&mut self, partition: PartitionId, call: HostCall, shared: &mut Shared) {
        if let Some(failure) = self.unavailable.never_led_here(partition, &self.placement) {
            shared.report.refused_unavailable += 1;
            return self.refuse_by_message(call.call, failure, shared);
        }
        match self.placement.leader_of(partition).host() == self.id {
            true => self.waiting.push(Said::Call(partition, call)),
            false => self.bounce(call.call, shared),
        }
    }

    pub(super) fn refuse_busy(&mut self, call: usize, shared: &Shared) {
        let failure = Failure::new(Status::ServerUnavailable, "another change is in progress");
        self.refuse_by_message(call, failure, shared);
    }

    pub(super) fn refuse_elsewhere(&mut self, call: usize, shared: &Shared) {
        let failure = Failure::new(Status::ServerUnavailable, "another host leads");
        self.refuse_by_message(call, failure, shared);
    }

    /// A call that another host is to run goes back to where it came in.
    pub(super) fn bounce(&mut self, call: usize, shared: &Shared) {
        self.send(shared.origin_of(call), Said::Bounced(call, self.placement.epoch()));
    }

    fn take_bounced(&mut self, call: usize, epoch: u64, shared: &mut Shared) {
        if epoch > self.placement.epoch() {
            return self.waiting.push(Said::Bounced(call, epoch));
        }
        if deletion_of(call).is_some() {
            return self.deletion_overtaken(call, shared);
        }
        // Its outcome may be unknown by now.
        if let Some(Handed { request, .. }) = self.handed.remove(&call) {
            self.call(call, request, shared);
        }
    }

    fn refuse_by_message(&mut self, call: usize, failure: Failure, shared: &Shared) {
        let answer = Answer::new(call, Outcome::failed(failure), Vec::new());
        self.send(shared.origin_of(call), Said::Answer(Box::new(answer)));
    }

    fn take_from_coordinator(&mut self, message: Numbered<u64>, shared: &mut Shared) {
        let partition = message.partition;
        if self.leads(partition) {
            let at = &mut At { host: self, shared, partition };
            return partition::take_message(at, message, &mut Vec::new());
        }
        if self.replicas.get(&partition).is_some_and(|it| it.draining.is_some()) {
            return self.told_draining(message, shared);
        }
        let replica = self.replicas.get_mut(&partition);
        if let Some(pending) = replica.and_then(|replica| replica.opening.as_mut()) {
            pending.promotion.take_message(message);
        }
    }

    fn follow(&mut self, piece: FollowedPiece, shared: &mut Shared) {
        let FollowedPiece { partition, piece, horizon, digest } = piece;
        let replica = self.replicas.get_mut(&partition).expect("it has a copy");
        if replica.learning.as_ref().is_some_and(|it| it.is_loading()) {
            return;
        }
        let Some(Following { follower, .. }) = &mut replica.following else { return };
        if let Some(piece) = piece {
            follower.push(piece);
        }
        let differs = digest.and_then(|(position, digest)| follower.compare(position, digest));
        if let Some(differs) = differs {
            shared.problem(differs.to_string());
        }
        if let Err(error) = follower.advance(horizon) {
            shared.problem(error.to_string());
        }
    }

    /// Copies apply a slice of what they may.
    pub(super) fn run_copies(&mut self, shared: &mut Shared) {
        for partition in self.replicas.keys().copied().collect::<Vec<_>>() {
            let replica = self.replicas.get_mut(&partition).expect("it was listed");
            let applied = match (&mut replica.following, &mut replica.opening) {
                (Some(following), _) => following.apply(shared),
                (None, Some(pending)) => pending.apply(shared),
                (None, None) => continue,
            };
            match applied {
                Ok(None) => {}
                // Calls go by what the partitions have that are led here.
                Ok(Some(version)) if self.replicas.values().all(|replica| !replica.leads) => {
                    self.follow_catalog(version);
                }
                Ok(Some(_)) => {}
                Err(problem) => shared.problem(problem),
            }
            let replica = &self.replicas[&partition];
            if replica.opening.as_ref().is_some_and(|pending| pending.promotion.is_ready()) {
                self.end_opening(partition, shared);
            }
        }
    }

    /// What was logged goes to the copies.
    pub(super) fn hand_over(&mut self, partition: PartitionId, all: bool, shared: &Shared) {
        let replica = self.replicas.get_mut(&partition).expect("it has a copy");
        let Some(leading) = &mut replica.leading else {
            if replica.following.is_none() {
                replica.site.drop_log();
            }
            return;
        };
        let logged = leading.take_log(&mut replica.site, (self.now_us, all));
        if let Some(end) = logged {
            replica.gate.advance(self.id, end);
            if shared.faults.streams.answer_before_receipt {
                let hosts: Vec<HostId> = replica.gate.copies().hosts().collect();
                hosts.into_iter().for_each(|host| replica.gate.advance(host, end));
            }
        }
        let safe = replica.gate.safe();
        if leading.advertise(&mut replica.site, safe, (logged.is_some(), all)) {
            self.send_to_copies(partition);
        }
    }

    pub(super) fn send_to_copies(&mut self, partition: PartitionId) {
        let replica = self.replicas.get_mut(&partition).expect("it has a copy");
        let Some(leading) = &mut replica.leading else { return };
        let learning = self.placement.learning_of(partition);
        let copies = self.placement.followers_of(partition).iter().chain(learning);
        let copies = copies.map(|thread| thread.host());
        let out = &mut self.out;
        leading.send(copies, |copy, said| {
            out.push((copy, Said::Copy(OfCopy { partition, copy, said })));
        });
    }

    /// Releases what all copies have, while this host may answer.
    pub(super) fn release(&mut self, partition: PartitionId) {
        if !self.may_answer(partition) {
            return;
        }
        let replica = self.replicas.get_mut(&partition).expect("it has a copy");
        let safe: Vec<Held> = std::iter::from_fn(|| replica.gate.release()).collect();
        safe.into_iter().for_each(|Held { to, said }| self.send(to, said));
    }

    /// The end of a round.
    pub(super) fn end_round(&mut self, (all, is_tick): (bool, bool), shared: &mut Shared) {
        self.drain_leaders(shared);
        for partition in self.replicas.keys().copied().collect::<Vec<_>>() {
            self.hand_over(partition, all, shared);
            if shared.faults.shrink_without_epoch && is_tick {
                self.replicas.get_mut(&partition).expect("it was listed").shrink();
            }
            self.release(partition);
            let replica = self.replicas.get_mut(&partition).expect("it was listed");
            replica.site.maintain();
        }
        self.take_all(shared);
    }

    /// Time limits are polled.
    pub(super) fn expire(&mut self, shared: &mut Shared) {
        if let Some(coordinator) = &mut self.coordinator {
            let mut outputs = Vec::new();
            coordinator.expire(self.now_us, &mut outputs);
            coordinator::carry_out(&mut Of { host: self, shared }, &mut outputs);
            self.attend_to_moves(shared);
        }
        self.attend_to_expiry(shared);
        self.follow_unavailable(shared);
    }

    pub(super) fn propose_out_of_sync(&mut self, partition: PartitionId, host: HostId, epoch: u32) {
        let epoch = Epoch(epoch.into());
        self.proposals.push(Command::OutOfSync { partition, host, epoch });
    }
}

/// The coordinator of a host; `version` is that of its catalog.
pub(super) fn coordinator_of(
    placement: &Placement,
    shared: &Shared,
    version: u64,
) -> Coordinator<usize, u64> {
    let mut coordinator = Coordinator::new(shared.ring.clone(), &shared.limits);
    coordinator.go_on_behind(TransactionId::default(), version);
    if placement.is_replicated() {
        coordinator.await_durable_decisions();
        coordinator.remember_outcomes(shared.limits.outcomes_kept());
    }
    coordinator
}

/// The coordinator at its host.
pub(super) struct Of<'w> {
    pub(super) host: &'w mut Host,
    pub(super) shared: &'w mut Shared,
}

impl HostTime for Of<'_> {
    fn now_us(&self) -> i64 {
        self.host.now_us
    }
}

impl Of<'_> {
    fn answer(&mut self, call: usize, outcome: Outcome, tables: Vec<u8>) {
        let answer = Answer::new(call, outcome, tables);
        self.host.send(self.shared.origin_of(call), Said::Answer(Box::new(answer)));
    }

    fn one_round_answer(&mut self, finished: OneRoundFinished<usize>) {
        let OneRoundFinished { origin, call, result, .. } = finished;
        let (mut outcome, mut tables) = (Outcome::success(0), Vec::new());
        match result {
            Err(failure) => outcome = Outcome::failed(*failure),
            Ok(answers) => {
                let is_whole = self.host.one_rounds.write_tables(&call, &answers, &mut tables);
                if !is_whole {
                    outcome = Outcome::failed(Failure::unexpected("a table is missing"));
                }
            }
        }
        self.answer(origin, outcome, tables);
    }
}

impl CoordinatorHost for Of<'_> {
    type Origin = usize;
    type Catalog = u64;

    fn coordinator(&mut self) -> &mut Coordinator<usize, u64> {
        self.host.coordinator.as_mut().expect("what concerns it comes to its host")
    }

    fn coordinator_output(&mut self, output: CoordinatorOutput<usize, u64>) {
        match output {
            CoordinatorOutput::Send(message) => {
                let to = self.host.placement.leader_of(message.partition).host();
                self.host.send(to, Said::ToPartition(message));
            }
            CoordinatorOutput::Finished(finished) => {
                let finished = *finished;
                if finished.is_schema {
                    self.host.changing = None;
                }
                self.answer(finished.origin, finished.outcome, finished.tables);
            }
            CoordinatorOutput::OneRoundFinished(finished) => self.one_round_answer(finished),
            CoordinatorOutput::Thread { .. } => unreachable!("no procedure needs a thread"),
            CoordinatorOutput::Stale(_) | CoordinatorOutput::OneRoundStale(..) => {
                unreachable!("overtaken calls are planned again")
            }
        }
    }

    fn plan_overtaken(
        &mut self,
        overtaken: Overtaken<usize>,
    ) -> Option<CoordinatorCall<usize, u64>> {
        let (Overtaken::Planned(call) | Overtaken::OneRound(call, _)) = overtaken;
        if deletion_of(call).is_some() {
            self.host.bounce(call, self.shared);
            return None;
        }
        self.host.plan_several_again(call, self.shared)
    }

    fn took_over(&mut self, ended: Vec<EndedChange>) {
        let changes = ended.iter().filter(|ended| ended.change.snapshot.is_none());
        changes.for_each(|ended| match ended.committed {
            true => self.shared.report.changes_found_made += 1,
            false => self.shared.report.changes_found_undone += 1,
        });
        self.begin_expiry();
    }

    fn refuse_waiting(&mut self, call: usize, _: bool) {
        unreachable!("the workload stays within the limits, and call {call} does not");
    }
}
