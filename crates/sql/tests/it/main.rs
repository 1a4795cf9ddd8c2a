//! The parser's behaviour through its public surface.

mod dump;
mod limits;
mod random;
mod scripts;
