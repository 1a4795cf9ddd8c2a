//! Memory of calls, answers and messages on their way between threads and hosts, kept by each
//! thread for the next ones: at tens of thousands a second an allocator takes more time with them
//! than the messages themselves.

use crate::host_message::HostMessage;
use lockstep_base::prefetch;
use lockstep_types::ThreadId;

/// Buffers that are kept.
const SPARE_BUFFERS: usize = 4096;
/// A buffer that is larger is not kept.
const KEPT_BYTES: usize = 64 * 1024;
/// Messages to or from other hosts that are kept.
const SPARE_MESSAGES: usize = 4096;
/// A message whose buffer is larger is not kept.
const KEPT_MESSAGE_BYTES: usize = 8 * 1024;
/// The bytes of all messages that are kept, at most.
const SPARE_MESSAGE_BYTES: usize = 8 << 20;
/// The room of a new message at the least: calls, answers and what copies are sent use the same
/// messages by turns, and none of them is to grow again and again.
const MESSAGE_BYTES_MIN: usize = 256;

/// See the module.
#[derive(Default)]
pub struct Buffers {
    spare: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "mailboxes pass them as boxes")]
    messages: Vec<Box<HostMessage>>,
    /// The capacity of the buffers of these messages.
    message_bytes: usize,
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
                self.message_bytes -= message.bytes.capacity();
                self.prefetch_next();
                message.bytes.reserve(bytes);
                (message.peer, message.is_urgent, message.epoch) = (peer, false, None);
                message
            }
            None => {
                let bytes = Vec::with_capacity(bytes.max(MESSAGE_BYTES_MIN));
                Box::new(HostMessage { peer, is_urgent: false, epoch: None, bytes })
            }
        }
    }

    /// A thread with many calls in flight comes to messages that it has not seen for long: asks
    /// for the buffer of the next one, and for the one after it.
    #[inline]
    fn prefetch_next(&self) {
        if let [.., second, next] = self.messages.as_slice() {
            prefetch::line_to_write(next.bytes.as_ptr());
            prefetch::to_write(&**second);
        }
    }

    /// Keeps a message for reuse, unless there are enough or it is large.
    pub(crate) fn give_back_message(&mut self, mut message: Box<HostMessage>) {
        let bytes = message.bytes.capacity();
        let is_small = bytes <= KEPT_MESSAGE_BYTES;
        let has_room = self.messages.len() < SPARE_MESSAGES
            && self.message_bytes + bytes <= SPARE_MESSAGE_BYTES;
        if is_small && has_room {
            message.bytes.clear();
            self.message_bytes += bytes;
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
    fn the_bytes_of_all_messages_that_are_kept_have_a_limit() {
        let mut buffers = Buffers::default();
        let peer = ThreadId(0);
        for _ in 0..2 * SPARE_MESSAGE_BYTES / KEPT_MESSAGE_BYTES {
            let bytes = Vec::with_capacity(KEPT_MESSAGE_BYTES);
            let full = HostMessage { peer, is_urgent: false, epoch: None, bytes };
            buffers.give_back_message(Box::new(full));
        }
        assert_eq!(buffers.messages.len(), SPARE_MESSAGE_BYTES / KEPT_MESSAGE_BYTES);
        while !buffers.messages.is_empty() {
            drop(buffers.message(peer, 1));
        }
        assert_eq!(buffers.message_bytes, 0);
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
