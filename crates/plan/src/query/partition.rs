//! Which partitioning values restrict a statement, and which tables lie together.
//!
//! Equalities between columns and values are propagated to a fixed point: those of WHERE and of
//! inner joins both ways, those of a LEFT JOIN's ON only towards its right side.

use super::logical::{Body, From, Leaf, LeafKind, Query, Select, Subqueries};
use super::walk;
use crate::catalog::CatalogTable;
use crate::schema::may_partition;
use lockstep_plan_ir::lookup::{self, Lookup};
use lockstep_plan_ir::schema::GlobalIndexDefinition;
use lockstep_plan_ir::{Comparison, Expression, Function, Node, TableDefinition};
use lockstep_types::SqlType;
use lockstep_types::hashing::MAX_KEY_PARTS;
use std::collections::{BTreeMap, BTreeSet};

/// Values that columns are known to be equal to.
pub(crate) type Values = BTreeMap<(u16, u16), Expression>;

/// What a statement's plan depends on at one place where a table is read.
pub(crate) struct Use<'q> {
    /// The table.
    pub(crate) table: &'q CatalogTable,
    /// The value of its partitioning column, where it is known; the key of several.
    pub(crate) value: Option<Expression>,
}

/// An equality, and the columns towards which it works; all if none are named.
struct Equality<'e> {
    left: &'e Expression,
    right: &'e Expression,
    towards: Option<BTreeSet<u16>>,
}

/// True for values that are known before a statement runs: literals, parameters, arithmetic
/// over them and keys of several.
pub(crate) fn is_known(expression: &Expression) -> bool {
    !walk::any(expression, &|e| {
        !matches!(
            e.node,
            Node::Literal(_)
                | Node::Parameter(_)
                | Node::Arithmetic(..)
                | Node::Negate(_)
                | Node::Cast { .. }
                | Node::Call(Function::PartitionKey | Function::PlaceOf, _)
        )
    })
}

/// The partitioning columns of a source.
pub(crate) fn partition_columns(leaf: &Leaf) -> Vec<(u16, u16)> {
    match &leaf.kind {
        LeafKind::Table(table) => {
            let columns = table.definition.partition_columns.iter();
            columns.map(|column| (leaf.slot, *column)).collect()
        }
        _ => Vec::new(),
    }
}

/// What says the partition of rows with these values of their partitioning columns: one value
/// itself, or the key of several; nothing of none.
pub(crate) fn placing(mut values: Vec<Expression>) -> Option<Expression> {
    let alone =
        |value: &Expression| may_partition(value.sql_type) || value.sql_type == SqlType::Null;
    match values.as_slice() {
        [] => None,
        [only] if alone(only) => values.pop(),
        _ => {
            let node = Node::Call(Function::PartitionKey, values);
            Some(Expression { node, sql_type: SqlType::Varbinary })
        }
    }
}

/// What says the partition of a source's rows, if the values of all its partitioning columns are
/// known.
pub(crate) fn placing_value(leaf: &Leaf, values: &Values) -> Option<Expression> {
    let columns = partition_columns(leaf).into_iter();
    let known = columns.map(|column| values.get(&column).filter(|value| is_known(value)).cloned());
    known.collect::<Option<Vec<Expression>>>().and_then(placing)
}

/// True when a source's rows are spread over partitions.
pub(crate) fn is_spread(leaf: &Leaf) -> bool {
    matches!(&leaf.kind, LeafKind::Table(table) if !table.definition.is_replicated())
}

/// Values of the columns of a SELECT's sources, as far as they are known; `outer` are those of
/// the query around it.
pub(crate) fn known_values(select: &Select, outer: &Values) -> Values {
    let mut values = outer.clone();
    propagate(select, &mut values, false);
    // Where the key of a unique global index is known, the index knows the place of the row.
    let mut found = false;
    select.from.each_leaf(&mut |leaf| found |= add_places(leaf, &mut values));
    if found {
        propagate(select, &mut values, false);
    }
    values
}

/// Adds what a unique global index with a known key says of a source's partitioning columns, if
/// they are not known otherwise.
fn add_places(leaf: &Leaf, values: &mut Values) -> bool {
    let LeafKind::Table(table) = &leaf.kind else { return false };
    let definition = &table.definition;
    if definition.global_indexes.is_empty() || placing_value(leaf, values).is_some() {
        return false;
    }
    // One that is known in part stands for itself: places of one row come from one question.
    if definition.partition_columns.iter().any(|column| values.contains_key(&(leaf.slot, *column)))
    {
        return false;
    }
    let unique = definition.global_indexes.iter().filter(|i| i.unique && !i.building);
    let mut known = unique.filter_map(|index| Some((index, known_key(leaf, index, values)?)));
    let Some((index, keys)) = known.next() else { return false };
    for column in &definition.partition_columns {
        let Some(entry_column) = index.entry_column(*column) else { return false };
        let sql_type = definition.columns[usize::from(*column)].sql_type;
        let place = lookup::place(index.entries, entry_column, sql_type, &keys);
        values.insert((leaf.slot, *column), place);
    }
    true
}

/// The places of a source's rows by a global index with a known key, unique or not.
pub(crate) fn indexed_place(leaf: &Leaf, values: &Values) -> Option<Expression> {
    let LeafKind::Table(table) = &leaf.kind else { return None };
    let definition = &table.definition;
    let indexes = definition.global_indexes.iter().filter(|index| !index.building);
    let known = indexes.filter_map(|index| Some((index, known_key(leaf, index, values)?)));
    let (index, keys) = known.min_by_key(|(index, _)| !index.unique)?;
    let places = definition.partition_columns.iter().map(|column| {
        let sql_type = definition.columns[usize::from(*column)].sql_type;
        Some(lookup::place(index.entries, index.entry_column(*column)?, sql_type, &keys))
    });
    placing(places.collect::<Option<Vec<Expression>>>()?)
}

/// The values of the whole key of a global index, if they are known.
pub(crate) fn known_key(
    leaf: &Leaf,
    index: &GlobalIndexDefinition,
    values: &Values,
) -> Option<Vec<Expression>> {
    let keys = index.keys().iter().map(|column| {
        let value = values.get(&(leaf.slot, *column))?;
        (is_known(value) && Lookup::of(value).is_none()).then(|| value.clone())
    });
    keys.collect()
}

/// Stands for the unknown partition at which a fragment runs, as a value of partitioning columns:
/// one parameter number for each of N columns, beyond those that statements have.
fn here(count: usize, number: usize) -> u16 {
    assert!(number < count && count <= MAX_KEY_PARTS, "partitioning columns are few");
    u16::MAX - (count * MAX_KEY_PARTS + number) as u16
}

/// Whether a value stands for the partition at which a fragment runs.
fn is_here(value: &Expression) -> bool {
    let stands =
        |part: &Expression, count, number| part.node == Node::Parameter(here(count, number));
    match &value.node {
        Node::Call(Function::PartitionKey, parts) => {
            let mut parts_here = parts.iter().enumerate();
            parts_here.all(|(number, part)| stands(part, parts.len(), number))
        }
        _ => stands(value, 1, 0),
    }
}

/// True for tables that hold what a fragment needs of them wherever it runs: replicated ones, and
/// those whose partitioning columns are tied to those of the fragment's rows.
pub(crate) fn is_at_hand(used: &Use<'_>) -> bool {
    let definition = &used.table.definition;
    definition.is_replicated() || !definition.is_partial && used.value.as_ref().is_some_and(is_here)
}

/// If rows of a SELECT's spread sources that meet always are at one partition: the columns that
/// are tied to it.
pub(crate) fn colocation(select: &Select) -> Option<Values> {
    let mut anchor = None;
    select.from.each_leaf(&mut |leaf| {
        if anchor.is_none() && is_spread(leaf) {
            anchor = Some(leaf);
        }
    });
    let mut values = Values::new();
    let Some(anchor) = anchor else { return Some(values) };
    if !outer_joins_fit(&select.from) {
        return None;
    }
    let LeafKind::Table(table) = &anchor.kind else { return None };
    let columns = partition_columns(anchor);
    let mut symbols = Vec::with_capacity(columns.len());
    for (number, (slot, column)) in columns.iter().enumerate() {
        let sql_type = table.definition.columns[usize::from(*column)].sql_type;
        let symbol = Expression::parameter(here(columns.len(), number), sql_type);
        values.insert((*slot, *column), symbol.clone());
        symbols.push(symbol);
    }
    let symbol = placing(symbols.clone())?;
    propagate(select, &mut values, true);
    let mut all = true;
    select.from.each_leaf(&mut |leaf| {
        if is_spread(leaf) {
            all &= placing_value(leaf, &values).as_ref() == Some(&symbol);
        }
    });
    values.retain(|_, value| symbols.contains(value));
    all.then_some(values)
}

/// False when an outer join would keep rows of the preserved side once per partition.
fn outer_joins_fit(from: &From) -> bool {
    match from {
        From::Leaf(_) => true,
        From::Inner { items, .. } => items.iter().all(outer_joins_fit),
        From::Outer { full, left, right, .. } => {
            let (l, r) = (has_spread(left), has_spread(right));
            let fits = if *full { l == r } else { l || !r };
            fits && outer_joins_fit(left) && outer_joins_fit(right)
        }
    }
}

fn has_spread(from: &From) -> bool {
    let mut found = false;
    from.each_leaf(&mut |leaf| found |= is_spread(leaf));
    found
}

/// `across_full`: whether the ON of a full join counts. It restricts neither side, and only says
/// which rows meet.
fn propagate(select: &Select, values: &mut Values, across_full: bool) {
    let mut equalities = Vec::new();
    collect(&select.filter, None, &mut equalities);
    collect_from(&select.from, None, across_full, &mut equalities);
    loop {
        let mut changed = false;
        for equality in &equalities {
            changed |= step(equality.left, equality.right, equality, values);
            changed |= step(equality.right, equality.left, equality, values);
        }
        if !changed {
            return;
        }
    }
}

/// Gives `target` the value of `source`, if that is news.
fn step(
    target: &Expression,
    source: &Expression,
    equality: &Equality<'_>,
    values: &mut Values,
) -> bool {
    let Node::Column { slot, column } = target.node else { return false };
    if values.contains_key(&(slot, column))
        || equality.towards.as_ref().is_some_and(|slots| !slots.contains(&slot))
        || !hashes_alike(target.sql_type, source.sql_type)
    {
        return false;
    }
    let value = match source.node {
        Node::Column { slot, column } => values.get(&(slot, column)).cloned(),
        _ => is_known(source).then(|| source.clone()),
    };
    match value {
        Some(value) => {
            values.insert((slot, column), value);
            true
        }
        None => false,
    }
}

/// True for types whose equal values belong to the same partition.
pub(crate) fn hashes_alike(a: SqlType, b: SqlType) -> bool {
    a == b || a.is_integer() && b.is_integer()
}

fn collect<'e>(
    conjuncts: &'e [Expression],
    towards: Option<&BTreeSet<u16>>,
    equalities: &mut Vec<Equality<'e>>,
) {
    for conjunct in conjuncts {
        if let Node::Compare(Comparison::Equal, left, right) = &conjunct.node {
            equalities.push(Equality { left, right, towards: towards.cloned() });
        }
        if let Node::CompareRows(Comparison::Equal, lefts, rights) = &conjunct.node {
            for (left, right) in lefts.iter().zip(rights) {
                equalities.push(Equality { left, right, towards: towards.cloned() });
            }
        }
        if let Node::InList { value, list } = &conjunct.node
            && let [only] = &list[..]
        {
            equalities.push(Equality { left: value, right: only, towards: towards.cloned() });
        }
    }
}

fn collect_from<'e>(
    from: &'e From,
    towards: Option<&BTreeSet<u16>>,
    across_full: bool,
    equalities: &mut Vec<Equality<'e>>,
) {
    match from {
        From::Leaf(_) => {}
        From::Inner { items, conjuncts } => {
            items.iter().for_each(|item| collect_from(item, towards, across_full, equalities));
            collect(conjuncts, towards, equalities);
        }
        From::Outer { full, left, right, conjuncts } => {
            let side: BTreeSet<u16> = right.slots().into_iter().collect();
            let preserved: BTreeSet<u16> = left.slots().into_iter().collect();
            if *full {
                // Each side's own conditions hold within that side only.
                collect_from(left, Some(&preserved), across_full, equalities);
                collect_from(right, Some(&side), across_full, equalities);
                if across_full {
                    collect_full(conjuncts, &side, equalities);
                }
            } else {
                collect_from(left, towards, across_full, equalities);
                collect_from(right, Some(&side), across_full, equalities);
                collect(conjuncts, Some(&side), equalities);
            }
        }
    }
}

/// The ON of a full join restricts neither side, but says which rows meet: only equalities of
/// two columns count.
fn collect_full<'e>(
    conjuncts: &'e [Expression],
    side: &BTreeSet<u16>,
    equalities: &mut Vec<Equality<'e>>,
) {
    for conjunct in conjuncts {
        if let Node::Compare(Comparison::Equal, left, right) = &conjunct.node
            && matches!(left.node, Node::Column { .. })
            && matches!(right.node, Node::Column { .. })
        {
            equalities.push(Equality { left, right, towards: Some(side.clone()) });
        }
    }
}

/// All places where a query, its derived tables and subqueries read a table.
pub(crate) fn uses<'q>(
    query: &'q Query,
    subqueries: &'q Subqueries,
    outer: &Values,
    found: &mut Vec<Use<'q>>,
) {
    match &query.body {
        Body::Select(select) => {
            let values = known_values(select, outer);
            select.from.each_leaf(&mut |leaf| match &leaf.kind {
                LeafKind::Table(table) => {
                    found.push(Use { table, value: placing_value(leaf, &values) });
                }
                LeafKind::Derived(derived) => uses(derived, subqueries, outer, found),
                LeafKind::Moved { .. } | LeafKind::Working { .. } => {}
            });
            uses_in_expressions(query, select, subqueries, &values, found);
        }
        Body::Set { branches, .. } => {
            branches.iter().for_each(|branch| uses(branch, subqueries, outer, found));
        }
        Body::Recursive { base, step, .. } => {
            uses(base, subqueries, outer, found);
            uses(step, subqueries, outer, found);
        }
    }
}

fn uses_in_expressions<'q>(
    query: &'q Query,
    select: &'q Select,
    subqueries: &'q Subqueries,
    values: &Values,
    found: &mut Vec<Use<'q>>,
) {
    let mut own: Vec<&Expression> = walk::select_expressions(select);
    own.extend(walk::own_expressions(query));
    for expression in own {
        uses_of_subqueries(expression, subqueries, values, found);
    }
}

/// The places where the subqueries of an expression read a table.
pub(crate) fn uses_of_subqueries<'q>(
    expression: &'q Expression,
    subqueries: &'q Subqueries,
    values: &Values,
    found: &mut Vec<Use<'q>>,
) {
    let inner = walk::subquery_of(expression).and_then(|s| subqueries.get(&s.number));
    if let Some(inner) = inner {
        uses(inner, subqueries, values, found);
    }
    walk::each_child(expression, &mut |child| {
        uses_of_subqueries(child, subqueries, values, found);
    });
}

/// How the tables that a statement reads are placed.
pub(crate) enum Placement {
    /// Replicated tables only.
    Anywhere,
    /// Everything is at the partition of this value.
    One(Expression),
    /// Anything else.
    Many,
}

/// Sums up where a statement's tables are.
pub(crate) fn placement(uses: &[Use<'_>]) -> Placement {
    let mut one: Option<&Expression> = None;
    for used in uses {
        let definition: &TableDefinition = &used.table.definition;
        if definition.is_replicated() {
            continue;
        }
        let Some(value) = &used.value else { return Placement::Many };
        if definition.is_partial || one.is_some_and(|known| known != value) {
            return Placement::Many;
        }
        one = Some(value);
    }
    match one {
        Some(value) => Placement::One(value.clone()),
        None => Placement::Anywhere,
    }
}
