//! The send buffer: ordered messages that the peer has not acknowledged. Some are still to be sent,
//! the others are retained, to be sent again after a reconnect.
//!
//! Messages are appended in place to chunks of memory, each after its length, in the form that
//! they have in a frame. Messages that are offered between two writes and are next to each other in
//! a chunk make a batch, which is sent as one frame. Batches are released when they are
//! acknowledged as a whole, and chunks with the last of their batches; a few free chunks are kept,
//! so that steady traffic allocates nothing.

use crate::error::OfferError;
use crate::faults::LinkFaults;
use crate::frame::checksum;
use crate::limits::{LENGTH_BYTES, LinkLimits};
use lockstep_base::elapsed::Elapsed;
use std::collections::VecDeque;

/// A chunk that has grown beyond this many times its usual length is not kept as a spare.
const SPARE_GROWTH: usize = 4;

/// Messages that travel in one frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    /// The number of its first message.
    pub first: u64,
    /// The number of its last message.
    pub last: u64,
    /// The checksum of its bytes, once no more messages are added.
    pub checksum: Option<u32>,
    chunk: u64,
    start: usize,
    end: usize,
    offered_us: i64,
}

impl Batch {
    pub fn length(&self) -> usize {
        self.end - self.start
    }
}

/// The messages of one session, in one direction.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    limits: LinkLimits,
    /// The longest payload that both hosts take.
    frame_bytes_max: u32,
    /// The chunk that messages are appended to; its number follows that of the last of `chunks`.
    open: Vec<u8>,
    chunks: VecDeque<Vec<u8>>,
    /// The number of the first of `chunks`.
    chunk_first: u64,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    batches: VecDeque<Batch>,
    /// The number of the first of `batches`.
    batch_first: u64,
    /// The number of the first batch that was not written to the connection as a whole.
    unwritten: u64,
    /// The number of the last message that was offered.
    last: u64,
    /// The number of the last message that was written as a whole.
    written: u64,
    /// The number of the last message that the peer acknowledged.
    acknowledged: u64,
    bytes: u64,
    resent: u64,
}

impl SendBuffer {
    pub fn new(limits: LinkLimits) -> SendBuffer {
        SendBuffer {
            limits,
            frame_bytes_max: limits.frame_bytes_max,
            open: Vec::new(),
            chunks: VecDeque::new(),
            chunk_first: 0,
            spare: Vec::new(),
            spare_bytes: 0,
            batches: VecDeque::new(),
            batch_first: 0,
            unwritten: 0,
            last: 0,
            written: 0,
            acknowledged: 0,
            bytes: 0,
            resent: 0,
        }
    }

    /// Drops all messages: a session with the peer begins, which takes frames up to a length.
    pub fn begin_session(&mut self, frame_bytes_max: u32) {
        self.batch_first += self.batches.len() as u64;
        self.batches.clear();
        self.unwritten = self.batch_first;
        self.release_chunks();
        (self.last, self.written, self.acknowledged, self.bytes) = (0, 0, 0, 0);
        assert!(self.chunks.is_empty() && self.open.is_empty(), "no message is left");
        self.frame_bytes_max = frame_bytes_max.min(self.limits.frame_bytes_max);
    }

    /// Appends a message that `write` appends to the buffer. Gives its number.
    #[inline]
    pub fn offer(
        &mut self,
        now_us: i64,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<u64, OfferError> {
        if self.bytes >= self.limits.backlog_bytes_max
            || self.last - self.acknowledged >= self.limits.backlog_messages_max
        {
            return Err(self.full());
        }
        if self.open.len() >= self.limits.chunk_bytes || self.open.capacity() == 0 {
            self.next_chunk();
        }
        let chunk = &mut self.open;
        let start = chunk.len();
        chunk.extend_from_slice(&[0; LENGTH_BYTES]);
        write(chunk);
        let end = chunk.len();
        assert!(end >= start + LENGTH_BYTES, "a message is appended to what the buffer holds");
        let added = end - start;
        if added > self.frame_bytes_max as usize {
            chunk.truncate(start);
            return Err(OfferError::message_too_long(added - LENGTH_BYTES, self.frame_bytes_max));
        }
        if self.bytes + added as u64 > self.limits.backlog_bytes_max {
            chunk.truncate(start);
            return Err(self.full());
        }
        let length = (added - LENGTH_BYTES) as u32;
        chunk[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        self.bytes += added as u64;
        self.last += 1;
        self.add_to_batch(start, end, now_us);
        Ok(self.last)
    }

    /// The last message is at these bytes of the open chunk.
    #[inline]
    fn add_to_batch(&mut self, start: usize, end: usize, offered_us: i64) {
        let chunk = self.open_chunk();
        if let Some(batch) = self.batches.back_mut()
            && batch.checksum.is_none()
            && batch.chunk == chunk
            && end - batch.start <= self.frame_bytes_max as usize
        {
            debug_assert_eq!(batch.end, start, "messages of a batch are next to each other");
            batch.end = end;
            batch.last = self.last;
            return;
        }
        let (first, last) = (self.last, self.last);
        self.batches.push_back(Batch {
            first,
            last,
            checksum: None,
            chunk,
            start,
            end,
            offered_us,
        });
    }

    /// The number of the open chunk.
    fn open_chunk(&self) -> u64 {
        self.chunk_first + self.chunks.len() as u64
    }

    /// Opens a chunk with space.
    #[cold]
    fn next_chunk(&mut self) {
        let is_full = self.open.len() >= self.limits.chunk_bytes;
        assert!(is_full || self.open.capacity() == 0, "a chunk is left when it is full");
        let spare = self.spare.pop();
        self.spare_bytes -= spare.as_ref().map_or(0, Vec::capacity);
        // A message that begins before the end of a chunk may go a little over it.
        let bytes = self.limits.chunk_bytes + self.limits.chunk_bytes / 8;
        let next = spare.unwrap_or_else(|| Vec::with_capacity(bytes));
        let full = std::mem::replace(&mut self.open, next);
        if full.capacity() > 0 {
            self.chunks.push_back(full);
        }
    }

    #[cold]
    fn full(&self) -> OfferError {
        OfferError::Full {
            bytes: self.bytes,
            bytes_max: self.limits.backlog_bytes_max,
            messages: self.last - self.acknowledged,
            messages_max: self.limits.backlog_messages_max,
        }
    }

    /// The number of the first batch to write, whether there is one or not.
    pub fn next_unwritten(&self) -> u64 {
        self.unwritten
    }

    /// A batch by its number.
    pub fn batch(&self, number: u64) -> Option<&Batch> {
        let index = number.checked_sub(self.batch_first)?;
        self.batches.get(usize::try_from(index).ok()?)
    }

    /// A batch by its number, closed: no messages are added to it any more.
    pub fn close(&mut self, number: u64) -> Option<Batch> {
        let mut batch = *self.batch(number)?;
        if batch.checksum.is_none() {
            batch.checksum = Some(checksum(self.payload(&batch)));
            let index = (number - self.batch_first) as usize;
            self.batches[index] = batch;
        }
        Some(batch)
    }

    /// The payload of a batch's frame.
    pub fn payload(&self, batch: &Batch) -> &[u8] {
        &self.chunk(batch)[batch.start..batch.end]
    }

    fn chunk(&self, batch: &Batch) -> &[u8] {
        let index = (batch.chunk - self.chunk_first) as usize;
        self.chunks.get(index).unwrap_or(&self.open)
    }

    /// The next batch was written to the connection.
    pub fn wrote_batch(&mut self) {
        let batch = *self.batch(self.unwritten).expect("what was written is in the buffer");
        assert_eq!(batch.first, self.written + 1, "batches are written in their order");
        self.unwritten += 1;
        self.written = batch.last;
    }

    /// Whether there are messages that were not written to the connection.
    pub fn has_unwritten(&self) -> bool {
        self.unwritten - self.batch_first < self.batches.len() as u64
    }

    /// The peer has all messages up to this one, which was written.
    pub fn acknowledge(&mut self, number: u64) {
        assert!(number >= self.acknowledged, "the peer's position only grows");
        assert!(number <= self.written, "the peer has only messages that were written");
        self.acknowledged = number;
        let mut popped = false;
        while let Some(batch) = self.batches.front()
            && batch.last <= number
            && self.batch_first < self.unwritten
        {
            self.bytes -= batch.length() as u64;
            self.batches.pop_front();
            self.batch_first += 1;
            popped = true;
        }
        if popped {
            self.release_chunks();
        }
        assert!(self.acknowledged <= self.last, "only offered messages are acknowledged");
        assert_eq!(self.bytes == 0, self.batches.is_empty(), "bytes are those of the batches");
    }

    /// Releases the chunks before the first batch.
    fn release_chunks(&mut self) {
        let keep_from = self.batches.front().map_or(u64::MAX, |batch| batch.chunk);
        while self.chunk_first < keep_from
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.chunk_first += 1;
            self.keep_spare(chunk);
        }
        if keep_from == u64::MAX {
            self.clear_open();
        }
    }

    /// Keeps a chunk for the next messages, if it is not too long and there are not too many.
    fn keep_spare(&mut self, mut chunk: Vec<u8>) {
        let capacity = chunk.capacity();
        if self.is_usual(capacity) && self.spare_bytes + capacity <= self.limits.spare_bytes_max {
            chunk.clear();
            assert!(capacity > 0, "a chunk that was filled has memory");
            self.spare_bytes += capacity;
            self.spare.push(chunk);
        }
    }

    fn is_usual(&self, capacity: usize) -> bool {
        capacity <= self.limits.chunk_bytes.saturating_mul(SPARE_GROWTH)
    }

    /// Nothing of the open chunk is needed: it is used again.
    fn clear_open(&mut self) {
        match self.is_usual(self.open.capacity()) {
            true => self.open.clear(),
            false => self.open = Vec::new(),
        }
    }

    /// The last message that was written as a whole, in this session.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The last message that the peer acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Whether a peer that has this position can be sent what follows it.
    pub fn can_resume_after(&self, number: u64) -> bool {
        (self.acknowledged..=self.written).contains(&number)
    }

    /// A connection begins whose peer has all messages up to this one: what follows is to be
    /// written, none of it twice.
    pub fn resume_after(&mut self, number: u64, faults: LinkFaults) {
        assert!(self.can_resume_after(number), "the caller has checked the position");
        if faults.drop_suffix() {
            self.drop_written(number);
            return;
        }
        self.acknowledge(number);
        self.trim_first(number);
        self.unwritten = self.batch_first;
        self.resent += self.written - number;
        self.written = number;
        let next = self.batches.front().map_or(self.last + 1, |batch| batch.first);
        assert_eq!(next, number + 1, "the first message to write follows the peer's last one");
    }

    /// Removes the messages up to this one from the first batch, which the peer has delivered in
    /// part.
    fn trim_first(&mut self, number: u64) {
        let Some(mut batch) = self.batches.front().copied() else { return };
        if batch.first > number {
            return;
        }
        let mut at = batch.start;
        let chunk = self.chunk(&batch);
        while batch.first <= number {
            let length = chunk[at..].first_chunk().expect("a message follows its length");
            at += LENGTH_BYTES + u32::from_be_bytes(*length) as usize;
            batch.first += 1;
        }
        assert!(at < batch.end, "a batch with its last message delivered was released");
        self.bytes -= (at - batch.start) as u64;
        batch.start = at;
        batch.checksum = None;
        self.batches[0] = batch;
    }

    /// A fault: takes all written messages for received ones.
    fn drop_written(&mut self, number: u64) {
        self.acknowledge(self.written);
        let lost = self.written - number;
        for batch in &mut self.batches {
            batch.first -= lost;
            batch.last -= lost;
        }
        self.unwritten = self.batch_first;
        self.last -= lost;
        (self.written, self.acknowledged) = (number, number);
    }

    /// Bytes of messages that are not acknowledged, with their lengths. A batch that is
    /// acknowledged in part counts whole.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of messages that are not acknowledged.
    pub fn messages(&self) -> u64 {
        self.last - self.acknowledged
    }

    /// The number of messages that were sent again after a reconnect, in all sessions.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// How long the first batch that is not acknowledged has waited since its first message.
    pub fn age(&self, now_us: i64) -> Option<Elapsed> {
        self.batches.front().map(|batch| Elapsed::between_us(batch.offered_us, now_us))
    }
}

#[cfg(test)]
mod tests;
