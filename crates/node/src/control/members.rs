//! `@SystemInformation CLUSTER`: the hosts of the cluster, those that are lost and a witness
//! included, and who leads and follows which partition in which epoch. Any host answers it by
//! itself, also one that is not connected with the others.

use super::system::text_parameter;
use crate::shard::HostFacts;
use lockstep_cluster::{HostPlan, HostRecord, HostState};
use lockstep_host::placement::Placement;
use lockstep_types::{Datum, HostId, PartitionId, SqlType, TableBuilder, TableSchema};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;

/// What selects it.
pub(super) const SELECTOR: &str = "CLUSTER";

/// Whether a call is answered by the host that it comes in at, whatever becomes of the others.
pub(crate) fn is_of_any_host(invocation: &Invocation<'_>) -> bool {
    invocation.procedure.eq_ignore_ascii_case("@SystemInformation")
        && text_parameter(invocation, 0)
            .is_some_and(|selector| selector.eq_ignore_ascii_case(SELECTOR))
}

/// The state of a partition that nobody leads, and of a cluster with one.
const UNAVAILABLE: &str = "unavailable";

/// What a member is.
const HOST: &str = "host";
const WITNESS: &str = "witness";

/// The plan of a host whose copies stay where they are.
const STAYS: &str = "stays";

/// A host as it is shown.
struct Shown {
    host: HostId,
    name: String,
    state: &'static str,
    client: String,
    admin: String,
    role: &'static str,
    group: String,
    /// What becomes of its copies.
    plan: &'static str,
}

/// Appends the tables: the cluster, its hosts, its partitions, the copies that are being loaded.
/// Returns their number.
pub(super) fn write(out: &mut Vec<u8>, facts: &HostFacts) -> u16 {
    let placement = facts.placement();
    let schema = TableSchema::new(&[
        ("STATE", SqlType::Varchar),
        ("EPOCH", SqlType::BigInt),
        ("COORDINATOR", SqlType::Integer),
        ("KFACTOR", SqlType::Integer),
    ]);
    let mut table = TableBuilder::begin(out, &schema);
    let coordinator = Datum::Int(placement.coordinator().host().0.into());
    let epoch = Datum::Int(placement.epoch() as i64);
    let k = Datum::Int(facts.k_in_force().into());
    table.row(&schema, &[Datum::Text(state(facts)), epoch, coordinator, k]);
    table.finish();
    write_hosts(out, facts);
    let schema = TableSchema::new(&[
        ("PARTITION", SqlType::Integer),
        ("LEADER", SqlType::Integer),
        ("FOLLOWERS", SqlType::Varchar),
        ("EPOCH", SqlType::BigInt),
        ("STATE", SqlType::Varchar),
    ]);
    let mut table = TableBuilder::begin(out, &schema);
    for partition in (0..placement.partition_count()).map(PartitionId) {
        let followers = placement.followers_of(partition).iter();
        let followers: Vec<String> = followers.map(|at| at.host().to_string()).collect();
        let row = [
            Datum::Int(partition.0.into()),
            Datum::Int(placement.leader_of(partition).host().0.into()),
            Datum::Text(&followers.join(",")),
            Datum::Int(placement.epoch_of(partition).into()),
            Datum::Text(if facts.unavailable.has(partition) { UNAVAILABLE } else { "available" }),
        ];
        table.row(&schema, &row);
    }
    table.finish();
    write_loading(out, &placement);
    4
}

fn write_loading(out: &mut Vec<u8>, placement: &Placement) {
    let schema =
        TableSchema::new(&[("PARTITION", SqlType::Integer), ("HOST_ID", SqlType::Integer)]);
    let mut table = TableBuilder::begin(out, &schema);
    for partition in (0..placement.partition_count()).map(PartitionId) {
        for copy in placement.learning_of(partition) {
            let host = Datum::Int(copy.host().0.into());
            table.row(&schema, &[Datum::Int(partition.0.into()), host]);
        }
    }
    table.finish();
}

fn write_hosts(out: &mut Vec<u8>, facts: &HostFacts) {
    let schema = TableSchema::new(&[
        ("HOST_ID", SqlType::Integer),
        ("HOSTNAME", SqlType::Varchar),
        ("STATE", SqlType::Varchar),
        ("CLIENT", SqlType::Varchar),
        ("ADMIN", SqlType::Varchar),
        ("ROLE", SqlType::Varchar),
        ("PLACEMENT_GROUP", SqlType::Varchar),
        ("PLAN", SqlType::Varchar),
    ]);
    let mut table = TableBuilder::begin(out, &schema);
    for Shown { host, name, state, client, admin, role, group, plan } in hosts(facts) {
        let row = [
            Datum::Int(host.0.into()),
            Datum::Text(&name),
            Datum::Text(state),
            Datum::Text(&client),
            Datum::Text(&admin),
            Datum::Text(role),
            Datum::Text(&group),
            Datum::Text(plan),
        ];
        table.row(&schema, &row);
    }
    table.finish();
}

/// The hosts as the cluster agrees on them; a host that is alone is up.
fn hosts(facts: &HostFacts) -> Vec<Shown> {
    let state = facts.cluster_state.lock().expect("no thread panicked with it");
    let Some(state) = state.as_ref().map(Arc::clone) else {
        return vec![Shown {
            host: facts.host,
            name: facts.host_name.clone(),
            state: shown_state(HostState::Up),
            client: facts.reachable(facts.client_address).to_string(),
            admin: facts.reachable(facts.admin_address).to_string(),
            role: HOST,
            group: facts.placement_group.clone(),
            plan: STAYS,
        }];
    };
    let is_loading = |host: HostId| {
        let mut learning = state.partitions.iter().flat_map(|partition| &partition.learning);
        learning.any(|copy| copy.host == host)
    };
    let shown = |record: &HostRecord| Shown {
        host: record.description.host,
        name: record.description.name.clone(),
        state: match shown_state(record.state) {
            "up" if is_loading(record.description.host) => "loading",
            other => other,
        },
        plan: match record.plan {
            _ if state.shape.is_witness(record.description.host) => "",
            HostPlan::Stays => STAYS,
            HostPlan::Fills => "fills",
            HostPlan::Leaves => "leaves",
        },
        client: record.description.client_address.clone(),
        admin: record.description.admin_address.clone(),
        role: match state.shape.is_witness(record.description.host) {
            true => WITNESS,
            false => HOST,
        },
        group: match state.shape.is_witness(record.description.host) {
            true => String::new(),
            false => record.description.placement_group.clone(),
        },
    };
    state.hosts.values().map(shown).collect()
}

fn shown_state(state: HostState) -> &'static str {
    match state {
        HostState::Joining => "joining",
        HostState::Up => "up",
        HostState::Down => "down",
        HostState::Added => "added",
    }
}

/// The state of the cluster, as this host has it.
fn state(facts: &HostFacts) -> &'static str {
    match (facts.intake.check_majority(), facts.intake.is_paused()) {
        (Err(_), _) => "no majority",
        (Ok(()), _) if facts.unavailable.is_any() => UNAVAILABLE,
        (Ok(()), true) => "paused",
        (Ok(()), false) => "running",
    }
}
