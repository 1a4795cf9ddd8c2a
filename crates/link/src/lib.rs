//! The protocol between two hosts of a cluster, as a state machine without I/O: the caller moves
//! the bytes and passes the time in.
//!
//! A [`Link`] is one end of the link to one other host. It has a *session*, in which ordered
//! messages have consecutive numbers and are delivered exactly once, however often the connection
//! breaks and is made again; and at most one *connection*, over which both sides first exchange who
//! they are and what they have received. Messages are retained until they are acknowledged, within
//! limits. Datagrams and heartbeats are written before ordered messages, and are lost with a
//! connection.
//!
//! * The format of the bytes is at the head of `frame.rs`, that of the hello in `hello.rs`.
//! * Which connection survives and how a session is resumed is at the head of `link.rs`.
//! * Retained messages are in `send_buffer.rs`. `output.rs` decides what is written next.
//!
//! # What the caller does
//!
//! * It makes one [`Link`] for each peer and keeps it as long as the process runs.
//! * It bounds the time of a dial and of an accepted connection until the hellos are exchanged, the
//!   number of accepted connections, and the time without a frame ([`Link::last_heard_us`]).
//! * It offers heartbeats, and judges the clock offset and the age of the backlog.
//! * It takes all events whenever it has read. Heartbeats come over the same connection as
//!   messages: a caller that leaves messages in the buffer holds up the heartbeats after them.
//!
//! ```
//! use lockstep_link::{
//!     Accepting, ClockReading, ClusterId, Event, HostIdentity, Link, LinkLimits, VersionRange,
//! };
//! use lockstep_types::HostId;
//! use std::io::IoSlice;
//!
//! /// The bytes that a link wants to write. A server writes the slices to its socket instead.
//! fn written(link: &mut Link, now: ClockReading) -> Vec<u8> {
//!     let mut bytes = Vec::new();
//!     while link.wants_to_write(now) {
//!         let mut slices = [IoSlice::new(&[]); 64];
//!         let count = link.write_slices(now, &mut slices);
//!         let begin = bytes.len();
//!         slices[..count].iter().for_each(|slice| bytes.extend_from_slice(slice));
//!         link.wrote(bytes.len() - begin);
//!     }
//!     bytes
//! }
//!
//! /// Copies bytes to a link. A server reads from its socket into the space instead.
//! fn read(link: &mut Link, bytes: &[u8]) {
//!     link.read_space()[..bytes.len()].copy_from_slice(bytes);
//!     link.filled(bytes.len());
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = |host| HostIdentity {
//!     cluster: ClusterId([7; 16]),
//!     host: HostId(host),
//!     incarnation: 1,
//!     process: u64::from(host) + 1,
//!     name: format!("host-{host}"),
//!     release: "0.1.0".to_string(),
//!     versions: VersionRange::SUPPORTED,
//! };
//! let now = ClockReading { monotonic_us: 0, wall_us: 1_795_244_523_000_000 };
//! let mut a = Link::new(identity(0), HostId(1), LinkLimits::default())?;
//! let mut b = Link::new(identity(1), HostId(0), LinkLimits::default())?;
//!
//! // Host 0 dials. Host 1 reads the hello, which names the link that the connection is for.
//! a.dialed(now)?;
//! let hello = written(&mut a, now);
//! let mut accepting = Accepting::new(VersionRange::SUPPORTED);
//! accepting.read_space()[..hello.len()].copy_from_slice(&hello);
//! accepting.filled(hello.len());
//! assert_eq!(accepting.hello()?.map(|hello| hello.from), Some(HostId(0)));
//! b.accept(accepting, now)?;
//! let reply = written(&mut b, now);
//! read(&mut a, &reply);
//!
//! // Both get the event that a session has begun, and may offer messages from then on.
//! for link in [&mut a, &mut b] {
//!     assert!(matches!(link.next_event(now)?, Some(Event::SessionBegan { .. })));
//!     assert!(matches!(link.next_event(now)?, Some(Event::Connected { resumed: false })));
//! }
//! a.offer(now, |buffer| buffer.extend_from_slice(b"first"))?;
//! a.offer(now, |buffer| buffer.extend_from_slice(b"second"))?;
//! let bytes = written(&mut a, now);
//! read(&mut b, &bytes);
//! assert_eq!(b.next_event(now)?, Some(Event::Message { number: 1, bytes: b"first" }));
//! assert_eq!(b.next_event(now)?, Some(Event::Message { number: 2, bytes: b"second" }));
//! assert_eq!(b.next_event(now)?, None);
//! assert_eq!(a.backlog().messages, 2, "not acknowledged yet");
//! # Ok(())
//! # }
//! ```

mod accepting;
mod clock;
mod datagrams;
mod error;
mod event;
mod faults;
mod frame;
mod hello;
mod limits;
mod link;
mod output;
mod receive_buffer;
mod refusal;
mod send_buffer;

pub use accepting::Accepting;
pub use clock::{ClockOffset, ClockReading};
pub use error::{AlreadyConnected, LinkError, Malformed, OfferError};
pub use event::{Backlog, Event, LinkCounters, Peer};
pub use faults::LinkFaults;
pub use frame::{FrameKind, HEADER_BYTES, MAGIC, PREAMBLE_BYTES, VersionRange};
pub use hello::{
    ClusterId, HELLO_BYTES_MAX, HOST_NAME_BYTES_MAX, Hello, HostIdentity, RELEASE_BYTES_MAX,
    SessionId,
};
pub use limits::{FRAME_BYTES_MIN, LimitError, LinkLimits};
pub use link::Link;
pub use refusal::{PeerRefusal, REFUSAL_TEXT_BYTES_MAX, Refusal, RefusalReason};
