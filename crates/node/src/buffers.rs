//! Memory of calls, answers and messages on their way between threads and hosts, kept by each
//! thread for the next ones: at tens of thousands a second an allocator takes more time with them
//! than the messages themselves.

use crate::message::HostMessage;
use lockstep_types::ThreadId;

/// Buffers that are kept.
const SPARE_BUFFERS: usize = 4096;
/// A buffer that is larger is not kept.
const KEPT_BYTES: usize = 64 * 1024;
/// Messages to or from other hosts that are kept.
const SPARE_MESSAGES: usize = 1024;
/// A message whose buffer is larger is not kept.
const KEPT_MESSAGE_BYTES: usize = 8 * 1024;

/// See the module.
#[derive(Default)]
pub struct Buffers {
    spare: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "mailboxes pass them as boxes")]
    messages: Vec<Box<HostMessage>>,
}

impl Buffers {
    /// An empty buffer.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// A buffer with these bytes.
    #[inline]
    pub(crate) fn copy_of(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.take();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Keeps a buffer for reuse, unless there are enough or it is large.
    #[inline]
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS && buffer.capacity() <= KEPT_BYTES {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// An empty message to or from a thread of another host, with room for that many bytes.
    pub(crate) fn message(&mut self, peer: ThreadId, bytes: usize) -> Box<HostMessage> {
        match self.messages.pop() {
            Some(mut message) => {
                assert!(message.bytes.is_empty(), "a message is kept without its bytes");
                message.bytes.reserve(bytes);
                (message.peer, message.is_urgent, message.epoch) = (peer, false, None);
                message
            }
            None => {
                let bytes = Vec::with_capacity(bytes);
                Box::new(HostMessage { peer, is_urgent: false, epoch: None, bytes })
            }
        }
    }

    /// Keeps a message for reuse, unless there are enough or it is large.
    pub(crate) fn give_back_message(&mut self, mut message: Box<HostMessage>) {
        if self.messages.len() < SPARE_MESSAGES && message.bytes.capacity() <= KEPT_MESSAGE_BYTES {
            message.bytes.clear();
            self.messages.push(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::HostId;

    #[test]
    fn a_message_is_used_again_without_what_it_was() {
        let (first, second) = (ThreadId::at(HostId(1), 2), ThreadId::at(HostId(3), 0));
        let mut buffers = Buffers::default();
        let mut message = buffers.message(first, 3);
        message.bytes.extend_from_slice(&[7, 8, 9]);
        (message.is_urgent, message.epoch) = (true, Some(4));
        let memory = message.bytes.as_ptr();
        buffers.give_back_message(message);
        let again = buffers.message(second, 3);
        assert_eq!(again.bytes.as_ptr(), memory);
        let empty = HostMessage { peer: second, is_urgent: false, epoch: None, bytes: Vec::new() };
        assert_eq!(*again, empty);
    }

    #[test]
    fn what_is_large_is_not_kept() {
        let mut buffers = Buffers::default();
        buffers.give_back(Vec::with_capacity(KEPT_BYTES + 1));
        assert_eq!(buffers.take().capacity(), 0);
        let large = buffers.message(ThreadId(0), KEPT_MESSAGE_BYTES + 1);
        buffers.give_back_message(large);
        assert!(buffers.message(ThreadId(0), 1).bytes.capacity() <= KEPT_MESSAGE_BYTES);
    }
}
