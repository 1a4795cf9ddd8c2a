//! Ways to break a log on purpose, to see that the simulator's checks notice.

/// What is broken; nothing in a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogFaults {
    /// A group counts as durable without a sync.
    pub skip_sync: bool,
    /// A block counts as whole whatever its bytes are.
    pub ignore_checksum: bool,
    /// A torn end is taken for the end of the log, and so is any damage.
    pub ignore_watermark: bool,
    /// Blocks do not say how far everything is durable.
    pub forget_watermark: bool,
    /// One segment more is given up than is safe elsewhere.
    pub prune_too_many: bool,
    /// No segment says that there is a next one.
    pub forget_next_segment: bool,
}
