//! `@UpdateClasses`: the Java classes of the catalog, and with them its Java procedures, change as
//! the schema does: at all partitions or nowhere, and for no transaction in its middle.

use super::operations::is_null;
use super::system::text_parameter;
use super::{Control, SystemCall};
use crate::intake::Changes;
use lockstep_host::schema::change::CatalogChange;
use lockstep_host::schema::{self, Handled, Turn};
use lockstep_types::{Datum, Failure, Parameter};
use lockstep_wire_volt::Invocation;

impl Control {
    pub(super) fn update_classes(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let Turn::Now(call) = self.change_turn(call, Changes::Anything)? else {
            return Ok(Handled::Pending);
        };
        if invocation.parameters.count() != 2 {
            return Err(Failure::unexpected(
                "UpdateClasses system procedure requires exactly two parameters, the bytes of \
                 the jarfile containing new class files and the string containing class names \
                 to be deleted (either of which may be null).",
            ));
        }
        let jar = bytes_parameter(invocation, 0)?;
        let removed = text_parameter(invocation, 1).filter(|patterns| !patterns.trim().is_empty());
        if jar.is_none() && (removed.is_none() || self.schema.catalog().plan.classes.is_none()) {
            self.answer_status(call.origin)?;
            return Ok(Handled::Answered);
        }
        let change = CatalogChange::Classes { jar: jar.as_deref(), removed };
        schema::request(self, call.origin, change)
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
