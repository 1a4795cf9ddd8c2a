//! A check of everything that blocks of slots rely on, for tests and the simulator.

use super::{BlockStore, block_layout};

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl BlockStore {
    /// Checks that slots are either live or free, each once, and that the counts are right.
    /// Visits every slot.
    ///
    /// # Errors
    /// What is wrong first, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let live = self.live.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        ensure(live == u64::from(self.live_count), || {
            format!("{live} slots are live, {} are counted", self.live_count)
        })?;
        let beyond = self.next_live(self.fresh);
        ensure(beyond.is_none(), || format!("slot {beyond:?} is live and was never taken"))?;
        let mut free = 0u64;
        for row in self.free_list() {
            free += 1;
            ensure(
                row.0 < self.fresh && !self.is_live(row) && live + free <= self.fresh.into(),
                || format!("free slot {row} is live, unused or in the list twice"),
            )?;
        }
        ensure(live + free == u64::from(self.fresh), || {
            format!("{live} live slots, {free} free ones, {} used", self.fresh)
        })?;
        self.check_blocks()?;
        self.pending.as_ref().map_or(Ok(()), |pending| pending.check())
    }

    /// Checks the sizes of blocks, and that those without memory have no row.
    fn check_blocks(&self) -> Result<(), String> {
        let whole = 1u32 << self.block_shift;
        let spare = self.spare.map_or(0, |_| block_layout(self.slot_bytes, whole).size());
        let (mut slots, mut allocated) = (0, spare);
        for (number, block) in self.blocks.iter().enumerate() {
            let first = (number as u32) << self.block_shift;
            let is_empty = self.next_live(first).is_none_or(|row| row.0 - first >= block.slots);
            ensure(block.links.is_none() || is_empty, || {
                format!("block {number} has rows and no memory")
            })?;
            allocated += match &block.links {
                Some(links) => links.len() * size_of::<u32>(),
                None => block_layout(self.slot_bytes, block.slots).size(),
            };
            slots += u64::from(block.slots);
            ensure(block.slots == whole || number + 1 == self.blocks.len(), || {
                format!("block {number} of {} has {} slots", self.blocks.len(), block.slots)
            })?;
        }
        ensure(slots >= u64::from(self.fresh), || format!("{slots} slots, {} used", self.fresh))?;
        ensure(allocated == self.allocated_bytes, || {
            format!("{allocated} bytes are allocated, {} are counted", self.allocated_bytes)
        })
    }
}
