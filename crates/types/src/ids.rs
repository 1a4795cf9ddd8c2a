//! Identifiers. Each is a newtype so that one kind is never taken for another.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// One server process of a cluster, numbered from 0.
    HostId, u32
);
id!(
    /// One horizontal slice of all partitioned tables, numbered from 0.
    PartitionId, u32
);
id!(
    /// One thread of one host that other threads send messages to: the number of the host in the
    /// high eight bits; in the low ones that of the thread at its host, from 0: its sites, then
    /// the control thread, then the links. Which partitions a site serves is said by the placement
    /// alone.
    ThreadId, u16
);
id!(
    /// A table's place in the dense table list of every site. Reused only after a drop.
    TableId, u32
);
id!(
    /// An index's place in its table's list of indexes.
    IndexId, u16
);

impl PartitionId {
    /// The number that clients see for multi-partition work: VoltDB's id of its MPI.
    pub const MULTI: PartitionId = PartitionId(16383);
    /// One more than the greatest usable partition number (14 bits, less the one above).
    pub const LIMIT: u32 = 16383;

    /// The number as an index into per-partition lists.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl HostId {
    /// One more than the greatest number of a host.
    pub const LIMIT: u32 = 1 << 8;
}

impl ThreadId {
    const THREAD_BITS: u32 = 8;
    /// One more than the greatest number of a thread at its host.
    pub const LIMIT: u16 = 1 << Self::THREAD_BITS;

    /// The thread of a host with this number there.
    ///
    /// # Panics
    /// A number exceeds its bits.
    pub fn at(host: HostId, number: u16) -> ThreadId {
        assert!(host.0 < HostId::LIMIT, "hosts have numbers of 8 bits");
        assert!(number < Self::LIMIT, "threads of a host have numbers of 8 bits");
        ThreadId((host.0 as u16) << Self::THREAD_BITS | number)
    }

    /// Its host.
    #[inline]
    pub fn host(self) -> HostId {
        HostId(u32::from(self.0 >> Self::THREAD_BITS))
    }

    /// The number at its host, as an index into the lists of its threads.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0 & (Self::LIMIT - 1))
    }
}

/// One copy of a partition. A host has at most one of each partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId {
    /// The partition.
    pub partition: PartitionId,
    /// The host that has the copy.
    pub host: HostId,
}

impl TableId {
    /// The number as an index into a site's table list.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl IndexId {
    /// The number as an index into the table's index list.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A transaction's unique 64-bit number, the same on every replica and at replay.
///
/// From the high bits down: milliseconds since 2008-01-01 UTC (41 bits), a counter within the
/// millisecond (9 bits), the partition that ordered it (14 bits): the layout that VoltDB's
/// `getUniqueId` has, which applications take apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TransactionId(pub u64);

/// 2008-01-01T00:00:00Z in milliseconds since 1970, the origin of transaction times.
pub const TRANSACTION_EPOCH_MS: i64 = 1_199_145_600_000;

impl TransactionId {
    /// Bits of the counter within a millisecond.
    pub const COUNTER_BITS: u32 = 9;
    /// Bits of the partition number.
    pub const PARTITION_BITS: u32 = 14;

    /// Puts the three parts together. `time_ms` is since 1970 and not before 2008.
    pub fn new(time_ms: i64, counter: u32, partition: PartitionId) -> Self {
        assert!(time_ms >= TRANSACTION_EPOCH_MS, "transaction time lies before 2008");
        assert!(counter < 1 << Self::COUNTER_BITS, "transaction counter over its bits");
        assert!(partition.0 < 1 << Self::PARTITION_BITS, "partition number over its bits");
        let time = (time_ms - TRANSACTION_EPOCH_MS) as u64;
        TransactionId(
            (time << (Self::COUNTER_BITS + Self::PARTITION_BITS))
                | (u64::from(counter) << Self::PARTITION_BITS)
                | u64::from(partition.0),
        )
    }

    /// Milliseconds since 1970.
    pub fn time_ms(self) -> i64 {
        (self.0 >> (Self::COUNTER_BITS + Self::PARTITION_BITS)) as i64 + TRANSACTION_EPOCH_MS
    }

    /// Time and counter without the partition: what ids of several initiators are compared by.
    pub fn time_key(self) -> u64 {
        self.0 >> Self::PARTITION_BITS
    }

    /// The partition whose initiator ordered the transaction.
    pub fn partition(self) -> PartitionId {
        PartitionId((self.0 & ((1 << Self::PARTITION_BITS) - 1)) as u32)
    }
}
