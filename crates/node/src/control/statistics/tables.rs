//! The tables of `@Statistics`: for each selector its columns, and the rows from what the threads
//! counted. Selectors of features that this release lacks give their columns without rows.

mod absent;
mod histogram;
mod host;
mod procedures;
mod sites;
mod tasks;
mod transactions;

use crate::catalog::HostCatalog;
use crate::log::LogStatus;
use crate::message::Origin;
use crate::shard::HostFacts;
use crate::statistics::{Extent, ReplicaSnapshot, ThreadSnapshot};
use lockstep_types::SqlType::{self, BigInt, Float, Integer, TinyInt, Varchar};
use lockstep_types::{SqlType as T, TableBuilder, TableSchema, Value};

/// Everything that a table is made from.
pub(super) struct View<'a> {
    pub(super) facts: &'a HostFacts,
    pub(super) catalog: &'a HostCatalog,
    /// The call that the tables are for.
    pub(super) asking: Origin,
    /// In the order of threads.
    pub(super) snapshots: Vec<ThreadSnapshot>,
    pub(super) now_ms: i64,
    /// Since when the counters run.
    pub(super) since_ms: i64,
    pub(super) host: &'a HostCounts,
}

impl View<'_> {
    /// The numbers of all replicas, in the order of their threads.
    fn replicas(&self) -> impl Iterator<Item = &ReplicaSnapshot> {
        self.snapshots.iter().flat_map(|thread| &thread.replicas)
    }
}

/// What a host counts beside its threads.
pub(in crate::control) struct HostCounts {
    /// The state of the command log, if there is one.
    pub(in crate::control) log: Option<LogStatus>,
    /// The rows of SNAPSHOTSTATUS, and of SNAPSHOTSUMMARY.
    pub(in crate::control) snapshot_status: Vec<Row>,
    pub(in crate::control) snapshot_summary: Vec<Row>,
    /// The rows of TASK.
    pub(in crate::control) tasks: Vec<Row>,
    /// The rows of TTL.
    pub(in crate::control) expired: Vec<Row>,
    /// The row of REBALANCE.
    pub(in crate::control) rebalance: Vec<Row>,
    /// Cached plans, and what was counted of planning.
    pub(in crate::control) plans: PlannerCounts,
}

/// What the planner counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlannerCounts {
    /// Plans of texts and of forms in the cache.
    pub(in crate::control) kept: u64,
    /// Texts that the cache had.
    pub(in crate::control) hits: u64,
    /// Texts that it did not have.
    pub(in crate::control) misses: u64,
    /// Texts that were planned.
    pub(in crate::control) planned: u64,
    /// Texts that could not be planned.
    pub(in crate::control) failures: u64,
    /// Time that planning took, nanoseconds a text.
    pub(in crate::control) planning_ns: Extent,
}

/// The columns in front of a selector's own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Common {
    Nothing,
    Time,
    Host,
    Site,
}

type Row = Vec<Value>;

/// One table of a selector.
struct Table {
    common: Common,
    own: &'static [(&'static str, SqlType)],
    rows: fn(&View) -> Vec<Row>,
}

struct Selector {
    names: &'static [&'static str],
    tables: &'static [Table],
}

const fn none(_: &View) -> Vec<Row> {
    Vec::new()
}

const fn empty(common: Common, own: &'static [(&'static str, SqlType)]) -> Table {
    Table { common, own, rows: none }
}

const PROCEDURE_COUNTS: &[(&str, SqlType)] = &[
    ("PARTITION_ID", Integer),
    ("PROCEDURE", Varchar),
    ("INVOCATIONS", BigInt),
    ("TIMED_INVOCATIONS", BigInt),
    ("MIN_EXECUTION_TIME", BigInt),
    ("MAX_EXECUTION_TIME", BigInt),
    ("AVG_EXECUTION_TIME", BigInt),
    ("MIN_RESULT_SIZE", Integer),
    ("MAX_RESULT_SIZE", Integer),
    ("AVG_RESULT_SIZE", Integer),
    ("MIN_PARAMETER_SET_SIZE", Integer),
    ("MAX_PARAMETER_SET_SIZE", Integer),
    ("AVG_PARAMETER_SET_SIZE", Integer),
    ("ABORTS", BigInt),
    ("FAILURES", BigInt),
    ("TRANSACTIONAL", TinyInt),
    ("COMPOUND", TinyInt),
];

const MEMORY: Table = Table {
    common: Common::Host,
    own: &[
        ("RSS", Integer),
        ("JAVAUSED", Integer),
        ("JAVAUNUSED", Integer),
        ("TUPLEDATA", BigInt),
        ("TUPLEALLOCATED", BigInt),
        ("INDEXMEMORY", BigInt),
        ("STRINGMEMORY", BigInt),
        ("TUPLECOUNT", BigInt),
        ("POOLEDMEMORY", BigInt),
        ("PHYSICALMEMORY", BigInt),
        ("JAVAMAXHEAP", Integer),
    ],
    rows: host::memory,
};

const INITIATOR: Table = Table {
    common: Common::Site,
    own: &[
        ("CONNECTION_ID", BigInt),
        ("CONNECTION_HOSTNAME", Varchar),
        ("PROCEDURE_NAME", Varchar),
        ("INVOCATIONS", BigInt),
        ("AVG_EXECUTION_TIME", Integer),
        ("MIN_EXECUTION_TIME", Integer),
        ("MAX_EXECUTION_TIME", Integer),
        ("ABORTS", BigInt),
        ("FAILURES", BigInt),
    ],
    rows: procedures::initiator,
};

const PROCEDURE: Table =
    Table { common: Common::Site, own: PROCEDURE_COUNTS, rows: procedures::procedure };

const IOSTATS: Table = Table {
    common: Common::Host,
    own: &[
        ("CONNECTION_ID", BigInt),
        ("CONNECTION_HOSTNAME", Varchar),
        ("BYTES_READ", BigInt),
        ("MESSAGES_READ", BigInt),
        ("BYTES_WRITTEN", BigInt),
        ("MESSAGES_WRITTEN", BigInt),
    ],
    rows: host::io,
};

const TABLE: Table = Table {
    common: Common::Site,
    own: &[
        ("PARTITION_ID", BigInt),
        ("TABLE_NAME", Varchar),
        ("TABLE_TYPE", Varchar),
        ("TUPLE_COUNT", BigInt),
        ("TUPLE_ALLOCATED_MEMORY", BigInt),
        ("TUPLE_DATA_MEMORY", BigInt),
        ("STRING_DATA_MEMORY", BigInt),
        ("TUPLE_LIMIT", Integer),
        ("PERCENT_FULL", Integer),
        ("DR", Varchar),
        ("EXPORT", Varchar),
    ],
    rows: sites::table,
};

const INDEX: Table = Table {
    common: Common::Site,
    own: &[
        ("PARTITION_ID", BigInt),
        ("INDEX_NAME", Varchar),
        ("TABLE_NAME", Varchar),
        ("INDEX_TYPE", Varchar),
        ("IS_UNIQUE", TinyInt),
        ("IS_COUNTABLE", TinyInt),
        ("ENTRY_COUNT", BigInt),
        ("MEMORY_ESTIMATE", BigInt),
    ],
    rows: sites::index,
};

const IDLETIME: Table = Table {
    common: Common::Site,
    own: &[
        ("COUNT", BigInt),
        ("PERCENT", Float),
        ("AVG", BigInt),
        ("MIN", BigInt),
        ("MAX", BigInt),
        ("STDDEV", BigInt),
    ],
    rows: sites::idle_time,
};

const QUEUE: Table = Table {
    common: Common::Site,
    own: &[
        ("CURRENT_DEPTH", Integer),
        ("POLL_COUNT", BigInt),
        ("AVG_WAIT", BigInt),
        ("MAX_WAIT", BigInt),
    ],
    rows: sites::queue,
};

const CPU: Table =
    Table { common: Common::Host, own: &[("PERCENT_USED", BigInt)], rows: host::cpu };

const LIMITS_COLUMNS: &[(&str, SqlType)] = &[
    ("FILE_DESCRIPTORS_LIMIT", Integer),
    ("FILE_DESCRIPTORS_OPEN", Integer),
    ("CLIENT_CONNECTIONS_LIMIT", Integer),
    ("CLIENT_CONNECTIONS_OPEN", Integer),
    ("ACCEPTED_CONNECTIONS", Integer),
    ("DROPPED_CONNECTIONS", Integer),
];

const LIMITS: Table = Table { common: Common::Host, own: LIMITS_COLUMNS, rows: host::limits };

const SELECTORS: &[Selector] = &[
    Selector { names: &["MEMORY"], tables: &[MEMORY] },
    Selector { names: &["INITIATOR"], tables: &[INITIATOR] },
    Selector { names: &["PROCEDURE"], tables: &[PROCEDURE] },
    Selector { names: &["IOSTATS"], tables: &[IOSTATS] },
    Selector { names: &["TABLE"], tables: &[TABLE] },
    Selector { names: &["INDEX"], tables: &[INDEX] },
    Selector { names: &["IDLETIME", "STARVATION"], tables: &[IDLETIME] },
    Selector { names: &["QUEUE"], tables: &[QUEUE] },
    Selector { names: &["CPU"], tables: &[CPU] },
    Selector { names: &["LIMITS"], tables: &[LIMITS] },
    Selector {
        names: &["MANAGEMENT"],
        tables: &[MEMORY, INITIATOR, PROCEDURE, IOSTATS, TABLE, INDEX, IDLETIME, QUEUE, CPU],
    },
    Selector {
        names: &["PROCEDUREDETAIL"],
        tables: &[Table {
            common: Common::Site,
            own: &[
                ("PARTITION_ID", Integer),
                ("PROCEDURE", Varchar),
                ("STATEMENT", Varchar),
                ("INVOCATIONS", BigInt),
                ("TIMED_INVOCATIONS", BigInt),
                ("MIN_EXECUTION_TIME", BigInt),
                ("MAX_EXECUTION_TIME", BigInt),
                ("AVG_EXECUTION_TIME", BigInt),
                ("MIN_RESULT_SIZE", Integer),
                ("MAX_RESULT_SIZE", Integer),
                ("AVG_RESULT_SIZE", Integer),
                ("MIN_PARAMETER_SET_SIZE", Integer),
                ("MAX_PARAMETER_SET_SIZE", Integer),
                ("AVG_PARAMETER_SET_SIZE", Integer),
                ("ABORTS", BigInt),
                ("FAILURES", BigInt),
            ],
            rows: procedures::detail,
        }],
    },
    Selector {
        names: &["PROCEDUREPROFILE"],
        tables: &[Table {
            common: Common::Time,
            own: &[
                ("PROCEDURE", Varchar),
                ("WEIGHTED_PERC", BigInt),
                ("INVOCATIONS", BigInt),
                ("AVG", BigInt),
                ("MIN", BigInt),
                ("MAX", BigInt),
                ("ABORTS", BigInt),
                ("FAILURES", BigInt),
            ],
            rows: procedures::profile,
        }],
    },
    Selector {
        names: &["PROCEDUREINPUT"],
        tables: &[Table {
            common: Common::Time,
            own: &[
                ("PROCEDURE", Varchar),
                ("WEIGHTED_PERC", BigInt),
                ("INVOCATIONS", BigInt),
                ("MIN_PARAMETER_SET_SIZE", BigInt),
                ("MAX_PARAMETER_SET_SIZE", BigInt),
                ("AVG_PARAMETER_SET_SIZE", BigInt),
                ("TOTAL_PARAMETER_SET_SIZE_MB", BigInt),
            ],
            rows: procedures::input,
        }],
    },
    Selector {
        names: &["PROCEDUREOUTPUT"],
        tables: &[Table {
            common: Common::Time,
            own: &[
                ("PROCEDURE", Varchar),
                ("WEIGHTED_PERC", BigInt),
                ("INVOCATIONS", BigInt),
                ("MIN_RESULT_SIZE", BigInt),
                ("MAX_RESULT_SIZE", BigInt),
                ("AVG_RESULT_SIZE", BigInt),
                ("TOTAL_RESULT_SIZE_MB", BigInt),
            ],
            rows: procedures::output,
        }],
    },
    Selector { names: &["TRANSACTIONS"], tables: transactions::TABLES },
    Selector {
        names: &["LATENCY"],
        tables: &[Table {
            common: Common::Host,
            own: &[
                ("INTERVAL", Integer),
                ("COUNT", Integer),
                ("TPS", Integer),
                ("P50", BigInt),
                ("P95", BigInt),
                ("P99", BigInt),
                ("P99.9", BigInt),
                ("P99.99", BigInt),
                ("P99.999", BigInt),
                ("MAX", BigInt),
            ],
            rows: host::latency,
        }],
    },
    Selector {
        names: &["LATENCY_COMPRESSED"],
        tables: &[Table {
            common: Common::Site,
            own: &[("HISTOGRAM", T::Varbinary)],
            rows: histogram::compressed,
        }],
    },
    Selector {
        names: &["LATENCY_HISTOGRAM"],
        tables: &[Table {
            common: Common::Site,
            own: &[("HISTOGRAM", T::Varbinary), ("UNCOMPRESSED_HISTOGRAM", T::Varbinary)],
            rows: histogram::both,
        }],
    },
    Selector {
        names: &["LIVECLIENTS"],
        tables: &[
            Table {
                common: Common::Host,
                own: &[
                    ("CONNECTION_ID", BigInt),
                    ("CLIENT_HOSTNAME", Varchar),
                    ("ADMIN", TinyInt),
                    ("OUTSTANDING_REQUEST_BYTES", BigInt),
                    ("OUTSTANDING_RESPONSE_MESSAGES", BigInt),
                    ("OUTSTANDING_TRANSACTIONS", BigInt),
                ],
                rows: host::live_clients,
            },
            LIMITS,
        ],
    },
    Selector {
        names: &["PARTITIONCOUNT"],
        tables: &[Table {
            common: Common::Host,
            own: &[("PARTITION_COUNT", Integer)],
            rows: host::partition_count,
        }],
    },
    Selector {
        names: &["PLANNER"],
        tables: &[Table {
            common: Common::Host,
            own: &[
                ("SITE_ID", Integer),
                ("PARTITION_ID", Integer),
                ("CACHE1_LEVEL", Integer),
                ("CACHE2_LEVEL", Integer),
                ("CACHE1_HITS", BigInt),
                ("CACHE2_HITS", BigInt),
                ("CACHE_MISSES", BigInt),
                ("PLAN_TIME_MIN", BigInt),
                ("PLAN_TIME_MAX", BigInt),
                ("PLAN_TIME_AVG", BigInt),
                ("FAILURES", BigInt),
            ],
            rows: host::planner,
        }],
    },
    Selector {
        names: &["COMMANDLOG"],
        tables: &[Table {
            common: Common::Host,
            own: &[
                ("OUTSTANDING_BYTES", BigInt),
                ("OUTSTANDING_TXNS", BigInt),
                ("IN_USE_SEGMENT_COUNT", Integer),
                ("SEGMENT_COUNT", Integer),
                ("FSYNC_INTERVAL", Integer),
            ],
            rows: host::command_log,
        }],
    },
    Selector {
        names: &["GC"],
        tables: &[Table {
            common: Common::Host,
            own: &[
                ("NEWGEN_GC_COUNT", Integer),
                ("NEWGEN_AVG_GC_TIME", BigInt),
                ("OLDGEN_GC_COUNT", Integer),
                ("OLDGEN_AVG_GC_TIME", BigInt),
            ],
            rows: none,
        }],
    },
    Selector {
        names: &["KSAFETY"],
        tables: &[Table {
            common: Common::Nothing,
            own: &[("TIMESTAMP", BigInt), ("PARTITION_ID", Integer), ("MISSING_REPLICA", Integer)],
            rows: host::k_safety,
        }],
    },
    Selector {
        names: &["COPIES"],
        tables: &[Table {
            common: Common::Site,
            own: &[
                ("PARTITION_ID", Integer),
                ("ROLE", Varchar),
                ("EPOCH", BigInt),
                ("UNAPPLIED_BYTES", BigInt),
                ("LOADED_ROWS", BigInt),
                ("LOADED_BYTES", BigInt),
                ("ROWS_TO_LOAD", BigInt),
            ],
            rows: host::copies,
        }],
    },
    Selector {
        names: &["DRROLE"],
        tables: &[Table {
            common: Common::Nothing,
            own: &[("ROLE", Varchar), ("STATE", Varchar), ("REMOTE_CLUSTER_ID", Integer)],
            rows: host::dr_role,
        }],
    },
];

fn find(name: &str) -> Option<&'static Selector> {
    let mut all = SELECTORS.iter().chain(tasks::SELECTORS).chain(absent::SELECTORS);
    all.find(|selector| selector.names.contains(&name))
}

/// Whether `@Statistics` knows the selector (in upper case).
pub(super) fn is_selector(name: &str) -> bool {
    find(name).is_some()
}

/// Appends a selector's tables; returns their number.
pub(super) fn write(out: &mut Vec<u8>, selector: &str, view: &View) -> u16 {
    let tables = find(selector).map_or(&[][..], |selector| selector.tables);
    for table in tables {
        write_table(out, table, view);
    }
    tables.len() as u16
}

fn write_table(out: &mut Vec<u8>, table: &Table, view: &View) {
    let mut columns: Vec<(&str, SqlType)> = Vec::new();
    let mut front: Vec<Value> = Vec::new();
    if table.common != Common::Nothing {
        columns.push(("TIMESTAMP", BigInt));
        front.push(Value::Int(view.now_ms));
    }
    if matches!(table.common, Common::Host | Common::Site) {
        columns.extend([("HOST_ID", Integer), ("HOSTNAME", Varchar)]);
        let host = view.facts.placement().host();
        front.extend([Value::Int(host.0.into()), text(&view.facts.host_name)]);
    }
    if table.common == Common::Site {
        columns.push(("SITE_ID", Integer));
    }
    columns.extend_from_slice(table.own);
    let schema = TableSchema::new(&columns);
    let mut builder = TableBuilder::begin(out, &schema);
    // Rows of per-site tables begin with their site.
    for row in (table.rows)(view) {
        let values: Vec<_> = front.iter().chain(&row).map(Value::as_datum).collect();
        builder.row(&schema, &values);
    }
    builder.finish();
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

/// A counter as a value; counters stay far below 2^63.
fn number(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// A counter for an INTEGER column, cut at its greatest value.
fn small(value: u64) -> Value {
    Value::Int(i64::from(i32::try_from(value).unwrap_or(i32::MAX)))
}
