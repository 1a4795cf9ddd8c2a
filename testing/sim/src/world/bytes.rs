//! Messages in their byte form: with every other seed what the coordinator and partitions of a
//! sound host say goes through it, as between hosts.

use super::{CallNumber, Message, Shape, World};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_base::random::SeededRandom;
use lockstep_host::coordinator::{CoordinatorHost, Overtaken};
use lockstep_host::names::CatalogNames;
use lockstep_host::schema::prepared::PreparedChanges;
use lockstep_host::statement_cache::{StatementCache, StatementSources};
use lockstep_site::codec::{
    MessageError, ReceivedCall, read_from_partition, read_multi, read_one_round, read_to_partition,
    write_from_partition, write_multi, write_one_round, write_to_partition,
};
use lockstep_site::{Faults, FromPartition, MultiCall, Numbered, OneRoundCall, SchemaTask};
use lockstep_sql::Limits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the host needs for it.
pub(super) struct MessageBytes {
    is_on: bool,
    limits: Limits,
    /// By version of the catalog.
    statements: BTreeMap<u64, StatementCache>,
    prepared: PreparedChanges<u64>,
    /// Messages that came before the catalog that they were made with.
    early: Vec<Message>,
    /// Breaks copies of messages, which have to be refused or read as others.
    random: SeededRandom,
    broken: Vec<u8>,
}

impl MessageBytes {
    pub(super) fn new(seed: u64, shape: &Shape) -> MessageBytes {
        MessageBytes {
            is_on: seed % 2 == 1 && shape.faults == Faults::default(),
            limits: Limits::default(),
            statements: BTreeMap::new(),
            prepared: PreparedChanges::default(),
            early: Vec::new(),
            random: SeededRandom::new(seed),
            broken: Vec::new(),
        }
    }

    /// Whether messages go through their bytes.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// From now on messages are passed as they are.
    pub(super) fn turn_off(&mut self) {
        self.is_on = false;
    }

    /// A change is ready to be carried out.
    pub(super) fn note_prepared(&mut self, task: &Arc<SchemaTask<u64>>) {
        self.prepared.add(Arc::clone(task));
    }

    /// A copy of a message with some of its bytes changed, or cut off.
    fn broken(&mut self, bytes: &[u8]) -> &[u8] {
        self.broken.clear();
        self.broken.extend_from_slice(bytes);
        for _ in 0..self.random.below(3) {
            let place = self.random.below(bytes.len() as u64) as usize;
            self.broken[place] = self.random.below(256) as u8;
        }
        let kept = self.random.below(bytes.len() as u64 + 1) as usize;
        self.broken.truncate(kept.max(bytes.len() / 2));
        &self.broken
    }

    /// How many messages wait for a catalog.
    pub(super) fn early_count(&self) -> usize {
        self.early.len()
    }

    /// Messages that waited for a catalog.
    pub(super) fn take_early(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.early)
    }
}

impl World {
    /// The message as it arrives at another host; nothing where it repeats what was heard, waits
    /// for a catalog, or was planned again.
    pub(super) fn through_bytes(&mut self, message: Message) -> Option<Message> {
        let received = match &message {
            Message::ToPartition(told) => self.told(told),
            Message::FromPartition(answer) => self.answered(answer),
            Message::Multi(call) => self.called(call).map(|call| call.map(Message::Multi)),
            Message::Ordered(number, call) => {
                self.called(call).map(|call| call.map(|call| Message::Ordered(*number, call)))
            }
            Message::OneRound(number, call) => self.called_once(*number, call),
            _ => return Some(message),
        };
        match received {
            Ok(message) => message,
            Err(MessageError::LaterCatalog(_)) => {
                self.bytes.early.push(message);
                None
            }
            Err(error) => panic!("a message is not read: {error}"),
        }
    }

    /// Reads by the names of a version of the catalog.
    fn read<T>(
        &mut self,
        version: u64,
        read: impl FnOnce(&mut CatalogNames<'_, crate::plans::NoCode, u64>) -> T,
    ) -> T {
        let sources = StatementSources {
            catalog: &self.catalogs[&version].host,
            limits: &self.bytes.limits,
            // The workloads' statements are planned for several.
            partition_count: self.ring.partition_count().max(2),
        };
        let statements = self.bytes.statements.entry(version).or_default();
        let prepared = &self.bytes.prepared;
        let partition_count = self.ring.partition_count();
        read(&mut CatalogNames { sources, partition_count, statements, prepared })
    }

    fn told(&mut self, told: &Numbered<u64>) -> Result<Option<Message>, MessageError> {
        let mut bytes = Vec::new();
        write_to_partition(&mut bytes, told);
        let place = told.partition.index();
        let version = self.versions[place];
        match self.read(version, |names| read_to_partition(&bytes, names)) {
            Err(MessageError::EarlierCatalog(_)) => {
                let site = &self.sites[place];
                let is_late = told.epoch != site.epoch();
                assert!(
                    is_late || site.has_received(told.number),
                    "what is of an earlier catalog is a repeat"
                );
                Ok(None)
            }
            read => {
                let read = read?;
                assert_same(&bytes, |again| write_to_partition(again, &read));
                self.bytes.broken(&bytes);
                let broken = std::mem::take(&mut self.bytes.broken);
                let _ = self.read(version, |names| read_to_partition(&broken, names));
                self.bytes.broken = broken;
                Ok(Some(Message::ToPartition(read)))
            }
        }
    }

    fn answered(&mut self, answer: &FromPartition) -> Result<Option<Message>, MessageError> {
        let mut bytes = Vec::new();
        write_from_partition(&mut bytes, answer);
        let partition_count = self.ring.partition_count();
        let read = read_from_partition(&bytes, partition_count)?;
        assert_same(&bytes, |again| write_from_partition(again, &read));
        let _ = read_from_partition(self.bytes.broken(&bytes), partition_count);
        Ok(Some(Message::FromPartition(read)))
    }

    fn called(
        &mut self,
        call: &MultiCall<CallNumber, u64>,
    ) -> Result<Option<MultiCall<CallNumber, u64>>, MessageError> {
        let mut bytes = Vec::new();
        write_multi(&mut bytes, call, |out, origin| out.put_varint(*origin as u64));
        let read_origin = |reader: &mut ByteReader<'_>| Ok(reader.varint()? as usize);
        let version = self.coordinator.catalog_version();
        match self.read(version, |names| read_multi(&bytes, names, read_origin))? {
            ReceivedCall::Current(call) => {
                assert_same(&bytes, |again| {
                    write_multi(again, &call, |out, origin| out.put_varint(*origin as u64));
                });
                Ok(Some(call))
            }
            ReceivedCall::Overtaken(origin) => {
                self.plan_overtaken_call(origin);
                Ok(None)
            }
        }
    }

    fn called_once(
        &mut self,
        number: CallNumber,
        call: &Arc<OneRoundCall>,
    ) -> Result<Option<Message>, MessageError> {
        let mut bytes = Vec::new();
        write_one_round(&mut bytes, call);
        let version = self.coordinator.catalog_version();
        match self.read(version, |names| read_one_round(&bytes, names))? {
            ReceivedCall::Current(call) => {
                assert_same(&bytes, |again| write_one_round(again, &call));
                self.bytes.broken(&bytes);
                let broken = std::mem::take(&mut self.bytes.broken);
                let _ = self.read(version, |names| read_one_round(&broken, names));
                self.bytes.broken = broken;
                Ok(Some(Message::OneRound(number, call)))
            }
            ReceivedCall::Overtaken(_) => {
                self.plan_overtaken_call(number);
                Ok(None)
            }
        }
    }

    fn plan_overtaken_call(&mut self, call: CallNumber) {
        let again = self.plan_overtaken(Overtaken::Planned(call));
        again.into_iter().for_each(|call| self.submit(call));
    }
}

/// What was read says what was written.
fn assert_same(written: &[u8], again: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    again(&mut bytes);
    assert_eq!(bytes, written, "a message reads as it was written");
}
