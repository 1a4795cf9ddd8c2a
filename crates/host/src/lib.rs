//! What a host decides, as functions of what it is given: no clock, socket, file or thread in
//! here. The server's threads call it, and so does the simulator.
//!
//! So far: the catalog in force, where calls go, and what becomes of them at their partition.

pub mod catalog;
pub mod destination;
pub mod lead;
pub mod load;
pub mod partition;
pub mod routing;
pub mod routing_values;
pub mod several;
