//! VoltDB's client protocol as functions over bytes: frames, login, invocations, responses, and
//! the tables that clients read to find their way around a cluster.
//!
//! No sockets and nothing of the engine: the host reads and writes, this crate says what the
//! bytes mean. All numbers are big-endian. A `string` is an `i32` byte count and UTF-8 bytes,
//! count -1 is null. Captured examples of every message stand in `corpus/wire`.

pub mod frame;
pub mod invocation;
pub mod login;
pub mod response;
pub mod topology;

/// The version of VoltDB whose clients and tools are served, as `@SystemInformation` and logins
/// report it: tools of VoltDB refuse servers of other versions.
pub const COMPATIBLE_VERSION: &str = "11.4";

pub use frame::{FrameError, next_frame};
pub use invocation::{Invocation, Rejection};
pub use login::{Login, LoginReply, LoginStatus};
pub use response::Response;
