//! Ways to break a log on purpose, to see that the simulator's checks notice.

lockstep_base::faults! {
    /// What is broken; nothing in a server.
    pub struct LogFaults {
        /// A group counts as durable without a sync.
        skip_sync,
        /// A block counts as whole whatever its bytes are.
        ignore_checksum,
        /// A torn end is taken for the end of the log, and so is any damage.
        ignore_watermark,
        /// Blocks do not say how far everything is durable.
        forget_watermark,
        /// One segment more is given up than is safe elsewhere.
        prune_too_many,
        /// No segment says that there is a next one.
        forget_next_segment,
        /// Recovery replays entries that a later epoch replaced, and uses snapshots that have them.
        keep_old_tail,
    }
}
