//! Times and limits of the control plane.

use crate::error::ClusterError;

/// Times and limits. All hosts of a cluster have the same times: leases of one host are counted on
/// by the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// A heartbeat is sent to every other host this often. Default 50 ms.
    pub heartbeat_interval_us: u64,
    /// A host that was not heard for this long is suspected. Default 200 ms.
    pub suspect_after_us: u64,
    /// A site thread that did not run for this long gives up its leases, and its host is
    /// suspected. It is longer than any statement keeps a site. Default 1 s.
    pub site_suspect_after_us: u64,
    /// How long a lease lasts, from the time at which the leader sent the message that the
    /// follower answers. Shorter than the suspicion. Default 150 ms.
    pub lease_us: u64,
    /// The greatest rate at which two clocks drift apart, in millionths. Default 10,000 (1 %).
    pub clock_drift_ppm: u64,
    /// The greatest difference between the clocks of two hosts. Default 1 s.
    pub clock_offset_max_us: u64,
    /// Hosts of a stopped cluster wait this long for each other before those that are there
    /// resume without the rest, where no partition is missing. Default 30 s.
    pub resume_wait_us: u64,
    /// A partition lacks a copy for this long before one is loaded at a host that is up; each time
    /// that this does not help, twice as long as before. 0 for never. Default 1 s.
    pub reload_after_us: u64,
    /// Copies that are moved at a time to hosts that were added, or away from one that is being
    /// removed. Default 2.
    pub copy_moves_max: u32,
    /// The unit of time of the Raft group. Default 25 ms.
    pub raft_tick_us: u64,
    /// The Raft leader sends a message to every member this often, in ticks. Default 2.
    pub raft_heartbeat_ticks: u32,
    /// A member without a leader begins an election after this many ticks, or up to twice as many.
    /// Default 8.
    pub election_ticks: u32,
    /// A process that is not a member greets the others this often. Default 100 ms.
    pub hello_interval_us: u64,
    /// A greeting counts for this long. Default 1 s.
    pub hello_fresh_us: u64,
    /// A process that took part in the formation of a cluster, and has heard nothing of it for this
    /// long, starts again. Default 3 s.
    pub formation_timeout_us: u64,
    /// A proposal that is not applied in this time ends as unknown. Default 5 s.
    pub proposal_timeout_us: u64,
    /// A proposal is sent again after this time. Default 200 ms.
    pub proposal_retry_us: u64,
    /// Proposals of one member that wait for their outcome. Default 1,024.
    pub pending_proposals_max: u32,
    /// Entries of the log after which a snapshot replaces them. Default 256.
    pub compact_entries: u64,
    /// Bytes of entries in one message. Default 256 KiB.
    pub message_bytes_max: u64,
    /// Messages to one member that are not acknowledged. Default 16.
    pub inflight_messages_max: u32,
    /// Bytes of entries that are not committed. Default 4 MiB.
    pub uncommitted_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            heartbeat_interval_us: 50_000,
            suspect_after_us: 200_000,
            site_suspect_after_us: 1_000_000,
            lease_us: 150_000,
            clock_drift_ppm: 10_000,
            clock_offset_max_us: 1_000_000,
            resume_wait_us: 30_000_000,
            reload_after_us: 1_000_000,
            copy_moves_max: 2,
            raft_tick_us: 25_000,
            raft_heartbeat_ticks: 2,
            election_ticks: 8,
            hello_interval_us: 100_000,
            hello_fresh_us: 1_000_000,
            formation_timeout_us: 3_000_000,
            proposal_timeout_us: 5_000_000,
            proposal_retry_us: 200_000,
            pending_proposals_max: 1_024,
            compact_entries: 256,
            message_bytes_max: 256 << 10,
            inflight_messages_max: 16,
            uncommitted_bytes_max: 4 << 20,
        }
    }
}

impl Options {
    /// What is taken off a lease, so that it ends on the leader's clock before it ends on that of
    /// the follower, in microseconds.
    pub fn drift_allowance_us(&self) -> u64 {
        // Both clocks may be off by the rate: one slow, one fast.
        (2 * self.lease_us * self.clock_drift_ppm).div_ceil(1_000_000) + 1
    }

    /// How long a lease lasts by the clock of the leader that has it, in microseconds.
    pub fn counted_lease_us(&self) -> u64 {
        self.lease_us.saturating_sub(self.drift_allowance_us())
    }

    /// Checks that the values fit together.
    ///
    /// # Errors
    /// They do not; the text names the values.
    pub fn check(&self) -> Result<(), ClusterError> {
        let fail = |text: String| Err(ClusterError::Configuration(text));
        let Options { heartbeat_interval_us, suspect_after_us, lease_us, .. } = *self;
        if heartbeat_interval_us == 0 || suspect_after_us < 2 * heartbeat_interval_us {
            return fail(format!(
                "a suspicion after {suspect_after_us} us needs a heartbeat in each half of it, \
                 and the interval is {heartbeat_interval_us} us"
            ));
        }
        if lease_us >= suspect_after_us || lease_us <= heartbeat_interval_us {
            return fail(format!(
                "a lease of {lease_us} us is not between the heartbeat interval \
                 ({heartbeat_interval_us} us) and the suspicion ({suspect_after_us} us)"
            ));
        }
        if self.clock_drift_ppm > 100_000 || self.lease_us > 1_000_000_000 {
            return fail("clocks drift by a tenth at most, and leases last minutes at most".into());
        }
        let ticks =
            self.raft_heartbeat_ticks > 0 && self.election_ticks > self.raft_heartbeat_ticks;
        if !ticks || self.raft_tick_us == 0 || self.election_ticks > 1_000 {
            return fail("an election takes more ticks than a heartbeat, and at most 1,000".into());
        }
        let limits = [self.compact_entries, self.message_bytes_max, self.uncommitted_bytes_max];
        let counts = [self.pending_proposals_max, self.inflight_messages_max, self.copy_moves_max];
        if limits.contains(&0) || counts.contains(&0) {
            return fail("limits of the control plane are at least 1".into());
        }
        Ok(())
    }
}
