//! One round of a multi-partition transaction: which fragments go where, and how their tables
//! become the statements' results.

use crate::message::{BoundStatement, FragmentPart, FragmentTask};
use crate::parameters::with_parameters;
use lockstep_exec::distributed::{
    CoordinatorContext, coordinate, coordinate_applied, fragments, owner, ship,
};
use lockstep_plan_ir::statement::Target;
use lockstep_plan_ir::{Execution, Expression};
use lockstep_types::{Failure, HashRing, PartitionId};
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::sync::Arc;

/// Where a coordinator plans and merges rounds.
pub(crate) struct Desk<'c> {
    pub(crate) ring: &'c HashRing,
    pub(crate) context: CoordinatorContext,
    /// Where what any partition can do is done: one that takes part anyway.
    pub(crate) home: PartitionId,
}

/// A round: the tasks of each partition, and which of their tables belong to which statement.
pub(crate) struct Round {
    /// Per partition.
    pub(crate) tasks: Vec<Vec<FragmentTask>>,
    /// Per partition, one table for each task.
    pub(crate) answers: Vec<Vec<Vec<u8>>>,
    /// The batch ends with it.
    pub(crate) is_last: bool,
    statements: Vec<StatementPart>,
}

/// A statement's part of a round.
struct StatementPart {
    bound: BoundStatement,
    /// Per fragment, where its tables come from: partition and number of the task.
    sources: Vec<Vec<(PartitionId, usize)>>,
}

impl Round {
    /// Plans the next round of a batch: as many statements as can go together. One that ships
    /// rows has rounds of its own.
    pub(crate) fn plan(
        batch: &VecDeque<BoundStatement>,
        desk: &Desk<'_>,
    ) -> Result<Round, Failure> {
        let partition_count = desk.ring.partition_count() as usize;
        let mut round = Round {
            tasks: vec![Vec::new(); partition_count],
            answers: vec![Vec::new(); partition_count],
            is_last: false,
            statements: Vec::new(),
        };
        for bound in batch {
            let ships = is_shipped(bound);
            if ships && !round.statements.is_empty() {
                break;
            }
            let sources = round.place(bound, desk)?;
            round.statements.push(StatementPart { bound: bound.clone(), sources });
            if ships {
                break;
            }
        }
        let waits = |part: &StatementPart| part.bound.shipped.is_none() && is_shipped(&part.bound);
        round.is_last =
            round.statements.len() == batch.len() && !round.statements.last().is_some_and(waits);
        Ok(round)
    }

    /// The partitions that all statements of a batch need.
    pub(crate) fn partitions_of(
        batch: &VecDeque<BoundStatement>,
        desk: &Desk<'_>,
    ) -> Result<Vec<PartitionId>, Failure> {
        if batch.iter().any(is_shipped) {
            return Ok((0..desk.ring.partition_count()).map(PartitionId).collect());
        }
        let partition_count = desk.ring.partition_count() as usize;
        let mut needed = vec![false; partition_count];
        for bound in batch {
            for sources in places(bound, desk)? {
                sources.iter().for_each(|(_, partition)| needed[partition.index()] = true);
            }
        }
        let taken = (0..partition_count).filter(|place| needed[*place]);
        Ok(taken.map(|place| PartitionId(place as u32)).collect())
    }

    /// The partitions that have something to do.
    pub(crate) fn partitions(&self) -> Vec<PartitionId> {
        let busy = |(number, tasks): (usize, &Vec<FragmentTask>)| {
            (!tasks.is_empty()).then_some(PartitionId(number as u32))
        };
        self.tasks.iter().enumerate().filter_map(busy).collect()
    }

    /// Gives the statement's work to partitions; returns where its tables will be.
    fn place(
        &mut self,
        bound: &BoundStatement,
        desk: &Desk<'_>,
    ) -> Result<Vec<Vec<(PartitionId, usize)>>, Failure> {
        let place = |parts: Vec<(FragmentPart, PartitionId)>| {
            parts.into_iter().map(|(part, partition)| self.task(partition, bound, part)).collect()
        };
        Ok(places(bound, desk)?.into_iter().map(place).collect())
    }

    fn task(
        &mut self,
        partition: PartitionId,
        bound: &BoundStatement,
        part: FragmentPart,
    ) -> (PartitionId, usize) {
        let tasks = &mut self.tasks[partition.index()];
        tasks.push(FragmentTask { bound: bound.clone(), part });
        (partition, tasks.len() - 1)
    }

    /// All answers are in: takes the round's statements off the batch and adds their results. A
    /// statement that ships rows goes back to the front of the batch, with its rows.
    pub(crate) fn merge(
        self,
        batch: &mut VecDeque<BoundStatement>,
        results: &mut Vec<Vec<u8>>,
        desk: &Desk<'_>,
    ) -> Result<(), Failure> {
        for part in &self.statements {
            batch.pop_front();
            match self.merge_statement(part, desk)? {
                Merged::Result(table) => results.push(table),
                Merged::Shipped(rows) => {
                    let mut bound = part.bound.clone();
                    bound.shipped = Some(Arc::new(rows));
                    batch.push_front(bound);
                }
            }
        }
        Ok(())
    }

    fn merge_statement(&self, part: &StatementPart, desk: &Desk<'_>) -> Result<Merged, Failure> {
        let table = |&(partition, task): &(PartitionId, usize)| {
            self.answers[partition.index()][task].as_slice()
        };
        let inputs: Vec<Vec<&[u8]>> =
            part.sources.iter().map(|sources| sources.iter().map(table).collect()).collect();
        let bound = &part.bound;
        let statement = &*bound.statement;
        let mut context = desk.context.clone();
        context.watch.profiler = bound.profiler_of_coordinator();
        let mut out = Vec::new();
        match &statement.statement().execution {
            Execution::Local { .. } => out.extend_from_slice(inputs[0][0]),
            Execution::Distributed { .. } => with_parameters(bound, |parameters| {
                coordinate(statement, parameters, &inputs, &context, &mut out)
            })?,
            Execution::Shipped { .. } if bound.shipped.is_some() => {
                with_parameters(bound, |parameters| {
                    coordinate_applied(statement, parameters, &inputs, &context, &mut out)
                })?;
            }
            Execution::Shipped { .. } => {
                let rows = with_parameters(bound, |parameters| {
                    ship(statement, parameters, &inputs, &context, desk.ring)
                })?;
                return Ok(Merged::Shipped(rows));
            }
        }
        Ok(Merged::Result(out))
    }
}

/// The first partition that a batch names, if a statement of it can run anywhere.
pub(crate) fn home_of(
    batch: &VecDeque<BoundStatement>,
    ring: &HashRing,
    timestamp_us: i64,
) -> Option<PartitionId> {
    let routing = |bound: &BoundStatement| match &bound.statement.statement().execution {
        Execution::Local { routing, .. } => Some(routing.is_some()),
        _ => None,
    };
    if !batch.iter().any(|bound| routing(bound) != Some(true)) {
        return None;
    }
    batch.iter().find_map(|bound| match &bound.statement.statement().execution {
        Execution::Local { routing: Some(value), .. } => {
            with_parameters(bound, |parameters| owner(value, parameters, timestamp_us, ring)).ok()
        }
        _ => None,
    })
}

fn is_shipped(bound: &BoundStatement) -> bool {
    matches!(bound.statement.statement().execution, Execution::Shipped { .. })
}

/// Per fragment of a statement, the partitions where it runs.
fn places(
    bound: &BoundStatement,
    desk: &Desk<'_>,
) -> Result<Vec<Vec<(FragmentPart, PartitionId)>>, Failure> {
    let all = || (0..desk.ring.partition_count()).map(PartitionId);
    if bound.shipped.is_some() {
        return Ok(vec![all().map(|partition| (FragmentPart::Apply, partition)).collect()]);
    }
    if let Execution::Local { routing, .. } = &bound.statement.statement().execution {
        let partition = match routing {
            None => desk.home,
            Some(value) => owner_of(bound, value, desk)?,
        };
        return Ok(vec![vec![(FragmentPart::Whole, partition)]]);
    }
    let mut places = Vec::new();
    for (number, fragment) in fragments(&bound.statement).iter().enumerate() {
        let partitions = match &fragment.target {
            Target::All => all().collect(),
            Target::One => vec![desk.home],
            Target::Owner(value) => vec![owner_of(bound, value, desk)?],
            Target::Owners(values) => {
                let owners = values.iter().map(|value| owner_of(bound, value, desk));
                let owners: BTreeSet<PartitionId> = owners.collect::<Result<_, _>>()?;
                owners.into_iter().collect()
            }
        };
        let part = |partition| (FragmentPart::Fragment(number), partition);
        places.push(partitions.into_iter().map(part).collect());
    }
    Ok(places)
}

enum Merged {
    Result(Vec<u8>),
    Shipped(Vec<Vec<u8>>),
}

fn owner_of(
    bound: &BoundStatement,
    value: &Expression,
    desk: &Desk<'_>,
) -> Result<PartitionId, Failure> {
    with_parameters(bound, |parameters| {
        owner(value, parameters, desk.context.timestamp_us, desk.ring)
    })
}
