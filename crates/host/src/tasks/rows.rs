//! The rows of `@Statistics TASK`.

use super::{Counts, Place, Task, Tasks};
use lockstep_base::extent::Extent;
use lockstep_types::Value;

/// What is in place of a partition where a task runs for the whole database.
const NO_PARTITION: i64 = -1;

impl Tasks {
    /// A row for each task and place. `may_run` says whether tasks run at the moment.
    pub fn rows(&self, may_run: bool) -> Vec<Vec<Value>> {
        let tasks = self.tasks.values().filter(|task| !task.gone);
        tasks.flat_map(|task| task.places.iter().map(|place| row(task, place, may_run))).collect()
    }
}

fn row(task: &Task, place: &Place, may_run: bool) -> Vec<Value> {
    let text = |text: &str| Value::Text(text.into());
    let Counts { scheduled, scheduling_ns, waits, waited_ns, calls, called_ns, failures } =
        &place.counts;
    let state = match (task.declared.enabled, task.stopped, may_run) {
        (false, ..) => "DISABLED",
        (true, true, _) => "ERROR",
        (true, false, false) => "PAUSED",
        (true, false, true) => "RUNNING",
    };
    let mut row = vec![
        Value::Int(place.partition.map_or(NO_PARTITION, i64::from)),
        text(&task.declared.name),
        text(state),
        text(task.declared.scope.as_str()),
        number(*scheduled),
    ];
    row.extend(times(scheduling_ns, *scheduled));
    // The next run is worked out at once: nothing waits for that.
    row.extend(times(&Extent::default(), 0));
    row.push(place.failure.as_deref().map_or(Value::Null, text));
    row.push(number(*calls));
    row.extend(times(called_ns, *calls));
    row.extend(times(waited_ns, *waits));
    row.push(number(*failures));
    row
}

/// Total, least, greatest and mean.
fn times(extent: &Extent, count: u64) -> [Value; 4] {
    [number(extent.sum), number(extent.smallest()), number(extent.max), number(extent.mean(count))]
}

fn number(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
