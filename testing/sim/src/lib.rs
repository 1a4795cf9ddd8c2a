//! The simulator: the server's own `txn`, `site`, `exec` and `storage` code, with a scheduler in
//! place of threads and mailboxes.
//!
//! One seed fixes everything: the number of partitions, the clients, what they call, and in
//! which order messages arrive. Messages between the coordinator and the partitions may be
//! delayed for long, overtake each other, and arrive twice; nothing of that may be visible.
//!
//! Checks, in every run. Bank: each read of the whole bank finds the same sum; a read sees every
//! transfer that was answered before it began and none that began after it ended; an aborted
//! transfer leaves no trace; every call is answered once faults stop; the same seed gives the
//! same run. Lists: what transactions saw has a serial order that respects real time, with
//! procedures of several rounds, changes of the schema, a coordinator that fails, rounds that run
//! out of time and clients that go away; the same where a global index finds the lists, which has
//! at every moment what the table has, and no key twice, and which leads single-partition calls to
//! lists that move; the same with lists that are added by calls of one round, duplicates among
//! them, and with an index that is built in steps. Messages: no transaction costs more than is
//! documented, and looking a list up by the index has to do with two partitions. Faults that are
//! put into the protocol by switches
//! are each caught by bank and lists.
//! Power cuts: a host with a command log on a disk that loses, tears and reorders what was not
//! synced comes back, from life to life, with everything that was answered and nothing by halves,
//! as [`power`] says; faults in the log and in what waits for it are caught there.
//! Copies: partitions have followers in two of three runs of bank and lists; connections to them
//! lose suffixes, and at rest each has the rows of its leader. The streams alone, with leaders that
//! change, are in [`copies`]. Copies with command logs, which all lose power and start together
//! from their logs, are in [`copies::logs`].
//! Hosts: several hosts with their control planes, copies and coordinator, which are killed, paused
//! and cut off, as [`hosts`] says; clients move money, append to lists, read at copies, insert
//! rows that expire, and run TPC-C.
//! Tasks: a schedule has one call in progress at a time, and each call is counted and made once, as
//! [`schedules`] says.

pub mod bank;
pub mod census;
mod classes;
pub mod copies;
pub mod hosts;
pub mod lists;
pub mod plans;
pub mod power;
pub mod schedules;
pub mod timed;
pub mod walk;
pub mod world;

pub use bank::{Failure, Report, run_seed, run_with};
pub use lockstep_site::{Faults, StopEverything};
pub use lockstep_txn::replica::ReplicaFaults;
