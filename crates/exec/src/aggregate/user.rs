//! The groups of functions of users: their values go to the function's own code, at the
//! partitions to become parts, and at the coordinator to be combined.

use crate::arena::Arena;
use crate::error::SqlError;
use crate::evaluate::keep;
use lockstep_plan_ir::user::AggregateGroup;
use lockstep_plan_ir::{AggregateFunction, UserAggregate};
use lockstep_types::sql_type::MAX_VALUE_BYTES;
use lockstep_types::{Datum, Failure};
use std::sync::Arc;

/// One group, begun with its first value or at its end.
#[derive(Debug, Default)]
pub(super) struct UserGroup {
    user: Option<Arc<UserAggregate>>,
    begun: Option<Box<dyn AggregateGroup>>,
}

/// A copy begins again: accumulators are copied before their first value only.
impl Clone for UserGroup {
    fn clone(&self) -> UserGroup {
        UserGroup { user: self.user.clone(), begun: None }
    }
}

impl UserGroup {
    pub(super) fn new(user: &Arc<UserAggregate>) -> UserGroup {
        UserGroup { user: Some(Arc::clone(user)), begun: None }
    }

    fn group(&mut self) -> Result<&mut dyn AggregateGroup, SqlError> {
        let user = self.user.as_ref().expect("a call of a user's aggregate names its function");
        let begun = match self.begun.take() {
            Some(begun) => begun,
            None => user.code.begin().map_err(SqlError::user_function)?,
        };
        Ok(&mut **self.begun.insert(begun))
    }

    pub(super) fn add(
        &mut self,
        function: AggregateFunction,
        value: Datum<'_>,
    ) -> Result<(), SqlError> {
        let group = self.group()?;
        let added = match (function, value) {
            (AggregateFunction::UserMerge, Datum::Bytes(part)) => group.combine(part),
            _ => group.add(value),
        };
        added.map_err(SqlError::user_function)
    }

    pub(super) fn finish<'a>(
        &mut self,
        function: AggregateFunction,
        arena: &'a Arena,
    ) -> Result<Datum<'a>, SqlError> {
        let group = self.group()?;
        let mut result = Datum::Null;
        let ended = match function {
            AggregateFunction::UserParts => {
                let mut length = 0;
                let ended = group.part(&mut |part| {
                    length = part.len();
                    result = Datum::Bytes(arena.copy(part));
                });
                ended.and_then(|()| check_length(length))
            }
            _ => group.end(&mut |value| result = keep(arena, value)),
        };
        // What it held is of no use any more, and may be much.
        self.begun = None;
        ended.map_err(SqlError::user_function)?;
        Ok(result)
    }
}

fn check_length(bytes: usize) -> Result<(), Failure> {
    if bytes <= MAX_VALUE_BYTES as usize {
        return Ok(());
    }
    Err(Failure::graceful(format!(
        "a group of a user-defined aggregate function holds {bytes} bytes at a partition; the \
         limit is {MAX_VALUE_BYTES}"
    )))
}
