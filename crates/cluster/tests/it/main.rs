//! The control plane of whole clusters under a seeded network, clocks and crashes.

mod judge;
mod scenarios;
mod seeds;
mod world;
