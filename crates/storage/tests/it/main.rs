//! Storage through its public surface.

mod allocation;
mod covering;
mod errors;
mod keys;
mod model;
mod ranges;
mod rebuild;
mod snapshot;
mod support;
mod wire;
