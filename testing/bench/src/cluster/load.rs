//! Voter at a fixed rate over connections with all hosts of a cluster. Each call goes to the leader
//! of its partition as far as that is known. For each partition it is noted how long no call was
//! answered.

use crate::driver::latency_histogram;
use hdrhistogram::Histogram;
use lockstep_client::{
    Call, CallOptions, ClientError, Completion, ConnectOptions, ConnectionIndex, ParameterWriter,
    Pipeline, Response, Routing,
};
use lockstep_types::{Datum, ParameterSet, Status};
use lockstep_wire_volt::topology::TOPOLOGY_TOPIC;
use lockstep_workloads::voter;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The context of a call that is not a vote.
const NOT_A_VOTE: u64 = u64::MAX;
/// Calls in flight at one host.
const IN_FLIGHT_MAX: usize = 20_000;
/// How long [`ClusterLoad::step`] waits for responses.
const STEP: Duration = Duration::from_micros(500);

/// What became of the votes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls that were sent.
    pub sent: u64,
    /// Calls that were run, whatever the answer.
    pub answered: u64,
    /// Votes that a host acknowledged as counted.
    pub acknowledged: u64,
    /// Calls that may have been run: the connection was lost, the call took too long, or a host
    /// answered so.
    pub unknown: u64,
    /// Calls that were refused or failed.
    pub failed: u64,
}

impl CallCounts {
    /// Acknowledged votes that are missing in a table with this number of votes.
    pub fn lost(&self, counted: u64) -> u64 {
        self.acknowledged.saturating_sub(counted)
    }

    /// Votes in the table that no call accounts for.
    pub fn doubled(&self, counted: u64) -> u64 {
        counted.saturating_sub(self.acknowledged + self.unknown)
    }
}

/// A time without an answer of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The partition.
    pub partition: usize,
    /// From one answer to the next.
    pub lasted: Duration,
}

#[derive(Debug, Clone, Copy)]
struct PartitionTimes {
    answered: u64,
    last: Instant,
    longest: Duration,
}

/// The load. [`ClusterLoad::step`] drives it.
pub struct ClusterLoad {
    pipeline: Pipeline,
    routing: Arc<Routing>,
    calls: voter::PhoneCalls,
    writer: ParameterWriter,
    rate_per_s: f64,
    begun: Instant,
    /// Calls that were due so far.
    due: u64,
    counts: CallCounts,
    partitions: Vec<PartitionTimes>,
    latency_us: Histogram<u64>,
    first_failure: Option<String>,
}

impl ClusterLoad {
    /// A load over one connection with each of the hosts, at `rate_per_s`.
    ///
    /// # Errors
    /// A host cannot be reached.
    pub fn connect(
        addresses: &[String],
        routing: Arc<Routing>,
        partitions: usize,
        rate_per_s: f64,
    ) -> Result<ClusterLoad, ClientError> {
        let options = ConnectOptions { max_in_flight: IN_FLIGHT_MAX, ..ConnectOptions::default() };
        let mut pipeline = Pipeline::new(&options)?;
        for address in addresses {
            let connection = pipeline.connect(address)?;
            subscribe(&mut pipeline, connection)?;
        }
        let begun = Instant::now();
        let times = PartitionTimes { answered: 0, last: begun, longest: Duration::ZERO };
        Ok(ClusterLoad {
            pipeline,
            routing,
            calls: voter::PhoneCalls::new(1, voter::CONTESTANTS),
            writer: ParameterWriter::default(),
            rate_per_s,
            begun,
            due: 0,
            counts: CallCounts::default(),
            partitions: vec![times; partitions],
            latency_us: latency_histogram(),
            first_failure: None,
        })
    }

    /// Sends what is due and takes what has come. The connection, by its position among the
    /// addresses, whose host reports that the topology has changed.
    ///
    /// # Errors
    /// No host can be reached any more.
    pub fn step(&mut self) -> Result<Option<usize>, ClientError> {
        let due = (self.begun.elapsed().as_secs_f64() * self.rate_per_s) as u64;
        while self.due < due {
            let due_at = self.begun + Duration::from_secs_f64(self.due as f64 / self.rate_per_s);
            self.due += 1;
            self.send(due_at)?;
        }
        self.receive(STEP)?;
        let connections = 0..self.pipeline.connection_count();
        let pipeline = &mut self.pipeline;
        let has_changed = |at: usize| pipeline.take_notices(ConnectionIndex(at)).topology_changed;
        Ok(connections.map(has_changed).enumerate().filter(|it| it.1).map(|it| it.0).last())
    }

    /// Connects again with the host at this position among the addresses, which was started again.
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn reconnect(&mut self, position: usize) -> Result<(), ClientError> {
        let connection = ConnectionIndex(position);
        if self.pipeline.is_open(connection) {
            return Ok(());
        }
        self.pipeline.reconnect(connection)?;
        subscribe(&mut self.pipeline, connection)
    }

    /// Waits for what is in flight; what does not come is unknown.
    ///
    /// # Errors
    /// Sockets cannot be polled.
    pub fn finish(&mut self, patience: Duration) -> Result<(), ClientError> {
        let deadline = Instant::now() + patience;
        while self.pipeline.in_flight() > 0 && Instant::now() < deadline {
            self.receive(STEP)?;
        }
        let ClusterLoad { pipeline, counts, .. } = self;
        pipeline.expire(Instant::now(), Duration::ZERO, |completion, _| {
            counts.unknown += u64::from(completion.context != NOT_A_VOTE);
        });
        Ok(())
    }

    /// Calls go where this says from now on.
    pub fn set_routing(&mut self, routing: Arc<Routing>) {
        self.routing = routing;
    }

    /// What became of the calls so far.
    pub fn counts(&self) -> CallCounts {
        self.counts
    }

    /// Latency of the calls that were run, from the time that they were due.
    pub fn latency_us(&self) -> &Histogram<u64> {
        &self.latency_us
    }

    /// What the first call that failed was answered with.
    pub fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    /// Calls of a partition that were answered so far.
    pub fn answered_of(&self, partition: usize) -> u64 {
        self.partitions[partition].answered
    }

    /// The longest time so far without an answer of a partition, that until now included.
    pub fn gap_of(&self, partition: usize) -> Duration {
        let times = &self.partitions[partition];
        times.longest.max(times.last.elapsed())
    }

    /// The longest time so far without an answer of any partition.
    pub fn longest_gap(&self) -> Gap {
        let gap = |partition| Gap { partition, lasted: self.gap_of(partition) };
        let all = (0..self.partitions.len()).map(gap);
        all.max_by_key(|gap| gap.lasted).unwrap_or(Gap { partition: 0, lasted: Duration::ZERO })
    }

    fn send(&mut self, due_at: Instant) -> Result<(), ClientError> {
        let call = self.calls.draw();
        self.writer.clear();
        self.writer.bigint(call.phone_number).integer(call.contestant);
        self.writer.bigint(voter::MAX_VOTES_PER_NUMBER);
        let parameters = self.writer.bytes();
        let set = ParameterSet::new(parameters).expect("it was just written");
        let partition = self.routing.partition_of(Datum::Int(call.phone_number));
        let Some(connection) = self.pipeline.pick(&self.routing, "Vote", set) else {
            return Err(ClientError::NoServer("all connections are lost".to_string()));
        };
        let call = Call {
            procedure: "Vote",
            parameters,
            options: CallOptions::default(),
            context: partition.map_or(0, |partition| u64::from(partition.0)),
            started_at: due_at,
        };
        match self.pipeline.submit(connection, &call) {
            Ok(()) => self.counts.sent += 1,
            // It was not sent; a loss that was just seen leads to another connection next time.
            Err(ClientError::LimitReached { .. } | ClientError::ConnectionLost { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn receive(&mut self, patience: Duration) -> Result<(), ClientError> {
        let ClusterLoad { pipeline, counts, partitions, latency_us, first_failure, .. } = self;
        let mut take = |completion: Completion<'_>| {
            if completion.context == NOT_A_VOTE {
                return;
            }
            match &completion.result {
                Ok(response) if response.is_success() => {
                    counts.answered += 1;
                    counts.acknowledged += u64::from(is_acknowledged(response));
                    latency_us.saturating_record(completion.latency.as_micros() as u64);
                    let times = &mut partitions[completion.context as usize];
                    let gap = completion.completed_at.saturating_duration_since(times.last);
                    times.longest = times.longest.max(gap);
                    times.last = completion.completed_at;
                    times.answered += 1;
                }
                Ok(response) if response.status == Status::ResponseUnknown.code() => {
                    counts.unknown += 1;
                }
                Ok(response) => {
                    counts.failed += 1;
                    let text = response.status_text.unwrap_or("no status text");
                    first_failure.get_or_insert_with(|| text.to_string());
                }
                Err(_) => counts.unknown += 1,
            }
        };
        pipeline.poll(patience, |completion, _| take(completion))?;
        Ok(())
    }
}

/// The host of a connection is to tell of another topology.
fn subscribe(pipeline: &mut Pipeline, connection: ConnectionIndex) -> Result<(), ClientError> {
    let mut topic = ParameterWriter::default();
    topic.text(TOPOLOGY_TOPIC);
    let mut call = Call::new("@Subscribe", topic.bytes(), Instant::now());
    call.context = NOT_A_VOTE;
    pipeline.submit(connection, &call)
}

fn is_acknowledged(response: &Response<'_>) -> bool {
    let table = response.tables().next().and_then(Result::ok);
    matches!(
        table.and_then(|table| table.scalar().ok()).flatten(),
        Some(Datum::Int(voter::ACCEPTED))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_are_lost_or_doubled_beyond_what_is_unknown() {
        let counts = CallCounts { acknowledged: 10, unknown: 2, ..CallCounts::default() };
        let judged = [9, 10, 12, 13].map(|counted| (counts.lost(counted), counts.doubled(counted)));
        assert_eq!(judged, [(1, 0), (0, 0), (0, 0), (0, 1)]);
    }
}
