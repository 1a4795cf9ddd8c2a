//! stub
use super::{Flow, Run, Sink};
use crate::error::SqlError;
use lockstep_plan_ir::Expression;
use lockstep_plan_ir::relation::{AggregateCall, Relation};
impl<'a> Run<'_, 'a> {
    pub(super) fn aggregate(
        &self,
        _: &'a Relation,
        _: u16,
        _: &'a [Expression],
        _: &'a [AggregateCall],
        _: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        Err(SqlError::sql("later"))
    }
}
