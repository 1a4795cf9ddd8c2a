//! The copies of one partition by themselves: the streams of the server's own `txn` between a
//! leader and its followers, on connections that lose suffixes, with hosts that stop, come back
//! without their memory, or are cut off and go on in an epoch that is over.
//!
//! Entries are numbers here, so that a run is short and many are possible. Judges: an answered
//! number is in the log of each leader, once; copies in sync are equal at rest; everything is
//! answered once faults stop.

use crate::bank::Failure;
use lockstep_base::random::SeededRandom;
use lockstep_host::gate::{Gate, SafePosition};
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::replica::{
    CopyPlan, EpochHistory, FollowerStream, HandOver, HandOverStage, NotTaken, Piece, Receipt,
    Receipts, ReplicaFaults, ReplicaLimits, ReplicaStream, SealReport, Survivor, Taken, Takeover,
    ToFollower, plan_takeover,
};
use lockstep_types::HostId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

mod judge;
pub mod logs;

pub use judge::Report;

const FIRST_EPOCH: u32 = 1;
const LIMITS: ReplicaLimits = ReplicaLimits { unreceived_bytes: 400 };
/// The number of an entry that opens an epoch.
const OPENING: u64 = 0;

struct Leader {
    stream: ReplicaStream,
    gate: Gate<u64>,
    /// Numbers that ran in this round.
    round: Vec<u64>,
    hand_over: Option<HandOver>,
}

enum Role {
    /// It is not running, or has nothing.
    Down,
    /// It waits for an epoch that names it.
    Waiting(SealReport),
    Leader(Box<Leader>),
    Follower(Box<FollowerStream>),
}

struct Host {
    role: Role,
    /// The epoch and the number of each entry.
    log: Vec<(u32, u64)>,
    /// The control plane does not reach it: it goes on as before.
    is_cut_off: bool,
}

/// One direction each of the connection between two hosts.
#[derive(Default)]
struct Link {
    to_follower: VecDeque<ToFollower>,
    to_leader: VecDeque<Receipt>,
    is_broken: bool,
}

impl Link {
    /// The connection is lost: of what is in flight in each direction, the last messages do not
    /// arrive, this many.
    fn lose(&mut self, messages: u64) {
        for _ in 0..messages {
            self.to_follower.pop_back();
            self.to_leader.pop_back();
        }
        self.is_broken = true;
    }
}

/// The connections by leader and follower.
type Links = BTreeMap<(usize, usize), Link>;

/// One of the connections, if there are any.
fn any_link(links: &Links, random: &mut SeededRandom) -> Option<(usize, usize)> {
    let count = links.len() as u64;
    (count > 0).then(|| random.below(count) as usize).and_then(|at| links.keys().nth(at)).copied()
}

/// The control plane, which is one step here.
struct Placement {
    epoch: u32,
    leader: HostId,
    in_sync: Vec<HostId>,
}

struct Copies {
    random: SeededRandom,
    hosts: Vec<Host>,
    links: Links,
    placement: Placement,
    receipts: Receipts,
    /// What copies reported that are sealed for the next epoch.
    sealed: BTreeMap<usize, SealReport>,
    next_number: u64,
    answered: BTreeSet<u64>,
    now_us: i64,
    faults: ReplicaFaults,
    report: Report,
}

/// Runs one seed with this number of steps.
///
/// # Errors
/// The first check that failed.
pub fn run_seed(seed: u64, steps: usize, faults: ReplicaFaults) -> Result<Report, Failure> {
    let mut copies = Copies::new(seed, faults);
    match copies.run(steps) {
        Ok(()) => Ok(copies.report),
        Err(message) => Err(Failure { seed, message: format!("copies: {message}") }),
    }
}

fn number_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let whole = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
    bytes.chunks(8).map(whole)
}

impl Copies {
    fn new(seed: u64, faults: ReplicaFaults) -> Copies {
        let mut random = SeededRandom::new(seed ^ 0xc0b1e5);
        let count = 2 + random.below(2) as usize;
        let host = |_| Host { role: Role::Down, log: Vec::new(), is_cut_off: false };
        let all: Vec<HostId> = (0..count as u32).map(HostId).collect();
        let receipts = match random.chance(1, 2) {
            true => Receipts::AtOnce,
            false => Receipts::WhenDurable,
        };
        let mut copies = Copies {
            random,
            hosts: (0..count).map(host).collect(),
            links: BTreeMap::new(),
            placement: Placement { epoch: FIRST_EPOCH, leader: HostId(0), in_sync: all.clone() },
            receipts,
            sealed: BTreeMap::new(),
            next_number: OPENING + 1,
            answered: BTreeSet::new(),
            now_us: 0,
            faults,
            report: Report::default(),
        };
        let history = EpochHistory::of_epoch(FIRST_EPOCH);
        let followers: Vec<(HostId, u64)> = all[1..].iter().map(|host| (*host, 0)).collect();
        for host in 1..count {
            copies.start_follower(host, FIRST_EPOCH, 0, history.clone());
        }
        let stream = ReplicaStream::open(FIRST_EPOCH, 0, history, &followers, [], LIMITS);
        copies.lead(0, stream);
        copies
    }

    fn start_follower(&mut self, host: usize, epoch: u32, end: u64, history: EpochHistory) {
        let mut stream = FollowerStream::new(epoch, end, history, self.receipts);
        stream.inject(self.faults);
        self.hosts[host].role = Role::Follower(Box::new(stream));
    }

    /// A host leads: its first entry opens the epoch.
    fn lead(&mut self, host: usize, stream: ReplicaStream) {
        let mut copies = vec![(HostId(host as u32), stream.end())];
        if !self.faults.answer_before_receipt {
            let received = |follower| (follower, stream.received(follower).unwrap_or_default());
            copies.extend(stream.followers().map(received));
        }
        let gate = Gate::new(SafePosition::of_copies(&copies));
        for follower in stream.followers() {
            self.links.insert((host, follower.0 as usize), Link::default());
        }
        let leader = Leader { stream, gate, round: vec![OPENING], hand_over: None };
        self.hosts[host].role = Role::Leader(Box::new(leader));
        self.end_round(host);
    }

    fn run(&mut self, steps: usize) -> Result<(), String> {
        for _ in 0..steps {
            self.step()?;
            self.check()?;
        }
        self.come_to_rest()
    }

    fn step(&mut self) -> Result<(), String> {
        self.now_us += 100;
        let host = self.random.below(self.hosts.len() as u64) as usize;
        match self.random.below(100) {
            0..=24 => self.call(host),
            25..=39 => self.end_round(host),
            40..=84 => self.deliver()?,
            85..=89 => self.sync(host),
            90..=92 => self.break_link(),
            93 if self.random.chance(1, 6) => self.stop(host),
            94 if self.random.chance(1, 2) => self.hosts[host].is_cut_off = true,
            95 if self.random.chance(1, 3) => self.hosts[host].is_cut_off = false,
            98 if self.random.chance(1, 4) => self.seal(host),
            96 if self.random.chance(1, 2) => self.begin_hand_over(),
            97 if self.random.chance(1, 3) => self.change_epoch(0)?,
            _ => self.advance_hand_over()?,
        }
        Ok(())
    }

    /// A client appends a number at a host that takes itself for the leader.
    fn call(&mut self, host: usize) {
        let number = self.next_number;
        let Role::Leader(leader) = &mut self.hosts[host].role else { return };
        if leader.stream.is_behind() {
            self.report.held_back += 1;
            return;
        }
        if leader.stream.is_sealed() || leader.hand_over.is_some() {
            return;
        }
        self.next_number += 1;
        leader.round.push(number);
    }

    /// What a leader ran in a round is logged, sent and waited for.
    fn end_round(&mut self, host: usize) {
        let id = HostId(host as u32);
        let Host { role: Role::Leader(leader), log, .. } = &mut self.hosts[host] else { return };
        let (numbers, epoch) = (std::mem::take(&mut leader.round), leader.stream.epoch());
        if numbers.is_empty() || leader.stream.is_sealed() {
            return;
        }
        let first = leader.stream.end() + 1;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let source = LogSource { epoch, incarnation: 1 };
        let entries = numbers.len() as u32;
        leader.stream.log(Piece { source, first, entries, bytes: bytes.into() }, self.now_us);
        log.extend(numbers.iter().map(|number| (epoch, *number)));
        leader.gate.advance(id, leader.stream.end());
        for (entry, number) in (first..).zip(numbers) {
            if let Some(number) = leader.gate.pass(entry, number) {
                self.answered.insert(number);
            }
        }
        self.send(host);
    }

    /// Everything that may be sent by a leader is put on its connections.
    fn send(&mut self, host: usize) {
        let Role::Leader(leader) = &mut self.hosts[host].role else { return };
        while let Some(number) = leader.gate.release() {
            self.answered.insert(number);
        }
        let (safe, end) = (leader.gate.safe(), leader.stream.end());
        if leader.stream.is_sealed() {
            return;
        }
        leader.stream.advertise(safe, end);
        for follower in leader.stream.followers().collect::<Vec<_>>() {
            let link = self.links.entry((host, follower.0 as usize)).or_default();
            while let Some(message) = leader.stream.next_for(follower) {
                link.to_follower.push_back(message);
            }
        }
    }

    /// The next message of one connection and direction arrives.
    fn deliver(&mut self) -> Result<(), String> {
        let Some((from, to)) = any_link(&self.links, &mut self.random) else { return Ok(()) };
        let back = self.random.chance(1, 2);
        let link = self.links.get_mut(&(from, to)).expect("it was listed");
        match back {
            true => {
                let Some(receipt) = link.to_leader.pop_front() else { return Ok(()) };
                self.deliver_receipt(from, to, receipt);
            }
            false => match link.to_follower.pop_front() {
                Some(message) => self.deliver_piece(from, to, message)?,
                None if link.is_broken => self.reconnect(from, to),
                None => {}
            },
        }
        Ok(())
    }

    fn deliver_receipt(&mut self, from: usize, to: usize, receipt: Receipt) {
        let Role::Leader(leader) = &mut self.hosts[from].role else { return };
        let follower = HostId(to as u32);
        leader.stream.receipt(follower, receipt);
        if let Some(position) =
            leader.stream.received(follower).filter(|_| !leader.stream.is_sealed())
        {
            leader.gate.advance(follower, position);
        }
        self.send(from);
    }

    fn deliver_piece(&mut self, from: usize, to: usize, message: ToFollower) -> Result<(), String> {
        let Host { role, log, .. } = &mut self.hosts[to];
        let Role::Follower(copy) = role else { return Ok(()) };
        match copy.take(message) {
            Taken::Append(piece) => {
                let epoch = piece.source.epoch;
                log.extend(number_of(&piece.bytes).map(|number| (epoch, number)));
            }
            Taken::Refused(NotTaken::Gap { .. }) => {
                self.cut(from, to);
                return Ok(());
            }
            Taken::Refused(NotTaken::Overlap { due }) => {
                return Err(format!("host {to} got a part of what it has: {due} is due"));
            }
            Taken::Refused(_) => self.report.refused += 1,
            Taken::Positions | Taken::Repeated => {}
        }
        self.send_receipt(from, to);
        Ok(())
    }

    fn send_receipt(&mut self, from: usize, to: usize) {
        let Role::Follower(copy) = &mut self.hosts[to].role else { return };
        let receipt = copy.receipt();
        let link = self.links.get_mut(&(from, to)).expect("it is connected");
        link.to_leader.extend(receipt);
    }

    /// The log of a follower is durable.
    fn sync(&mut self, host: usize) {
        let Role::Follower(copy) = &mut self.hosts[host].role else { return };
        copy.note_durable(copy.end());
        let leader = self.placement.leader.0 as usize;
        if self.links.contains_key(&(leader, host)) {
            self.send_receipt(leader, host);
        }
    }

    fn break_link(&mut self) {
        if let Some((from, to)) = any_link(&self.links, &mut self.random) {
            self.cut(from, to);
        }
    }

    /// A connection is lost: of what is in flight a beginning arrives in each direction.
    fn cut(&mut self, from: usize, to: usize) {
        let link = self.links.get_mut(&(from, to)).expect("it was listed");
        link.lose(self.random.below(4));
        if let Role::Leader(leader) = &mut self.hosts[from].role {
            leader.stream.disconnected(HostId(to as u32));
        }
    }

    fn reconnect(&mut self, from: usize, to: usize) {
        let Role::Follower(copy) = &mut self.hosts[to].role else { return };
        let (epoch, position) = (copy.epoch(), copy.reconnect());
        let Role::Leader(leader) = &mut self.hosts[from].role else { return };
        let follower = HostId(to as u32);
        let received = leader.stream.received(follower);
        // With these faults the two do not agree on where they go on.
        let position = match received {
            Some(received) if self.faults.resend_on_reconnect => received,
            _ if self.faults.drop_suffix => leader.stream.end(),
            _ => position,
        };
        if leader.stream.reconnected(follower, epoch, position).is_ok() {
            self.report.resumed += u64::from(position < leader.stream.end());
        }
        self.links.insert((from, to), Link::default());
        self.send(from);
    }

    /// A host stops; its memory is gone.
    fn stop(&mut self, host: usize) {
        let others = self.placement.in_sync.iter().filter(|other| other.0 as usize != host);
        let is_up = |other: &&HostId| !matches!(self.hosts[other.0 as usize].role, Role::Down);
        if others.filter(is_up).count() == 0 {
            return;
        }
        self.hosts[host].role = Role::Down;
        self.sealed.remove(&host);
        self.hosts[host].log.clear();
        self.links.retain(|(from, to), _| *from != host && *to != host);
    }

    fn begin_hand_over(&mut self) {
        let (leader, count) = (self.placement.leader.0 as usize, self.hosts.len() as u64);
        let target = HostId(self.random.below(count) as u32);
        let Role::Leader(leader) = &mut self.hosts[leader].role else { return };
        if leader.hand_over.is_none() {
            leader.hand_over = HandOver::begin(target, &leader.stream);
        }
    }

    fn advance_hand_over(&mut self) -> Result<(), String> {
        let host = self.placement.leader.0 as usize;
        self.end_round(host);
        let Role::Leader(leader) = &mut self.hosts[host].role else { return Ok(()) };
        let Some(hand_over) = &mut leader.hand_over else { return Ok(()) };
        if self.random.chance(1, 8) && hand_over.give_up() {
            self.report.given_up += 1;
            leader.hand_over = None;
            return Ok(());
        }
        if hand_over.stage() == HandOverStage::Drain {
            hand_over.advance(leader.gate.is_idle(), &mut leader.stream);
        }
        match hand_over.stage() {
            HandOverStage::Sealed => self.change_epoch(1),
            _ => Ok(()),
        }
    }

    /// The control plane seals a copy for the next epoch, if it reaches it.
    fn seal(&mut self, host: usize) {
        let epoch = self.placement.epoch + 1;
        let Host { role, is_cut_off: false, .. } = &mut self.hosts[host] else { return };
        if self.sealed.contains_key(&host) {
            return;
        }
        let sealed = match role {
            Role::Down => None,
            Role::Waiting(report) => Some(SealReport { epoch, ..report.clone() }),
            Role::Leader(leader) => leader.stream.seal(epoch),
            Role::Follower(copy) => copy.seal(epoch),
        };
        self.sealed.extend(sealed.map(|sealed| (host, sealed)));
    }

    /// The control plane begins an epoch with the copies that it reaches: it seals them, and names
    /// a leader.
    fn change_epoch(&mut self, kind: usize) -> Result<(), String> {
        let epoch = self.placement.epoch + 1;
        (0..self.hosts.len()).for_each(|host| self.seal(host));
        let mut survivors = Vec::new();
        for (host, sealed) in &self.sealed {
            let is_placed = self.placement.leader.0 as usize == *host;
            let led = match &self.hosts[*host].role {
                Role::Leader(leader) => is_placed && leader.hand_over.is_none(),
                _ => false,
            };
            let (host, sealed) = (HostId(*host as u32), sealed.clone());
            survivors.push(Survivor { host, led, sealed });
        }
        let target = self.hand_over_target();
        if let Some(target) = target.filter(|_| kind == 1) {
            survivors.iter_mut().for_each(|survivor| survivor.led = survivor.host == target);
        }
        let planned = plan_takeover(epoch, &self.placement.in_sync, &survivors, self.faults);
        let Ok(takeover) = planned else {
            // Those that were reached wait, sealed.
            return Ok(());
        };
        self.report.epochs[kind] += 1;
        self.sealed.clear();
        self.place(&takeover, survivors)
    }

    /// A copy that has what it needs follows the leader of a new epoch.
    fn follow(&mut self, host: usize, epoch: u32) {
        let role = std::mem::replace(&mut self.hosts[host].role, Role::Down);
        self.hosts[host].role = match role {
            Role::Follower(mut copy) => {
                copy.follow(epoch);
                Role::Follower(copy)
            }
            Role::Leader(leader) => {
                let log = leader.stream.into_log();
                let durable = log.0;
                let mut copy = FollowerStream::after_leading(epoch, log, durable, self.receipts);
                copy.inject(self.faults);
                Role::Follower(Box::new(copy))
            }
            other => other,
        };
    }

    fn hand_over_target(&self) -> Option<HostId> {
        match &self.hosts[self.placement.leader.0 as usize].role {
            Role::Leader(leader) => leader.hand_over.as_ref().map(HandOver::target),
            _ => None,
        }
    }

    /// The copies take the roles that an epoch gives them.
    fn place(&mut self, takeover: &Takeover, survivors: Vec<Survivor>) -> Result<(), String> {
        let (epoch, end, leader) = (takeover.epoch, takeover.end, takeover.leader.0 as usize);
        self.check_answered(leader)?;
        self.links.retain(|_, _| self.random.chance(7, 8));
        let role = std::mem::replace(&mut self.hosts[leader].role, Role::Down);
        let (_, history, suffix) = match role {
            Role::Leader(leader) => {
                self.report.unknown += leader.round.len() as u64;
                leader.stream.into_log()
            }
            Role::Follower(copy) => copy.into_log(),
            Role::Waiting(report) => (report.end, report.history, Vec::new()),
            Role::Down => return Err("a host leads that is down".to_string()),
        };
        let mut in_sync = vec![takeover.leader];
        let mut followers = Vec::new();
        for (host, plan) in &takeover.copies {
            let at = host.0 as usize;
            let sealed = survivors.iter().find(|survivor| survivor.host == *host);
            let sealed = sealed.map(|survivor| survivor.sealed.clone()).ok_or("no seal")?;
            match plan {
                CopyPlan::Complete | CopyPlan::Lacks { .. } => {
                    followers.push((*host, sealed.end));
                    self.follow(at, epoch);
                }
                CopyPlan::Diverged { agreed } => {
                    let kept = agreed.unwrap_or(0) as usize;
                    self.report.diverged += u64::from(self.hosts[at].log.len() > kept);
                    self.hosts[at].log.truncate(kept);
                    let loaded = self.hosts[leader].log[kept..end as usize].to_vec();
                    self.hosts[at].log.extend(loaded);
                    self.start_follower(at, epoch, end, history.clone());
                    followers.push((*host, end));
                }
            }
            in_sync.push(*host);
        }
        self.placement = Placement { epoch, leader: takeover.leader, in_sync };
        let stream = ReplicaStream::open(epoch, end, history, &followers, suffix, LIMITS);
        self.lead(leader, stream);
        // A host that has stopped comes back with nothing, and joins with the next epoch.
        let down =
            (0..self.hosts.len()).filter(|host| matches!(self.hosts[*host].role, Role::Down));
        for host in down.collect::<Vec<_>>() {
            let history = EpochHistory::of_epoch(FIRST_EPOCH);
            let report = SealReport { epoch, end: 0, history, kept_after: 0 };
            self.hosts[host].role = Role::Waiting(report);
        }
        Ok(())
    }
}
