//! The table of system procedures: name, parameters, the callers, the states of a host in which
//! calls are accepted, whether tasks may call it, and the thread that answers. CREATE TASK, the
//! host's dispatch, the SQL shell and `docs/system-procedures.md` are made from it.

mod page;
mod parameters;

pub use page::reference_page;
pub use parameters::{Form, ParameterKind};

use ParameterKind::{
    Any, BigInt, Bytes, Integer, Rows, Text, TextOrInteger, Texts, TinyInt, Values,
};

/// The thread that answers calls of a system procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The control thread of the host.
    Control,
    /// The thread of the caller's connection.
    Connection,
    /// The site of the partition that the call names.
    Partition,
}

/// A system procedure.
#[derive(Debug, Clone, Copy)]
pub struct SystemProcedure {
    /// Names it in code.
    pub id: SystemProcedureId,
    /// Its name, with the `@`.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub meaning: &'static str,
    /// The lists of parameters that a call may have, the shortest first.
    pub forms: &'static [&'static Form],
    /// Calls are checked against `forms` before the handler has them; a handler of another one
    /// checks them itself, in its own order and with its own texts.
    pub checked: bool,
    /// Only connections to the admin port may call it.
    pub administrators: bool,
    /// Connections to the client port may call it while an administrator has paused the host. A
    /// call that would write is refused then by its handler.
    pub while_paused: bool,
    /// Calls are accepted while a stop is prepared.
    pub while_stopping: bool,
    /// The numbers of arguments with which tasks may call it; none where tasks may not.
    pub task_arguments: &'static [usize],
    /// The thread that answers.
    pub answered_by: AnsweredBy,
}

const fn procedure(meaning: &'static str, forms: &'static [&'static Form]) -> SystemProcedure {
    SystemProcedure {
        // The table sets both.
        id: SystemProcedureId::Ping,
        name: "",
        meaning,
        forms,
        checked: false,
        administrators: false,
        while_paused: false,
        while_stopping: false,
        task_arguments: &[],
        answered_by: AnsweredBy::Control,
    }
}

impl SystemProcedure {
    /// The system procedure of a name; names are case sensitive.
    #[inline]
    pub fn find(name: &str) -> Option<&'static SystemProcedure> {
        SystemProcedureId::find(name).map(SystemProcedureId::row)
    }

    /// Those that tasks may call.
    pub fn of_tasks() -> impl Iterator<Item = &'static SystemProcedure> {
        TABLE.iter().filter(|procedure| !procedure.task_arguments.is_empty())
    }

    /// The parameters of a call with that number of arguments, if the procedure takes it.
    pub fn form(&self, arguments: usize) -> Option<&'static Form> {
        self.forms.iter().copied().find(|form| form.len() == arguments)
    }

    const fn checked(self) -> Self {
        SystemProcedure { checked: true, ..self }
    }

    const fn administrators(self) -> Self {
        SystemProcedure { administrators: true, ..self }
    }

    const fn while_paused(self) -> Self {
        SystemProcedure { while_paused: true, ..self }
    }

    const fn while_stopping(self) -> Self {
        SystemProcedure { while_stopping: true, ..self }
    }

    const fn tasks(self, task_arguments: &'static [usize]) -> Self {
        SystemProcedure { task_arguments, ..self }
    }

    const fn by(self, answered_by: AnsweredBy) -> Self {
        SystemProcedure { answered_by, ..self }
    }
}

impl SystemProcedureId {
    /// Its row of the table.
    #[inline]
    pub fn row(self) -> &'static SystemProcedure {
        &TABLE[self as usize]
    }
}

macro_rules! system_procedures {
    ($($id:ident = $row:expr;)*) => {
        /// A system procedure, as code names it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum SystemProcedureId {
            $(#[doc = concat!("`@", stringify!($id), "`")] $id,)*
        }

        impl SystemProcedureId {
            #[inline]
            fn find(name: &str) -> Option<SystemProcedureId> {
                match name {
                    $(concat!("@", stringify!($id)) => Some(SystemProcedureId::$id),)*
                    _ => None,
                }
            }
        }

        /// All system procedures, by name.
        pub static TABLE: &[SystemProcedure] = &[$(SystemProcedure {
            id: SystemProcedureId::$id,
            name: concat!("@", stringify!($id)),
            ..$row
        }),*];
    };
}

system_procedures! {
    AdHoc = procedure(
        "Runs SQL statements: queries and DML in one transaction, or schema changes.",
        &[&[("sql", Text)], &[("sql", Text), ("values", Values)]],
    ).while_paused().tasks(&[1]);
    AdHocLarge = procedure(
        "Runs SQL statements as `@AdHoc` does, without schema changes.",
        &[&[("sql", Text)], &[("sql", Text), ("values", Values)]],
    );
    AdHocSpForTest = procedure(
        "Runs one SQL statement at the partition of a value.",
        &[
            &[("sql", Text), ("partitioning value", Any)],
            &[("sql", Text), ("partitioning value", Any), ("values", Values)],
        ],
    ).while_paused();
    AddHost = procedure(
        "Adds a host to the cluster: it gets a number, joins, and is given its share of copies.",
        &[&[("internal address", Text)]],
    ).checked().administrators();
    CancelShutdown = procedure("Cancels a prepared shutdown.", &[&[]])
        .checked().administrators().while_stopping();
    Explain = procedure(
        "Shows the plans of SQL statements.",
        &[&[("sql", Text)], &[("sql", Text), ("values", Values)]],
    ).while_paused();
    ExplainCatalog = procedure("Shows the statements that make the schema.", &[&[]]).while_paused();
    ExplainJSON = procedure("Shows the plans of SQL statements as JSON.", &[&[("sql", Text)]])
        .while_paused();
    ExplainProc = procedure(
        "Shows the plans of stored procedures' statements.", &[&[("procedures", Text)]],
    ).checked().while_paused();
    ExplainView = procedure(
        "Shows how materialized views are refreshed.", &[&[("views", Text)]],
    ).checked().while_paused();
    GC = procedure("Returns free memory to the operating system.", &[&[]]).checked().tasks(&[0]);
    GetPartitionKeys = procedure(
        "Returns a value of a type for each partition that is hashed to it.",
        &[&[("type", Text)]],
    ).while_paused().while_stopping();
    KeepHost = procedure(
        "Ends the removal of a host, which keeps the copies that it has.",
        &[&[("host", Integer)]],
    ).checked().administrators();
    LoadMultipartitionTable = procedure(
        "Inserts or upserts the rows of a replicated table.",
        &[&[("table", Text), ("upsert", TinyInt), ("rows", Rows)]],
    );
    LoadSinglepartitionTable = procedure(
        "Inserts or upserts rows of a partitioned table, all at one partition.",
        &[&[
            ("partitioning value", Bytes), ("table", Text), ("upsert", TinyInt), ("rows", Rows),
        ]],
    ).by(AnsweredBy::Partition);
    MigratePartitionLeader = procedure(
        "Moves the leader of a partition to a host with a copy that is in sync.",
        &[&[("partition", Integer), ("host", Integer)]],
    ).checked().administrators();
    MovePartitionCopy = procedure(
        "Moves the copy of a partition from a host to another one, with its leader if it is there.",
        &[&[("partition", Integer), ("from", Integer), ("to", Integer)]],
    ).checked().administrators();
    Note = procedure("Writes a line into the log.", &[&[("text", Text)]])
        .checked().while_stopping().tasks(&[1]);
    Pause = procedure("Pauses the host: the client port only reads.", &[&[]])
        .checked().administrators();
    Ping = procedure("Answers.", &[&[]])
        .while_paused().while_stopping().tasks(&[0]).by(AnsweredBy::Connection);
    PingPartitions = procedure(
        "Answers once the thread of each site has answered.", &[&[("number", BigInt)]],
    ).checked();
    PrepareShutdown = procedure(
        "Refuses calls from now on, and returns the number for `@Shutdown` to save a snapshot.",
        &[&[]],
    ).checked().administrators().while_stopping();
    PrepareStopNode = procedure(
        "Moves the leaders of a host's partitions to hosts with copies that are in sync.",
        &[&[("host", Integer)]],
    ).checked();
    ProfCtl = procedure("Answers as a server without a profiler.", &[&[("command", Text)]])
        .checked();
    Promote = procedure("Fails: the cluster is not a replica of another one.", &[&[]]).checked();
    QueryStats = procedure("Runs a query over statistics.", &[&[("sql", Text)]]).while_paused();
    Quiesce = procedure("Answers once everything that was answered before is durable.", &[&[]])
        .checked().while_stopping().tasks(&[0]);
    RemoveHost = procedure(
        "Removes a host from the cluster: its copies are moved to others, and then it stops.",
        &[&[("host", Integer)]],
    ).checked().administrators();
    Resume = procedure("Ends a pause.", &[&[]]).checked().administrators();
    SetKFactor = procedure(
        "Changes how many hosts may be lost: each partition gets a copy more, or loses one.",
        &[&[("kfactor", Integer)]],
    ).checked().administrators();
    Shutdown = procedure(
        "Stops the host; with the number of `@PrepareShutdown` it saves a snapshot first.",
        &[&[], &[("number", TextOrInteger)]],
    ).checked().administrators().while_stopping();
    SnapshotDelete = procedure(
        "Deletes snapshots.",
        &[
            &[("paths", Texts), ("nonces", Texts)],
            &[("paths", Texts), ("nonces", Texts), ("path type", Text)],
        ],
    );
    SnapshotRestore = procedure(
        "Loads a snapshot into a host without rows.",
        &[&[("json", Text)], &[("path", Text), ("nonce", Text)]],
    );
    SnapshotSave = procedure(
        "Saves a snapshot.",
        &[&[], &[("json", Text)], &[("path", Text), ("nonce", Text), ("blocking", Integer)]],
    ).while_stopping().tasks(&[1, 3]);
    SnapshotScan = procedure("Lists the snapshots in a folder.", &[&[("path", Text)]])
        .while_stopping();
    Statistics = procedure(
        "Returns statistics; with interval 1, those since the last such call.",
        &[&[("selector", Text)], &[("selector", Text), ("interval", Integer)]],
    ).while_paused().while_stopping().tasks(&[1, 2]);
    StopNode = procedure(
        "Moves the leaders of a host's partitions to others, and stops it; with force 1 also where \
         that loses partitions.",
        &[&[("host", Integer)], &[("host", Integer), ("force", Integer)]],
    );
    Subscribe = procedure(
        "Pushes changes of topology and catalog to the connection.",
        &[&[], &[("topic", Text)]],
    ).while_paused().while_stopping().by(AnsweredBy::Connection);
    SwapTables = procedure(
        "Exchanges the rows of two tables.", &[&[("table", Text), ("table", Text)]],
    );
    SystemCatalog = procedure("Returns a part of the catalog.", &[&[("selector", Text)]])
        .while_paused().while_stopping().tasks(&[1]);
    SystemClockSkew = procedure("Returns the clocks of the hosts.", &[&[("action", Text)]])
        .while_paused();
    SystemInformation = procedure(
        "Returns OVERVIEW, DEPLOYMENT or LICENSE of the host, or CLUSTER.",
        &[&[], &[("selector", Text)]],
    ).while_paused().while_stopping();
    UpdateApplicationCatalog = procedure(
        "Takes a deployment file that is equal to the settings of the host.",
        &[&[("catalog", Bytes), ("deployment", Text)]],
    ).checked();
    UpdateClasses = procedure(
        "Loads the classes of a jar file, and removes others.",
        &[&[("jar", Bytes), ("removed classes", Text)]],
    );
    UpdateLogging = procedure("Changes what is logged.", &[&[("configuration", Text)]])
        .checked();
    ValidatePartitioning = procedure(
        "Counts the rows that are at another partition than their hash says.",
        &[&[], &[("configuration", Any)]],
    ).tasks(&[0]);
}

/// System procedures of VoltDB whose feature is not in this release, with why.
pub const ABSENT: &[(&str, &str)] = &[
    ("@CheckUpgradePlanNT", "upgrades in service need several hosts, and this cluster has one"),
    ("@ElasticRemoveNT", "hosts are removed by @RemoveHost (lockstep admin cluster remove)"),
    ("@ExportControl", "this release exports no streams"),
    ("@JStack", "thread dumps are Java's; use gdb or perf on this process"),
    ("@ResetDR", "this release has no replication between clusters"),
    ("@StopReplicas", "this release has no replicas"),
    ("@TopicControl", "this release has no topics"),
    ("@UpdateLicense", "this database needs no license key (Apache-2.0)"),
];

/// Other system procedures of VoltDB that are not in this release.
pub const UNAVAILABLE: &[&str] = &[
    "@AdHoc_RO_MP",
    "@AdHoc_RO_SP",
    "@AdHoc_RW_MP",
    "@AdHoc_RW_SP",
    "@GetHashinatorConfig",
    "@LowImpactDeleteNT",
    "@Trace",
    "@UpdateSettings",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once_and_found() {
        let absent = || UNAVAILABLE.iter().copied().chain(ABSENT.iter().map(|(name, _)| *name));
        let names = || TABLE.iter().map(|procedure| procedure.name).chain(absent());
        for name in names() {
            assert_eq!(names().filter(|other| *other == name).count(), 1, "{name}");
            assert!(name.starts_with('@'), "{name}");
        }
        assert!(TABLE.is_sorted_by_key(|procedure| procedure.name));
        for procedure in TABLE {
            let found = SystemProcedure::find(procedure.name).expect("found");
            assert_eq!((found.id, found.name), (procedure.id, procedure.name));
        }
        assert!(absent().all(|name| SystemProcedure::find(name).is_none()));
        assert!(SystemProcedure::find("@ping").is_none(), "names are case sensitive");
    }

    #[test]
    fn rows_agree_with_themselves() {
        for procedure in TABLE {
            let (name, forms) = (procedure.name, procedure.forms);
            assert!(procedure.meaning.ends_with('.'), "{name}");
            assert!(!forms.is_empty() && forms.is_sorted_by_key(|form| form.len()), "{name}");
            for form in forms {
                assert!(
                    form.iter().all(|(_, kind)| *kind != Values || !procedure.checked),
                    "{name}"
                );
            }
            for count in procedure.task_arguments {
                let form = procedure.form(*count).expect("tasks call it in one of its forms");
                assert!(form.iter().all(|(_, kind)| kind.sql_type().is_some()), "{name}");
            }
            // Who may not call it as a client has no use for being let through a pause.
            assert!(!(procedure.administrators && procedure.while_paused), "{name}");
            let by_task = !procedure.task_arguments.is_empty();
            assert!(!(procedure.administrators && by_task), "{name}");
        }
    }
}
