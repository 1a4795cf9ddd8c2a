//! Name and type binding: syntax trees to typed expressions over slots.

mod aggregate;
mod cast;
mod choice;
mod common_table;
mod decode;
pub(crate) mod dml;
mod expression;
mod from;
mod function;
mod group;
mod literal;
mod nominal;
mod number;
mod operator;
mod predicate;
mod scope;
mod select;
mod signature;
mod subquery;
pub(crate) mod view;
mod window;

pub(crate) use aggregate::any_call;
pub(crate) use cast::{same_kind, sql_type_of};
pub(super) use function::function_names;
pub(crate) use literal::{bind_argument, bind_default};
pub(crate) use scope::not_found_message;

use super::logical::{From, Query, Subqueries};
use crate::catalog::Catalog;
use crate::error::PlanError;
use lockstep_plan_ir::statement::StatementParameter;
use lockstep_plan_ir::{Expression, Node, TableDefinition};
use lockstep_sql::ast;
use lockstep_sql::ast::Span;
use lockstep_types::SqlType;
use scope::{Scope, Source};

/// Most `?` in a statement.
const MAX_PARAMETERS: u32 = 1025;
/// Most sources (tables, derived and common tables, counted at each use) in a statement.
const MAX_SOURCES: usize = 200;
/// Deepest nesting of queries and common tables while binding.
const MAX_QUERY_DEPTH: usize = 60;
/// Most result columns.
const MAX_COLUMNS: usize = 1024;

/// Binds one statement. Everything that the parts of a statement share is here.
pub(crate) struct Binder<'c> {
    /// The schema.
    pub(crate) catalog: &'c Catalog,
    /// What is known of the parameters.
    pub(crate) parameters: Vec<Option<StatementParameter>>,
    /// Subqueries within expressions.
    pub(crate) subqueries: Subqueries,
    /// Whether entries of a global index are read as a table.
    pub(crate) reads_entries: bool,
    next_slot: u16,
    next_number: u16,
    sources: usize,
    depth: usize,
    scopes: Vec<Scope>,
    common_tables: Vec<common_table::Visible>,
    /// Whether number constants in a select list stay open for what the rows are put into.
    open_items: bool,
    /// The types of the columns that the items of a select list are assigned to, in its order.
    item_types: Vec<SqlType>,
    nominal_columns: nominal::NominalColumns,
    rules: Rules,
}

/// What may stand in an expression at the place that is being bound.
#[derive(Debug, Clone, Copy)]
struct Rules {
    parameters: bool,
    subqueries: bool,
    /// Functions of users; those who refuse them have no other reason than what they define.
    user_functions: bool,
}

impl<'c> Binder<'c> {
    /// A binder for a statement with N parameters.
    pub(crate) fn new(catalog: &'c Catalog, parameter_count: u32) -> Result<Self, PlanError> {
        if parameter_count > MAX_PARAMETERS {
            return Err(PlanError::new(format!(
                "The statement has {parameter_count} parameters (max is {MAX_PARAMETERS}, \
                 option max_parameters)"
            )));
        }
        Ok(Binder {
            catalog,
            parameters: vec![None; parameter_count as usize],
            subqueries: Subqueries::new(),
            reads_entries: false,
            next_slot: 0,
            next_number: 0,
            sources: 0,
            depth: 0,
            scopes: Vec::new(),
            common_tables: Vec::new(),
            open_items: false,
            item_types: Vec::new(),
            nominal_columns: nominal::NominalColumns::new(),
            rules: Rules { parameters: true, subqueries: true, user_functions: true },
        })
    }

    /// A slot that nothing uses yet.
    pub(crate) fn new_slot(&mut self) -> Result<u16, PlanError> {
        let slot = self.next_slot;
        self.next_slot = slot.checked_add(1).ok_or_else(|| {
            PlanError::new("The statement is too complex: it needs over 65535 rows at a time")
        })?;
        Ok(slot)
    }

    /// Number of slots in use.
    pub(crate) fn slot_count(&self) -> u16 {
        self.next_slot
    }

    /// Number of subqueries and recursive common tables.
    pub(crate) fn subquery_count(&self) -> u16 {
        self.next_number
    }

    fn new_number(&mut self) -> Result<u16, PlanError> {
        let number = self.next_number;
        self.next_number = number
            .checked_add(1)
            .ok_or_else(|| PlanError::new("The statement has over 65535 subqueries"))?;
        Ok(number)
    }

    fn count_source(&mut self, span: Span) -> Result<(), PlanError> {
        self.sources += 1;
        if self.sources > MAX_SOURCES {
            return Err(PlanError::at(
                span,
                format!(
                    "The statement reads too many tables (max is {MAX_SOURCES}, \
                     option max_joined_tables)"
                ),
            ));
        }
        Ok(())
    }

    /// Runs `body` one query deeper.
    fn nested<T>(
        &mut self,
        span: Span,
        body: impl FnOnce(&mut Self) -> Result<T, PlanError>,
    ) -> Result<T, PlanError> {
        self.depth += 1;
        if self.depth > MAX_QUERY_DEPTH {
            return Err(PlanError::at(
                span,
                format!(
                    "Queries are nested too deeply (max is {MAX_QUERY_DEPTH}, \
                     limit query depth)"
                ),
            ));
        }
        let result = body(self);
        self.depth -= 1;
        result
    }

    /// Gives a parameter or NULL without a type a type; leaves all else as it is.
    fn give_type(&mut self, expression: &mut Expression, sql_type: SqlType) {
        if expression.sql_type != SqlType::Null {
            return;
        }
        match &mut expression.node {
            Node::Parameter(number) => {
                let entry = &mut self.parameters[usize::from(*number)];
                *entry = Some(StatementParameter { sql_type, is_array: false });
                expression.sql_type = sql_type;
            }
            Node::Literal(_) => expression.sql_type = sql_type,
            Node::Case { branches, otherwise } => {
                for (_, result) in branches {
                    self.give_type(result, sql_type);
                }
                if let Some(otherwise) = otherwise {
                    self.give_type(otherwise, sql_type);
                }
                expression.sql_type = sql_type;
            }
            Node::Negate(operand) => {
                self.give_type(operand, sql_type);
                expression.sql_type = sql_type;
            }
            _ => expression.sql_type = sql_type,
        }
    }

    /// The parameters' types; those that nothing decided are refused.
    pub(crate) fn finish_parameters(&self) -> Result<Vec<StatementParameter>, PlanError> {
        self.parameters
            .iter()
            .map(|parameter| parameter.ok_or_else(|| PlanError::new(CAST_NEEDED)))
            .collect()
    }
}

/// The message for a subquery in the definition of an index or a view.
pub(crate) const NO_SUBQUERIES: &str = "subqueries are not allowed here";
/// VoltDB's message for a value whose type nothing decides.
pub(crate) const CAST_NEEDED: &str = "data type cast needed for parameter or null literal";
/// VoltDB's message for arguments of a wrong kind.
pub(crate) const BAD_OPERATION: &str = "incompatible data type in operation";
/// VoltDB's message for operands that do not go together.
pub(crate) const BAD_COMBINATION: &str = "incompatible data types in combination";
/// VoltDB's message for values that cannot be converted.
pub(crate) const BAD_CONVERSION: &str = "incompatible data type in conversion";

/// The error about two types that do not go together, by name.
fn bad_combination(span: Span, a: SqlType, b: SqlType) -> PlanError {
    PlanError::at(span, format!("{BAD_COMBINATION}: {a} and {b}"))
}

/// The error about a value of a type where another is expected.
fn bad_type(span: Span, message: &str, found: SqlType, wanted: &str) -> PlanError {
    PlanError::at(span, format!("{message}: {found} where {wanted} is expected"))
}

/// True for a value whose type nothing has decided.
fn is_untyped(expression: &Expression) -> bool {
    expression.sql_type == SqlType::Null
}

/// Binds an expression over one table, whose row is in slot 0: index keys, index predicates.
/// No parameters, subqueries or aggregates. A condition gets the type BOOLEAN.
///
/// # Errors
/// Unknown columns, wrong types.
pub(crate) fn bind_table_expression(
    table: &TableDefinition,
    expression: &ast::Expression,
) -> Result<Expression, PlanError> {
    let catalog = Catalog::default();
    let mut binder = Binder::new(&catalog, 0)?;
    binder.rules = Rules { parameters: false, subqueries: false, user_functions: false };
    let slot = binder.new_slot()?;
    binder.scopes.push(Scope::of_source(Source::of_table(&table.name, table, slot)));
    let bound = binder.expression(expression)?;
    if is_untyped(&bound) {
        return Err(PlanError::at(expression.span, CAST_NEEDED));
    }
    Ok(bound)
}

/// A query bound with all that planning needs besides.
pub(crate) struct BoundQuery {
    /// The query.
    pub(crate) query: Query,
}

impl Binder<'_> {
    /// Binds a whole query.
    pub(crate) fn bind_query(&mut self, query: &ast::Query) -> Result<BoundQuery, PlanError> {
        let query = self.query(query)?;
        for (position, column) in query.output.iter().enumerate() {
            check_result_type(position, column.expression.sql_type)?;
        }
        if query.output.len() > MAX_COLUMNS {
            return Err(PlanError::new(format!(
                "The result has {} columns (max is {MAX_COLUMNS}, option max_columns)",
                query.output.len()
            )));
        }
        Ok(BoundQuery { query })
    }
}

fn check_result_type(position: usize, sql_type: SqlType) -> Result<(), PlanError> {
    match sql_type {
        SqlType::Boolean => Err(PlanError::new(
            "A SELECT clause does not allow a BOOLEAN expression. consider using CASE WHEN to \
             decode the BOOLEAN expression into a value of some other type.",
        )),
        SqlType::Null => {
            Err(PlanError::new(format!("{CAST_NEEDED} (result column {})", position + 1)))
        }
        _ => Ok(()),
    }
}

/// One row without columns.
fn empty_from() -> From {
    From::Inner { items: Vec::new(), conjuncts: Vec::new() }
}
