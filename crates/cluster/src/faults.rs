//! Ways to break the control plane on purpose, for tests and the simulator.

lockstep_base::faults! {
    /// What is broken.
    pub struct Faults {
        /// A lease counts as held for a while after it has run out.
        serve_after_lease,
        /// A process that lost its Raft state comes back under its old identity.
        reuse_raft_id,
        /// Hosts whose clocks differ by more than the limit are accepted.
        one_bad_clock,
        /// A copy goes out of the in-sync set without a new epoch.
        shrink_without_epoch,
    }
}
