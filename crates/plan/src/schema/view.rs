//! CREATE VIEW, and binding views again after a change.

use crate::error::PlanError;
use lockstep_sql::ast::{CreateView, ParsedStatement};

use super::Draft;
use super::message::not_supported;

impl Draft<'_> {
    pub(super) fn create_view(
        &mut self,
        parsed: &ParsedStatement,
        _create: &CreateView,
    ) -> Result<(), PlanError> {
        Err(not_supported(parsed.span, "Views"))
    }

    pub(super) fn bind_views_again(&mut self) -> Result<(), PlanError> {
        Ok(())
    }
}
