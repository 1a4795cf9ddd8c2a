//! Selectors of features that this release lacks: their columns, for tools that read them, and
//! never a row.

use super::{Common, Selector, Table, empty};
use lockstep_types::SqlType as T;
use lockstep_types::SqlType::{self, BigInt, Float, Integer, SmallInt, Varchar};

const DR_PRODUCER: &[Table] = &[
    empty(
        Common::Host,
        &[
            ("CLUSTER_ID", SmallInt),
            ("REMOTE_CLUSTER_ID", SmallInt),
            ("PARTITION_ID", Integer),
            ("STREAMTYPE", Varchar),
            ("TOTALBYTES", BigInt),
            ("TOTALBYTESINMEMORY", BigInt),
            ("TOTALBUFFERS", BigInt),
            ("LASTQUEUEDDRID", BigInt),
            ("LASTACKDRID", BigInt),
            ("LASTQUEUEDTIMESTAMP", T::Timestamp),
            ("LASTACKTIMESTAMP", T::Timestamp),
            ("ISSYNCED", Varchar),
            ("MODE", Varchar),
            ("QUEUE_GAP", BigInt),
            ("CONNECTION_STATUS", Varchar),
            ("AVAILABLE_BYTES", Integer),
            ("AVAILABLE_BUFFERS", Integer),
            ("CONSUMER_LIMIT_TYPE", Varchar),
        ],
    ),
    empty(
        Common::Host,
        &[
            ("CLUSTER_ID", SmallInt),
            ("REMOTE_CLUSTER_ID", SmallInt),
            ("STATE", Varchar),
            ("SYNCSNAPSHOTSTATE", Varchar),
            ("ROWSINSYNCSNAPSHOT", BigInt),
            ("ROWSACKEDFORSYNCSNAPSHOT", BigInt),
            ("QUEUEDEPTH", BigInt),
            ("REMOTECREATIONTIMESTAMP", T::Timestamp),
        ],
    ),
    empty(
        Common::Nothing,
        &[
            ("CLUSTER_ID", SmallInt),
            ("REMOTE_CLUSTER_ID", SmallInt),
            ("STATE", Varchar),
            ("LASTFAILURE", SmallInt),
        ],
    ),
];

const DR_CONSUMER: &[Table] = &[
    empty(
        Common::Host,
        &[
            ("CLUSTER_ID", Integer),
            ("REMOTE_CLUSTER_ID", Integer),
            ("STATE", Varchar),
            ("REPLICATION_RATE_1M", BigInt),
            ("REPLICATION_RATE_5M", BigInt),
            ("REMOTE_CREATION_TIMESTAMP", T::Timestamp),
        ],
    ),
    empty(
        Common::Host,
        &[
            ("CLUSTER_ID", Integer),
            ("REMOTE_CLUSTER_ID", Integer),
            ("PARTITION_ID", Integer),
            ("IS_COVERED", Varchar),
            ("COVERING_HOST", Varchar),
            ("LAST_RECEIVED_TIMESTAMP", T::Timestamp),
            ("LAST_APPLIED_TIMESTAMP", T::Timestamp),
            ("IS_PAUSED", Varchar),
            ("DUPLICATE_BUFFERS", BigInt),
            ("IGNORED_BUFFERS", BigInt),
            ("AVAILABLE_BYTES", Integer),
            ("AVAILABLE_BUFFERS", Integer),
            ("CONSUMER_LIMIT_TYPE", Varchar),
        ],
    ),
    empty(
        Common::Nothing,
        &[
            ("CLUSTER_ID", Integer),
            ("REMOTE_CLUSTER_ID", Integer),
            ("STATE", Varchar),
            ("LAST_FAILURE", Integer),
        ],
    ),
];

const COMPOUND: &[(&str, SqlType)] = &[
    ("PROCEDURE", Varchar),
    ("INVOCATIONS", BigInt),
    ("MIN_ELAPSED", BigInt),
    ("MAX_ELAPSED", BigInt),
    ("AVG_ELAPSED", BigInt),
    ("ABORTS", BigInt),
    ("FAILURES", BigInt),
];

pub(super) const SELECTORS: &[Selector] = &[
    Selector { names: &["DR", "DRPRODUCER"], tables: DR_PRODUCER },
    Selector { names: &["DRCONSUMER"], tables: DR_CONSUMER },
    Selector {
        names: &["DRCONFLICTS"],
        tables: &[empty(
            Common::Host,
            &[
                ("CLUSTER_ID", Integer),
                ("REMOTE_CLUSTER_ID", Integer),
                ("PARTITION_ID", Integer),
                ("TABLE_NAME", Varchar),
                ("LAST_CONFLICT_TIMESTAMP", T::Timestamp),
                ("TOTAL_CONFLICT_COUNT", BigInt),
                ("DIVERGENCE_COUNT", BigInt),
                ("MISSING_ROW_COUNT", BigInt),
                ("TIMESTAMP_MISMATCH_COUNT", BigInt),
                ("CONSTRAINT_VIOLATION_COUNT", BigInt),
            ],
        )],
    },
    Selector {
        names: &["EXPORT"],
        tables: &[empty(
            Common::Site,
            &[
                ("PARTITION_ID", BigInt),
                ("SOURCE", Varchar),
                ("TARGET", Varchar),
                ("ACTIVE", Varchar),
                ("TUPLE_COUNT", BigInt),
                ("TUPLE_PENDING", BigInt),
                ("LAST_QUEUED_TIMESTAMP", T::Timestamp),
                ("LAST_ACKED_TIMESTAMP", T::Timestamp),
                ("AVERAGE_LATENCY", BigInt),
                ("MAX_LATENCY", BigInt),
                ("QUEUE_GAP", BigInt),
                ("STATUS", Varchar),
            ],
        )],
    },
    Selector {
        names: &["IMPORT", "IMPORTER"],
        tables: &[empty(
            Common::Site,
            &[
                ("IMPORTER_NAME", Varchar),
                ("PROCEDURE_NAME", Varchar),
                ("SUCCESSES", BigInt),
                ("FAILURES", BigInt),
                ("OUTSTANDING_REQUESTS", BigInt),
                ("RETRIES", BigInt),
            ],
        )],
    },
    Selector {
        names: &["QUEUEPRIORITY"],
        tables: &[empty(
            Common::Site,
            &[
                ("PRIORITY", SmallInt),
                ("CURRENT_DEPTH", Integer),
                ("POLL_COUNT", BigInt),
                ("AVG_WAIT", BigInt),
                ("MAX_WAIT", BigInt),
            ],
        )],
    },
    Selector {
        names: &["REBALANCE"],
        tables: &[Table {
            common: Common::Nothing,
            own: &[
                ("TIMESTAMP", BigInt),
                ("PERCENTAGE_MOVED", Float),
                ("MOVED_ROWS", BigInt),
                ("ROWS_PER_SECOND", Float),
                ("ESTIMATED_REMAINING", BigInt),
                ("MEGABYTES_PER_SECOND", Float),
                ("CALLS_PER_SECOND", Float),
                ("CALLS_LATENCY", Float),
                ("CALLS_TIME", Float),
                ("CALLS_TRANSFER_TIME", Float),
            ],
            rows: |view| view.host.rebalance.clone(),
        }],
    },
    Selector {
        names: &["SNAPSHOTSTATUS"],
        tables: &[Table {
            common: Common::Host,
            own: crate::control::snapshot::STATUS,
            rows: |view| view.host.snapshot_status.clone(),
        }],
    },
    Selector {
        names: &["SNAPSHOTSUMMARY"],
        tables: &[Table {
            common: Common::Nothing,
            own: crate::control::snapshot::SUMMARY,
            rows: |view| view.host.snapshot_summary.clone(),
        }],
    },
    Selector {
        names: &["TTL"],
        tables: &[Table {
            common: Common::Time,
            own: &[
                ("TABLE_NAME", Varchar),
                ("ROWS_DELETED", BigInt),
                ("ROWS_DELETED_LAST_ROUND", BigInt),
                ("ROWS_REMAINING", BigInt),
                ("LAST_DELETE_TIMESTAMP", T::Timestamp),
            ],
            rows: |view| view.host.expired.clone(),
        }],
    },
    Selector { names: &["COMPOUNDPROC"], tables: &[empty(Common::Host, COMPOUND)] },
    Selector { names: &["COMPOUNDPROCSUMMARY"], tables: &[empty(Common::Time, COMPOUND)] },
    Selector {
        names: &["CLOCKSKEW"],
        tables: &[empty(
            Common::Host,
            &[("SKEW_TIME", Integer), ("REMOTE_HOST_ID", Integer), ("REMOTE_HOST_NAME", Varchar)],
        )],
    },
    Selector {
        names: &["COMPOUNDPROCCALLS"],
        tables: &[empty(
            Common::Host,
            &[("PROCEDURE", Varchar), ("CALLED_PROCEDURE", Varchar), ("INVOCATIONS", BigInt)],
        )],
    },
];
