//! The disk in memory: what it keeps, what a power cut takes.

mod memory;
