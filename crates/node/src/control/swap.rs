//! `@SwapTables`: two tables of the same shape exchange their contents.

use super::system::text_parameter;
use super::{Control, SystemCall};
use crate::intake::Changes;
use lockstep_host::schema::change::CatalogChange;
use lockstep_host::schema::{self, Handled, Turn};
use lockstep_types::Failure;
use lockstep_wire_volt::Invocation;

impl Control {
    pub(super) fn swap_tables(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let Turn::Now(call) = self.change_turn(call, Changes::Deletes)? else {
            return Ok(Handled::Pending);
        };
        let count = invocation.parameters.count();
        let names = (text_parameter(invocation, 0), text_parameter(invocation, 1));
        let (2, (Some(first), Some(second))) = (count, names) else {
            return Err(Failure::graceful(format!(
                "Incorrect number of arguments to @SwapTables (expects 2 table names, received \
                 {count})"
            )));
        };
        schema::request(self, call.origin, CatalogChange::Swap(first, second))
    }
}
