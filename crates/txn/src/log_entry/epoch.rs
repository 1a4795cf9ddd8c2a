//! The first entry of an epoch: what it carries.

use super::body::number;
use super::read::EntryError;
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_types::HostId;

/// The most copies of a partition that an epoch names.
pub const EPOCH_COPIES_MAX: usize = 16;

/// What [`super::EntryKind::Epoch`] carries.
#[derive(Debug, Clone, Copy)]
pub struct EpochEntry<'a> {
    /// The epoch that begins.
    pub epoch: u32,
    copies: &'a [u8],
}

impl<'a> EpochEntry<'a> {
    pub(super) fn read(raw: &'a [u8]) -> Result<EpochEntry<'a>, EntryError> {
        let mut reader = ByteReader::new(raw);
        let epoch = number(&mut reader)?;
        let count = number(&mut reader)? as usize;
        let copies = reader.rest();
        let mut rest = ByteReader::new(copies);
        for _ in 0..count.min(EPOCH_COPIES_MAX) {
            number(&mut rest)?;
        }
        let is_sound = (1..=EPOCH_COPIES_MAX).contains(&count) && rest.remaining() == 0;
        if is_sound { Ok(EpochEntry { epoch, copies }) } else { Err(EntryError::copies()) }
    }

    /// The hosts whose copies are in sync, the leader's among them.
    pub fn in_sync(&self) -> impl Iterator<Item = HostId> + use<'a> {
        let mut reader = ByteReader::new(self.copies);
        std::iter::from_fn(move || match reader.remaining() {
            0 => None,
            _ => number(&mut reader).ok().map(HostId),
        })
    }
}

/// Writes the body of [`super::EntryKind::Epoch`].
///
/// # Panics
/// No copy is named, or more than [`EPOCH_COPIES_MAX`].
pub fn put_epoch(body: &mut Vec<u8>, epoch: u32, in_sync: &[HostId]) {
    assert!((1..=EPOCH_COPIES_MAX).contains(&in_sync.len()), "an epoch has copies, and few");
    body.put_varint(u64::from(epoch));
    body.put_varint(in_sync.len() as u64);
    in_sync.iter().for_each(|host| body.put_varint(u64::from(host.0)));
}
