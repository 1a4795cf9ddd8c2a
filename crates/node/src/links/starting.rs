//! A start that waits for other hosts reports which ones, and ends with that after a time limit.

use super::Links;
use lockstep_base::elapsed::Elapsed;
use lockstep_link::ClockReading;
use std::io;

/// What a start waits for is logged after this time first.
const FIRST_REPORT_US: u64 = 5_000_000;
/// From then on it is logged this often.
const REPORT_EVERY_US: u64 = 10_000_000;

/// The wait of a host that starts for the cluster to form.
pub(super) struct StartWait {
    since_us: i64,
    /// The waiting time at which the next report is due.
    report_at_us: u64,
}

impl StartWait {
    pub(super) fn begun(now: ClockReading) -> StartWait {
        StartWait { since_us: now.monotonic_us, report_at_us: FIRST_REPORT_US }
    }
}

impl Links {
    /// While the cluster is being formed: logs from time to time what is missing, and gives up
    /// after `cluster_start_timeout_ms`.
    ///
    /// # Errors
    /// The time is over.
    pub(super) fn watch_start(&mut self) -> io::Result<()> {
        if self.formed.is_none() {
            return Ok(());
        }
        let waited_us = Elapsed::between_us(self.start.since_us, self.now.monotonic_us).us();
        if let Some(limit) = self.facts.options.cluster_start_timeout_ms
            && waited_us > limit.us() as u64
        {
            let awaited = self.awaited();
            let limit = limit.get();
            return self.end(format!(
                "the cluster was not formed in {limit} ms (option cluster_start_timeout_ms): \
                 {awaited}"
            ));
        }
        if waited_us >= self.start.report_at_us {
            self.start.report_at_us = waited_us + REPORT_EVERY_US;
            let (waited_s, awaited) = (waited_us / 1_000_000, self.awaited());
            let role = self.members.own_role();
            tracing::warn!("the {role} has waited {waited_s} s for its cluster to form: {awaited}");
        }
        Ok(())
    }

    /// What is missing until the cluster is formed.
    fn awaited(&self) -> String {
        let peers = self.peers.iter().flatten();
        let peers = peers.filter(|peer| self.members.takes_part(peer.host()));
        let missing: Vec<String> =
            peers.filter_map(|peer| peer.missing(&self.members.named(peer.host()))).collect();
        match missing.is_empty() {
            true => self.members.awaited(),
            false => missing.join("; "),
        }
    }
}
