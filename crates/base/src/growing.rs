//! A map for what begins in order and ends almost in order: transactions in progress.
//!
//! Keys are added in ascending order only. Entries lie side by side in that order, so adding
//! one and taking off the first allocate nothing and look for nothing. Others are mostly asked for
//! one after the other, so those that were found last and the next are tried; else it is found by
//! halving. Places of entries that were taken out of the middle are given up as soon as the ones
//! before them are, or when they are more than those in use.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::VecDeque;

/// Places given up in the middle that are not worth moving the others for.
const SPARE_PLACES: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct GrowingMap<K, V> {
    entries: VecDeque<(K, Option<V>)>,
    len: usize,
    /// Places given up at the front so far.
    gone: usize,
    /// Where two entries were found last, those before `gone` included: who goes through the
    /// entries after somebody else who does finds its own.
    found: [Cell<usize>; 2],
    /// Which of the two was of use longer ago.
    older: Cell<usize>,
}

impl<K: Ord + Copy, V> Default for GrowingMap<K, V> {
    fn default() -> Self {
        GrowingMap {
            entries: VecDeque::new(),
            len: 0,
            gone: 0,
            found: Default::default(),
            older: Cell::new(0),
        }
    }
}

impl<K: Ord + Copy, V> GrowingMap<K, V> {
    /// Adds an entry after all others.
    pub fn push(&mut self, key: K, value: V) {
        let grows = self.entries.back().is_none_or(|(last, _)| *last < key);
        assert!(grows, "keys are added in ascending order");
        self.entries.push_back((key, Some(value)));
        self.len += 1;
    }

    #[inline]
    fn place(&self, key: K) -> Option<usize> {
        // Most often the first one is asked for.
        if self.entries.front()?.0 == key {
            return Some(0);
        }
        // Then the one that was added last.
        match self.entries.back()?.0.cmp(&key) {
            Ordering::Less => return None,
            Ordering::Equal => return Some(self.entries.len() - 1),
            Ordering::Greater => {}
        }
        for (which, found) in self.found.iter().enumerate() {
            let near = found.get().wrapping_sub(self.gone);
            for place in [near.wrapping_add(1), near] {
                if self.entries.get(place).is_some_and(|(at, _)| *at == key) {
                    found.set(place + self.gone);
                    self.older.set(1 - which);
                    return Some(place);
                }
            }
        }
        let place = self.entries.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        let older = self.older.get();
        self.found[older].set(place + self.gone);
        self.older.set(1 - older);
        Some(place)
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: K) -> Option<&V> {
        self.entries[self.place(key)?].1.as_ref()
    }

    /// The value of a key, to be changed.
    #[inline]
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let place = self.place(key)?;
        self.entries[place].1.as_mut()
    }

    /// Whether there is such a key.
    pub fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let place = self.place(key)?;
        // Not by leaving nothing in its place: that would be written to be read at once.
        let value = match place {
            0 => {
                self.gone += 1;
                self.entries.pop_front()?.1?
            }
            _ => self.entries[place].1.take()?,
        };
        self.len -= 1;
        while self.entries.front().is_some_and(|(_, value)| value.is_none()) {
            self.entries.pop_front();
            self.gone += 1;
        }
        if self.entries.len() > 2 * self.len + SPARE_PLACES {
            // Where an entry was found is not where it is any more: it will be looked for.
            self.entries.retain(|(_, value)| value.is_some());
        }
        Some(value)
    }

    /// The entry with the greatest key.
    pub fn last(&self) -> Option<(K, &V)> {
        self.iter().next_back()
    }

    /// The entry with the greatest key, to be changed.
    pub fn last_mut(&mut self) -> Option<(K, &mut V)> {
        let mut last_first = self.entries.iter_mut().rev();
        last_first.find_map(|(key, value)| Some((*key, value.as_mut()?)))
    }

    /// All entries in the order of their keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        self.entries.iter().filter_map(|(key, value)| Some((*key, value.as_ref()?)))
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;
    use std::collections::BTreeMap;

    #[test]
    fn it_does_what_an_ordered_map_does() {
        let mut random = SeededRandom::new(7);
        let (mut map, mut expected) = (GrowingMap::default(), BTreeMap::new());
        let mut next = 0;
        for step in 0..20_000u64 {
            // It grows for a while, then shrinks for a while.
            if random.chance(if step / 1000 % 2 == 0 { 2 } else { 1 }, 3) {
                next += 1 + random.below(3);
                map.push(next, step);
                expected.insert(next, step);
            } else {
                let key = next.saturating_sub(random.below(300));
                assert_eq!(map.remove(key), expected.remove(&key));
            }
            let key = next.saturating_sub(random.below(50));
            assert_eq!(map.get(key), expected.get(&key));
            assert_eq!(map.get_mut(key).copied(), expected.get(&key).copied());
            assert_eq!((map.len(), map.is_empty()), (expected.len(), expected.is_empty()));
            assert_eq!(map.last(), expected.last_key_value().map(|(key, value)| (*key, value)));
            assert_eq!(map.last_mut().map(|l| l.0), expected.last_key_value().map(|l| *l.0));
            assert!(map.entries.len() <= 2 * map.len() + SPARE_PLACES + 1);
        }
        assert!(map.iter().eq(expected.iter().map(|(key, value)| (*key, value))));
    }

    #[test]
    #[should_panic(expected = "ascending order")]
    fn a_smaller_key_is_refused() {
        let mut map = GrowingMap::default();
        map.push(2, ());
        map.push(1, ());
    }
}
