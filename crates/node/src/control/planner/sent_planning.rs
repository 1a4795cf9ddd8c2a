//! What queries were planned with, as messages between hosts say it: written once for all queries
//! that were planned with the same.

use lockstep_host::schema::codec::encode_saved_planning;
use lockstep_plan::Planning;
use std::cell::RefCell;
use std::sync::Arc;

/// What was sent last.
#[derive(Default)]
pub(super) struct SentPlanning(RefCell<Option<(Planning, Arc<[u8]>)>>);

impl SentPlanning {
    /// The bytes that say it.
    pub(super) fn of(&self, planning: &Planning) -> Arc<[u8]> {
        let mut last = self.0.borrow_mut();
        if let Some((sent, bytes)) = &*last
            && is_same(sent, planning)
        {
            return Arc::clone(bytes);
        }
        let bytes: Arc<[u8]> = encode_saved_planning(planning).into();
        *last = Some((planning.clone(), Arc::clone(&bytes)));
        bytes
    }
}

fn is_same(sent: &Planning, planning: &Planning) -> bool {
    Arc::ptr_eq(&sent.statistics, &planning.statistics)
        && sent.disabled_rules == planning.disabled_rules
        && sent.max_ordered_sources == planning.max_ordered_sources
        && sent.local_data == planning.local_data
}
