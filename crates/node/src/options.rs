//! Every limit and option of a host, in one table: the help text, the reference page, the parser
//! and the checks all come from it.
//!
//! Long file: the table has a few lines for each option.

mod control_plane;
mod values;

pub use values::{
    Bytes, BytesPerSecond, Count, Microseconds, Milliseconds, OnOff, OptionValue, Percent,
    Priority, Seconds,
};

use lockstep_exec::watch::{Caller, LimitSource, TimeLimit};
use lockstep_plan::{Planning, RuleSet};
#[cfg(feature = "faults")]
use lockstep_site::StopEverything;
use lockstep_sql::Limits;
use std::fmt;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct OptionInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// What its number counts.
    pub unit: &'static str,
    /// The value when it is not given.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The greatest value.
    pub max: u64,
    /// What it does, in a sentence.
    pub meaning: &'static str,
}

macro_rules! options {
    ($($(#[$row:meta])*
       $name:ident: $type:ty = $default:expr, $min:expr, $max:expr, $unit:literal, $meaning:literal;
    )*) => {
        /// The options of a host, all within their ranges.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Options {
            $($(#[$row])* #[doc = $meaning] pub $name: $type,)*
        }

        /// The table.
        pub const TABLE: &[OptionInfo] = &[$($(#[$row])* OptionInfo {
            name: stringify!($name), unit: $unit, default: $default, min: $min, max: $max,
            meaning: $meaning,
        }),*];

        impl Default for Options {
            fn default() -> Self {
                Options { $($(#[$row])* $name: <$type>::from_number($default)),* }
            }
        }

        impl Options {
            /// Sets an option of the table by the number of its value.
            fn set_number(&mut self, name: &str, number: u64) {
                match name {
                    $($(#[$row])* stringify!($name) => {
                        self.$name = <$type>::from_number(number);
                    })*
                    _ => unreachable!("the table and the fields come from one list"),
                }
            }

            /// The number of an option's value, by name.
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $($(#[$row])* stringify!($name) => Some(self.$name.number()),)*
                    _ => None,
                }
            }
        }

        /// The names of options with what the numbers of their types count.
        #[cfg(test)]
        const UNITS: &[(&str, Option<&str>)] =
            &[$($(#[$row])* (stringify!($name), <$type>::UNIT)),*];
    };
}

const MIB: u64 = 1 << 20;

/// The greatest value of the option `partitions_per_site`.
pub const MAX_PARTITIONS_PER_SITE: u64 = 16;

options! {
    partitions_per_site: Count = 1, 1, MAX_PARTITIONS_PER_SITE, "partitions",
        "Partitions that each site's thread serves. A host has this number times its number of \
         sites; the number of partitions of a directory never changes.";
    max_connections: Count = 20_000, 1, 1_000_000, "connections",
        "Client and admin connections at a time; the next one is refused.";
    max_invocation_bytes: Bytes = 50 * MIB, 1_024, 1_024 * MIB, "bytes",
        "Length of one message from a client; a longer one closes its connection.";
    max_response_bytes: Bytes = 50 * MIB, 1_024, 1_024 * MIB, "bytes",
        "Result tables of one call; a call that gives more fails.";
    max_statement_bytes: Bytes = MIB, 64, 50 * MIB, "bytes",
        "Length of the SQL text of one call.";
    max_nesting_depth: Count = 500, 10, 500, "levels",
        "Nesting of expressions and subqueries in a statement.";
    max_statements: Count = 10_000, 1, 1_000_000, "statements",
        "Statements in the SQL text of one call, and in a procedure.";
    max_columns: Count = 1_024, 1, 1_024, "columns",
        "Columns that a table declares or a select list names, and expressions in GROUP BY, ORDER \
         BY and calls of functions; `*` gives up to 1,024 whatever is set here.";
    max_parameters: Count = 1_025, 0, 1_025, "parameters",
        "Parameters of a statement.";
    max_joined_tables: Count = 200, 1, 200, "tables",
        "Tables that a statement reads, those of subqueries included.";
    max_in_list: Count = 100_000, 1, 10_000_000, "values",
        "Values in a list after IN, and rows after VALUES.";
    max_unread_bytes: Bytes = 8 * MIB, 64 * 1_024, 1_024 * MIB, "bytes",
        "Responses that a client has not read, per connection; above it the connection is paused.";
    unread_timeout_ms: Milliseconds = 30_000, 100, 3_600_000, "ms",
        "How long a connection may leave responses unread before it is closed.";
    snapshot_share_percent: Percent = 15, 1, 1_000, "percent",
        "How long a site encodes for a running snapshot, in percent of the time that its other \
         work takes; without other work it only encodes.";
    snapshot_bytes_per_s: Option<BytesPerSecond> = 32 * MIB, 0, 1 << 40, "bytes/s",
        "What all sites of a host together read for a running snapshot while they have other \
         work; more if the snapshot would take longer than half of snapshot_interval_s, or if \
         changes force out more than memory should hold; 0 for as much as the disk takes.";
    snapshot_interval_s: Option<Seconds> = 600, 0, 31_536_000, "s",
        "How often a host with a directory takes a snapshot by itself, if something was logged; 0 \
         for never.";
    snapshot_log_bytes: Option<Bytes> = 1_024 * MIB, 0, 1 << 50, "bytes",
        "A snapshot is taken early once this much was logged since the last one, and no less than \
         the size of the last one; 0 for never.";
    snapshots_kept: Count = 2, 1, 1_000, "snapshots",
        "Of the snapshots that the host takes by itself, the number of the newest that it keeps.";
    memory_limit_percent: Option<Percent> = 80, 0, 100, "percent",
        "Of the machine's memory, or of what the system lets the process have, the part that may \
         be resident. Above it the host is read-only, but for deletes, until it is below 95 % of \
         the limit; 0 for no limit.";
    memory_limit_bytes: Option<Bytes> = 0, 0, 1 << 60, "bytes",
        "The same as a number of bytes; the lower one of both is the limit; 0 for none.";
    preallocate_bytes: Bytes = 0, 0, 1 << 60, "bytes",
        "Memory that is allocated and touched when the host starts, in equal parts for its sites, \
         so that no call waits for the operating system; it counts as used.";
    disk_reserve_bytes: Option<Bytes> = 256 * MIB, 0, 1 << 60, "bytes",
        "With less space than this free on the disk of its directory the host is read-only, but \
         for deletes, until 105 % of it are free; with less than a quarter it takes no write at \
         all; 0 to check the disk only when it is full.";
    resource_check_ms: Milliseconds = 1_000, 10, 3_600_000, "ms",
        "How often the host checks its use of memory and of the disk.";
    stop_timeout_ms: Milliseconds = 10_000, 0, 3_600_000, "ms",
        "How long a host that stops waits for the calls in progress and for clients to read their \
         responses.";
    host_timeout_ms: Milliseconds = 5_000, 100, 3_600_000, "ms",
        "With one copy of each partition: how long nothing may be heard of another host of the \
         cluster, which stops then. With more copies see suspect_after_ms.";
    cluster_start_timeout_ms: Option<Milliseconds> = 0, 0, 86_400_000, "ms",
        "How long a start waits for the other hosts of the cluster before it ends with what is \
         missing, which is also logged after 5 s and then every 10 s; 0 for no limit.";
    heartbeat_interval_ms: Milliseconds = 50, 10, 60_000, "ms",
        "How often the hosts of a cluster send heartbeats to each other; the same at all of them.";
    suspect_after_ms: Milliseconds = 200, 30, 3_600_000, "ms",
        "With copies (--kfactor 1 or 2): how long nothing may be heard of another host before it \
         is suspected, and replaced by the hosts with copies of its partitions. At least twice \
         heartbeat_interval_ms; the same at all hosts.";
    lease_ms: Milliseconds = 150, 20, 600_000, "ms",
        "With copies: how long the leader of a partition may answer reads after the other hosts \
         have confirmed that it leads. Longer than heartbeat_interval_ms, shorter than \
         suspect_after_ms; the same at all hosts.";
    site_suspect_ms: Milliseconds = 30_000, 100, 3_600_000, "ms",
        "With copies: how long a site may be busy with one statement before its host gives up the \
         leases of the site's partitions and is replaced. Longer than query_timeout_ms and \
         write_timeout_ms.";
    rejoin_after_ms: Option<Milliseconds> = 1_000, 0, 86_400_000, "ms",
        "With copies: how long a host waits that was taken out of its cluster and runs, once the \
         others do without it, before it begins again without data and joins them; 0 for never.";
    reload_copies_after_ms: Milliseconds = 1_000, 0, 86_400_000, "ms",
        "With copies: how long a partition lacks a copy before one is loaded at a host that is up \
         and has capacity for it, such as after a copy was put out of service; twice as long after \
         each time that this did not help, up to 64 times; 0 for never.";
    hand_over_timeout_ms: Milliseconds = 5_000, 10, 3_600_000, "ms",
        "With copies: how long a leader that is moved to another host may take to end what is in \
         progress. Meanwhile no transaction over several partitions begins. Then it stays.";
    max_waiting_moves: Count = 64, 1, 10_000, "calls",
        "Calls that wait for leaders to be moved (@MigratePartitionLeader, @PrepareStopNode); the \
         next one is refused.";
    login_timeout_ms: Milliseconds = 30_000, 100, 3_600_000, "ms",
        "How long a new connection may take to log in.";
    max_outstanding_calls: Count = 4_096, 16, 1_000_000, "calls",
        "Calls of one connection that wait for another thread; above it the connection is paused. \
         Ad hoc and multi-partition calls count for 16.";
    max_held_calls: Count = 100_000, 1, 10_000_000, "calls",
        "Calls that a partition queues while a multi-partition transaction runs.";
    max_speculative_calls: Count = 4_096, 0, 1_000_000, "calls",
        "Calls that a partition runs speculatively after undecided multi-partition transactions, \
         their responses buffered; 0 to wait for the decision.";
    max_speculative_bytes: Bytes = 64 * MIB, 1_024, 1_024 * MIB, "bytes",
        "Responses that a partition buffers until such a decision.";
    max_active_multi: Count = 256, 1, 10_000, "transactions",
        "Multi-partition transactions in progress at the same time.";
    max_index_lookups: Count = 8, 1, crate::message::MAX_LOOKUPS, "lookups",
        "How often a call looks its row's partition up in a global index, when the row moves while \
         the call is on its way to it.";
    #[cfg(feature = "faults")]
    stop_everything: StopEverything = 0, 0, 2, "0 to 2",
        "With 1, a multi-partition transaction stops all partitions, planned fragment by \
         fragment, and nothing runs after it: to compare with. With 2 the same, but calls of one \
         round go to the partitions as they are.";
    max_waiting_multi: Count = 10_000, 1, 1_000_000, "calls",
        "Multi-partition calls that wait for their turn.";
    mailbox_messages: Count = 8_192, 16, 1_048_576, "messages",
        "Messages in one direction between two threads of the host.";
    query_timeout_ms: Option<Milliseconds> = 10_000, 0, i32::MAX as u64, "ms",
        "How long a query of a call that only reads may run at a site; 0 lets it run. A call may \
         bring another limit. For calls that write see write_timeout_ms.";
    write_timeout_ms: Option<Milliseconds> = 10_000, 0, i32::MAX as u64, "ms",
        "How long the statements of a call that writes may run at a site, in each round of a \
         multi-partition transaction, before the call is undone; 0 lets them run. Schema changes \
         take the time they need.";
    transaction_timeout_ms: Option<Milliseconds> = 300_000, 0, i32::MAX as u64, "ms",
        "How long a multi-partition transaction may take from its first round on, waiting for \
         partitions included, before it is undone; 0 for as long as it takes. Schema changes take \
         the time they need.";
    min_batch_rows: Count = 200, 0, u64::MAX, "rows",
        "Queries read tables of fewer rows row by row, others in batches, column by column.";
    slow_call_ms: Option<Milliseconds> = 1_000, 0, 3_600_000, "ms",
        "Calls that take at least this long have a line in the log, at most ten a second for each \
         site; 0 for none.";
    max_temporary_bytes: Bytes = 100 * MIB, MIB, 100 * 1_024 * MIB, "bytes",
        "Intermediate results of one statement at one site.";
    max_undo_bytes: Bytes = 4 << 30, 64 * 1_024, 1 << 40, "bytes",
        "The undo log of the open transactions of a site; a transaction that changes more fails.";
    replica_digests: OnOff = 0, 0, 1, "0 or 1",
        "With 1, each partition keeps a running digest of the statements that changed rows, their \
         parameters and the numbers of changes.";
    max_entry_changes_bytes: Bytes = 64 * MIB, 64 * 1_024, 1 << 40, "bytes",
        "Changes of global index entries that one statement may need at a site; one that needs \
         more fails.";
    max_copy_backlog_bytes: Bytes = 16 * MIB, 64 * 1_024, 1 << 40, "bytes",
        "Log entries that a copy of a partition has received and not applied; with more its \
         leader is slowed down.";
    follower_reads: OnOff = 0, 0, 1, "0 or 1",
        "With 1 and copies (--kfactor 1 or 2), a host that has a copy of a partition and does not \
         lead it may answer calls of single-partition procedures that only read. The status text \
         of such an answer gives the staleness; the same at all hosts.";
    follower_read_staleness_ms: Milliseconds = 100, 1, 60_000, "ms",
        "With follower_reads: how long ago a write may have been answered that such a read does \
         not see. A call goes to the leader where the copy is not known to be as current as that.";
    max_unreceived_bytes: Bytes = 64 * MIB, 64 * 1_024, 1 << 40, "bytes",
        "Log entries of a partition that some copy has not received; with more the partition's \
         site reads nothing from its clients.";
    max_copy_moves: Count = 2, 1, 1_000, "copies",
        "Copies that are moved at a time to hosts that were added to the cluster, or away from one \
         that is being removed.";
    max_copy_load_bytes: Bytes = 256 * MIB, MIB, 1 << 40, "bytes",
        "Log entries of a partition that are kept for a copy which is being loaded; with more the \
         copy begins again.";
    index_build_rows: Count = 1_000, 1, 1_000_000, "rows",
        "Rows at each site that one step of building a global index takes in, and for as long as \
         calls wait.";
    max_tasks: Count = 1_000, 0, 10_000, "tasks",
        "Tasks that a host has; CREATE TASK refuses more.";
    task_min_interval_ms: Milliseconds = 0, 0, 86_400_000, "ms",
        "The least time from the start of a task's run to the start of the next, or from its end \
         for a task with a DELAY, whatever its schedule says.";
    ttl_check_ms: Option<Milliseconds> = 1_000, 0, 3_600_000, "ms",
        "How often each site polls tables with USING TTL for expired rows; 0 for never, so that \
         none is deleted.";
    max_ttl_batch_rows: Count = 100_000, 1, 10_000_000, "rows",
        "Expired rows that one transaction deletes, whatever BATCH_SIZE says; calls wait for that \
         long.";
    plan_cache_entries: Count = 5_000, 1, 1_000_000, "statements",
        "Plans of ad hoc statements that are cached.";
    local_data: OnOff = 0, 0, 1, "0 or 1",
        "With 1, each procedure that is created with PARTITION ON is WITH LOCAL DATA: its \
         statements work on the rows of the call's partition, as in VoltDB, where they would \
         otherwise fail for not naming one. CREATE PROCEDURE warns of them.";
    max_ordered_sources: Count = 8, 1, 12, "sources",
        "Sources of an inner join up to which all join orders are compared; above it, the order \
         is found step by step.";
    disabled_rules: RuleSet = 0, 0, u64::MAX, "bits",
        "Planner rules that are switched off, for tests: a bit each, or their names with commas.";
    statistics_interval_ms: Option<Milliseconds> = 1_000, 0, 3_600_000, "ms",
        "How often the planner collects row counts and samples of tables; 0 for never.";
    max_file_calls: Count = 16, 1, 1_000, "calls",
        "Calls that wait for a file system at a time, such as @SnapshotScan of a folder on a disk \
         that does not answer; more are refused.";
    max_planner_queue: Count = 10_000, 1, 1_000_000, "calls",
        "Ad hoc calls that wait for the planner.";
    read_buffer_bytes: Bytes = 256 * 1_024, 4_096, 64 * MIB, "bytes",
        "What one read from a socket may bring; one buffer a thread.";
    log_segment_bytes: Bytes = 64 * MIB, 64 * 1_024, 2_048 * MIB, "bytes",
        "Length of a file of the command log; files are written again once they are not needed.";
    log_buffer_bytes: Bytes = 64 * MIB, 4_096, 4_096 * MIB, "bytes",
        "What a site logged and the disk has not taken yet; above it, calls wait.";
    log_interval_ms: Milliseconds = 200, 1, 60_000, "ms",
        "With asynchronous durability: how often the command log is made durable.";
    group_commit_interval_us: Microseconds = 500, 0, 100_000, "us",
        "With synchronous durability and many calls in flight: the least time from the start of a \
         group commit to the start of the next; few calls never wait for it.";
    group_commit_busy_interval_us: Microseconds = 2_000, 0, 100_000, "us",
        "The same while the sites whose calls are in the group are busy: once one of them is idle, \
         group_commit_interval_us applies.";
    topology_check_ms: Milliseconds = 1_000, 10, 60_000, "ms",
        "How often subscribers are notified of a changed topology.";
    max_procedure_threads: Count = 16, 1, 10_000, "threads",
        "Threads for multi-partition procedures in Java, which wait while their batches run.";
    max_nontransactional_threads: Count = 20, 1, 10_000, "threads",
        "Threads for non-transactional procedures in Java, which may wait for the calls that they \
         make; as many send the responses and run the stages of compound procedures.";
    max_nontransactional_calls: Count = 1_000, 1, 1_000_000, "calls",
        "Calls of non-transactional and compound procedures that the connections of a thread wait \
         for; more are refused.";
    nontransactional_limit_ms: Option<Milliseconds> = 150_000, 0, i32::MAX as u64, "ms",
        "How long a call of a non-transactional or compound procedure may take, with the calls \
         that it makes, before it is stopped; 0 for no limit.";
    java_heap_bytes: Bytes = 1_024 * MIB, 16 * MIB, 1 << 40, "bytes",
        "The most memory that Java procedures have for their objects. As all Java options, it \
         counts when the JVM starts, at the first class that is loaded.";
    java_call_limit_ms: Option<Milliseconds> = 5_000, 0, i32::MAX as u64, "ms",
        "How long a call may run in Java code without executing a batch, before it is stopped and \
         undone: its partitions do nothing else meanwhile. Not counted is the time of garbage \
         collections, of batches, and of procedures outside of transactions; 0 for no limit.";
    max_java_batch_bytes: Bytes = 512 * MIB, MIB, 2_047 * MIB, "bytes",
        "The most that the parameters of a batch of a procedure in Java may hold.";
    java_stuck_limit_ms: Milliseconds = 10_000, 100, i32::MAX as u64, "ms",
        "How long a call in Java that was stopped may go on, because a loop inside the JDK does \
         not notice, before the host stops.";
    busy_poll_us: Microseconds = 0, 0, 1_000_000, "us",
        "How long an idle thread looks for work before it sleeps.";
    realtime_priority: Option<Priority> = 0, 0, 98, "priority",
        "Real-time priority of the sites' threads, that of the log's thread is one more: no \
         ordinary program takes their cores from them, the rest of this host neither, which needs \
         cores of its own then. It needs the right to (CAP_SYS_NICE or RLIMIT_RTPRIO); without \
         it, and with 0, they are ordinary threads.";
    multi_spin_us: Microseconds = 50, 0, 1_000_000, "us",
        "How long a thread that takes part in an undecided multi-partition transaction looks for \
         messages before it sleeps; where there are fewer cores than sites, not at all.";
}

/// Why an option was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionError(String);

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionError {}

impl Options {
    /// How long the queries of a call that only reads may run: what the call brought, where 0 is
    /// no limit, or else the host's own; and who waits for it.
    #[inline]
    pub fn time_limit(&self, of_call_ms: Option<i32>, caller: Caller) -> Option<TimeLimit> {
        let (timeout_ms, source) = match of_call_ms {
            Some(timeout_ms) => (timeout_ms.max(0) as u32, LimitSource::Call),
            None => (self.query_timeout_ms.number() as u32, LimitSource::Host),
        };
        let timeout_ms = if timeout_ms == 0 { TimeLimit::NO_TIMEOUT } else { timeout_ms };
        Some(TimeLimit { timeout_ms, source, caller })
    }

    /// Sets an option from `name=value`.
    ///
    /// # Errors
    /// Names the option and its range.
    pub fn set(&mut self, assignment: &str) -> Result<(), OptionError> {
        let (name, value) = assignment.split_once('=').ok_or_else(|| {
            OptionError(format!("option '{assignment}' is not of the form name=value"))
        })?;
        let name = name.trim();
        let info = TABLE.iter().find(|row| row.name == name).ok_or_else(|| {
            let hint = match near_name(name) {
                Some(near) => format!("did you mean '{near}'?"),
                None => "`lockstep help options` lists all".to_string(),
            };
            OptionError(format!("there is no option '{name}'; {hint}"))
        })?;
        let refuse = || {
            OptionError(format!(
                "option {name}: '{}' is not a number of {} from {} to {}",
                value.trim(),
                info.unit,
                info.min,
                info.max
            ))
        };
        let number: u64 = match value.trim().parse() {
            Ok(number) => number,
            Err(_) if name == "disabled_rules" => {
                RuleSet::parse(value).map_err(OptionError)?.bits()
            }
            Err(_) => return Err(refuse()),
        };
        if !(info.min..=info.max).contains(&number) {
            return Err(refuse());
        }
        self.set_number(name, number);
        Ok(())
    }
}

impl Options {
    /// What the options say to the planner.
    pub fn planning(&self) -> Planning {
        Planning {
            disabled_rules: self.disabled_rules,
            max_ordered_sources: self.max_ordered_sources.to_u32(),
            local_data: self.local_data.is_on(),
            ..Planning::default()
        }
    }

    /// The limits of SQL text that was taken before, perhaps with other options.
    pub fn greatest_sql_limits() -> Limits {
        let mut greatest = Options::default();
        for row in TABLE {
            greatest.set_number(row.name, row.max);
        }
        greatest.sql_limits()
    }

    /// The limits of SQL text.
    pub fn sql_limits(&self) -> Limits {
        Limits {
            batch_bytes: self.max_statement_bytes.to_u32(),
            statement_bytes: self.max_statement_bytes.to_u32(),
            statements: self.max_statements.to_u32(),
            nesting_depth: self.max_nesting_depth.to_u32(),
            parameters: self.max_parameters.to_u32(),
            columns: self.max_columns.to_u32(),
            joined_tables: self.max_joined_tables.to_u32(),
            in_list: self.max_in_list.to_u32(),
        }
    }
}

/// The option whose name is near what was typed: a typing error or two in a few letters, or a
/// part of a name that has no more than a few letters beside it.
fn near_name(typed: &str) -> Option<&'static str> {
    let typed = typed.to_ascii_lowercase().replace('-', "_");
    // One error in three letters still looks like the name.
    let near = |name: &str| distance(&typed, name) <= typed.chars().count().min(9) / 3;
    let nearest = TABLE.iter().map(|row| row.name).filter(|name| near(name));
    nearest.min_by_key(|name| distance(&typed, name)).or_else(|| {
        let mut holds = TABLE
            .iter()
            .map(|row| row.name)
            .filter(|name| typed.len() >= MIN_PART && name.contains(typed.as_str()));
        // A part of several names is near none of them.
        holds.next().filter(|_| holds.next().is_none())
    })
}

/// The shortest part of a name that is taken for it.
const MIN_PART: usize = 5;

/// Letters to insert, delete, replace or exchange with their neighbour until two words are equal.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = row[j] + usize::from(a != b);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

/// The table as aligned text, for `lockstep help options`.
pub fn help_text() -> String {
    let mut text = String::new();
    let header = ("option", "unit", "default", "range");
    let cells: Vec<_> = TABLE
        .iter()
        .map(|o| (o.name, o.unit, o.default.to_string(), format!("{} to {}", o.min, o.max)))
        .collect();
    let width = |cell: fn(&(&str, &str, String, String)) -> usize, title: &str| {
        cells.iter().map(cell).max().unwrap_or(0).max(title.len())
    };
    let name = width(|c| c.0.len(), header.0);
    let unit = width(|c| c.1.len(), header.1);
    let default = width(|c| c.2.len(), header.2);
    let range = width(|c| c.3.len(), header.3);
    let mut line = |a: &str, b: &str, c: &str, d: &str, meaning: &str| {
        text.push_str(&format!("{a:name$}  {b:unit$}  {c:>default$}  {d:range$}  {meaning}\n"));
    };
    line(header.0, header.1, header.2, header.3, "meaning");
    for (row, info) in cells.iter().zip(TABLE) {
        line(row.0, row.1, &row.2, &row.3, info.meaning);
    }
    text
}

/// The table as a page of documentation, `docs/options.md`.
pub fn reference_page() -> String {
    let mut page = String::from(PAGE_HEAD);
    for row in TABLE.iter().filter(|row| row.name != COMPARED) {
        page.push_str(&format!(
            "| `{}` | {} | {} | {} to {} | {} |\n",
            row.name, row.unit, row.default, row.min, row.max, row.meaning
        ));
    }
    page
}

/// The option of builds to compare with, which no release has.
const COMPARED: &str = "stop_everything";

const PAGE_HEAD: &str = "\
# Options

The limits and options of a host: `lockstep start --option name=value`. This page is made from the
table of options, as `lockstep help options` is; a test compares both.

| option | unit | default | range | meaning |
|---|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_ranges_and_help_names_every_option() {
        let help = help_text();
        for info in TABLE {
            assert!((info.min..=info.max).contains(&info.default), "{}", info.name);
            assert!(help.contains(info.name));
            assert_eq!(Options::default().get(info.name), Some(info.default));
        }
    }

    /// `REWRITE=1 cargo test` writes the page again.
    #[test]
    fn the_reference_page_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        if std::env::var("REWRITE").is_ok() {
            std::fs::write(path, reference_page()).expect("the page is written");
        }
        let written = std::fs::read_to_string(path).expect("the page is there");
        let help = "docs/options.md is not the table's: REWRITE=1 cargo test";
        assert_eq!(written, reference_page(), "{help}");
    }

    /// The unit that errors and the help show is that of the type, and so is the end of the name.
    #[test]
    fn types_units_and_names_agree() {
        let endings = [("bytes", "_bytes"), ("bytes/s", "_bytes_per_s"), ("percent", "_percent")];
        let endings = endings.iter().chain(&[("ms", "_ms"), ("us", "_us"), ("s", "_interval_s")]);
        for (info, (name, unit)) in TABLE.iter().zip(UNITS) {
            assert_eq!(info.name, *name);
            let ending = endings.clone().find(|(_, ending)| name.ends_with(ending));
            match unit {
                Some(unit) => assert_eq!(info.unit, *unit, "{name}"),
                None => assert_eq!(ending, None, "{name} is not a count"),
            }
            assert!(ending.is_none_or(|(unit, _)| info.unit == *unit), "{name}: {}", info.unit);
        }
    }

    #[test]
    fn values_keep_their_numbers() {
        let mut options = Options::default();
        for info in TABLE {
            for number in [info.min, info.max, info.default] {
                options.set(&format!("{}={number}", info.name)).expect("within its range");
                // Bits that are no rules are left out.
                let is_kept = options.get(info.name) == Some(number);
                assert!(is_kept || info.name == "disabled_rules", "{}={number}", info.name);
            }
        }
        assert_eq!(options, Options::default());
        options.set("query_timeout_ms=0").expect("0 is none");
        assert_eq!(options.query_timeout_ms, None);
    }

    #[test]
    fn wrong_settings_name_the_option_and_the_range() {
        let mut options = Options::default();
        assert_eq!(options.set("max_connections=12"), Ok(()));
        assert_eq!(options.max_connections, Count(12));
        assert_eq!(options.set("disabled_rules=join_order,hash_joins"), Ok(()));
        assert_eq!(options.planning().disabled_rules.to_string(), "join_order,hash_joins");
        for (setting, part) in [
            ("max_connections", "name=value"),
            ("max_connection=1", "did you mean 'max_connections'"),
            ("max_conections=1", "did you mean 'max_connections'"),
            ("Max-Connections=1", "did you mean 'max_connections'"),
            ("query_timeout=1", "did you mean 'query_timeout_ms'"),
            ("qurey_timeout_ms=1", "did you mean 'query_timeout_ms'"),
            ("realtime=1", "did you mean 'realtime_priority'"),
            ("foo=1", "there is no option 'foo'; `lockstep help options` lists all"),
            ("max=1", "`lockstep help options` lists all"),
            ("bytes=1", "`lockstep help options` lists all"),
            ("=1", "`lockstep help options` lists all"),
            ("log_buffer_size_in_megabytes=1", "`lockstep help options` lists all"),
            ("disabled_rules=join", "they are "),
            ("max_connections=0", "from 1 to 1000000"),
            ("max_connections=x", "from 1 to 1000000"),
        ] {
            let error = options.set(setting).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
