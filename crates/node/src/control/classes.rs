//! `@UpdateClasses`: the Java classes of the catalog, and with them its Java procedures, change as
//! the schema does: at all partitions or nowhere, and for no transaction in its middle.

use super::ad_hoc::ddl_failure;
use super::operations::is_null;
use super::system::text_parameter;
use super::{Control, SystemCall};
use crate::catalog::HostCatalog;
use crate::classes;
use lockstep_plan::Catalog;
use lockstep_site::{MultiWork, SchemaTask};
use lockstep_types::{Datum, Failure, Parameter};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;

impl Control {
    pub(super) fn update_classes(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        if self.next_catalog.is_some() {
            self.wait_for_schema(call);
            return Ok(());
        }
        self.check_not_paused(call.admin)?;
        if invocation.parameters.count() != 2 {
            return Err(Failure::unexpected(
                "UpdateClasses system procedure requires exactly two parameters, the bytes of \
                 the jarfile containing new class files and the string containing class names \
                 to be deleted (either of which may be null).",
            ));
        }
        let jar = bytes_parameter(invocation, 0)?;
        let removed = text_parameter(invocation, 1).filter(|patterns| !patterns.trim().is_empty());
        if jar.is_none() && (removed.is_none() || self.catalog.plan.classes.is_none()) {
            return self.answer_status(call.origin);
        }
        let settings = self.facts.java_settings();
        let classes = classes::change(&self.catalog.plan, &settings, jar.as_deref(), removed)
            .map_err(Failure::graceful)?;
        let current = Catalog { planning: self.planning.clone(), ..self.catalog.plan.clone() };
        let change = current.change_classes(classes, &self.natives).map_err(ddl_failure)?;
        let catalog = HostCatalog::new(change.catalog, &self.natives).map_err(ddl_failure)?;
        let catalog = Arc::new(catalog);
        let task = SchemaTask {
            changes: change.changes,
            swap: None,
            catalog_version: catalog.version(),
            catalog: Arc::clone(&catalog),
            advice: (!change.advice.is_empty()).then(|| change.advice.join("\n")),
        };
        self.next_advice = change.advice;
        self.next_catalog = Some(catalog);
        self.send_multi(call.origin, Arc::from(&[][..]), None, MultiWork::Schema(Arc::new(task)));
        Ok(())
    }
}

/// A parameter of bytes, however the client sent them; `None` for null.
fn bytes_parameter(invocation: &Invocation<'_>, index: usize) -> Result<Option<Vec<u8>>, Failure> {
    if is_null(invocation, index) {
        return Ok(None);
    }
    match invocation.parameters.get(index) {
        Some(Ok(Parameter::Scalar(_, Datum::Bytes(bytes)))) => Ok(Some(bytes.to_vec())),
        Some(Ok(Parameter::Array(array))) if array.element_type.is_integer() => {
            let byte = |element| match element {
                Datum::Int(value) => value as u8,
                // The value that stands for NULL.
                _ => i8::MIN as u8,
            };
            Ok(Some(array.iter().map(byte).collect()))
        }
        _ => Err(Failure::graceful(
            "UpdateClasses takes the bytes of a jar file as its first parameter.",
        )),
    }
}
