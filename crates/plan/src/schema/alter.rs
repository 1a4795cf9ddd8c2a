//! ALTER TABLE.

use crate::error::PlanError;
use lockstep_sql::ast::{AlterTable, ParsedStatement};

use super::Draft;
use super::message::not_supported;

impl Draft<'_> {
    pub(super) fn alter_table(
        &mut self,
        parsed: &ParsedStatement,
        _alter: &AlterTable,
    ) -> Result<(), PlanError> {
        Err(not_supported(parsed.span, "Changes by ALTER TABLE"))
    }
}
