//! Where bound statements run that make one transaction: ad hoc SQL, the host's own work.

use crate::catalog::key_route;
use lockstep_exec::lookup::KeyRoute;
use lockstep_exec::{PreparedStatement, SqlError, routing_value};
use lockstep_plan::Catalog;
use lockstep_plan_ir::statement::IndexUpkeep;
use lockstep_plan_ir::{Execution, Lookup};
use lockstep_site::{BoundStatement, Home, IndexHop, Site, StatementCall, ViaNext};
use lockstep_txn::EntryHeader;
use lockstep_types::hashing::MAX_KEY_PARTS;
use lockstep_types::{Datum, Failure, HashRing, ParameterSet, PartitionId, Value};

/// The way of a statement that a unique global index leads to its row.
#[derive(Debug, Clone)]
pub struct StatementVia {
    /// How the index is asked.
    pub route: KeyRoute,
    /// The key.
    pub keys: Vec<Value>,
    /// The partition of the index's entries for it.
    pub index: PartitionId,
    /// What the receiver is to look for.
    pub hop: IndexHop,
    /// How many times the index was asked.
    pub lookups: u16,
}

impl StatementVia {
    /// What becomes of the statement whose turn it is at a partition, when the index may be asked
    /// this number of times.
    ///
    /// # Errors
    /// The index cannot be asked for the key.
    pub fn next<H, A, C: Clone>(
        &mut self,
        site: &mut Site<H, A, C>,
        header: &EntryHeader,
        max_lookups: u64,
    ) -> Result<ViaNext, SqlError> {
        let mut keys = [Datum::Null; MAX_KEY_PARTS];
        keys.iter_mut().zip(&self.keys).for_each(|(key, value)| *key = value.as_datum());
        let keys = &keys[..self.keys.len().min(MAX_KEY_PARTS)];
        let step = site.via_step(header, self.hop, &self.route, keys)?;
        Ok(step.next(&mut self.lookups, max_lookups))
    }
}

/// Which partitions statements need, as far as their parameters say.
#[derive(Debug, Clone)]
pub enum StatementsDestination {
    /// One has all they need.
    One(PartitionId),
    /// That where a global index says that the row is.
    Via(StatementVia),
    /// The coordinator finds out.
    Several,
}

/// Which partitions statements need, each given its parameters.
///
/// # Errors
/// A parameter that names a partition is not of the column's type.
pub fn statements_destination<'s>(
    plan: &Catalog,
    ring: &HashRing,
    statements: impl ExactSizeIterator<Item = (&'s PreparedStatement, ParameterSet<'s>)>,
) -> Result<StatementsDestination, Failure> {
    let is_only = statements.len() == 1;
    let mut common = None;
    for (statement, given) in statements {
        let Execution::Local { routing, .. } = &statement.statement().execution else {
            return Ok(StatementsDestination::Several);
        };
        let Some(routing) = routing else { continue };
        if let Some(lookup) = Lookup::of(routing) {
            if ring.partition_count() == 1 {
                continue;
            }
            let is_led = is_only && statement.statement().upkeep == IndexUpkeep::None;
            // Else the coordinator asks the global index.
            return Ok(match is_led.then(|| led(plan, ring, statement, &lookup, given)) {
                Some(via) => {
                    via?.map_or(StatementsDestination::Several, StatementsDestination::Via)
                }
                None => StatementsDestination::Several,
            });
        }
        let value = routing_value(statement, routing, given).map_err(|error| error.to_failure())?;
        let partition = ring.partition_of(value.as_datum());
        if common.is_some_and(|other| other != partition) {
            return Ok(StatementsDestination::Several);
        }
        common = Some(partition);
    }
    // Replicated tables only: any partition has them all.
    Ok(StatementsDestination::One(common.unwrap_or(PartitionId(0))))
}

/// How a statement gets to the row of a key by way of the index's partition.
fn led(
    plan: &Catalog,
    ring: &HashRing,
    statement: &PreparedStatement,
    lookup: &Lookup<'_>,
    given: ParameterSet<'_>,
) -> Result<Option<StatementVia>, Failure> {
    let value = |key| routing_value(statement, key, given).map_err(|error| error.to_failure());
    let keys: Vec<Value> = lookup.keys.iter().map(value).collect::<Result<_, _>>()?;
    let Some(route) = key_route(plan, lookup.entries) else { return Ok(None) };
    let index = ring.partition_of_values(keys.iter().map(Value::as_datum));
    Ok(Some(StatementVia { route, keys, index, hop: IndexHop::Index, lookups: 0 }))
}

/// How bound statements are sent.
#[derive(Debug, Clone)]
pub enum StatementsWay {
    /// To a partition, maybe led by an index from there.
    At(PartitionId, Option<StatementVia>),
    /// To the coordinator, with the partition where the statements run if they run at one.
    Several(Option<Home>),
}

/// How bound statements are sent to where they run: those that change entries of global indexes,
/// which may live elsewhere, by the coordinator.
pub fn statements_way(
    ring: &HashRing,
    work: &StatementCall,
    destination: StatementsDestination,
) -> StatementsWay {
    let indexed = |bound: &BoundStatement| bound.statement.statement().upkeep != IndexUpkeep::None;
    match destination {
        StatementsDestination::One(partition)
            if ring.partition_count() > 1 && work.statements.iter().any(indexed) =>
        {
            StatementsWay::Several(Some(Home { partition, addresses_partition: true }))
        }
        StatementsDestination::One(partition) => StatementsWay::At(partition, None),
        StatementsDestination::Via(via) => StatementsWay::At(via.index, Some(via)),
        StatementsDestination::Several => StatementsWay::Several(None),
    }
}
