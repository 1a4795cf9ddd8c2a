//! The parser's behaviour through its public surface.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod dump;
mod limits;
mod random;
mod scripts;
