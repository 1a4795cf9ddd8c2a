//! CREATE FUNCTION, CREATE AGGREGATE FUNCTION and their end.

use super::Draft;
use super::message::ddl_error;
use crate::catalog::{Catalog, CatalogFunction, FunctionKind};
use crate::error::PlanError;
use crate::query::function_names;
use lockstep_sql::ast::{
    CreateFunction, Drop, Expression, FunctionSource, ObjectKind, ParsedStatement,
};
use std::sync::Arc;

/// Most functions that are declared.
const MAX_FUNCTIONS: usize = 10_000;

impl Draft<'_> {
    pub(super) fn create_function(
        &mut self,
        parsed: &ParsedStatement,
        create: &CreateFunction,
    ) -> Result<(), PlanError> {
        super::unquoted(&create.name)?;
        let name = create.name.text.as_str();
        let built_in = || function_names().any(|known| known == name);
        if self.catalog.functions.contains_key(name) || built_in() {
            let shown = name.to_ascii_lowercase();
            let reason = format!("Function \"{shown}\" is already defined.");
            return Err(ddl_error(create.name.span, reason));
        }
        if self.catalog.functions.len() >= MAX_FUNCTIONS {
            let reason = format!("there are {MAX_FUNCTIONS} functions, which is the most");
            return Err(ddl_error(create.name.span, reason));
        }
        let function = self.loaded_function(parsed, create)?;
        self.catalog.functions.insert(name.to_string(), Arc::new(function));
        Ok(())
    }

    fn loaded_function(
        &self,
        parsed: &ParsedStatement,
        create: &CreateFunction,
    ) -> Result<CatalogFunction, PlanError> {
        let name = create.name.text.as_str();
        let (class, method) = match &create.source {
            FunctionSource::Method { class, method } => (class, Some(method.text.as_str())),
            FunctionSource::AggregateClass(class) => (class, None),
        };
        let Some(classes) = &self.catalog.classes else {
            let reason = format!(
                "Cannot load class for user-defined function: {}: no classes are loaded (LOAD \
                 CLASSES, or @UpdateClasses, comes first)",
                class.text
            );
            return Err(ddl_error(class.span, reason));
        };
        let found = match method {
            Some(method) => classes
                .function(name, &class.text, method)
                .map(|function| FunctionKind::Scalar(Arc::new(function))),
            None => classes
                .aggregate(name, &class.text)
                .map(|function| FunctionKind::Aggregate(Arc::new(function))),
        };
        let kind = found.map_err(|reason| {
            let shown = name.to_ascii_lowercase();
            ddl_error(class.span, format!("Function \"{shown}\": {reason}"))
        })?;
        Ok(CatalogFunction {
            kind,
            class: class.text.clone(),
            method: method.map(str::to_string),
            source: Arc::new(parsed.clone()),
        })
    }

    pub(super) fn drop_function(&mut self, drop: &Drop) -> Result<(), PlanError> {
        let name = drop.name.text.to_ascii_uppercase();
        let aggregate = drop.kind == ObjectKind::AggregateFunction;
        let found = self.catalog.functions.get(&name);
        let fits = found
            .is_some_and(|found| !aggregate || matches!(found.kind, FunctionKind::Aggregate(_)));
        match (fits, drop.if_exists) {
            (true, _) => {
                self.catalog.functions.remove(&name);
                Ok(())
            }
            (false, true) => Ok(()),
            (false, false) => Err(ddl_error(
                drop.name.span,
                format!("Function name \"{}\" in DROP FUNCTION does not exist.", drop.name.text),
            )),
        }
    }

    /// Takes all functions from the classes that there will be, if those changed.
    pub(super) fn load_functions_again(&mut self) -> Result<(), PlanError> {
        if self.has_same_classes() {
            return Ok(());
        }
        let names: Vec<String> = self.catalog.functions.keys().cloned().collect();
        for name in names {
            let source = Arc::clone(&self.catalog.functions[&name].source);
            if let lockstep_sql::ast::Statement::CreateFunction(create) = &source.statement {
                let function = self.loaded_function(&source, create)?;
                self.catalog.functions.insert(name, Arc::new(function));
            }
        }
        Ok(())
    }

    /// Whether the functions are those of the catalog in force.
    pub(super) fn has_same_functions(&self) -> bool {
        let (new, old) = (&self.catalog.functions, &self.old.functions);
        new.len() == old.len()
            && new
                .iter()
                .all(|(name, function)| old.get(name).is_some_and(|old| Arc::ptr_eq(old, function)))
    }

    /// Refuses expressions of an index that call functions of users.
    pub(super) fn check_index_calls<'e>(
        &self,
        index: &str,
        expressions: impl Iterator<Item = &'e Expression>,
    ) -> Result<(), PlanError> {
        for expression in expressions {
            if let Some(name) = called(&self.catalog, expression) {
                let reason = format!(
                    "Index \"{index}\" calls the user-defined function {name}, which an index \
                     cannot"
                );
                return Err(super::message::table_error(expression.span, reason));
            }
        }
        Ok(())
    }
}

/// A function of users that an expression calls.
fn called(catalog: &Catalog, expression: &Expression) -> Option<String> {
    let mut found = None;
    let is_user = |name: &str| catalog.functions.contains_key(name);
    crate::query::any_call(expression, &mut |call| {
        if is_user(&call.name.text) {
            found.get_or_insert_with(|| call.name.text.clone());
        }
        found.is_some()
    });
    found
}
