//! Messages in their byte form ([`crate::codec`]): those of other hosts, and in tests those that
//! stay within the process.

use super::Shard;
use super::coordinator::origin_of;
use crate::codec::{Received, read_message, write_message};
use crate::host_message::HostMessage;
use crate::message::{Envelope, MultiOrigin};
use lockstep_host::coordinator::{CoordinatorHost, Overtaken};
use lockstep_host::index_hops::waits_for_placement;
use lockstep_host::names::CatalogNames;
use lockstep_host::statement_cache::{StatementCache, StatementSources};
use lockstep_site::codec::MessageError;
use lockstep_types::PartitionId;

/// What a thread needs for it.
#[derive(Default)]
pub(super) struct MessageBytes {
    statements: StatementCache,
    /// Messages of a catalog that is not in force here yet.
    early: Vec<Envelope>,
    buffer: Vec<u8>,
}

impl Shard {
    /// The message, as a thread of another process would get it; nothing where it waits for a
    /// catalog, repeats what was heard, or was planned again.
    #[cold]
    pub(super) fn through_bytes(&mut self, message: Envelope) -> Option<Envelope> {
        let mut bytes = std::mem::take(&mut self.message_bytes.buffer);
        bytes.clear();
        if !write_message(&mut bytes, &message) {
            return Some(message);
        }
        let received = self.received(&bytes);
        let is_repeat = matches!(&message, Envelope::ToPartition(told)
            if self.has_received(told.partition, told.number));
        self.message_bytes.buffer = bytes;
        match received {
            Ok(Received::Message(message)) => {
                assert_reads_as_written(&self.message_bytes.buffer, &message);
                Some(message)
            }
            Ok(overtaken) => {
                self.take_overtaken(overtaken);
                None
            }
            Err(MessageError::LaterCatalog(_)) => {
                self.message_bytes.early.push(message);
                None
            }
            Err(MessageError::EarlierCatalog(_)) if is_repeat => None,
            Err(error) => panic!("a message of this host is not read: {error}"),
        }
    }

    /// Messages of another host arrived, which may be anything.
    #[inline(never)]
    pub(super) fn take_incoming(&mut self, messages: Box<HostMessage>) {
        let mut is_first = true;
        for bytes in messages.messages() {
            if !std::mem::take(&mut is_first) && self.finds_urgent() {
                self.take_urgent();
            }
            let taken = bytes.and_then(|bytes| self.take_received(&messages, bytes));
            if let Err(problem) = taken {
                // Nothing that comes after it can be taken.
                let host = messages.peer.host();
                tracing::error!(%host, problem, "a message of another host is refused");
                self.outbox.send(self.placement.links_thread(), Envelope::EndSession(host));
                break;
            }
        }
        self.outbox.spare.give_back_message(messages);
    }

    /// Takes one of the messages that came together; an error says why it cannot be taken.
    fn take_received(&mut self, messages: &HostMessage, bytes: &[u8]) -> Result<(), String> {
        let waits = |epoch| waits_for_placement(epoch, &self.placement);
        if messages.epoch.is_some_and(waits) {
            return self.wait_for_epoch(messages, bytes);
        }
        match self.received(bytes) {
            Ok(Received::Message(Envelope::Drain | Envelope::Stop)) => {
                return Err("a request to stop that only the own host makes".to_string());
            }
            Ok(Received::Message(read)) if self.is_served_here(&read) => self.take_here(read),
            Ok(Received::Message(_)) => {
                return Err("a message for what is not served here".to_string());
            }
            Ok(overtaken) => self.take_overtaken(overtaken),
            Err(MessageError::LaterCatalog(_)) => {
                let limit = self.facts.options.max_held_calls.to_usize();
                if self.message_bytes.early.len() >= limit {
                    let what = "one more that waits for a change of the catalog";
                    return Err(format!("{what} (option max_held_calls)"));
                }
                self.message_bytes.early.push(Envelope::Incoming(messages.alone(bytes)));
            }
            // Of a stream that has ended since: a change of the catalog was decided without it.
            Err(MessageError::EarlierCatalog(_)) if self.placement.is_replicated() => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// A call of a host that knows a later placement waits for that.
    fn wait_for_epoch(&mut self, messages: &HostMessage, bytes: &[u8]) -> Result<(), String> {
        if self.may_wait() {
            self.waiting_calls.push(Envelope::Incoming(messages.alone(bytes)));
            return Ok(());
        }
        match self.received(bytes) {
            Ok(Received::Message(call)) if call.goes_on() => {
                self.refuse_elsewhere(origin_of(&call));
            }
            Ok(Received::OvertakenStatements(waiting)) => self.refuse_elsewhere(waiting.origin),
            Ok(_) => return Err("a message that no placement is awaited for".to_string()),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Whether this thread has what a message is for.
    fn is_served_here(&self, message: &Envelope) -> bool {
        let is_replicated = self.placement.is_replicated();
        let serves = |partition: PartitionId| match is_replicated {
            // The host that sent it may know another placement.
            true => self.replicas.has_copy(partition),
            false => self.replicas.slot_of(partition).is_some(),
        };
        match message {
            Envelope::Call(partition, _) | Envelope::AdHoc(partition, _) => serves(*partition),
            Envelope::Via(call) => serves(call.partition()),
            Envelope::ToPartition(message) => serves(message.partition),
            Envelope::Multi(_) | Envelope::OneRound(..) | Envelope::FromPartition(_) => {
                self.coordinator.is_some() || is_replicated
            }
            Envelope::ExpiryPolls { looks, .. } => looks.iter().all(|poll| serves(poll.partition)),
            Envelope::Copy(message) => serves(message.partition),
            Envelope::Control(_) => false,
            _ => true,
        }
    }

    /// A schema change has overtaken a call on its way here.
    fn take_overtaken(&mut self, overtaken: Received) {
        match overtaken {
            Received::Message(_) => unreachable!("it is taken as it is"),
            Received::Overtaken(origin) => {
                let call = self.plan_overtaken(Overtaken::Planned(origin));
                call.into_iter().for_each(|call| self.for_coordinator(call));
            }
            Received::OvertakenStatements(MultiOrigin { origin, body }) => {
                let body = body.expect("a call that can be overtaken has its invocation");
                self.plan_again(origin, body);
            }
        }
    }

    fn received(&mut self, bytes: &[u8]) -> Result<Received, MessageError> {
        let prepared = self.facts.prepared.lock().expect("no thread panicked with it");
        let limits = self.facts.options.sql_limits();
        let sources = StatementSources {
            catalog: &self.catalog,
            limits: &limits,
            partition_count: self.facts.partition_count,
        };
        let statements = &mut self.message_bytes.statements;
        let mut names = CatalogNames {
            sources,
            partition_count: self.facts.partition_count,
            statements,
            prepared: &prepared,
        };
        read_message(bytes, &mut names, &mut self.outbox.spare)
    }

    /// Another catalog is in force here: what waited for it is taken before anything else.
    pub(super) fn take_early_messages(&mut self) {
        self.message_bytes.statements.forget();
        let early = std::mem::take(&mut self.message_bytes.early);
        early.into_iter().for_each(|message| self.own_messages.push(message));
    }

    fn has_received(&self, partition: PartitionId, number: u64) -> bool {
        let slot = self.replicas.slot_of(partition);
        slot.is_some_and(|slot| self.replicas[slot].site.has_received(number))
    }
}

fn assert_reads_as_written(written: &[u8], read: &Envelope) {
    let mut again = Vec::new();
    assert!(write_message(&mut again, read), "what was read has a byte form");
    assert_eq!(again, written, "a message reads as it was written");
}
