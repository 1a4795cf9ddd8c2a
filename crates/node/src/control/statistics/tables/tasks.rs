//! The selectors of tasks: one that says everything, and its halves.

use super::{Common, Row, Selector, Table, View};
use lockstep_types::SqlType::{self, BigInt, Integer, Varchar};

/// Columns that all three begin with, and that follow of the schedule.
const HEAD: usize = 4;
const OF_SCHEDULER: usize = 10;

const TASK: &[(&str, SqlType)] = &[
    ("PARTITION_ID", Integer),
    ("TASK_NAME", Varchar),
    ("STATE", Varchar),
    ("SCOPE", Varchar),
    ("SCHEDULER_INVOCATIONS", BigInt),
    ("SCHEDULER_TOTAL_EXECUTION", BigInt),
    ("SCHEDULER_MIN_EXECUTION", BigInt),
    ("SCHEDULER_MAX_EXECUTION", BigInt),
    ("SCHEDULER_AVG_EXECUTION", BigInt),
    ("SCHEDULER_TOTAL_WAIT_TIME", BigInt),
    ("SCHEDULER_MIN_WAIT_TIME", BigInt),
    ("SCHEDULER_MAX_WAIT_TIME", BigInt),
    ("SCHEDULER_AVG_WAIT_TIME", BigInt),
    ("SCHEDULER_STATUS", Varchar),
    ("PROCEDURE_INVOCATIONS", BigInt),
    ("PROCEDURE_TOTAL_EXECUTION", BigInt),
    ("PROCEDURE_MIN_EXECUTION", BigInt),
    ("PROCEDURE_MAX_EXECUTION", BigInt),
    ("PROCEDURE_AVG_EXECUTION", BigInt),
    ("PROCEDURE_TOTAL_WAIT_TIME", BigInt),
    ("PROCEDURE_MIN_WAIT_TIME", BigInt),
    ("PROCEDURE_MAX_WAIT_TIME", BigInt),
    ("PROCEDURE_AVG_WAIT_TIME", BigInt),
    ("PROCEDURE_FAILURES", BigInt),
];

/// Those that are not of the schedule.
const TASK_PROCEDURE: [(&str, SqlType); TASK.len() - OF_SCHEDULER] = {
    let mut columns = [TASK[0]; TASK.len() - OF_SCHEDULER];
    let mut place = 0;
    while place < columns.len() {
        columns[place] = TASK[if place < HEAD { place } else { place + OF_SCHEDULER }];
        place += 1;
    }
    columns
};

pub(super) const SELECTORS: &[Selector] = &[
    Selector {
        names: &["TASK"],
        tables: &[Table { common: Common::Host, own: TASK, rows: |view| view.host.tasks.clone() }],
    },
    Selector {
        names: &["TASK_SCHEDULER"],
        tables: &[Table {
            common: Common::Host,
            own: TASK.split_at(HEAD + OF_SCHEDULER).0,
            rows: scheduler,
        }],
    },
    Selector {
        names: &["TASK_PROCEDURE"],
        tables: &[Table { common: Common::Host, own: &TASK_PROCEDURE, rows: procedure }],
    },
];

fn scheduler(view: &View) -> Vec<Row> {
    let of_scheduler = |row: &Row| row[..HEAD + OF_SCHEDULER].to_vec();
    view.host.tasks.iter().map(of_scheduler).collect()
}

fn procedure(view: &View) -> Vec<Row> {
    let of_procedure = |row: &Row| [&row[..HEAD], &row[HEAD + OF_SCHEDULER..]].concat();
    view.host.tasks.iter().map(of_procedure).collect()
}
