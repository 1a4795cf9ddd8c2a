//! CREATE PROCEDURE, PARTITION PROCEDURE, and planning procedures again after a change.

use crate::catalog::{Catalog, ClassSource, ClassUse};
use crate::error::PlanError;
use crate::query::{PlanContext, plan_statement};
use lockstep_plan_ir::procedure::{ProcedureParameter, ProcedurePartitioning, RoutingColumn};
use lockstep_plan_ir::{
    ColumnDefinition, ProcedureDefinition, ProcedureKind, Statement, TableDefinition,
};
use lockstep_sql::Limits;
use lockstep_sql::ast::{
    self, BodyStatement, CaseName, CreateProcedure, ParsedStatement, PartitionProcedure,
    ProcedureBody, ProcedurePartition, StatementKind,
};
use lockstep_types::SqlType;
use std::sync::Arc;

use super::message::{ddl_error, procedure_error};
use super::{Draft, local_data, partition};

/// Most parameters of a procedure: calls count them in 16 bits with a sign.
const MAX_PARAMETERS: usize = 32_767;

impl Draft<'_> {
    pub(super) fn create_procedure(
        &mut self,
        parsed: &ParsedStatement,
        create: &CreateProcedure,
    ) -> Result<(), PlanError> {
        let of_class;
        let name = match (&create.name, &create.body) {
            (name, ProcedureBody::Class(class)) => {
                let found = self.class_source(class)?;
                check_class_use(create, class, found.class_use)?;
                of_class = CaseName { text: found.simple_name, span: class.span };
                name.as_ref().unwrap_or(&of_class)
            }
            _ if create.kind == ast::ProcedureKind::Compound => {
                let reason =
                    "a compound procedure is a class: CREATE COMPOUND PROCEDURE FROM CLASS";
                return Err(ddl_error(parsed.span, reason));
            }
            (Some(name), _) | (None, ProcedureBody::Native(name)) => name,
            (None, ProcedureBody::Statements(_)) => {
                return Err(ddl_error(parsed.span, "CREATE PROCEDURE needs a name"));
            }
        };
        if name.text.contains('.') {
            let text = &parsed.text;
            let name = &name.text;
            return Err(ddl_error(
                parsed.span,
                format!("Invalid procedure name containing dots \"{name}\" in DDL: \"{text}\""),
            ));
        }
        if name.text.starts_with('@') {
            let reason = format!("Invalid CREATE PROCEDURE statement: \"{}\"", parsed.text);
            return Err(ddl_error(parsed.span, reason));
        }
        if self.catalog.sources.contains_key(&name.text) {
            return Err(ddl_error(
                name.span,
                format!(
                    "Procedure name \"{}\" in CREATE PROCEDURE statement already exists.",
                    name.text
                ),
            ));
        }
        for role in &create.allow {
            let built_in = matches!(role.as_str(), "ADMINISTRATOR" | "USER");
            if !built_in && !self.catalog.roles.contains_key(role.as_str()) {
                return Err(procedure_error(
                    role.span,
                    &name.text,
                    format!("allowed role {} does not exist", role.text),
                ));
            }
        }
        let mut source = parsed.clone();
        local_data::take_default(&mut source, self.catalog.planning.local_data);
        self.catalog.sources.insert(name.text.clone(), Arc::new(source));
        Ok(())
    }

    pub(super) fn partition_procedure(
        &mut self,
        parsed: &ParsedStatement,
        partition: &PartitionProcedure,
    ) -> Result<(), PlanError> {
        let CaseName { text: name, span } = &partition.procedure;
        let Some(source) = self.catalog.sources.get_mut(name) else {
            return Err(ddl_error(
                *span,
                format!("Procedure \"{name}\" in PARTITION PROCEDURE is not defined"),
            ));
        };
        // The procedure stays as declared, with this clause; its text is made from the tree.
        let source = Arc::make_mut(source);
        if let ast::Statement::CreateProcedure(create) = &mut source.statement {
            if !create.partitions.is_empty() || create.kind == ast::ProcedureKind::Directed {
                return Err(ddl_error(
                    parsed.span,
                    format!("Procedure \"{name}\" is partitioned already"),
                ));
            }
            create.partitions = partition.partitions.clone();
        }
        local_data::take_default(source, self.catalog.planning.local_data);
        Ok(())
    }

    /// The class after FROM CLASS.
    fn class_source(&self, class: &CaseName) -> Result<ClassSource, PlanError> {
        let found = match &self.catalog.classes {
            Some(classes) => classes.procedure(&class.text),
            None => Err(format!(
                "Cannot load class for procedure: {}: no classes are loaded (LOAD CLASSES, or \
                 @UpdateClasses, comes first)",
                class.text
            )),
        };
        found.map_err(|reason| ddl_error(class.span, reason))
    }

    /// Whether the classes are those of the catalog in force.
    pub(super) fn has_same_classes(&self) -> bool {
        match (&self.catalog.classes, &self.old.classes) {
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            (new, old) => new.is_none() && old.is_none(),
        }
    }

    /// Plans the procedures again that may have changed: all, if tables changed.
    pub(super) fn plan_procedures(&mut self) -> Result<(), PlanError> {
        let same_tables = self.catalog.tables.len() == self.old.tables.len()
            && self.catalog.tables.iter().all(|(name, table)| {
                let old = self.old.tables.get(name);
                old.is_some_and(|old| old.is_same(table))
            });
        let same_functions = self.has_same_functions();
        let same_classes = self.has_same_classes();
        let mut procedures = std::collections::BTreeMap::new();
        for (name, source) in &self.catalog.sources {
            let kept = self.old.procedures.get(name).filter(|definition| {
                let old = self.old.sources.get(name);
                let of_class = matches!(
                    definition.kind,
                    ProcedureKind::Java(_) | ProcedureKind::NonTransactional { .. }
                );
                let same_code = same_classes || !of_class;
                let same = same_tables && same_functions && same_code;
                same && old.is_some_and(|old| Arc::ptr_eq(old, source))
            });
            let definition = match kept {
                Some(definition) => definition.clone(),
                None => Arc::new(self.plan_procedure(name, source)?),
            };
            procedures.insert(name.clone(), definition);
        }
        self.catalog.procedures = procedures;
        Ok(())
    }

    fn plan_procedure(
        &self,
        name: &str,
        source: &ParsedStatement,
    ) -> Result<ProcedureDefinition, PlanError> {
        let ast::Statement::CreateProcedure(create) = &source.statement else {
            return Err(procedure_error(source.span, name, "is not declared by CREATE PROCEDURE"));
        };
        let directed = create.kind == ast::ProcedureKind::Directed;
        // A procedure of several partitions runs as a transaction over those.
        let column = match create.partitions.as_slice() {
            [single] if !directed => Some(single),
            _ => None,
        };
        let context = match directed || column.is_some() {
            true => PlanContext::SinglePartition,
            false => PlanContext::MultiPartition,
        };
        // Each call of a directed procedure, or of one that an index routes, is one partition's.
        let spreads = column.is_some_and(|column| column.via.is_none());
        let (local_data, casts) = (create.local_data, partition::converts(create));
        let plan = Planning { catalog: &self.catalog, name, context, spreads, local_data, casts };
        let (kind, parameters, statements) = match &create.body {
            ProcedureBody::Statements(body) => {
                let statements = plan.body(source, body)?;
                (ProcedureKind::Statements, statement_parameters(&statements), statements)
            }
            ProcedureBody::Native(native) => {
                let found = self.natives.find(&native.text).ok_or_else(|| {
                    ddl_error(
                        native.span,
                        format!("Cannot find native procedure: {} is not linked in", native.text),
                    )
                })?;
                let statements = plan.prepared(source, &found.statements)?;
                (ProcedureKind::Native(native.text.clone()), found.parameters, statements)
            }
            ProcedureBody::Class(class) => {
                let found = self.class_source(class)?;
                check_class_use(create, class, found.class_use)?;
                let statements = plan.prepared(source, &found.statements)?;
                // Nothing on this side reads a table that is a parameter.
                let unread = ProcedureParameter { sql_type: SqlType::Varbinary, is_array: false };
                let parameters = found.parameters.iter().map(|p| p.unwrap_or(unread)).collect();
                (kind_of_class(class.text.clone(), found.class_use), parameters, statements)
            }
        };
        check_effects(create, &kind)
            .map_err(|reason| procedure_error(source.span, name, reason))?;
        if parameters.len() > MAX_PARAMETERS {
            let reason = format!("has {} parameters (max is {MAX_PARAMETERS})", parameters.len());
            return Err(procedure_error(source.span, name, reason));
        }
        let declared = plan.declared(source, &create.partitions, &parameters)?;
        let partitioning = match (directed, column) {
            (true, _) => Some(ProcedurePartitioning::Directed),
            (false, Some(column)) => Some(plan.partitioning(column, &parameters)?),
            (false, None) => None,
        };
        Ok(ProcedureDefinition {
            name: name.to_string(),
            kind,
            partitioning,
            declared,
            parameters,
            read_only: statements.iter().all(|(_, statement)| statement.read_only),
            effects: create.effects,
            statements,
        })
    }
}

fn kind_of_class(class: String, class_use: ClassUse) -> ProcedureKind {
    match class_use {
        ClassUse::Transactional => ProcedureKind::Java(class),
        ClassUse::NonTransactional => ProcedureKind::NonTransactional { class, compound: false },
        ClassUse::Compound => ProcedureKind::NonTransactional { class, compound: true },
    }
}

/// Refuses WITH EFFECTS where there are none, and WITH LOCAL DATA where it means nothing.
fn check_effects(create: &CreateProcedure, kind: &ProcedureKind) -> Result<(), &'static str> {
    local_data::check(create)?;
    match (create.effects, kind) {
        (true, ProcedureKind::NonTransactional { .. }) => {
            Err("is no transaction, so that it has no effects to log: leave WITH EFFECTS out")
        }
        _ => Ok(()),
    }
}

/// Refuses a declaration that does not go with its class. The word COMPOUND may be left out, as
/// published applications do: the class says it.
fn check_class_use(
    create: &CreateProcedure,
    class: &CaseName,
    class_use: ClassUse,
) -> Result<(), PlanError> {
    let compound = create.kind == ast::ProcedureKind::Compound;
    let name = &class.text;
    let reason = match class_use {
        ClassUse::Transactional | ClassUse::NonTransactional if compound => {
            format!(
                "Class {name} is no compound procedure: it does not extend VoltCompoundProcedure"
            )
        }
        ClassUse::Transactional => return Ok(()),
        _ if !create.partitions.is_empty() || create.kind == ast::ProcedureKind::Directed => {
            format!(
                "Class {name} is a non-transactional procedure, which runs at no partition: it \
                 takes neither PARTITION ON nor DIRECTED"
            )
        }
        _ => return Ok(()),
    };
    Err(ddl_error(class.span, reason))
}

/// What planning a procedure needs to know.
struct Planning<'a> {
    catalog: &'a Catalog,
    name: &'a str,
    context: PlanContext,
    /// Statements that change replicated tables run at all partitions, wherever it runs itself.
    spreads: bool,
    /// WITH LOCAL DATA.
    local_data: bool,
    /// Calls are routed also by parameters of types that convert to the column's. Of several
    /// columns each has its type, which says whether the order of the parameters is right.
    casts: bool,
}

type NamedStatements = Vec<(String, Arc<Statement>)>;

impl Planning<'_> {
    fn body(
        &self,
        source: &ParsedStatement,
        body: &[BodyStatement],
    ) -> Result<NamedStatements, PlanError> {
        if body.is_empty() {
            let reason = format!(
                "Cannot create a stored procedure with no statements for procedure: {}",
                self.name
            );
            return Err(procedure_error(source.span, self.name, reason));
        }
        let mut statements = Vec::with_capacity(body.len());
        for (number, part) in body.iter().enumerate() {
            let parsed = ParsedStatement {
                statement: part.statement.clone(),
                text: part.text.clone(),
                span: part.span,
                parameter_count: part.parameter_count,
            };
            let name = format!("sql{number}");
            let statement = self.statement(&name, &parsed)?;
            statements.push((name, Arc::new(statement)));
        }
        Ok(statements)
    }

    fn prepared(
        &self,
        source: &ParsedStatement,
        texts: &[(String, String)],
    ) -> Result<NamedStatements, PlanError> {
        let mut statements = Vec::with_capacity(texts.len());
        for (name, text) in texts {
            let parsed = lockstep_sql::parse_statement(text, &Limits::default())
                .map_err(|error| self.failed(source.span, name, text, &error.message))?;
            // The text is not the DDL's: its places mean nothing there.
            let statement = self
                .statement(name, &parsed)
                .map_err(|error| PlanError { span: Some(source.span), ..error })?;
            statements.push((name.clone(), Arc::new(statement)));
        }
        Ok(statements)
    }

    fn statement(&self, name: &str, parsed: &ParsedStatement) -> Result<Statement, PlanError> {
        if !matches!(parsed.kind(), StatementKind::Query | StatementKind::Dml) {
            let reason =
                "this type of sql statement is not supported or is not allowed in this context";
            return Err(self.failed(parsed.span, name, &parsed.text, reason));
        }
        let single = self.context == PlanContext::SinglePartition;
        if single && matches!(parsed.statement, ast::Statement::Truncate(_)) {
            let reason = format!(
                "Single partitioned procedure: {} has TRUNCATE statement: \"{}\".",
                self.name, parsed.text
            );
            return Err(procedure_error(parsed.span, self.name, reason));
        }
        let context = match self.changes_replicated(&parsed.statement) {
            true => PlanContext::MultiPartition,
            false => self.context,
        };
        let planned = plan_statement(self.catalog, parsed, context).and_then(|statement| {
            // Rows that it reads elsewhere are none that a procedure of one partition reads.
            let reads_elsewhere =
                matches!(statement.execution, lockstep_plan_ir::Execution::Shipped { .. });
            match single && reads_elsewhere {
                false => Ok(statement),
                true => Err(PlanError::new(
                    "Trying to write to a replicated table from rows of a partitioned one in a \
                     single-partition procedure: the statement would read one partition and write \
                     all. Leave out PARTITION ON, or read the rows in a statement of its own.",
                )),
            }
        });
        let planned = planned.map(|statement| local_data::marked(statement, self.local_data));
        planned.map_err(|error| {
            let span = error.span.unwrap_or(parsed.span);
            self.failed(span, name, &parsed.text, &error.message)
        })
    }

    /// Whether a statement of a procedure with one PARTITION ON clause changes a replicated table:
    /// it runs at all partitions, the others where the procedure does.
    fn changes_replicated(&self, statement: &ast::Statement) -> bool {
        let table = match statement {
            ast::Statement::Insert(insert) => &insert.table,
            ast::Statement::Update(update) => &update.table,
            ast::Statement::Delete(delete) => &delete.table,
            _ => return false,
        };
        let found = self.catalog.tables.get(table.as_str());
        self.spreads && found.is_some_and(|table| table.definition.is_replicated())
    }

    fn failed(&self, span: ast::Span, statement: &str, text: &str, reason: &str) -> PlanError {
        let reason =
            format!("Failed to plan for statement ({statement}) \"{text};\". Error: \"{reason}\"");
        procedure_error(span, self.name, reason)
    }

    /// The partitions of a procedure that declares several.
    fn declared(
        &self,
        source: &ParsedStatement,
        partitions: &[ProcedurePartition],
        parameters: &[ProcedureParameter],
    ) -> Result<Vec<ProcedurePartitioning>, PlanError> {
        let mut declared = Vec::new();
        for partition in partitions.iter().filter(|_| partitions.len() > 1) {
            if partition.via.is_some() {
                let reason = "VIA GLOBAL INDEX and AND ON TABLE do not go together: a procedure \
                              of several partitions asks the index by itself";
                return Err(procedure_error(source.span, self.name, reason));
            }
            declared.push(self.partitioning(partition, parameters)?);
        }
        Ok(declared)
    }

    fn partitioning(
        &self,
        partition: &ProcedurePartition,
        parameters: &[ProcedureParameter],
    ) -> Result<ProcedurePartitioning, PlanError> {
        let ProcedurePartition { table, columns, via, parameters: numbers, span } = partition;
        let wrong = |reason: String| Err(procedure_error(*span, self.name, reason));
        let table_name = table.as_str();
        let Some(found) = self.catalog.tables.get(table_name) else {
            return wrong(format!(
                "Partition table {table_name} of procedure {} does not exist",
                self.name
            ));
        };
        let definition = &found.definition;
        let mut places = Vec::with_capacity(columns.len());
        for column in columns {
            let column_name = column.as_str();
            let Some(place) = definition.columns.iter().position(|c| c.name == column_name) else {
                return wrong(format!(
                    "Partition column {table_name}.{column_name} of procedure {} does not exist",
                    self.name
                ));
            };
            if !definition.places_by(place) {
                return wrong(format!(
                    "PARTITION ON for procedure {} refers to column {table_name}.{column_name}, \
                     which is not a partitioning column",
                    self.name
                ));
            }
            places.push(place as u16);
        }
        if places != definition.partition_columns {
            return wrong(format!(
                "PARTITION ON for procedure {} must name the partitioning columns of table \
                 {table_name} in their order: COLUMNS ({})",
                self.name,
                definition.partition_column_names()
            ));
        }
        if let Some(index) = via {
            return self.via(*span, definition, index, numbers, parameters);
        }
        if !numbers.is_empty() && numbers.len() != places.len() {
            return wrong(format!(
                "PARTITION ON for procedure {} names {} parameters for {} partitioning columns",
                self.name,
                numbers.len(),
                places.len()
            ));
        }
        let mut routing = Vec::with_capacity(places.len());
        for (number, place) in places.iter().enumerate() {
            let parameter = numbers.get(number).copied().unwrap_or(number as u32);
            let column = &definition.columns[usize::from(*place)];
            routing.push(self.routing_column(*span, column, parameter, parameters)?);
        }
        partitioned_by(&table.text, routing)
            .ok_or_else(|| procedure_error(*span, self.name, "names no partitioning column"))
    }

    /// Routing by the row that a unique global index finds.
    fn via(
        &self,
        span: ast::Span,
        table: &TableDefinition,
        name: &ast::Name,
        numbers: &[u32],
        parameters: &[ProcedureParameter],
    ) -> Result<ProcedurePartitioning, PlanError> {
        let wrong = |reason: String| Err(procedure_error(span, self.name, reason));
        let mut indexes = table.global_indexes.iter();
        let Some(index) = indexes.find(|index| index.name == name.text) else {
            return wrong(format!(
                "VIA GLOBAL INDEX for procedure {} names {}, which is no global index of table {}",
                self.name, name.text, table.name
            ));
        };
        if !index.unique {
            return wrong(format!(
                "VIA GLOBAL INDEX for procedure {} names {}, which is not UNIQUE: its key may \
                 have rows at several partitions",
                self.name, name.text
            ));
        }
        let keys = index.keys();
        if !numbers.is_empty() && numbers.len() != keys.len() {
            return wrong(format!(
                "VIA GLOBAL INDEX for procedure {} names {} parameters for the {} columns of the \
                 key of {}",
                self.name,
                numbers.len(),
                keys.len(),
                name.text
            ));
        }
        let mut columns = Vec::with_capacity(keys.len());
        for (number, key) in keys.iter().enumerate() {
            let parameter = numbers.get(number).copied().unwrap_or(number as u32);
            let column = &table.columns[usize::from(*key)];
            columns.push(self.routing_column(span, column, parameter, parameters)?);
        }
        Ok(ProcedurePartitioning::Via {
            table: table.name.clone(),
            index: index.name.clone(),
            entries: index.entries,
            columns,
        })
    }

    /// A column with the parameter by which calls are routed.
    fn routing_column(
        &self,
        span: ast::Span,
        column: &ColumnDefinition,
        parameter: u32,
        parameters: &[ProcedureParameter],
    ) -> Result<RoutingColumn, PlanError> {
        let wrong = |reason: String| Err(procedure_error(span, self.name, reason));
        let Some(given) = parameters.get(parameter as usize) else {
            return wrong(format!(
                "Invalid parameter index value {parameter} for procedure: {}",
                self.name
            ));
        };
        let column_type = column.sql_type;
        let routed = match self.casts {
            true => partition::routes_converted(given.sql_type, column_type),
            false => partition::routes(given.sql_type, column_type),
        };
        if given.is_array || !routed {
            return wrong(format!(
                "Type mismatch between partition column and partition parameter for procedure {} \
                 may cause overflow or loss of precision.\nPartition column is type {column_type} \
                 and partition parameter is type {}{}",
                self.name,
                given.sql_type,
                if given.is_array { " array" } else { "" }
            ));
        }
        Ok(RoutingColumn { column: column.name.clone(), column_type, parameter: parameter as u16 })
    }
}

/// Routing by some columns of a table; none without columns.
pub(super) fn partitioned_by(
    table: &str,
    columns: Vec<RoutingColumn>,
) -> Option<ProcedurePartitioning> {
    let table = table.to_string();
    match columns.as_slice() {
        [] => None,
        [RoutingColumn { column, column_type, parameter }] => Some(ProcedurePartitioning::Column {
            table,
            column: column.clone(),
            column_type: *column_type,
            parameter: *parameter,
        }),
        _ => Some(ProcedurePartitioning::Columns { table, columns }),
    }
}

/// The parameters of a procedure made of statements: theirs, in order, integers widened.
pub(super) fn statement_parameters(statements: &NamedStatements) -> Vec<ProcedureParameter> {
    let all = statements.iter().flat_map(|(_, statement)| &statement.parameters);
    all.map(|parameter| ProcedureParameter {
        sql_type: match parameter.sql_type.is_integer() && !parameter.is_array {
            true => SqlType::BigInt,
            false => parameter.sql_type,
        },
        is_array: parameter.is_array,
    })
    .collect()
}

/// Whether a name is that of a generated procedure.
pub(super) fn is_generated_name(catalog: &Catalog, name: &str) -> bool {
    catalog.generated.contains_key(&name.to_ascii_uppercase())
}
