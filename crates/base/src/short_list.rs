//! Lists that are short most of the time, and then lie where they are declared: the one that reads
//! one on another core waits for no memory but that of what holds it.

/// Up to `N` items in place; more in memory of their own, which is kept.
#[derive(Debug, Clone)]
pub struct ShortList<T, const N: usize> {
    count: usize,
    few: [T; N],
    /// All of them, when they are more than `N`.
    many: Vec<T>,
}

impl<T: Copy + Default, const N: usize> Default for ShortList<T, N> {
    fn default() -> Self {
        ShortList { count: 0, few: [T::default(); N], many: Vec::new() }
    }
}

impl<T: Copy, const N: usize> ShortList<T, N> {
    /// Becomes a list of these items.
    #[inline]
    pub fn set(&mut self, items: &[T]) {
        self.count = items.len();
        match self.few.get_mut(..items.len()) {
            Some(few) => few.copy_from_slice(items),
            None => {
                self.many.clear();
                self.many.extend_from_slice(items);
            }
        }
    }

    /// The items.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        self.few.get(..self.count).unwrap_or(&self.many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_it_was_set_to_whether_short_or_long() {
        let mut list = ShortList::<u8, 4>::default();
        assert!(list.as_slice().is_empty());
        let items = [1, 2, 3, 4, 5, 6, 7];
        for count in [2, 7, 4, 5, 0, 6] {
            list.set(&items[..count]);
            assert_eq!(list.as_slice(), &items[..count]);
        }
    }
}
