//! What comes before the messages that travel together between two hosts: the thread that gets
//! them, whether they are urgent, and of calls that go from host to host the epoch of the sender's
//! placement.

use crate::buffers::Buffers;
use crate::host_message::HostMessage;
use lockstep_types::{HostId, ThreadId};

/// The most bytes before a message.
pub(super) const HEADER_MAX: usize = 2 + size_of::<u64>();

/// In the second byte: the message is urgent.
const URGENT: u8 = 1;
/// In the second byte: the epoch of the sender's placement follows.
const PLACED: u8 = 2;

/// Appends a message to a thread of another host.
pub(super) fn put(out: &mut Vec<u8>, message: &HostMessage) {
    out.reserve(HEADER_MAX + message.bytes.len());
    let urgent = if message.is_urgent { URGENT } else { 0 };
    let placed = if message.epoch.is_some() { PLACED } else { 0 };
    out.extend_from_slice(&[message.peer.index() as u8, urgent | placed]);
    if let Some(epoch) = message.epoch {
        out.extend_from_slice(&epoch.to_le_bytes());
    }
    out.extend_from_slice(&message.bytes);
}

/// A message of another host, and the number of the thread that it is for. Its bytes are copied
/// into memory of `buffers`.
///
/// # Errors
/// It is none, or for no thread of this host.
pub(super) fn read(
    bytes: &[u8],
    from: HostId,
    sites: u16,
    buffers: &mut Buffers,
) -> Result<(u16, Box<HostMessage>), String> {
    let [thread, flags, rest @ ..] = bytes else {
        return Err("it sends a message without a receiver".to_string());
    };
    if flags & !(URGENT | PLACED) != 0 {
        return Err(format!("it sends a message with the unknown flags {flags:#04x}"));
    }
    let (epoch, bytes) = match flags & PLACED {
        0 => (None, rest),
        _ => {
            let (epoch, bytes) = rest
                .split_first_chunk()
                .ok_or("it sends a message without the epoch that it is of")?;
            (Some(u64::from_le_bytes(*epoch)), bytes)
        }
    };
    // The control thread comes after the sites.
    match u16::from(*thread) {
        thread if thread <= sites => {
            let mut message = buffers.message(ThreadId::at(from, 0), bytes.len());
            message.bytes.extend_from_slice(bytes);
            (message.is_urgent, message.epoch) = (flags & URGENT != 0, epoch);
            Ok((thread, message))
        }
        thread => Err(format!("it sends to thread {thread}, of {sites} sites")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(peer: ThreadId, is_urgent: bool, epoch: Option<u64>) -> HostMessage {
        HostMessage { peer, is_urgent, epoch, bytes: vec![7, 8, 9] }
    }

    #[test]
    fn a_message_arrives_with_the_epoch_of_its_sender() {
        for (is_urgent, epoch) in [(false, None), (true, None), (false, Some(u64::MAX))] {
            let mut bytes = Vec::new();
            put(&mut bytes, &message(ThreadId::at(HostId(2), 3), is_urgent, epoch));
            assert!(bytes.len() <= HEADER_MAX + 3);
            let (thread, read) =
                read(&bytes, HostId(1), 3, &mut Buffers::default()).expect("it is a message");
            let expected = message(ThreadId::at(HostId(1), 0), is_urgent, epoch);
            assert_eq!((thread, *read), (3, expected));
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_reason() {
        let refused = |bytes: &[u8]| {
            read(bytes, HostId(1), 3, &mut Buffers::default()).expect_err("it is none")
        };
        assert!(refused(&[3]).contains("without a receiver"));
        assert!(refused(&[4, 0, 7]).contains("thread 4, of 3 sites"));
        assert!(refused(&[3, PLACED, 1, 2]).contains("without the epoch"));
        assert!(refused(&[3, 4]).contains("unknown flags 0x04"));
    }
}
