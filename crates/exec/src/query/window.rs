//! stub
use super::{Flow, Run, Sink};
use crate::error::SqlError;
use lockstep_plan_ir::relation::{Relation, WindowCall};
impl<'a> Run<'_, 'a> {
    pub(super) fn window(
        &self,
        _: &'a Relation,
        _: u16,
        _: &'a [WindowCall],
        _: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        Err(SqlError::sql("later"))
    }
}
