//! Cursors over an index: the rows between two bounds, in key order or against it.

use crate::btree::{BytesKey, Leaf, Place, RowReader, Tree, TreeKey, leaf_length, links};
use crate::index::{AnyTree, Edge, EdgeKey, each_tree};
use crate::row::{RowId, RowRef};
use crate::table::Table;
use crate::wire::{prefetch_slot, prefetch_tail};

/// Rows whose slots are asked for together.
const ROWS_AHEAD: usize = 16;

/// Leaves of a range that are counted one by one; of more the tree knows the numbers.
const LEAVES_COUNTED: usize = 16;

/// What bounds the rows of a result.
#[derive(Debug, Clone, Copy)]
pub struct RowLimits {
    /// The greatest row, in bytes without its length.
    pub row_bytes: usize,
    /// The greatest length of the vector that rows are appended to.
    pub end: usize,
}

/// Runs over the rows of an index range. It borrows the table: to change rows while running,
/// collect their ids first ([`IndexCursor::collect_into`]).
///
/// Rows of equal keys come in row id order, in a reverse cursor against it. The part of the first
/// leaf is searched for; a range that goes on has its end located once, so that each further leaf
/// costs no comparison of keys, and a step is a comparison and a load.
pub struct IndexCursor<'a> {
    table: &'a Table,
    tree: &'a AnyTree,
    /// Where the range ends: above for a forward cursor, below for a reverse one.
    limit: Option<Edge<'a>>,
    /// Where the limit stands, once the range has gone beyond its first leaf.
    end: End,
    leaf: *const u8,
    rows: RowReader,
    /// Forward: the next entry. Reverse: one more than the next entry.
    position: usize,
    /// Forward: one more than the last entry of this leaf. Reverse: its first.
    stop: usize,
    /// The range ends in this leaf.
    last: bool,
    reverse: bool,
}

/// Where the range of a cursor ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// It has not been located yet.
    Unknown,
    /// In this leaf: entries of it that stand before the limit.
    At(*const u8, usize),
    /// There is no limit.
    Nowhere,
}

/// A key form as edges hold it.
trait FromEdge: TreeKey {
    /// The probe of an edge in this form.
    fn probe<'p>(edge: &'p Edge<'_>) -> Option<Self::Probe<'p>>;
}

impl FromEdge for u64 {
    #[inline]
    fn probe(edge: &Edge<'_>) -> Option<u64> {
        if let EdgeKey::Word(word) = edge.key { Some(word) } else { None }
    }
}

impl FromEdge for u128 {
    #[inline]
    fn probe(edge: &Edge<'_>) -> Option<u128> {
        if let EdgeKey::Double(double) = edge.key { Some(double) } else { None }
    }
}

impl FromEdge for BytesKey {
    #[inline]
    fn probe<'p>(edge: &'p Edge<'_>) -> Option<Self::Probe<'p>> {
        if let EdgeKey::Bytes(key) = &edge.key { Some(key.probe(edge.after)) } else { None }
    }
}

/// The place of an edge; without one, the start or the end.
#[inline]
fn locate<K: FromEdge, const UNIQUE: bool>(
    tree: &Tree<K, UNIQUE>,
    edge: Option<&Edge<'_>>,
    at_end: bool,
) -> (*const u8, usize) {
    let place = match edge.and_then(|edge| Some((K::probe(edge)?, edge.after))) {
        Some((probe, true)) => tree.first_after(probe),
        Some((probe, false)) => tree.first_at_or_after(probe),
        None if at_end => tree.end(),
        None => tree.start(),
    };
    let Place { leaf, position } = place;
    (leaf.cast(), position)
}

/// The place of a limit. A probe of another form is no limit, as in [`view`].
fn locate_limit<K: FromEdge, const UNIQUE: bool>(
    tree: &Tree<K, UNIQUE>,
    limit: Option<&Edge<'_>>,
) -> End {
    #[cfg(test)]
    tests::note_search();
    match limit.filter(|edge| K::probe(edge).is_some()) {
        Some(edge) => {
            let (leaf, position) = locate(tree, Some(edge), false);
            End::At(leaf, position)
        }
        None => End::Nowhere,
    }
}

/// What a cursor must know of a leaf.
struct LeafView {
    rows: RowReader,
    length: usize,
    /// Entries before the limit; `None` without one.
    limit: Option<usize>,
}

/// # Safety
/// `leaf` is a leaf of `tree`.
#[inline]
unsafe fn view<K: FromEdge, const UNIQUE: bool>(
    _tree: &Tree<K, UNIQUE>,
    leaf: *const u8,
    limit: Option<&Edge<'_>>,
) -> LeafView {
    let leaf = leaf.cast::<Leaf<K>>();
    #[cfg(test)]
    limit.into_iter().for_each(|_| tests::note_search());
    // SAFETY: by the contract; the tree is borrowed, so nothing changes.
    unsafe {
        let limit =
            limit.and_then(|edge| Some((K::probe(edge)?, edge.after))).map(|(probe, after)| {
                if after {
                    Tree::<K, UNIQUE>::position_after(leaf, probe)
                } else {
                    Tree::<K, UNIQUE>::position_at_or_after(leaf, probe)
                }
            });
        LeafView { rows: RowReader::of(leaf), length: leaf_length(leaf), limit }
    }
}

/// The leaf before or after another; null at the end.
///
/// # Safety
/// `leaf` is a leaf of `tree`.
#[inline]
unsafe fn neighbour<K: FromEdge, const UNIQUE: bool>(
    _tree: &Tree<K, UNIQUE>,
    leaf: *const u8,
    before: bool,
) -> *const u8 {
    let leaf = leaf.cast::<Leaf<K>>();
    // SAFETY: by the contract; the tree is borrowed, so nothing changes.
    unsafe {
        let (previous, next) = links(leaf.cast_mut());
        if before { (*previous).cast() } else { (*next).cast() }
    }
}

/// Rows of a cursor's range from its position on, beyond whose leaf the range goes on.
fn count_rest<K: FromEdge, const UNIQUE: bool>(
    tree: &Tree<K, UNIQUE>,
    cursor: &IndexCursor<'_>,
) -> u64 {
    let leaf = cursor.leaf.cast::<Leaf<K>>();
    let (first, last) = tree.outer_leaves();
    // SAFETY: the cursor and its end have leaves of the tree, the end's is not before the
    // cursor's in its direction, and positions are those of entries between the two.
    unsafe {
        let (end, position) = match cursor.end {
            End::At(end, position) => (end.cast::<Leaf<K>>(), position),
            _ if cursor.reverse => (first, 0),
            _ => (last, leaf_length(last)),
        };
        match cursor.reverse {
            true => tree.count_between(end, leaf) + cursor.position as u64 - position as u64,
            false => tree.count_between(leaf, end) + position as u64 - cursor.position as u64,
        }
    }
}

impl<'a> IndexCursor<'a> {
    pub(crate) fn new(
        table: &'a Table,
        tree: &'a AnyTree,
        lower: Option<Edge<'a>>,
        upper: Option<Edge<'a>>,
        reverse: bool,
    ) -> IndexCursor<'a> {
        let (from, limit) = if reverse { (upper, lower) } else { (lower, upper) };
        let (leaf, position) = each_tree!(tree, tree => locate(tree, from.as_ref(), reverse));
        let rows = RowReader::NONE;
        let (stop, last, end) = (0, false, End::Unknown);
        let mut cursor =
            IndexCursor { table, tree, limit, end, leaf, rows, position, stop, last, reverse };
        // SAFETY: the leaf is of the tree.
        let view = each_tree!(tree, tree => unsafe { view(tree, leaf, cursor.limit.as_ref()) });
        cursor.enter(leaf, &view);
        cursor
    }

    /// Makes a leaf the current one.
    #[inline]
    fn enter(&mut self, leaf: *const u8, view: &LeafView) {
        self.leaf = leaf;
        self.rows = view.rows;
        if self.reverse {
            self.stop = view.limit.unwrap_or(0);
            self.last = self.stop > 0;
        } else {
            self.stop = view.limit.unwrap_or(view.length);
            self.last = self.stop < view.length;
        }
    }

    /// Goes to the neighbouring leaf; false at the end of the range.
    #[cold]
    fn advance(&mut self) -> bool {
        if !self.last && matches!(self.end, End::Unknown) {
            self.end = each_tree!(self.tree, tree => locate_limit(tree, self.limit.as_ref()));
        }
        while !self.last {
            let (from, before) = (self.leaf, self.reverse);
            // What the leaf of the limit has of the range has been run over.
            if matches!(self.end, End::At(leaf, _) if leaf == from) {
                self.last = true;
                return false;
            }
            // SAFETY: the cursor holds leaves of its tree only.
            let leaf = each_tree!(self.tree, tree => unsafe { neighbour(tree, from, before) });
            if leaf.is_null() {
                self.last = true;
                return false;
            }
            // SAFETY: as above.
            let mut view = each_tree!(self.tree, tree => unsafe { view(tree, leaf, None) });
            let ends_here = match self.end {
                End::At(of, position) if of == leaf => {
                    view.limit = Some(position);
                    true
                }
                _ => false,
            };
            self.enter(leaf, &view);
            self.last |= ends_here;
            self.position = if self.reverse { view.length } else { 0 };
            if self.remaining() > 0 {
                return true;
            }
        }
        false
    }

    /// Rows of the range in the current leaf.
    #[inline]
    fn remaining(&self) -> usize {
        if self.reverse {
            self.position.saturating_sub(self.stop)
        } else {
            self.stop.saturating_sub(self.position)
        }
    }

    /// The next row's id.
    #[inline]
    pub fn next_id(&mut self) -> Option<RowId> {
        if self.remaining() == 0 && !self.advance() {
            return None;
        }
        let at = self.step();
        // SAFETY: positions within the range are below the leaf's length, so initialised.
        Some(RowId(unsafe { self.rows.row(at) }))
    }

    /// The next row.
    #[inline]
    pub fn next_row(&mut self) -> Option<(RowId, RowRef<'a>)> {
        let row = self.next_id()?;
        // SAFETY: rows of an index are live, and the table is borrowed for `'a`.
        Some((row, unsafe { self.table.row_unchecked(row) }))
    }

    /// Appends columns of the rows that follow as rows of a result table (see
    /// [`RowRef::write_columns`]), at most `rows` of them. Gives their number: fewer when the
    /// range has ended.
    ///
    /// # Errors
    /// The bytes of the first row that is beyond a limit; it has been appended.
    #[inline]
    pub fn write_rows(
        &mut self,
        columns: &[u16],
        rows: usize,
        limits: RowLimits,
        out: &mut Vec<u8>,
    ) -> Result<usize, usize> {
        let mut slots = [std::ptr::null(); ROWS_AHEAD];
        let fields = &self.table.layout().fields;
        let has_tail = self.table.reads_tail(columns);
        let mut written = 0;
        while written < rows {
            let slots = &mut slots[..ROWS_AHEAD.min(rows - written)];
            let slots = self.slots_ahead(slots);
            if slots.is_empty() {
                break;
            }
            for slot in slots.iter().filter(|_| has_tail) {
                // SAFETY: slots of live rows of a table whose columns have a tail.
                unsafe { prefetch_tail(*slot) };
            }
            for slot in slots.iter() {
                // SAFETY: rows of an index are live, and the table is borrowed.
                let bytes = unsafe { RowRef::new(*slot, fields) }.write_columns(columns, out);
                if bytes > limits.row_bytes || out.len() > limits.end {
                    return Err(bytes);
                }
            }
            written += slots.len();
        }
        Ok(written)
    }

    /// The slots of the next rows, as many as there is place for and as the current leaf has;
    /// none at the end of the range. The processor is asked for all of them at once.
    #[inline]
    fn slots_ahead<'s>(&mut self, slots: &'s mut [*const u8]) -> &'s [*const u8] {
        if self.remaining() == 0 && !self.advance() {
            return &[];
        }
        let count = self.remaining().min(slots.len());
        let slot_bytes = self.table.layout().slot_bytes;
        let slots = &mut slots[..count];
        for slot in slots.iter_mut() {
            let at = self.step();
            // SAFETY: positions within the range are below the leaf's length, so initialised;
            // rows of an index are live.
            *slot = unsafe { self.table.slot_unchecked(RowId(self.rows.row(at))) };
            prefetch_slot(*slot, slot_bytes);
        }
        slots
    }

    /// The position of the next row in the leaf, which has one.
    #[inline(always)]
    fn step(&mut self) -> usize {
        if self.reverse {
            self.position -= 1;
            self.position
        } else {
            self.position += 1;
            self.position - 1
        }
    }

    /// Appends the ids of all remaining rows.
    pub fn collect_into(mut self, rows: &mut Vec<RowId>) {
        while let Some(row) = self.next_id() {
            rows.push(row);
        }
    }

    /// The number of remaining rows. The leaves of a short range are counted one by one; the time
    /// of a long one grows with the height of the tree, and with the changes since the last time.
    pub fn count_rows(mut self) -> u64 {
        let mut count = 0;
        for _ in 0..LEAVES_COUNTED {
            count += self.remaining() as u64;
            self.position = self.stop;
            if !self.advance() {
                return count;
            }
        }
        if self.last {
            return count + self.remaining() as u64;
        }
        let rest = each_tree!(self.tree, tree => count_rest(tree, &self));
        count + rest
    }
}

impl<'a> Iterator for IndexCursor<'a> {
    type Item = (RowId, RowRef<'a>);

    #[inline]
    fn next(&mut self) -> Option<(RowId, RowRef<'a>)> {
        self.next_row()
    }
}

#[cfg(test)]
mod tests {
    use crate::btree::visits;
    use crate::{ColumnLayout, IndexDefinition, KeySource, Table, TableLayout, Tables, UndoLog};
    use lockstep_types::{Datum, IndexId, SqlType};
    use std::cell::Cell;
    use std::ops::Bound;

    thread_local! {
        static SEARCHES: Cell<u64> = const { Cell::new(0) };
    }

    /// A limit is searched for, in a leaf or in the tree.
    pub(super) fn note_search() {
        SEARCHES.set(SEARCHES.get() + 1);
    }

    /// Numbers with an index, each of them so often.
    fn numbers(count: i64, often: i64) -> (Tables, lockstep_types::TableId) {
        let layout = TableLayout::new(&[ColumnLayout::fixed(SqlType::BigInt)]);
        let mut tables = Tables::new();
        let id = tables.add(Table::new("T", layout.expect("a legal layout")));
        let source = KeySource::Columns([0].into());
        let definition = IndexDefinition { name: "N".into(), unique: often == 1, source };
        tables[id].add_index(definition).expect("a legal index");
        let mut undo = UndoLog::default();
        for number in (0..count * often).map(|number| number % count) {
            tables[id].insert(&[Datum::Int(2 * number)], &mut undo).expect("legal values");
        }
        (tables, id)
    }

    #[test]
    fn ranges_end_where_their_limits_stand() {
        // Several leaves, and several leaves for a key.
        for (count, often, step) in [(300, 1, 7), (7, 150, 1), (9_000, 1, 613), (5, 2_500, 1)] {
            let (tables, id) = numbers(count, often);
            let edges: Vec<i64> = (-1..=2 * count).step_by(step).collect();
            let bounds = |number: &i64| {
                [Bound::Included([Datum::Int(*number)]), Bound::Excluded([Datum::Int(*number)])]
            };
            let mut all: Vec<Bound<[Datum<'_>; 1]>> = edges.iter().flat_map(bounds).collect();
            all.push(Bound::Unbounded);
            for lower in &all {
                for upper in &all {
                    let is_within = |number: &i64| {
                        let key = *number;
                        let of = |bound: &[Datum<'_>; 1]| match bound[0] {
                            Datum::Int(number) => number,
                            _ => 0,
                        };
                        let above = match lower {
                            Bound::Included(bound) => key >= of(bound),
                            Bound::Excluded(bound) => key > of(bound),
                            Bound::Unbounded => true,
                        };
                        above
                            && match upper {
                                Bound::Included(bound) => key <= of(bound),
                                Bound::Excluded(bound) => key < of(bound),
                                Bound::Unbounded => true,
                            }
                    };
                    let numbers = (0..count).map(|number| 2 * number);
                    let expected = numbers.filter(is_within).count() as u64 * often as u64;
                    let range = |reverse| {
                        let (lower, upper) = (lower.as_ref(), upper.as_ref());
                        let (lower, upper) = (lower.map(|l| &l[..]), upper.map(|u| &u[..]));
                        tables[id].range(IndexId(0), lower, upper, reverse).expect("legal")
                    };
                    for reverse in [false, true] {
                        assert_eq!(range(reverse).count_rows(), expected, "{lower:?} {upper:?}");
                        assert_eq!(range(reverse).count() as u64, expected, "{lower:?} {upper:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_limit_is_searched_for_once_more_however_long_the_range() {
        for count in [1_000, 20_000] {
            let (tables, id) = numbers(count, 1);
            let limits = [Datum::Int(1), Datum::Int(2 * count - 3)];
            for reverse in [false, true] {
                let [lower, upper] = limits.each_ref().map(std::slice::from_ref);
                let (lower, upper) = (Bound::Included(lower), Bound::Included(upper));
                let range = tables[id].range(IndexId(0), lower, upper, reverse).expect("legal");
                let before = SEARCHES.get();
                let counted = range.count_rows();
                assert_eq!(counted, count as u64 - 2);
                assert!(SEARCHES.get() - before <= 1, "{} searches", SEARCHES.get() - before);
            }
        }
    }

    /// Calls that count the rows before they add one take the same time however many there are.
    #[test]
    fn counting_between_inserts_does_not_grow_with_the_range() {
        let (mut tables, id) = numbers(0, 1);
        let (mut undo, mut most) = (UndoLog::default(), 0);
        for number in 0..200_000 {
            tables[id].insert(&[Datum::Int(number)], &mut undo).expect("legal values");
            undo.release_all(&mut tables);
            if number % 16 != 0 {
                continue;
            }
            let limits = [Datum::Int(0), Datum::Int(number)];
            let [lower, upper] = limits.each_ref().map(std::slice::from_ref);
            let (lower, upper) = (Bound::Included(lower), Bound::Included(upper));
            let range = tables[id].range(IndexId(0), lower, upper, false).expect("legal");
            let before = visits::count();
            assert_eq!(range.count_rows(), number as u64 + 1);
            most = most.max(visits::count() - before);
        }
        // 3,200 leaves: two of three levels of nodes with 64 children each, from both ends.
        assert!((1..=4 * 64).contains(&most), "{most} children were looked at");
    }
}
