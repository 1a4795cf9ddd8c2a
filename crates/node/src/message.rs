//! What the threads of a host send each other.

use crate::catalog::HostCatalog;
use crate::connection::ConnectionKey;
use crate::host_message::HostMessage;
use crate::log::SiteLog;
use crate::snapshot::lane::SiteLane;
use crate::statistics::ThreadSnapshot;
use lockstep_base::prefetch;
use lockstep_cluster::Command;
use lockstep_exec::watch::{Caller, TimeLimit};
use lockstep_host::codec::SurveyedTable;
use lockstep_host::copies::{FollowedPiece, Opening};
use lockstep_host::follower::codec::OfCopy;
use lockstep_host::hand_over::PlannedMove;
use lockstep_host::index_hops::ViaKey;
use lockstep_host::loading::{Attempt, NumberedPart};
use lockstep_host::placement::Placement;
use lockstep_host::statements::StatementVia;
use lockstep_site::{
    ExpiryPoll, ExpiryUnitId, FromPartition, IndexHop, MultiCall, Numbered, OneRoundAnswer,
    OneRoundCall, StatementCall, ToPartition, ViaNext, ViaStep,
};
use lockstep_txn::replica::ReplicaStream;
use lockstep_types::{Failure, HostId, PartitionId, Status, TableId, ThreadId};
use mio::net::TcpStream;
use std::sync::Arc;

/// Who waits for the answer of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The thread that owns the connection.
    pub thread: ThreadId,
    /// The connection.
    pub connection: ConnectionKey,
    /// The client's number for the call.
    pub handle: i64,
    /// When the call was read, microseconds of the host's clock.
    pub arrived_us: i64,
    /// The procedure's place in the statistics of its catalog, or [`NO_PROCEDURE`].
    pub procedure: u32,
    /// How many calls this one counts for among those of its connection that are not answered
    /// yet; 0 for a call that is answered before its connection is read again.
    pub weight: u16,
}

/// Bits of a [`Caller`] for its connection's place, and for which of the connections of that
/// place it is.
const PLACE_BITS: u32 = 20;
const GENERATION_BITS: u32 = 27;

impl Origin {
    /// Who waits, as queries know it; nobody for the host's own calls.
    #[inline]
    pub fn caller(&self) -> Caller {
        caller(self.thread, self.connection)
    }
}

/// See [`Origin::caller`].
#[inline]
pub fn caller(thread: ThreadId, connection: ConnectionKey) -> Caller {
    let ConnectionKey { place, generation } = connection;
    if place >= 1 << PLACE_BITS {
        return Caller::NONE;
    }
    let thread = u64::from(thread.0) + 1;
    let generation = u64::from(generation) & ((1 << GENERATION_BITS) - 1);
    let place = u64::from(place);
    Caller((thread << PLACE_BITS | place) << GENERATION_BITS | generation)
}

/// The thread of the connection that a caller has; `None` for nobody.
pub fn thread_of(caller: Caller) -> Option<ThreadId> {
    let number = (caller.0 >> (PLACE_BITS + GENERATION_BITS)).checked_sub(1)?;
    u16::try_from(number).ok().map(ThreadId)
}

/// [`Origin::weight`] of a call of a single-partition procedure.
pub const PARTITION_WEIGHT: u16 = 1;
/// [`Origin::weight`] of calls that occupy the planner or several partitions.
pub const HEAVY_WEIGHT: u16 = 16;

/// About the bytes of a call or an answer between hosts.
const USUAL_MESSAGE_BYTES: usize = 128;

/// [`Origin::procedure`] of calls that are counted under no procedure.
pub const NO_PROCEDURE: u32 = u32::MAX;

/// A call on its way to the thread of its partition.
pub struct ForwardedCall {
    /// Who waits.
    pub origin: Origin,
    /// The invocation as the client sent it, without the frame's length.
    pub body: Vec<u8>,
}

/// A call on its way to the row that a global index finds: first to the partition of the index's
/// entries, then to that of the row.
pub struct ViaCall {
    /// The call.
    pub call: ForwardedCall,
    /// The key, unless the version is [`NO_INTEGER`]; beside the next fields, so that messages stay
    /// small.
    integer: i64,
    catalog_version: u32,
    partition: u16,
    /// How many times an index was asked.
    pub lookups: u8,
    /// What the receiver is to look for.
    pub hop: IndexHop,
}

/// In place of a catalog's version: the call is led by something else than one integer. A call by
/// the one catalog in 2^32 that has this version is decoded again.
const NO_INTEGER: u32 = u32::MAX;

/// The greatest number of lookups that a call can count.
pub(crate) const MAX_LOOKUPS: u64 = u8::MAX as u64;

const _: () = assert!(PartitionId::LIMIT <= u16::MAX as u32, "a partition has 16 bits at most");

impl ViaCall {
    /// A call that no index was asked for yet, or one that is led to its row, on its way to a
    /// partition.
    pub fn new(call: ForwardedCall, key: ViaKey, hop: IndexHop, partition: PartitionId) -> ViaCall {
        let (integer, catalog_version) = match key.integer {
            Some(integer) => (integer, key.catalog_version),
            None => (0, NO_INTEGER),
        };
        let lookups = u8::from(hop == IndexHop::Row);
        ViaCall { call, integer, catalog_version, partition: partition.0 as u16, lookups, hop }
    }

    /// What the call is led by.
    pub fn key(&self) -> ViaKey {
        let integer = (self.catalog_version != NO_INTEGER).then_some(self.integer);
        ViaKey { catalog_version: self.catalog_version, integer }
    }

    /// The partition that it goes to.
    pub fn partition(&self) -> PartitionId {
        PartitionId(self.partition.into())
    }

    /// It goes to a partition now, to look for something there.
    pub fn go_on_to(&mut self, hop: IndexHop, partition: PartitionId) {
        (self.hop, self.partition) = (hop, partition.0 as u16);
    }

    /// What comes after a step, which counts as a lookup if an index is asked again. The limit is
    /// [`MAX_LOOKUPS`] at most.
    pub(crate) fn after(&mut self, step: ViaStep, limit: u64) -> ViaNext {
        let mut lookups = u16::from(self.lookups);
        let next = step.next(&mut lookups, limit.min(MAX_LOOKUPS));
        self.lookups = u8::try_from(lookups).unwrap_or(u8::MAX);
        next
    }
}

/// A whole answer on its way to the thread of its connection.
pub struct ForwardedAnswer {
    /// Who waits.
    pub origin: Origin,
    /// How it ended, for the statistics of the connection.
    pub status: Status,
    /// The response frame.
    pub frame: Vec<u8>,
}

/// Ad hoc statements on their way to their partition. Their plans hold for one catalog version:
/// if the partition has another one, they go back to the planner.
pub struct AdHocCall {
    /// Who waits.
    pub origin: Origin,
    /// The invocation as the client sent it, to be planned again if need be.
    pub body: Arc<[u8]>,
    /// The catalog that the plans were made with.
    pub catalog_version: u64,
    /// How long its queries may run, if it only reads.
    pub time_limit: Option<TimeLimit>,
    /// The statements with their parameters.
    pub call: StatementCall,
    /// How a global index leads the only statement to its row.
    pub via: Option<StatementVia>,
}

/// Who waits for a multi-partition call, and the invocation, to be dispatched again when a schema
/// change overtakes it.
pub struct MultiOrigin {
    /// Who waits.
    pub origin: Origin,
    /// The invocation as the client sent it; empty for schema changes, which nothing overtakes,
    /// and none for calls of one round, which have it themselves.
    pub body: Option<Arc<[u8]>>,
}

/// How a call of one round ended, on its way to the thread where it came in.
pub struct OneRoundEnd {
    /// Who waits.
    pub origin: Origin,
    /// The call.
    pub call: Arc<OneRoundCall>,
    /// See [`lockstep_site::OneRoundFinished`].
    pub result: OneRoundAnswer,
}

/// The same from another process, which does not have the call itself.
pub struct OneRoundTables {
    /// Who waits.
    pub origin: Origin,
    /// The number of the statement of each table, in the order of the tables.
    pub order: Vec<u16>,
    /// See [`lockstep_site::OneRoundFinished`].
    pub result: OneRoundAnswer,
}

/// A multi-partition call on its way to the coordinator.
pub type MultiRequest = MultiCall<MultiOrigin, Arc<HostCatalog>>;

/// A request to the control thread.
pub enum ControlRequest {
    /// A call of a system procedure.
    Call {
        /// Who waits.
        origin: Origin,
        /// Came in through the admin port.
        admin: bool,
        /// The invocation as the client sent it.
        body: Arc<[u8]>,
    },
    /// To the other hosts: prepare a schema change.
    PrepareChange {
        /// The host that orders it.
        lead: HostId,
        /// The version of the catalog that it makes.
        catalog_version: u64,
        /// What the log has of it.
        source: Vec<u8>,
    },
    /// From another host: a schema change is prepared there.
    ChangePrepared {
        /// The host.
        host: HostId,
        /// The version of the catalog that it makes.
        catalog_version: u64,
        /// Why it cannot be.
        failure: Option<Box<Failure>>,
    },
    /// Between hosts: a step of a snapshot of all of them.
    Snapshot {
        /// The host that says it.
        host: HostId,
        /// The snapshot's name.
        nonce: String,
        /// What it says.
        step: SnapshotStep,
    },
    /// A schema change is decided.
    SchemaDecided {
        /// Whether it is in force.
        committed: bool,
        /// The version of the catalog that is in force then.
        catalog_version: u64,
    },
    /// Within a host: the response to a change of the catalog, which waits until all threads of the
    /// cluster go by that.
    SchemaAnswer {
        /// The version that is in force.
        catalog_version: u64,
        /// The response.
        answer: Box<ForwardedAnswer>,
    },
    /// Within a host: a site goes by a catalog.
    CatalogTaken {
        /// The site.
        thread: ThreadId,
        /// Its version.
        catalog_version: u64,
    },
    /// All sites of a host go by a catalog.
    CatalogInForce {
        /// The host.
        host: HostId,
        /// Its version.
        catalog_version: u64,
    },
    /// From a host that joins: it needs the catalog.
    AskCatalog {
        /// The host.
        host: HostId,
    },
    /// To it.
    CatalogGiven {
        /// The catalog, see `SavedCatalog`.
        catalog: Vec<u8>,
        /// The cluster is paused.
        is_paused: bool,
    },
    /// What a thread's tables hold, for the planner.
    Surveyed {
        /// The thread.
        thread: ThreadId,
        /// Its tables.
        tables: Vec<SurveyedTable>,
    },
    /// What a thread has seen of rows whose time is over.
    ExpirySeen {
        /// The catalog by which it was asked.
        catalog_version: u64,
        /// Per look, how many rows; none where another catalog is in force.
        seen: Vec<(ExpiryUnitId, Option<u64>)>,
    },
    /// A thread's numbers.
    Gathered {
        /// The request that asked for them.
        request: u64,
        /// The numbers.
        snapshot: Box<ThreadSnapshot>,
    },
}

/// What control threads say to each other of a snapshot of all hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotStep {
    /// From the host that leads: be ready for the snapshot's transaction.
    Prepare {
        /// The epoch of the placement.
        epoch: u64,
        /// The version of the catalog.
        catalog_version: u64,
        /// The name that all parts have in common.
        cluster: [u8; 16],
        /// Each host saves all of its copies, for its own starts.
        keeps_copies: bool,
        /// What is saved where, as the parameter of `@SnapshotSave`.
        request: String,
    },
    /// To it: the host is ready.
    Prepared {
        /// Its name in the answer.
        host_name: String,
        /// Why it is not ready.
        problem: Option<String>,
    },
    /// To it: the host's part is complete.
    Saved {
        /// Why it is not.
        problem: Option<String>,
    },
    /// From it: the snapshot is given up, and nothing of it stays.
    GiveUp,
    /// From it: all hosts have written what they keep of their copies, and their logs have what was
    /// decided before: it counts.
    Keep,
    /// To it: the log of the host is so long that its copies should be saved.
    Due,
}

/// How a partition's epoch opens that is led here.
pub struct OpeningHere {
    /// What the copies here have determined.
    pub opening: Opening,
    /// Of a copy that followed: its end of the command log, if there is one.
    pub(crate) log: Option<SiteLog>,
}

/// A call that came to a thread which cannot run it, on its way back to the thread where it came
/// in: nothing has happened, and it goes where it belongs.
pub struct BouncedCall {
    /// The epoch of the placement by which it was sent back: the other thread waits for that.
    pub epoch: u64,
    /// The call.
    pub call: ForwardedCall,
}

/// A leader of this host that was drained and follows from now on.
pub struct SteppedDownHere {
    /// Which partition.
    pub partition: PartitionId,
    /// The site that has the copy.
    pub site: ThreadId,
    /// Its sealed stream.
    pub stream: ReplicaStream,
    /// Its end of the command log, if there is one.
    pub(crate) log: Option<SiteLog>,
}

/// The end of the command log of a copy of this host that does not count any more.
pub struct LogGivenBack {
    /// Which partition.
    pub partition: PartitionId,
    /// Its end of the command log.
    pub(crate) log: SiteLog,
}

/// Everything that one thread sends to another.
pub enum Envelope {
    /// A new connection, accepted by the first thread.
    Connection {
        /// The socket.
        stream: TcpStream,
        /// Its number.
        id: i64,
        /// Came in through the admin port.
        admin: bool,
    },
    /// A call of a procedure for a partition of the receiver's.
    Call(PartitionId, ForwardedCall),
    /// A call that only reads, for the receiver's copy of a partition; not for other hosts.
    ReadAtCopy(PartitionId, ForwardedCall),
    /// A call on its way to the row that a global index finds, for a partition of the receiver's.
    Via(ViaCall),
    /// An answer for one of the receiver's connections.
    Answer(ForwardedAnswer),
    /// Ad hoc statements for a partition of the receiver's.
    AdHoc(PartitionId, Box<AdHocCall>),
    /// For the coordinator.
    Multi(Box<MultiRequest>),
    /// For the coordinator: a call of one round.
    OneRound(Origin, Arc<OneRoundCall>),
    /// Such a call ended: for the thread where it came in.
    OneRoundFinished(OneRoundEnd),
    /// The same from another process.
    OneRoundTables(Box<OneRoundTables>),
    /// From the coordinator to a partition.
    ToPartition(Numbered<Arc<HostCatalog>>),
    /// From a partition to the coordinator.
    FromPartition(FromPartition),
    /// For the control thread.
    Control(Box<ControlRequest>),
    /// From the control thread: send your numbers.
    Gather {
        /// To be sent back with them.
        request: u64,
        /// Also look for rows that belong to another partition.
        validate: bool,
    },
    /// From the control thread: say how many rows your tables have, and show some rows of these.
    Survey {
        /// The tables of which rows are wanted.
        sample: Arc<[TableId]>,
        /// How many of each.
        rows: u32,
    },
    /// From the control thread: say how many rows there are whose time is over.
    ExpiryPolls {
        /// The catalog that the looks are of.
        catalog_version: u64,
        /// The looks, all of one partition of the receiver's.
        looks: Vec<ExpiryPoll>,
    },
    /// From the control thread: frames for all subscribed connections.
    Push(Arc<[u8]>),
    /// From the control thread: a partition's way to the thread that writes the snapshot which
    /// begins.
    SnapshotLane(PartitionId, Box<SiteLane>),
    /// From the control thread: a start of this host begins with all copies as they are loaded, if
    /// they were saved.
    CopiesKept,
    /// From the control thread: a catalog is in force. Sites that lead a partition hear it there.
    Catalog(Arc<HostCatalog>),
    /// From the control thread: a task's call, without the frame's length.
    Task(Vec<u8>),
    /// What the hosts of a partition's copies say to each other: from the leader for the thread of
    /// the links at the copy's host, from a copy for its leader.
    Copy(Box<OfCopy>),
    /// From the thread of the links: entries for a copy here to apply.
    Follow(Box<FollowedPiece>),
    /// From the thread of the links: the copy here leads from now on, in a new epoch.
    Open(Box<OpeningHere>),
    /// From the thread of the links: a part of what a copy here is loaded from.
    Load(Box<(PartitionId, NumberedPart)>),
    /// From the thread of the links: what a copy here is loaded from has ended, unless its last
    /// attempt is another one than that which is named.
    LoadAgain(PartitionId, Option<Attempt>),
    /// From the thread of the links: another placement is in force.
    Placement(Arc<Placement>),
    /// From the thread of the links: the leaders that are to be moved.
    Moves(Arc<[PlannedMove]>),
    /// From the coordinator to the leader of a partition: it is to be moved, and nothing over
    /// several partitions is in progress.
    HandOver(PlannedMove),
    /// From the control thread to the coordinator: it is to be at another host, or to stay.
    MoveCoordinator(Option<HostId>),
    /// For the thread of the links: a leader is drained and sealed.
    HandedOver(PlannedMove),
    /// For the thread of the links: a leader follows from now on.
    SteppedDown(Box<SteppedDownHere>),
    /// For the thread of the links: a copy does not count any more, which had this end of the log.
    LogGivenBack(Box<LogGivenBack>),
    /// From a thread that cannot run a call, to the one where it came in.
    Bounced(Box<BouncedCall>),
    /// For the thread of the links: a message for a thread of another host.
    Outgoing(Box<HostMessage>),
    /// From the thread of the links: a message from a thread of another host, in its byte form.
    Incoming(Box<HostMessage>),
    /// For the thread of the links: nothing more of a host is taken until it connects again.
    EndSession(HostId),
    /// For the thread of the links: a change of the placement to propose, by the epoch that the
    /// sender saw. Its outcome is another placement, or nothing.
    Propose(Box<Command>),
    /// Take no more calls, and finish those that are begun.
    Drain,
    /// Stop at the end of the round.
    Stop,
}

impl Envelope {
    /// Whether it is of a transaction over several partitions, which others run after.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        matches!(
            self,
            Envelope::Multi(_)
                | Envelope::OneRound(..)
                | Envelope::ToPartition(_)
                | Envelope::FromPartition(_)
        )
    }
}

impl Envelope {
    /// Whether it is a call that may go on from its receiver to another host: led by a global
    /// index, or with plans that may have to be made again.
    #[inline]
    pub fn goes_on(&self) -> bool {
        matches!(self, Envelope::Via(_) | Envelope::AdHoc(..))
    }
}

impl Envelope {
    /// Whether it is of a transaction of several rounds, which nobody can run after: a round that
    /// is seen late is time in which its partitions do nothing.
    #[inline]
    pub fn is_of_a_round(&self) -> bool {
        match self {
            Envelope::Multi(_) => true,
            Envelope::ToPartition(Numbered { message, .. }) => {
                !matches!(message, ToPartition::OneRound { .. } | ToPartition::Decision { .. })
            }
            Envelope::FromPartition(message) => !matches!(message, FromPartition::OneRound { .. }),
            _ => false,
        }
    }

    /// About as many messages as it stands for.
    #[inline]
    pub fn weight(&self) -> usize {
        match self {
            Envelope::Incoming(messages) => 1 + messages.bytes.len() / USUAL_MESSAGE_BYTES,
            _ => 1,
        }
    }

    /// It is taken soon: asks for the memory that it leads to, which comes from another core.
    #[inline]
    pub fn prefetch(&self) {
        match self {
            Envelope::Incoming(message) => prefetch::to_read(&**message),
            Envelope::OneRound(_, call) => {
                prefetch::counts_to_write(call);
                prefetch::to_read(&**call);
            }
            Envelope::ToPartition(Numbered {
                message: ToPartition::OneRound { call, .. }, ..
            }) => prefetch::to_read(&**call),
            Envelope::FromPartition(FromPartition::OneRound { result: Ok(tables), .. }) => {
                // One that carries the others' is written to.
                prefetch::line_to_write(tables.as_ptr());
            }
            Envelope::OneRoundFinished(OneRoundEnd { call, result, .. }) => {
                prefetch::to_read(&**call);
                if let Ok(tables) = result {
                    prefetch::to_read(tables.as_slice());
                }
            }
            _ => {}
        }
    }
}

/// What a mailbox moves for each message.
const _: () = assert!(size_of::<Envelope>() <= 80);
