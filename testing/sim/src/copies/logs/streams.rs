//! What goes between the copies, and how an epoch follows another.

use super::{Host, LIMITS, Leader, Logs, PARTITION, Role, SOON};
use crate::copies::{Link, any_link};
use lockstep_host::gate::{Gate, SafePosition};
use lockstep_txn::log_entry::{LogBuffer, LogSource};
use lockstep_txn::replica::{
    CopyPlan, FollowerStream, NotTaken, Piece, Receipt, ReceiptOutcome, Receipts, ReplicaStream,
    Survivor, Taken, Takeover, ToFollower, plan_takeover,
};
use lockstep_txn::sp::first_entry;
use lockstep_txn::{EntryHeader, EntryReader};
use lockstep_types::{HostId, ParameterSet, TransactionId};

/// When the transaction of the number 0 was, milliseconds since 1970.
const TIME_MS: i64 = 1_790_000_000_000;

/// The transaction that stands for a number.
pub(super) fn transaction_of(number: u64) -> TransactionId {
    TransactionId::new(TIME_MS + number as i64, 0, PARTITION)
}

/// The number that a transaction stands for.
pub(super) fn number_of(header: &EntryHeader) -> u64 {
    (header.transaction.time_ms() - TIME_MS) as u64
}

/// Numbers as entries after one.
fn piece_of(source: LogSource, before: u64, numbers: &[u64]) -> Piece {
    let mut buffer = LogBuffer::new(PARTITION, source, before);
    for number in numbers {
        let header = first_entry(transaction_of(*number));
        buffer.command(&header, 0, "P", false, &ParameterSet::EMPTY);
    }
    let (entries, bytes) = (numbers.len() as u32, buffer.bytes().into());
    Piece { source, first: before + 1, entries, bytes }
}

/// The entries of a piece: the epoch and the number of each.
fn entries_of(piece: &Piece) -> Vec<(u32, u64)> {
    let mut reader = EntryReader::new(&piece.bytes);
    let mut entries = Vec::new();
    while let Ok(Some(entry)) = reader.read() {
        entries.push((piece.source.epoch, number_of(&entry.header)));
    }
    assert_eq!(entries.len(), piece.entries as usize, "a piece can be read");
    entries
}

impl Logs {
    pub(super) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// A client appends a number at a host that takes itself for the leader.
    pub(super) fn call(&mut self, host: usize) {
        let Role::Leader(leader) = &self.hosts[host].role else { return };
        if leader.stream.is_behind() || leader.stream.is_sealed() {
            return;
        }
        let number = self.take_number();
        let Role::Leader(leader) = &mut self.hosts[host].role else { return };
        leader.round.push(number);
    }

    /// What a leader ran in a round is logged, sent and waited for.
    pub(super) fn end_round(&mut self, number: usize) {
        let Host { role: Role::Leader(leader), log, store: Some(store), .. } =
            &mut self.hosts[number]
        else {
            return;
        };
        let numbers = std::mem::take(&mut leader.round);
        if numbers.is_empty() || leader.stream.is_sealed() {
            return;
        }
        let piece = piece_of(leader.source, leader.stream.end(), &numbers);
        store.add(&piece);
        log.extend(numbers.iter().map(|number| (piece.source.epoch, *number)));
        for (entry, number) in (piece.first..).zip(numbers) {
            self.truth.note_logged((piece.source.epoch, entry), number);
            let waits = leader.gate.pass(entry, (entry, number));
            assert_eq!(waits, None, "a new entry is not safe");
        }
        leader.stream.log(piece, 0);
        let end = leader.stream.end();
        if self.broken.ack_before_sync {
            leader.gate.advance(HostId(number as u32), end);
        }
        self.send(number);
    }

    /// The log of a leader is durable up to an entry.
    pub(super) fn note_own_durable(&mut self, number: usize, durable: u64) {
        if let Role::Leader(leader) = &mut self.hosts[number].role {
            let durable = durable.min(leader.stream.end());
            leader.gate.advance(HostId(number as u32), durable);
        }
        self.send(number);
    }

    /// Everything that may be answered or sent by a leader is.
    pub(super) fn send(&mut self, host: usize) {
        let Role::Leader(leader) = &mut self.hosts[host].role else { return };
        if leader.stream.is_sealed() {
            return;
        }
        while let Some((entry, number)) = leader.gate.release() {
            self.truth.answered.insert(number, entry);
        }
        let (safe, end) = (leader.gate.safe(), leader.stream.end());
        leader.stream.advertise(safe, end);
        let copies = leader.stream.followers().chain(leader.stream.learners());
        for copy in copies.collect::<Vec<_>>() {
            let Some(link) = self.links.get_mut(&(host, copy.0 as usize)) else { continue };
            while let Some(message) = leader.stream.next_for(copy) {
                link.to_follower.push_back(message);
            }
        }
    }

    /// The next message of one connection and direction arrives.
    pub(super) fn deliver(&mut self) -> Result<(), String> {
        let Some((from, to)) = any_link(&self.links, &mut self.random) else { return Ok(()) };
        match self.random.chance(1, 2) {
            true => self.deliver_receipt(from, to),
            false => self.deliver_piece(from, to),
        }
    }

    pub(super) fn deliver_receipt(&mut self, from: usize, to: usize) -> Result<(), String> {
        let link = self.links.get_mut(&(from, to));
        let Some(receipt) = link.and_then(|link| link.to_leader.pop_front()) else {
            return Ok(());
        };
        let Role::Leader(leader) = &mut self.hosts[from].role else { return Ok(()) };
        let (follower, Receipt { position, .. }) = (HostId(to as u32), receipt);
        match leader.stream.receipt(follower, receipt) {
            ReceiptOutcome::Advanced(_) => leader.gate.advance(follower, position),
            ReceiptOutcome::NotSent => {
                return Err(format!("host {to} has entry {position}, which was not sent"));
            }
            _ => {}
        }
        self.send(from);
        Ok(())
    }

    pub(super) fn deliver_piece(&mut self, from: usize, to: usize) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&(from, to)) else { return Ok(()) };
        let Some(message) = link.to_follower.pop_front() else {
            if link.is_broken {
                self.reconnect(from, to);
            }
            return Ok(());
        };
        self.take_piece(from, to, message)
    }

    fn take_piece(&mut self, from: usize, to: usize, message: ToFollower) -> Result<(), String> {
        let Host { role: Role::Follower(copy), log, store: Some(store), .. } = &mut self.hosts[to]
        else {
            return Ok(());
        };
        match copy.take(message) {
            Taken::Append(piece) => {
                log.extend(entries_of(&piece));
                store.add(&piece);
                if self.broken.ack_before_sync {
                    copy.note_durable(copy.end());
                }
            }
            Taken::Refused(NotTaken::Gap { .. }) => {
                self.cut_link(from, to);
                return Ok(());
            }
            Taken::Refused(NotTaken::Overlap { due }) => {
                return Err(format!("host {to} got a part of what it has: {due} is due"));
            }
            Taken::Refused(_) | Taken::Positions | Taken::Repeated => {}
        }
        self.send_receipts(to);
        Ok(())
    }

    /// A copy sends a receipt to the leader of its epoch, if one is due.
    pub(super) fn send_receipts(&mut self, to: usize) {
        let epoch = self.hosts[to].role.epoch();
        let leads = |from: usize| {
            matches!(self.hosts[from].role, Role::Leader(_))
                && self.hosts[from].role.epoch() == epoch
        };
        let of_epoch = |(from, follower): &&(usize, usize)| *follower == to && leads(*from);
        let Some((from, _)) = self.links.keys().find(of_epoch).copied() else { return };
        let Role::Follower(copy) = &mut self.hosts[to].role else { return };
        let link = self.links.get_mut(&(from, to)).expect("it was listed");
        link.to_leader.extend(copy.receipt());
    }

    pub(super) fn break_link(&mut self) {
        if let Some((from, to)) = any_link(&self.links, &mut self.random) {
            self.cut_link(from, to);
        }
    }

    /// A connection is lost: of what is in flight a beginning arrives in each direction.
    fn cut_link(&mut self, from: usize, to: usize) {
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
        let resumed = leader.stream.reconnected(HostId(to as u32), epoch, position);
        if resumed.is_ok() {
            self.links.insert((from, to), Link::default());
        }
        self.send(from);
    }

    /// The control plane seals a copy for the next epoch, if it reaches it.
    pub(super) fn seal(&mut self, number: usize) {
        let epoch = self.placement.epoch + 1;
        let Host { role, is_cut_off: false, .. } = &mut self.hosts[number] else { return };
        if self.sealed.contains_key(&number) {
            return;
        }
        let sealed = match role {
            Role::Down | Role::Waiting => None,
            Role::Leader(leader) => leader.stream.seal(epoch),
            Role::Follower(copy) => copy.seal(epoch),
        };
        self.sealed.extend(sealed.map(|sealed| (number, sealed)));
    }

    /// The control plane begins an epoch with the copies that it reaches.
    pub(super) fn change_epoch(&mut self) -> Result<(), String> {
        let epoch = self.placement.epoch + 1;
        (0..self.hosts.len()).for_each(|host| self.seal(host));
        let survivor = |(host, sealed): (&usize, &lockstep_txn::replica::SealReport)| Survivor {
            host: HostId(*host as u32),
            led: self.placement.leader == *host
                && matches!(self.hosts[*host].role, Role::Leader(_)),
            sealed: sealed.clone(),
        };
        let survivors: Vec<Survivor> = self.sealed.iter().map(survivor).collect();
        let faults = self.broken.streams;
        let planned = plan_takeover(epoch, &self.placement.in_sync, &survivors, faults);
        let Ok(takeover) = planned else {
            // Those that were reached wait, sealed.
            return Ok(());
        };
        self.report.takeovers += 1;
        self.sealed.clear();
        if self.random.chance(1, 8) {
            self.cut_in = Some(1 + self.random.below(SOON));
        }
        self.place(&takeover, &survivors)
    }

    /// The copies take the roles that an epoch gives them.
    fn place(&mut self, takeover: &Takeover, survivors: &[Survivor]) -> Result<(), String> {
        let (epoch, end, leader) = (takeover.epoch, takeover.end, takeover.leader.0 as usize);
        let role = std::mem::replace(&mut self.hosts[leader].role, Role::Down);
        let (_, history, suffix) = match role {
            Role::Leader(leader) => leader.stream.into_log(),
            Role::Follower(copy) => copy.into_log(),
            Role::Waiting | Role::Down => return Err("a host leads that has no data".to_string()),
        };
        let log = &self.hosts[leader].log;
        self.truth.check_answered(log).map_err(|what| format!("host {leader} leads: {what}"))?;
        self.truth.begin_epoch(epoch, log);
        let mut followers = Vec::new();
        for (host, plan) in &takeover.copies {
            let number = host.0 as usize;
            let sealed =
                survivors.iter().find(|survivor| survivor.host == *host).ok_or("no seal")?;
            match plan {
                CopyPlan::Complete | CopyPlan::Lacks { .. } => {
                    followers.push((*host, sealed.sealed.end));
                    self.follow(number, epoch);
                }
                CopyPlan::Diverged { .. } => {
                    self.report.diverged += 1;
                    self.discard(number);
                }
            }
        }
        self.placement.epoch = epoch;
        self.placement.leader = leader;
        self.placement.in_sync = takeover.in_sync();
        self.place_hosts();
        let stream = ReplicaStream::open(epoch, end, history, &followers, suffix, LIMITS);
        self.lead(leader, stream);
        Ok(())
    }

    /// Those that the control plane reaches hear of the placement.
    pub(super) fn place_hosts(&mut self) {
        let is_there =
            |host: &Host| !host.is_cut_off && !host.is_joining && !matches!(host.role, Role::Down);
        let all = self.hosts.iter().enumerate();
        let stay = all.filter(|(_, host)| self.keeps_logs && is_there(host));
        let stay = stay.map(|(number, _)| HostId(number as u32));
        self.placement.up = stay.chain(self.placement.in_sync.iter().copied()).collect();
        let placed = self.placed();
        let reached = |host: &&mut Host| !host.is_cut_off && !matches!(host.role, Role::Down);
        self.hosts.iter_mut().filter(reached).for_each(|host| host.known = placed.clone());
        // The new leader has heard of it, of course.
        self.hosts[self.placement.leader].known = placed;
    }

    /// A copy that has what it needs follows the leader of a new epoch.
    fn follow(&mut self, number: usize, epoch: u32) {
        let host = &mut self.hosts[number];
        host.learning = None;
        let durable = host.store.as_ref().map_or(0, |store| store.durable);
        host.role = match std::mem::replace(&mut host.role, Role::Down) {
            Role::Follower(mut copy) => {
                copy.follow(epoch);
                Role::Follower(copy)
            }
            Role::Leader(leader) => {
                let log = leader.stream.into_log();
                let receipts = Receipts::WhenDurable;
                let mut copy = FollowerStream::after_leading(epoch, log, durable, receipts);
                copy.inject(self.broken.streams);
                Role::Follower(Box::new(copy))
            }
            other => other,
        };
    }

    /// A host leads: its first entry opens the epoch.
    pub(super) fn lead(&mut self, number: usize, stream: ReplicaStream) {
        let own = HostId(number as u32);
        let round = vec![self.take_number()];
        let host = &mut self.hosts[number];
        host.learning = None;
        let durable = host.store.as_ref().map_or(0, |store| store.durable);
        let mut copies = vec![(own, durable.min(stream.end()))];
        if !self.broken.streams.answer_before_receipt {
            let received = |follower| (follower, stream.received(follower).unwrap_or_default());
            copies.extend(stream.followers().map(received));
        }
        self.links.retain(|(from, to), _| *from != number && *to != number);
        for follower in stream.followers() {
            self.links.insert((number, follower.0 as usize), Link::default());
        }
        let gate = Gate::new(SafePosition::of_copies(&copies));
        let source = LogSource { epoch: stream.epoch(), incarnation: host.incarnation };
        host.role = Role::Leader(Box::new(Leader { stream, gate, source, round }));
        self.end_round(number);
    }
}
