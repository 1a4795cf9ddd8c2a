//! Messages on their way to other hosts: what a thread hands to the thread of the links.

use crate::buffers::Buffers;
use crate::codec::write_message;
use crate::host_message::HostMessage;
use crate::mailbox::Crossing;
use crate::message::Envelope;
use lockstep_host::follower::codec::CopyMessage;
use lockstep_txn::replica::ToFollower;
use lockstep_types::ThreadId;

/// The most bytes of messages that travel together.
const TOGETHER_BYTES: usize = 4096;
/// The most bytes of a message beside what [`Envelope::carried_bytes`] counts, for most messages.
const USUAL_BYTES: usize = 64;

impl Envelope {
    /// The bytes that it carries as they are, for the messages of which hosts send each other many.
    #[inline]
    fn carried_bytes(&self) -> usize {
        match self {
            Envelope::Call(_, call) => call.body.len(),
            Envelope::Via(via) => via.call.body.len(),
            Envelope::Answer(answer) => answer.frame.len(),
            Envelope::Copy(message) => match &message.said {
                CopyMessage::Stream(ToFollower { piece: Some(piece), .. }, _) => piece.bytes.len(),
                _ => 0,
            },
            _ => 0,
        }
    }

    /// Appends its byte form to a message for another host.
    #[inline]
    fn write_to(&self, message: &mut HostMessage) {
        message.append(|bytes| {
            let has_byte_form = write_message(bytes, self);
            assert!(has_byte_form, "what goes to other hosts has a byte form");
        });
    }

    /// Gives back the buffer of a message that goes on in another form.
    fn give_back(self, buffers: &mut Buffers) {
        match self {
            Envelope::Call(_, call) => buffers.give_back(call.body),
            Envelope::Via(via) => buffers.give_back(via.call.body),
            Envelope::Answer(answer) => buffers.give_back(answer.frame),
            _ => {}
        }
    }
}

impl Crossing for Envelope {
    type Spare = Buffers;

    #[inline(never)]
    fn to_other_host(self, to: ThreadId, spare: &mut Buffers) -> Envelope {
        // It is not to grow while it is written.
        let mut message = spare.message(to, USUAL_BYTES + self.carried_bytes());
        message.is_urgent = self.is_urgent();
        message.epoch = self.goes_on().then_some(0);
        self.write_to(&mut message);
        self.give_back(spare);
        Envelope::Outgoing(message)
    }

    #[inline]
    fn takes_along(&self, other: &Envelope) -> bool {
        let Envelope::Outgoing(message) = self else { return false };
        let bytes = message.bytes.len() + USUAL_BYTES + other.carried_bytes();
        bytes <= TOGETHER_BYTES
            && message.is_urgent == other.is_urgent()
            && message.epoch.is_some() == other.goes_on()
    }

    #[inline(never)]
    fn take_along(&mut self, other: Envelope, spare: &mut Buffers) {
        let Envelope::Outgoing(message) = self else {
            unreachable!("only what goes to other hosts takes others along")
        };
        message.bytes.reserve(USUAL_BYTES + other.carried_bytes());
        other.write_to(message);
        other.give_back(spare);
    }
}
