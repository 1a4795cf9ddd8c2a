//! Messages that go through their byte form although they stay within the process
//! ([`crate::codec`]): for tests.

use super::Shard;
use crate::codec::{Received, read_message, write_message};
use crate::message::Envelope;
use lockstep_host::coordinator::{CoordinatorHost, Overtaken};
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
            Ok(Received::Overtaken(origin)) => {
                // Of statements for a partition, or of a call for the coordinator.
                let at_coordinator = matches!(message, Envelope::Multi(_) | Envelope::OneRound(..));
                match at_coordinator {
                    true => {
                        let call = self.plan_overtaken(Overtaken::Planned(origin));
                        call.into_iter().for_each(|call| self.for_coordinator(call));
                    }
                    false => {
                        let body =
                            origin.body.expect("a call that can be overtaken has its invocation");
                        self.plan_again(origin.origin, body);
                    }
                }
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

    fn received(&mut self, bytes: &[u8]) -> Result<Received, MessageError> {
        let prepared = self.facts.prepared.lock().expect("no thread panicked with it");
        let limits = self.facts.options.sql_limits();
        let sources = StatementSources {
            catalog: &self.catalog,
            limits: &limits,
            partition_count: self.facts.partition_count,
        };
        let statements = &mut self.message_bytes.statements;
        read_message(
            bytes,
            &mut CatalogNames {
                sources,
                partition_count: self.facts.partition_count,
                statements,
                prepared: &prepared,
            },
        )
    }

    /// Another catalog is in force here: what waited for it is taken before anything else.
    pub(super) fn take_early_messages(&mut self) {
        self.message_bytes.statements.forget();
        let early = std::mem::take(&mut self.message_bytes.early);
        early.into_iter().for_each(|message| self.own_messages.push(message));
    }

    fn has_received(&self, partition: PartitionId, number: u64) -> bool {
        let slot = self.replicas.slot_here(partition);
        self.replicas[slot].site.has_received(number)
    }
}

fn assert_reads_as_written(written: &[u8], read: &Envelope) {
    let mut again = Vec::new();
    assert!(write_message(&mut again, read), "what was read has a byte form");
    assert_eq!(again, written, "a message reads as it was written");
}
