//! What is said of a procedure that runs as a multi-partition transaction although each of its
//! statements needs one partition: how to declare that.

use crate::catalog::Catalog;
use crate::query::explain::spread_table_of;
use crate::schema::routes;
use lockstep_plan_ir::statement::Target;
use lockstep_plan_ir::{
    Execution, Expression, Function, Node, Operation, ProcedureDefinition, ProcedureKind, Statement,
};

/// A partition that a procedure needs: that of a table's columns, whose values are parameters.
#[derive(Debug, PartialEq, Eq)]
struct Need {
    table: String,
    columns: Vec<String>,
    /// Of the procedure, where they are known: native code passes what it likes.
    parameters: Option<Vec<usize>>,
}

impl Need {
    fn clause(&self) -> String {
        let Need { table, columns, parameters } = self;
        let places: Vec<String> = match parameters {
            Some(places) => places.iter().map(usize::to_string).collect(),
            None => columns.iter().map(|_| "n".to_string()).collect(),
        };
        let (columns, places) = (columns.join(", "), places.join(", "));
        match self.columns.len() {
            1 => format!("ON TABLE {table} COLUMN {columns} PARAMETER {places}"),
            _ => format!("ON TABLE {table} COLUMNS ({columns}) PARAMETERS {places}"),
        }
    }
}

/// How a multi-partition procedure can run at fewer partitions, if it is one only because it does
/// not say which parameters hold the values of partitioning columns.
pub fn partition_advice(procedure: &ProcedureDefinition, catalog: &Catalog) -> Option<String> {
    if procedure.is_single_partition() || !procedure.declared.is_empty() {
        return None;
    }
    let in_order = procedure.kind == ProcedureKind::Statements;
    let mut needs = Vec::new();
    let mut before = 0;
    for (_, statement) in &procedure.statements {
        for (operation, values) in values(statement)? {
            let need = need(catalog, statement, operation, &values)?;
            let places = || values.iter().map(|place| before + place).collect();
            let need = Need { parameters: in_order.then(places), ..need };
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
        before += statement.parameters.len();
    }
    let first = needs.first()?;
    let clauses: Vec<String> = needs.iter().map(Need::clause).collect();
    let name = &procedure.name;
    let problem = format!(
        "Procedure {name} runs as a multi-partition transaction, although each of its statements \
         needs one partition only: it does not say which parameters hold the values of \
         partitioning columns."
    );
    let fix = match (in_order, clauses.as_slice()) {
        (true, [only]) => format!("Declare it with PARTITION {only}."),
        (true, all) => format!(
            "Declare it with PARTITION {}; or, if all these always have the same value, with \
             PARTITION {}.",
            all.join(" AND "),
            first.clause()
        ),
        (false, all) => format!(
            "Declare it with PARTITION {}, where each n is the place, from 0, of a parameter with \
             that value.",
            all.join(" AND ")
        ),
    };
    Some(format!("{problem} {fix}"))
}

/// The parameters of a statement that name its partitions, each with the operation that runs
/// there. `None` if anything else decides where it runs.
fn values(statement: &Statement) -> Option<Vec<(&Operation, Vec<usize>)>> {
    match &statement.execution {
        // Replicated tables are read at any partition.
        Execution::Local { routing: None, .. } => Some(Vec::new()),
        Execution::Local { routing: Some(value), operation } => {
            Some(vec![(operation, parameters(value)?)])
        }
        Execution::Shipped { .. } => None,
        Execution::Distributed { fragments, .. } => {
            let mut found = Vec::new();
            for fragment in fragments {
                match &fragment.target {
                    Target::One => {}
                    Target::Owner(value) => found.push((&fragment.operation, parameters(value)?)),
                    Target::All | Target::Owners(_) | Target::OwnersOfArray(_) => return None,
                }
            }
            Some(found)
        }
    }
}

/// The parameters that are a partitioning value.
fn parameters(value: &Expression) -> Option<Vec<usize>> {
    match &value.node {
        Node::Parameter(place) => Some(vec![usize::from(*place)]),
        Node::Call(Function::PartitionKey, parts) => {
            let parts = parts.iter().map(|part| match part.node {
                Node::Parameter(place) => Some(usize::from(place)),
                _ => None,
            });
            parts.collect()
        }
        _ => None,
    }
}

fn need(
    catalog: &Catalog,
    statement: &Statement,
    operation: &Operation,
    values: &[usize],
) -> Option<Need> {
    let id = spread_table_of(catalog, operation)?;
    let table = catalog.tables.values().find(|table| table.definition.id == id)?;
    let definition = &table.definition;
    // Entries of a global index are no table that a procedure could name.
    if definition.entries_of.is_some() || definition.partition_columns.len() != values.len() {
        return None;
    }
    let mut columns = Vec::with_capacity(values.len());
    for (column, value) in definition.partition_columns.iter().zip(values) {
        let column = &definition.columns[usize::from(*column)];
        let given = statement.parameters.get(*value)?;
        if given.is_array || !routes(given.sql_type, column.sql_type) {
            return None;
        }
        columns.push(column.name.clone());
    }
    let table = definition.name.clone();
    (!columns.is_empty()).then_some(Need { table, columns, parameters: None })
}
