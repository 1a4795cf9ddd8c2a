//! The small things every other crate stands on: arenas, byte cursors, bounded rings between
//! threads, seeded random numbers and maps whose iteration order never depends on the process.
//!
//! Nothing here knows SQL, partitions or the network. Think twice before adding: what only one
//! crate needs belongs there.

pub mod arena;
pub mod bytes;
pub mod counting;
pub mod elapsed;
pub mod extent;
mod faults;
pub mod growing;
pub mod map;
pub mod prefetch;
pub mod random;
pub mod ring;
pub mod short_list;
