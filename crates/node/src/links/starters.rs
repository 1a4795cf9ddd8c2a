//! Hosts that start ask those that run ([`crate::assembly`]): such a connection differs from a link
//! in its first bytes, and is answered by a thread of its own.

use super::durable::{named_directories, placement_of_state};
use super::{Links, Newcomer};
use crate::assembly::{QUESTION_HEAD, ServingHost, may_be_question};
use lockstep_cluster::Standing;
use lockstep_host::recovery::assembly::DurablePlacement;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Questions that are answered at the same time.
const STARTERS_MAX: usize = 16;

/// The questions that are being answered.
#[derive(Default)]
pub(super) struct Starters {
    count: Arc<AtomicUsize>,
}

impl Links {
    /// Whether a connection begins as those of hosts that start. While few bytes are there, that is
    /// not known: it is asked again when more come.
    pub(super) fn is_starter(&self, place: usize) -> bool {
        let mut first = [0; QUESTION_HEAD];
        let newcomer = self.newcomers.get(place).and_then(Option::as_ref);
        let peeked = newcomer.map(|newcomer| newcomer.stream.peek(&mut first));
        matches!(peeked, Some(Ok(count)) if may_be_question(&first[..count]))
    }

    /// Answers a host that starts, once this one knows its cluster. Before that the connection is
    /// closed, and it comes again.
    pub(super) fn answer_starter(&mut self, place: usize) {
        let newcomer = self.newcomers.get_mut(place).and_then(Option::take);
        let Some(Newcomer { mut stream, .. }) = newcomer else { return };
        let _ = self.watch.registry().deregister(&mut stream);
        let serves = self.formed.is_none() && self.members.has_copies() && !self.is_stopping;
        let count = Arc::clone(&self.starters.count);
        if !serves || count.load(Ordering::Acquire) >= STARTERS_MAX {
            return;
        }
        let serving = ServingHost {
            host: self.membership.host,
            terms: self.membership.terms.clone(),
            partitions: self.facts.partition_count as usize,
            named: self.members.state().map(named_directories).unwrap_or_default(),
            listed: self.members.listed(),
            disk: self.facts.data_disk.clone(),
            placement: self.newest_placement(),
        };
        count.fetch_add(1, Ordering::AcqRel);
        let answered = Arc::clone(&count);
        let spawned = std::thread::Builder::new().name("starter".to_string()).spawn(move || {
            // The host that asked comes again.
            if let Err(error) = serving.hear(TcpStream::from(stream)) {
                tracing::debug!(%error, "the question of a host that starts is not answered");
            }
            answered.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The placement in force, if this host can say that no newer one is: it leads the Raft group
    /// and is connected with a majority.
    fn newest_placement(&mut self) -> Option<DurablePlacement> {
        let control = self.members.control();
        let is_newest = control.member().leads() && control.standing() == Standing::Majority;
        self.members.state().filter(|_| is_newest).map(placement_of_state)
    }
}
