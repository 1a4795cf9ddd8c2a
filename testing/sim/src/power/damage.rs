//! What was durable goes bad: recovery must say so, or do as well without.

use super::Run;
use crate::world::log::CLUSTER;
use crate::world::replay::Recovered;
use lockstep_durability::command_log::{
    BLOCK_HEADER_BYTES, FOLDER, LogPosition, LogReader, file_name,
};
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_env::memory::SECTOR_BYTES;
use lockstep_env::{Disk, DiskErrorKind, DiskOperation};
use std::ops::Range;
use std::sync::Arc;

/// A block of the log.
struct Block {
    position: LogPosition,
    bytes: u32,
    watermark: LogPosition,
}

impl Block {
    fn range(&self) -> Range<usize> {
        let start = self.position.offset as usize;
        start..start + self.bytes as usize
    }

    /// Whether it is still there, with what it says, if these bytes of its file are not.
    fn tells_behind(&self, damaged: &Range<usize>) -> bool {
        let start = self.position.offset as usize;
        start >= damaged.end || start + BLOCK_HEADER_BYTES <= damaged.start
    }
}

/// What becomes of a file.
enum Damage {
    /// It has other bytes, or fewer.
    Bytes(Vec<u8>),
    /// These bytes cannot be read.
    Unreadable(Range<usize>),
    /// It is gone.
    Gone,
}

impl Run {
    /// Something that a later block, or a later segment, proves to have been synced goes bad.
    pub(super) fn expect_damage_reported(&mut self) -> Result<(), String> {
        let blocks = self.blocks()?;
        let Some(last_segment) = blocks.iter().map(|block| block.position.segment).max() else {
            return Ok(());
        };
        let victim = &blocks[self.random.below(blocks.len() as u64) as usize];
        let segment = victim.position.segment;
        let name = file_name(segment);
        let bytes = self.disk.bytes(&name).ok_or_else(|| format!("{name} is missing"))?;
        let at = victim.range().start + self.random.below(u64::from(victim.bytes)) as usize;
        let (range, damage) = self.damage(&bytes, at);
        // The reader stops at the first block that the damage changes.
        let is_hurt = |block: &&Block| {
            let own = block.range();
            let both = own.start.max(range.start)..own.end.min(range.end);
            let is_changed = match &damage {
                Damage::Bytes(now) => {
                    !both.is_empty() && now.get(both.clone()) != bytes.get(both.clone())
                }
                Damage::Unreadable(_) | Damage::Gone => !both.is_empty(),
            };
            block.position.segment == segment && is_changed
        };
        let Some(hurt) = blocks.iter().filter(is_hurt).map(|block| block.position).min() else {
            return Ok(());
        };
        let proves = |block: &Block| block.watermark > hurt && block.tells_behind(&range);
        // After an orderly end it is known here, whatever the log says of itself.
        let is_known = self.proven.is_some_and(|proven| {
            let seal = Block { position: proven, bytes: 0, watermark: proven };
            proven.segment > segment || hurt < proven && seal.tells_behind(&range)
        });
        let is_proven = is_known
            || segment < last_segment
            || matches!(damage, Damage::Unreadable(_))
            || matches!(&damage, Damage::Bytes(now) if now.len() < bytes.len())
            || blocks.iter().any(|block| block.position.segment == segment && proves(block));
        if !is_proven {
            return Ok(());
        }
        self.report.damaged += 1;
        match self.with_damage(&name, &bytes, damage) {
            Err(problem) if problem.contains(&name) => Ok(()),
            Err(problem) => Err(format!("damage in {name} is reported as: {problem}")),
            Ok(_) => Err(format!("damage at byte {at} of {name} goes unreported")),
        }
    }

    /// The last file of the log is gone: the one before says that it was there.
    pub(super) fn expect_loss_reported(&mut self) -> Result<(), String> {
        let Some(last) = self.blocks()?.last().map(|block| block.position.segment) else {
            return Ok(());
        };
        let name = file_name(last);
        let names = self.disk.list(FOLDER).map_err(|error| error.to_string())?;
        let is_there = |number: u32| names.iter().any(|n| file_name(number).ends_with(n.as_str()));
        // A first one cannot be missed, and a last one that was never used need not be.
        if !is_there(last - 1) || is_there(last + 1) {
            return Ok(());
        }
        let bytes = self.disk.bytes(&name).ok_or_else(|| format!("{name} is missing"))?;
        self.report.damaged += 1;
        match self.with_damage(&name, &bytes, Damage::Gone) {
            Err(problem) if problem.contains(&name) => Ok(()),
            Err(problem) => Err(format!("the loss of {name} is reported as: {problem}")),
            Ok(_) => Err(format!("the loss of {name} goes unreported")),
        }
    }

    /// A file of a snapshot goes bad: what is recovered must be the same, or nothing.
    pub(super) fn damage_snapshot(&mut self, content: &[u64]) -> Result<(), String> {
        let list = |error: lockstep_env::DiskError| error.to_string();
        let names = self.disk.list(SNAPSHOT_FOLDER).map_err(list)?;
        if names.is_empty() {
            return Ok(());
        }
        let name = &names[self.random.below(names.len() as u64) as usize];
        let name = format!("{SNAPSHOT_FOLDER}/{name}");
        let bytes = self.disk.bytes(&name).ok_or_else(|| format!("{name} is missing"))?;
        let at = self.random.below(bytes.len().max(1) as u64) as usize;
        let damage = match self.random.chance(1, 6) {
            true => Damage::Gone,
            false => self.damage(&bytes, at).1,
        };
        self.report.damaged_snapshots += 1;
        match self.with_damage(&name, &bytes, damage) {
            Err(_) => self.report.given_up_for_damage += 1,
            Ok(recovered) => {
                self.report.passed_over += recovered.passed_over;
                // Without it, what an asynchronous log has lost may be missing.
                if !self.is_async && recovered.world.content_hashes() != content {
                    return Err(format!("with damage at byte {at} of {name} other rows come back"));
                }
            }
        }
        Ok(())
    }

    /// A flipped bit, a sector of zeros or of something else, one that cannot be read, or the end
    /// of the file; and the bytes that are concerned.
    fn damage(&mut self, bytes: &[u8], at: usize) -> (Range<usize>, Damage) {
        let sector = at as u64 / SECTOR_BYTES * SECTOR_BYTES;
        let sector = sector as usize..bytes.len().min((sector + SECTOR_BYTES) as usize);
        let mut damaged = bytes.to_vec();
        match self.random.below(6) {
            _ if bytes.is_empty() => (0..0, Damage::Gone),
            0 => (sector.clone(), Damage::Unreadable(sector)),
            1 => {
                damaged[sector.clone()].fill(0);
                (sector, Damage::Bytes(damaged))
            }
            2 => {
                let random = &mut self.random;
                damaged[sector.clone()].fill_with(|| random.next_u64() as u8);
                (sector, Damage::Bytes(damaged))
            }
            3 => {
                damaged.truncate(at);
                (at..bytes.len(), Damage::Bytes(damaged))
            }
            _ => {
                damaged[at] ^= 1 << self.random.below(8);
                (at..at + 1, Damage::Bytes(damaged))
            }
        }
    }

    /// What recovery makes of it.
    fn with_damage(&self, name: &str, bytes: &[u8], damage: Damage) -> Result<Recovered, String> {
        match damage {
            Damage::Bytes(damaged) => self.disk.replace(name, damaged),
            Damage::Unreadable(range) => self.disk.set_hook(Some(unreadable(name, range))),
            Damage::Gone => self.disk.remove(name).map_err(|error| error.to_string())?,
        }
        let recovered = self.read_disk(self.seed);
        self.disk.set_hook(None);
        self.disk.replace(name, bytes.to_vec());
        recovered
    }

    fn blocks(&self) -> Result<Vec<Block>, String> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let mut reader = LogReader::open(disk, CLUSTER).map_err(|error| error.to_string())?;
        let mut blocks = Vec::new();
        while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
            blocks.push(Block {
                position: block.position,
                bytes: (BLOCK_HEADER_BYTES + block.body.len()) as u32,
                watermark: block.watermark,
            });
        }
        Ok(blocks)
    }
}

/// A disk on which these bytes of a file cannot be read.
fn unreadable(file: &str, range: Range<usize>) -> lockstep_env::memory::FaultHook {
    let file = file.to_string();
    Box::new(move |operation, name, offset, count| {
        let read = offset as usize..offset as usize + count;
        let meets = read.start < range.end && range.start < read.end;
        match operation == DiskOperation::Read && name == file && meets {
            true => Err(DiskErrorKind::Other),
            false => Ok(()),
        }
    })
}
