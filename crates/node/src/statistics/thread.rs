//! What is counted of one thread: its connections' calls, and its time.

use super::{Extent, ReplicaSnapshot, name_of};
use crate::catalog::HostCatalog;
use crate::connection::{Connection, ConnectionKey, Traffic};
use crate::message::Origin;
use hdrhistogram::Histogram;
use lockstep_base::elapsed::Elapsed;
use lockstep_base::map::FixedHashMap;
use lockstep_types::{Status, ThreadId, Value};
use std::collections::BTreeMap;

/// The greatest latency that the histogram tells apart, in microseconds: one hour.
const MAX_LATENCY_US: u64 = 3_600_000_000;

/// Counters of one procedure on one connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct InitiatorCounters {
    /// Calls that were answered.
    pub invocations: u64,
    /// From reading the call to its answer, milliseconds.
    pub latency_ms: Extent,
    /// Calls that the procedure aborted.
    pub aborts: u64,
    /// Calls that failed otherwise.
    pub failures: u64,
}

/// The times that a thread slept.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdleCounters {
    /// How often.
    pub count: u64,
    /// How long, nanoseconds.
    pub slept_ns: Extent,
    /// The sum of the squares, for their deviation.
    pub squares_ns: f64,
}

/// The calls that came to run at a site.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueCounters {
    /// How many.
    pub polled: u64,
    /// From reading them to running them, microseconds.
    pub waited_us: Extent,
}

type InitiatorKey = (ConnectionKey, u32);

/// The counters of one thread.
pub struct ThreadStatistics {
    initiators: Vec<(InitiatorKey, InitiatorCounters)>,
    initiator_places: BTreeMap<(u32, u32, u32), usize>,
    last_initiator: Option<(InitiatorKey, usize)>,
    latency_us: Histogram<u64>,
    answers_this_round: u64,
    idle: IdleCounters,
    queue: QueueCounters,
}

impl Default for ThreadStatistics {
    fn default() -> ThreadStatistics {
        let latency_us = Histogram::new_with_max(MAX_LATENCY_US, 2)
            .expect("two digits up to an hour are a valid histogram");
        ThreadStatistics {
            initiators: Vec::new(),
            initiator_places: BTreeMap::new(),
            last_initiator: None,
            latency_us,
            answers_this_round: 0,
            idle: IdleCounters::default(),
            queue: QueueCounters::default(),
        }
    }
}

impl ThreadStatistics {
    /// A new catalog is in force: procedures have other numbers.
    pub fn forget_procedures(&mut self) {
        self.initiators.clear();
        self.initiator_places.clear();
        self.last_initiator = None;
    }

    /// A call of one of this thread's connections is answered.
    #[inline]
    pub fn count_answer(&mut self, origin: &Origin, status: Status, now_us: i64) {
        let latency_us = Elapsed::between_us(origin.arrived_us, now_us).us();
        if latency_us == 0 {
            self.answers_this_round += 1;
        } else {
            self.latency_us.saturating_record(latency_us);
        }
        let place = self.initiator_place((origin.connection, origin.procedure));
        let counters = &mut self.initiators[place].1;
        counters.invocations += 1;
        counters.latency_ms.add(latency_us / 1000);
        match status {
            Status::Success => {}
            Status::UserAbort => counters.aborts += 1,
            _ => counters.failures += 1,
        }
    }

    /// A call comes to run, so long after it was read.
    #[inline]
    pub fn count_wait(&mut self, waited: Elapsed) {
        self.queue.polled += 1;
        self.queue.waited_us.add(waited.us());
    }

    /// The thread slept.
    pub fn count_sleep(&mut self, slept_ns: u64) {
        self.idle.count += 1;
        self.idle.slept_ns.add(slept_ns);
        self.idle.squares_ns += slept_ns as f64 * slept_ns as f64;
    }

    /// The round ends, `elapsed` after it began: calls that were answered within it took
    /// about that long.
    pub fn end_round(&mut self, elapsed: Elapsed) {
        let answers = std::mem::take(&mut self.answers_this_round);
        if answers > 0 {
            let elapsed_us = elapsed.us().min(MAX_LATENCY_US);
            // Within the histogram's range, so it is recorded.
            let _ = self.latency_us.record_n(elapsed_us, answers);
        }
    }

    #[inline]
    fn initiator_place(&mut self, key: InitiatorKey) -> usize {
        if let Some((last, place)) = self.last_initiator
            && last == key
        {
            return place;
        }
        let ordered = (key.0.place, key.0.generation, key.1);
        let place = match self.initiator_places.get(&ordered) {
            Some(place) => *place,
            None => {
                self.initiators.push((key, InitiatorCounters::default()));
                self.initiator_places.insert(ordered, self.initiators.len() - 1);
                self.initiators.len() - 1
            }
        };
        self.last_initiator = Some((key, place));
        place
    }

    /// A connection is gone, and its counters with it.
    pub fn connection_closed(&mut self, connection: &Connection) {
        let key = connection.key;
        self.last_initiator = None;
        let gone: Vec<_> = self
            .initiator_places
            .range((key.place, key.generation, 0)..=(key.place, key.generation, u32::MAX))
            .map(|(ordered, _)| *ordered)
            .collect();
        for ordered in gone {
            let Some(place) = self.initiator_places.remove(&ordered) else { continue };
            self.initiators.swap_remove(place);
            if let Some(((moved, procedure), _)) = self.initiators.get(place) {
                self.initiator_places.insert((moved.place, moved.generation, *procedure), place);
            }
        }
    }

    /// Everything, for the control thread, with the numbers of the thread's replicas.
    pub fn snapshot<'c>(
        &self,
        thread: ThreadId,
        catalog: &HostCatalog,
        replicas: Vec<ReplicaSnapshot>,
        connections: impl Iterator<Item = &'c Connection>,
    ) -> ThreadSnapshot {
        let connections: Vec<ConnectionSnapshot> = connections
            .map(|connection| ConnectionSnapshot {
                key: connection.key,
                id: connection.id,
                peer: connection.peer.clone(),
                admin: connection.admin,
                unanswered: connection.unanswered,
                unread_bytes: connection.unread_bytes() as u64,
                traffic: connection.traffic,
            })
            .collect();
        let by_key: FixedHashMap<(u32, u32), &ConnectionSnapshot> =
            connections.iter().map(|c| ((c.key.place, c.key.generation), c)).collect();
        let identity = |key: ConnectionKey| {
            let found = by_key.get(&(key.place, key.generation));
            found.map(|connection| (connection.id, connection.peer.clone()))
        };
        let initiators = self.initiators.iter().filter_map(|((key, procedure), counters)| {
            let (id, peer) = identity(*key)?;
            Some((id, peer, name_of(catalog, *procedure), *counters))
        });
        ThreadSnapshot {
            thread,
            replicas,
            initiators: initiators.collect(),
            latency_us: self.latency_us.clone(),
            idle: self.idle,
            queue: self.queue,
            connections,
        }
    }
}

/// One thread's numbers at one moment.
#[derive(Clone)]
pub struct ThreadSnapshot {
    /// The thread, which is a site.
    pub thread: ThreadId,
    /// Its replicas, at least one.
    pub replicas: Vec<ReplicaSnapshot>,
    /// Connection id, its peer, procedure, counters.
    pub initiators: Vec<(i64, String, String, InitiatorCounters)>,
    /// From reading a call to its answer.
    pub latency_us: Histogram<u64>,
    /// When the thread slept.
    pub idle: IdleCounters,
    /// Calls that came to run.
    pub queue: QueueCounters,
    /// Connections.
    pub connections: Vec<ConnectionSnapshot>,
}

impl ThreadSnapshot {
    /// Its number, as clients see it.
    pub fn site(&self) -> Value {
        Value::Int(self.thread.index() as i64)
    }
}

/// One connection's numbers.
#[derive(Debug, Clone)]
pub struct ConnectionSnapshot {
    /// Its key within its thread.
    pub key: ConnectionKey,
    /// Its number.
    pub id: i64,
    /// The peer's address.
    pub peer: String,
    /// Came in through the admin port.
    pub admin: bool,
    /// Calls not answered yet.
    pub unanswered: u32,
    /// Answers not written yet, bytes.
    pub unread_bytes: u64,
    /// Bytes and messages.
    pub traffic: Traffic,
}
