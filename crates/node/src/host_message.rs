//! Messages between threads of two hosts, as they travel: in their byte form ([`crate::codec`]),
//! and those that a thread sends another one in the same round together. For each of tens of
//! thousands a second, to be passed on alone takes more time than what it has to say.

use lockstep_types::ThreadId;

/// Messages between threads of two hosts that travel together: one, or several that are not urgent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMessage {
    /// Where it goes: on its way out the thread that gets it, on its way in the host that sent it,
    /// as any of its threads.
    pub peer: ThreadId,
    /// Whether it is urgent.
    pub is_urgent: bool,
    /// Of a call that goes from host to host: the epoch of the placement of the host that sent it,
    /// which the thread of the links there sets.
    pub epoch: Option<u64>,
    /// The byte form of each after its length: four bytes, the least significant one first.
    pub bytes: Vec<u8>,
}

/// The bytes of the length of a message among those that travel together.
const LENGTH_BYTES: usize = size_of::<u32>();

impl HostMessage {
    /// Appends a message, whose byte form is written by `write`.
    #[inline]
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        write(&mut self.bytes);
        let length = self.bytes.len() - start - LENGTH_BYTES;
        let length = u32::try_from(length).expect("a message is shorter than what a link takes");
        self.bytes[start..][..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    }

    /// The byte forms of the messages, in order; an error, which is the last one, for what is none.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Result<&[u8], String>> {
        messages_in(&self.bytes)
    }

    /// One of its messages alone.
    pub(crate) fn alone(&self, bytes: &[u8]) -> Box<HostMessage> {
        let HostMessage { peer, is_urgent, epoch, .. } = *self;
        let mut message = HostMessage { peer, is_urgent, epoch, bytes: Vec::new() };
        message.append(|out| out.extend_from_slice(bytes));
        Box::new(message)
    }
}

/// See [`HostMessage::messages`].
pub(crate) fn messages_in(mut bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], String>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let message = bytes
            .split_first_chunk()
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        let left = bytes.len();
        let (message, rest) = message.unzip();
        bytes = rest.unwrap_or_default();
        Some(message.ok_or_else(|| format!("the last of {left} bytes are no whole message")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::HostId;

    fn message(of: &[&[u8]]) -> HostMessage {
        let peer = ThreadId::at(HostId(1), 2);
        let mut message = HostMessage { peer, is_urgent: false, epoch: Some(7), bytes: vec![] };
        of.iter().for_each(|bytes| message.append(|out| out.extend_from_slice(bytes)));
        message
    }

    #[test]
    fn messages_travel_together_and_are_read_in_their_order() {
        let together = message(&[&[1, 2, 3], &[], &[4]]);
        let read: Result<Vec<&[u8]>, String> = together.messages().collect();
        assert_eq!(read, Ok(vec![&[1, 2, 3][..], &[], &[4]]));
        assert_eq!(*together.alone(&[4]), message(&[&[4]]), "it has what the others have");
        assert_eq!(message(&[]).messages().count(), 0);
    }

    #[test]
    fn what_is_cut_short_is_an_error_after_what_came_whole() {
        let whole = message(&[&[1, 2, 3], &[4, 5]]).bytes;
        for length in 8..whole.len() {
            let read: Vec<_> = messages_in(&whole[..length]).collect();
            assert_eq!(read[0], Ok(&[1, 2, 3][..]));
            let problem = format!("last of {} bytes", length - 7);
            assert!(read[1].as_ref().is_err_and(|it| it.contains(&problem)), "{read:?}");
            assert_eq!(read.len(), 2);
        }
        let long = [0xff, 0xff, 0xff, 0xff, 1];
        assert!(messages_in(&long).all(|read| read.is_err()));
    }
}
