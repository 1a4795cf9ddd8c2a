//! CREATE VIEW, and binding views again after a change.
//!
//! What a table keeps for the views over it (its list of dependent views, hidden indexes) is
//! taken off and made again at the end of every batch, from the views' declarations.

mod join;
mod upkeep;

use crate::catalog::{Catalog, CatalogTable};
use crate::error::PlanError;
use crate::query::{BoundView, NO_SUBQUERIES, ViewColumn, ViewColumnKind, bind_view_select};
use lockstep_plan_ir::change::ColumnSource;
use lockstep_plan_ir::expression::Node;
use lockstep_plan_ir::schema::{DefaultValue, EXACT_SUM_BYTES, IndexKey, ViewAggregate};
use lockstep_plan_ir::{
    AggregateFunction, ColumnDefinition, Expression, Function, IndexDefinition, TableDefinition,
    ViewDefinition,
};
use lockstep_sql::ast::{CreateView, Name, ParsedStatement, Statement};
use lockstep_types::sql_type::MAX_VALUE_BYTES;
use lockstep_types::{IndexId, SqlType, TableId};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::index::{bind_again, has_function, walk};
use super::message::table_error;
use super::{Draft, column, unquoted};

/// The name of every view's index over its groups, and of the constraint it stands for.
const GROUP_INDEX: &str = "MATVIEW_PK_INDEX";
const GROUP_CONSTRAINT: &str = "MATVIEW_PK_CONSTRAINT";
/// The column that counts the rows of a group where the view declares none.
const HIDDEN_COUNT: &str = "VOLTDB_HIDDEN_COUNT";
/// The name of hidden columns that keep an exact sum, with the place of the sum after it.
const HIDDEN_SUM: &str = "VOLTDB_HIDDEN_SUM";

/// A view, bound to its sources.
struct View {
    definition: TableDefinition,
    /// The names of its sources.
    sources: Vec<String>,
    /// The indexes that its upkeep needs: (source, index).
    indexes: Vec<(TableId, IndexDefinition)>,
}

impl Draft<'_> {
    pub(super) fn create_view(
        &mut self,
        parsed: &ParsedStatement,
        create: &CreateView,
    ) -> Result<(), PlanError> {
        self.require_new_table_name(&create.name)?;
        let id = self.take_table_id(&create.name.text);
        let view = bind_view(&self.catalog, parsed, create, id)?;
        let table = CatalogTable {
            definition: Arc::new(view.definition),
            view_source: Some((view.sources, Arc::new(parsed.clone()))),
            index_sources: Vec::new(),
            row_limit_source: None,
            global_sources: Vec::new(),
            time_to_live: None,
        };
        let sources = table.view_source.iter().flat_map(|(sources, _)| sources);
        let mut tables = sources.filter_map(|source| self.catalog.tables.get(source));
        if let Some(of) = tables.find_map(|table| table.definition.entries_of.as_ref()) {
            let reason = format!("a view reads no entries of a global index: {}", of.index_name);
            return Err(table_error(create.name.span, reason));
        }
        self.catalog.tables.insert(create.name.text.clone(), Arc::new(table));
        Ok(())
    }

    /// Binds all views to their sources as they are now.
    pub(super) fn bind_views_again(&mut self) -> Result<(), PlanError> {
        for table in self.catalog.tables.values_mut() {
            let kept = &table.definition;
            if !kept.dependent_views.is_empty() || kept.indexes.iter().any(|index| index.hidden) {
                let definition = Arc::make_mut(&mut Arc::make_mut(table).definition);
                definition.dependent_views.clear();
                definition.indexes.retain(|index| !index.hidden);
            }
        }
        let views: Vec<(String, Arc<ParsedStatement>)> = self
            .catalog
            .tables
            .iter()
            .filter_map(|(name, table)| {
                let (_, statement) = table.view_source.as_ref()?;
                Some((name.clone(), statement.clone()))
            })
            .collect();
        views.iter().try_for_each(|(name, statement)| self.bind_view_again(name, statement))
    }

    fn bind_view_again(
        &mut self,
        name: &str,
        statement: &ParsedStatement,
    ) -> Result<(), PlanError> {
        let Statement::CreateView(create) = &statement.statement else { return Ok(()) };
        let Some(before) = self.catalog.tables.get(name).cloned() else { return Ok(()) };
        let mut view = bind_view(&self.catalog, statement, create, before.definition.id)?;
        // A view that would have the rows of the one in force is that one; rows that are computed
        // otherwise make it a new one, which is filled.
        let in_force = self.old.tables.get(name).map(|old| &old.definition);
        let same = in_force.filter(|old| {
            same_rows(old, &view.definition) && !self.reads_moved_columns(&view.definition)
        });
        let wanted = match (same, in_force) {
            (Some(same), _) => same.id,
            (None, Some(old)) if old.id == before.definition.id => self.take_table_id(name),
            _ => before.definition.id,
        };
        if wanted != before.definition.id {
            view = bind_view(&self.catalog, statement, create, wanted)?;
        }
        self.attach(&mut view);
        let declared = before.definition.indexes.iter();
        let declared = declared.filter(|index| index.name != GROUP_INDEX && !index.hidden);
        view.definition.indexes.extend(declared.cloned());
        let mut table = CatalogTable {
            definition: Arc::new(view.definition),
            view_source: Some((view.sources, Arc::new(statement.clone()))),
            index_sources: before.index_sources.clone(),
            row_limit_source: None,
            global_sources: Vec::new(),
            time_to_live: None,
        };
        bind_again(&mut table)?;
        self.catalog.tables.insert(name.to_string(), Arc::new(table));
        Ok(())
    }

    /// Whether columns that a view reads come from elsewhere than before, by ALTER TABLE.
    fn reads_moved_columns(&self, view: &TableDefinition) -> bool {
        let Some(upkeep) = &view.view else { return false };
        let sources = match &upkeep.joined {
            Some(joined) => joined.sources.as_slice(),
            None => std::slice::from_ref(&upkeep.source),
        };
        let arguments =
            upkeep.aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref());
        let mut read = BTreeSet::new();
        for value in upkeep.group.iter().chain(arguments).chain(&upkeep.predicate) {
            walk(value, &mut |part| {
                if let Node::Column { slot, column } = part.node {
                    read.insert((slot, column));
                }
            });
        }
        read.into_iter().any(|(slot, column)| {
            let source = sources.get(usize::from(slot));
            let columns = source.and_then(|source| self.columns.get(source));
            columns.is_some_and(|columns| {
                columns.get(usize::from(column)) != Some(&ColumnSource::Old(column))
            })
        })
    }

    /// Gives the sources of a view its hidden indexes, whose places complete the view's upkeep,
    /// and its definition.
    fn attach(&mut self, view: &mut View) {
        let Some(upkeep) = view.definition.view.take() else { return };
        let mut upkeep = Arc::unwrap_or_clone(upkeep);
        for (source, index) in std::mem::take(&mut view.indexes) {
            let tables = self.catalog.tables.values_mut();
            let Some(table) = tables.into_iter().find(|t| t.definition.id == source) else {
                continue;
            };
            let definition = Arc::make_mut(&mut Arc::make_mut(table).definition);
            let same = definition
                .indexes
                .iter()
                .position(|other| other.keys == index.keys && other.predicate == index.predicate);
            let place = same.unwrap_or_else(|| {
                definition.indexes.push(index.clone());
                definition.indexes.len() - 1
            });
            upkeep::set_index(&mut upkeep, (source, &index), IndexId(place as u16));
        }
        let upkeep = Arc::new(upkeep);
        view.definition.view = Some(upkeep.clone());
        for source in &view.sources {
            if let Some(table) = self.catalog.tables.get_mut(source) {
                let definition = Arc::make_mut(&mut Arc::make_mut(table).definition);
                definition.dependent_views.push(upkeep.clone());
            }
        }
    }
}

/// Whether two definitions of a view give it the same rows.
fn same_rows(a: &TableDefinition, b: &TableDefinition) -> bool {
    let aggregates = |view: &ViewDefinition| -> Vec<(AggregateFunction, Option<Expression>)> {
        let all = view.aggregates.iter();
        all.map(|aggregate| (aggregate.function, aggregate.argument.clone())).collect()
    };
    // How a join is computed may change with the indexes, what it gives does not.
    let sources = |view: &ViewDefinition| view.joined.as_ref().map(|joined| joined.sources.clone());
    let views = match (&a.view, &b.view) {
        (Some(a), Some(b)) => {
            a.source == b.source
                && a.predicate == b.predicate
                && a.group == b.group
                && sources(a) == sources(b)
                && aggregates(a) == aggregates(b)
        }
        _ => false,
    };
    views
        && a.columns == b.columns
        && a.visible_columns == b.visible_columns
        && a.partition_columns == b.partition_columns
        && a.is_partial == b.is_partial
}

fn refused(parsed: &ParsedStatement, message: String) -> PlanError {
    PlanError::at(parsed.span, message)
}

/// What is wrong with a view's query, as a refusal of the table compiler.
fn wrapped(parsed: &ParsedStatement, name: &str, error: PlanError) -> PlanError {
    if error.message.starts_with(NO_SUBQUERIES) {
        return refused(parsed, format!("Materialized view \"{name}\" cannot contain subqueries."));
    }
    match error.message.starts_with("Materialized view") {
        true => error,
        false => table_error(error.span.unwrap_or(parsed.span), error.message),
    }
}

/// Binds a view and decides how it is kept.
fn bind_view(
    catalog: &Catalog,
    parsed: &ParsedStatement,
    create: &CreateView,
    id: TableId,
) -> Result<View, PlanError> {
    let name = create.name.as_str();
    if parsed.parameter_count > 0 {
        let reason = "contains placeholders (?), which are not allowed in the SELECT query for a \
                      view.";
        return Err(refused(parsed, format!("Materialized view \"{name}\" {reason}")));
    }
    let bound =
        bind_view_select(catalog, name, &create.query).map_err(|e| wrapped(parsed, name, e))?;
    check_sources(parsed, name, &bound)?;
    check_list(parsed, name, &bound)?;
    let mut columns = columns(parsed, create, &bound)?;
    let visible_columns = columns.len() as u16;
    let mut aggregates: Vec<ViewAggregate> = bound.columns.iter().filter_map(aggregate).collect();
    let is_count = |a: &ViewAggregate| a.function == AggregateFunction::CountStar;
    let count = match aggregates.iter().position(is_count) {
        Some(place) => place,
        None => {
            aggregates.push(hidden_count(None));
            columns.push(view_column(HIDDEN_COUNT.to_string(), SqlType::BigInt));
            aggregates.len() - 1
        }
    };
    complete_sums(&bound, &mut aggregates, &mut columns);
    let placement = join::placement(&bound)
        .map_err(|reason| refused(parsed, format!("Materialized view \"{name}\" {reason}")))?;
    let grouped = !bound.group.is_empty();
    let mut view = ViewDefinition {
        view: id,
        source: bound.sources[0].definition.id,
        predicate: bound.predicate.clone(),
        group: bound.group.clone(),
        aggregates,
        count: count as u16,
        group_index: grouped.then_some(IndexId(0)),
        joined: None,
    };
    let indexes = match bound.sources.len() {
        1 => upkeep::single(name, &bound, &mut view),
        _ => join::complete(name, &bound, &mut view),
    };
    column::check_count(name, &columns)?;
    let definition = TableDefinition {
        id,
        name: name.to_string(),
        columns,
        visible_columns,
        indexes: if grouped { vec![group_index(bound.group.len())] } else { Vec::new() },
        primary_key: grouped.then_some(IndexId(0)),
        partition_columns: placement.columns,
        is_partial: placement.is_partial,
        view: Some(Arc::new(view)),
        dependent_views: Vec::new(),
        row_limit: None,
        row_limit_purge: None,
        global_indexes: Vec::new(),
        entries_of: None,
    };
    let sources = bound.sources.iter().map(|source| source.definition.name.clone()).collect();
    Ok(View { definition, sources, indexes })
}

fn check_sources(parsed: &ParsedStatement, name: &str, bound: &BoundView) -> Result<(), PlanError> {
    for (place, source) in bound.sources.iter().enumerate() {
        let table = &source.definition;
        if table.view.is_some() {
            let reason = format!(
                "A materialized view ({name}) can not be defined on another view ({}).",
                table.name
            );
            return Err(refused(parsed, reason));
        }
        if bound.sources[..place].iter().any(|other| other.definition.id == table.id) {
            let reason = format!(
                "Table {} appeared in the table list more than once: materialized view does not \
                 support self-join.",
                table.name
            );
            return Err(refused(parsed, reason));
        }
    }
    match bound.sources.is_empty() {
        true => Err(refused(parsed, format!("Materialized view \"{name}\" has no source table."))),
        false => Ok(()),
    }
}

/// Holds the select list against the rules: groups in order, then plain aggregates.
fn check_list(parsed: &ParsedStatement, name: &str, bound: &BoundView) -> Result<(), PlanError> {
    let wrong =
        |reason: String| Err(refused(parsed, format!("Materialized view \"{name}\" {reason}")));
    for (place, group) in bound.group.iter().enumerate() {
        let listed = bound.columns.get(place).map(|column| &column.kind);
        if !matches!(listed, Some(ViewColumnKind::Group(number)) if *number == place) {
            return wrong(format!(
                "must exactly match the GROUP BY clause at index {place} of SELECT list."
            ));
        }
        if has_function(group, Function::Now) {
            return wrong("cannot include the function NOW or CURRENT_TIMESTAMP.".to_string());
        }
    }
    for column in bound.columns.iter().skip(bound.group.len()) {
        let allowed = matches!(
            column.kind,
            ViewColumnKind::Aggregate {
                function: AggregateFunction::CountStar
                    | AggregateFunction::Count
                    | AggregateFunction::Sum
                    | AggregateFunction::Min
                    | AggregateFunction::Max,
                distinct: false,
                ..
            }
        );
        if !allowed {
            return wrong(
                "must have non-group by columns aggregated by sum, count, min or max.".to_string(),
            );
        }
        if let ViewColumnKind::Aggregate { argument: Some(argument), .. } = &column.kind
            && has_function(argument, Function::Now)
        {
            return wrong("cannot include the function NOW or CURRENT_TIMESTAMP.".to_string());
        }
    }
    if bound.predicate.as_ref().is_some_and(|predicate| has_function(predicate, Function::Now)) {
        return wrong("cannot include the function NOW or CURRENT_TIMESTAMP.".to_string());
    }
    let counts = bound.columns.iter().any(|column| {
        matches!(
            column.kind,
            ViewColumnKind::Aggregate { function: AggregateFunction::CountStar, .. }
        )
    });
    if bound.sources.len() > 1 && !counts {
        return wrong(
            "joins multiple tables, therefore must include COUNT(*) after any GROUP BY columns."
                .to_string(),
        );
    }
    Ok(())
}

/// The columns that SQL sees.
fn columns(
    parsed: &ParsedStatement,
    create: &CreateView,
    bound: &BoundView,
) -> Result<Vec<ColumnDefinition>, PlanError> {
    if !create.columns.is_empty() && create.columns.len() != bound.columns.len() {
        let reason = format!(
            "incompatible columns detected in rows of UNION, INTERSECT, EXCEPT, or VALUES \
             operation: {}",
            create.name.text
        );
        return Err(table_error(parsed.span, reason));
    }
    create.columns.iter().try_for_each(unquoted)?;
    let mut columns: Vec<ColumnDefinition> = Vec::with_capacity(bound.columns.len());
    for (place, listed) in bound.columns.iter().enumerate() {
        let name = create.columns.get(place).map_or(&listed.name, |Name { text, .. }| text);
        if columns.iter().any(|column| column.name == *name) {
            let reason = format!("object name already exists: {name}");
            return Err(table_error(parsed.span, reason));
        }
        let mut column = view_column(name.clone(), listed.sql_type);
        let value = match &listed.kind {
            ViewColumnKind::Group(number) => bound.group.get(*number),
            ViewColumnKind::Aggregate { argument, .. } => argument.as_ref(),
            ViewColumnKind::Other => None,
        };
        if let Some(Node::Column { slot, column: from }) = value.map(|value| &value.node)
            && let Some(source) = bound.sources.get(usize::from(*slot))
        {
            let from = &source.definition.columns[usize::from(*from)];
            if from.sql_type == column.sql_type {
                column.length = from.length;
                column.length_in_bytes = from.length_in_bytes;
            }
            if matches!(listed.kind, ViewColumnKind::Group(_)) {
                column.nullable = from.nullable;
            }
        }
        columns.push(column);
    }
    Ok(columns)
}

/// A column of a view, as long as its type allows.
fn view_column(name: String, sql_type: SqlType) -> ColumnDefinition {
    ColumnDefinition {
        name,
        sql_type,
        length: if sql_type.is_variable_length() { MAX_VALUE_BYTES } else { 0 },
        length_in_bytes: sql_type == SqlType::Varchar,
        nullable: true,
        default: DefaultValue::None,
    }
}

fn aggregate(column: &ViewColumn) -> Option<ViewAggregate> {
    match &column.kind {
        ViewColumnKind::Aggregate { function, argument, .. } => Some(ViewAggregate {
            function: *function,
            argument: argument.clone(),
            sql_type: column.sql_type,
            recompute: None,
            recompute_slots: 0,
            counted_by: None,
            kept_by: None,
        }),
        _ => None,
    }
}

fn hidden_count(argument: Option<Expression>) -> ViewAggregate {
    let function = match argument {
        None => AggregateFunction::CountStar,
        Some(_) => AggregateFunction::Count,
    };
    ViewAggregate {
        function,
        argument,
        sql_type: SqlType::BigInt,
        recompute: None,
        recompute_slots: 0,
        counted_by: None,
        kept_by: None,
    }
}

/// Gives sums the hidden columns that their upkeep needs.
fn complete_sums(
    bound: &BoundView,
    aggregates: &mut Vec<ViewAggregate>,
    columns: &mut Vec<ColumnDefinition>,
) {
    count_summands(bound, aggregates, columns);
    keep_exact_sums(aggregates, columns);
}

/// Gives each SUM that can become NULL again a count of what it adds up: one that the view
/// declares, or a hidden one.
fn count_summands(
    bound: &BoundView,
    aggregates: &mut Vec<ViewAggregate>,
    columns: &mut Vec<ColumnDefinition>,
) {
    for place in 0..aggregates.len() {
        let summed = &aggregates[place];
        let Some(argument) = summed.argument.clone() else { continue };
        if summed.function != AggregateFunction::Sum || !may_be_null(bound, &argument) {
            continue;
        }
        let counts = |a: &ViewAggregate| {
            a.function == AggregateFunction::Count && a.argument.as_ref() == Some(&argument)
        };
        let count = aggregates.iter().position(counts).unwrap_or_else(|| {
            columns.push(view_column(format!("{HIDDEN_COUNT}_{place}"), SqlType::BigInt));
            aggregates.push(hidden_count(Some(argument)));
            aggregates.len() - 1
        });
        aggregates[place].counted_by = Some(count as u16);
    }
}

/// Gives each SUM of FLOAT a hidden column with the exact sum, so that rounding does not depend on
/// the order of changes.
fn keep_exact_sums(aggregates: &mut Vec<ViewAggregate>, columns: &mut Vec<ColumnDefinition>) {
    for place in 0..aggregates.len() {
        let summed = &aggregates[place];
        if summed.function != AggregateFunction::Sum || summed.sql_type != SqlType::Float {
            continue;
        }
        let exact = ViewAggregate { sql_type: SqlType::Varbinary, ..summed.clone() };
        let column = view_column(format!("{HIDDEN_SUM}_{place}"), SqlType::Varbinary);
        columns.push(ColumnDefinition { length: EXACT_SUM_BYTES, ..column });
        aggregates.push(exact);
        aggregates[place].kept_by = Some(aggregates.len() as u16 - 1);
    }
}

fn may_be_null(bound: &BoundView, value: &Expression) -> bool {
    let Node::Column { slot, column } = value.node else { return true };
    let source = bound.sources.get(usize::from(slot));
    let column = source.and_then(|source| source.definition.columns.get(usize::from(column)));
    column.is_none_or(|column| column.nullable)
}

/// The unique index over all group columns, by which a group's row is found.
fn group_index(groups: usize) -> IndexDefinition {
    IndexDefinition {
        name: GROUP_INDEX.to_string(),
        keys: (0..groups as u16).map(IndexKey::Column).collect(),
        unique: true,
        assume_unique: false,
        constraint: Some(GROUP_CONSTRAINT.to_string()),
        predicate: None,
        hidden: false,
        building: false,
    }
}
