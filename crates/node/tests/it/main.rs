//! A whole host in this process, spoken to over TCP: what clients may send, and what the host
//! says of itself.

mod allocation;
mod bad_input;
mod calls;
mod cancel;
mod clients;
mod cluster;
mod cluster_logs;
mod cluster_snapshots;
mod copies;
mod digests;
mod durability;
mod effects;
mod failed_writes;
mod floats;
mod follower_reads;
mod formats;
mod frames;
mod full_disk;
mod global_index;
mod grow;
mod grow_logs;
mod hand_over;
mod index_build;
mod java;
mod java_bytes;
mod java_classes;
mod java_functions;
mod java_memory;
mod java_outside;
mod kfactor;
mod limits;
mod local_data;
mod members;
mod memory;
mod multi;
mod one_log;
mod partitions_per_site;
mod placement_groups;
mod plans;
mod recovery;
mod rejoin;
mod rejoin_logs;
mod reload_logs;
mod replicated;
mod roles;
mod schedule;
mod schema;
mod shortages;
mod snapshot;
mod snapshot_load;
mod statistics;
mod stop_node;
mod support;
mod survey;
mod system_procedures;
mod tasks;
mod time_to_live;
mod timeout;
mod transaction_time;
mod unavailable;
mod witness;

#[global_allocator]
static COUNTING: lockstep_base::counting::CountingAllocator =
    lockstep_base::counting::CountingAllocator;
