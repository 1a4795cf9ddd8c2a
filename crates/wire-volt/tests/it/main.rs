//! The protocol, through the crate's public functions: captured frames, hostile bytes, round
//! trips.

mod corpus;
mod golden;
mod hostile;
mod round_trip;
mod topology;
