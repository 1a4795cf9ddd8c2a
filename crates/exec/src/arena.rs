//! Memory for text, bytes and rows made while a statement executes.

pub use lockstep_base::arena::Arena;
