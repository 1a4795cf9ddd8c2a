//! One round of a multi-partition transaction: which fragments go where, and how their tables
//! become the statements' results.

use crate::active::PendingEntries;
use crate::message::{
    BoundStatement, FragmentPart, FragmentTask, Home, StatementProfile, TaskEntries,
};
use crate::parameters::with_parameters;
use crate::partition::writes;
use lockstep_exec::distributed::{
    CoordinatorContext, coordinate, coordinate_applied, fragments, owner_of_entry, ship,
};
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::lookup::{lookup_owner, lookups, read_places};
use lockstep_exec::watch::Profiler;
use lockstep_plan_ir::statement::{IndexUpkeep, Target};
use lockstep_plan_ir::{Execution, Lookup};
use lockstep_types::{Failure, HashRing, PartitionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

mod owners;
use owners::{first_owner_of, owner_of_value, owners_of, owners_of_elements};

/// Where a coordinator plans and merges rounds.
pub(crate) struct Desk<'c> {
    pub(crate) ring: &'c HashRing,
    pub(crate) context: CoordinatorContext,
    /// Where what any partition can do is done: one that takes part anyway.
    pub(crate) home: PartitionId,
    /// Where the statements of a single-partition procedure run.
    pub(crate) call_home: Option<Home>,
    /// Times operators of profiled statements.
    pub(crate) profile_clock: fn() -> u64,
}

/// What counts the coordinator's own operators of a statement, if it is profiled.
fn profiler_of(bound: &BoundStatement, desk: &Desk<'_>) -> Option<Arc<Profiler>> {
    bound.profile?;
    let statement = Arc::clone(bound.statement.statement());
    Some(Arc::new(Profiler::new(statement, desk.profile_clock)))
}

/// A round: the tasks of each partition, and which of their tables belong to which statement.
pub(crate) struct Round {
    /// Per partition.
    pub(crate) tasks: Vec<Vec<FragmentTask>>,
    /// Per partition, changes of index entries that come before the tasks.
    pub(crate) entries: PendingEntries,
    /// Per partition, the changes of index entries that the tasks asked for.
    pub(crate) collected: Vec<Vec<TaskEntries>>,
    /// Per partition, one table for each task.
    pub(crate) answers: Vec<Vec<Vec<u8>>>,
    /// The batch ends with it.
    pub(crate) is_last: bool,
    statements: Vec<StatementPart>,
}

/// A statement's part of a round.
struct StatementPart {
    bound: BoundStatement,
    sources: Sources,
}

/// Where a statement's tables come from: partitions and numbers of their tasks.
enum Sources {
    /// The result is one partition's.
    One((PartitionId, usize)),
    /// Per fragment.
    Fragments(Vec<Vec<(PartitionId, usize)>>),
}

impl Sources {
    /// All of them, of one fragment after the other.
    fn each(&self) -> impl Iterator<Item = &(PartitionId, usize)> {
        let (one, fragments) = match self {
            Sources::One(source) => (Some(source), &[][..]),
            Sources::Fragments(fragments) => (None, fragments.as_slice()),
        };
        one.into_iter().chain(fragments.iter().flatten())
    }
}

impl Round {
    /// Plans the next round of a batch: as many statements as can go together. One that ships
    /// rows has rounds of its own.
    pub(crate) fn plan(
        batch: &VecDeque<BoundStatement>,
        desk: &Desk<'_>,
    ) -> Result<Round, Failure> {
        let partition_count = desk.ring.partition_count() as usize;
        let mut round = Round::empty(partition_count);
        let mut collects = false;
        for bound in batch {
            let ships = is_shipped(bound);
            if asks(bound, desk) {
                // What indexes answer must be the state after the statements before.
                if round.statements.is_empty() {
                    let sources = round.ask(bound, desk)?;
                    round.statements.push(StatementPart { bound: bound.clone(), sources });
                }
                break;
            }
            // The entries that a statement changes are right in the next round only.
            if (ships && !round.statements.is_empty()) || (collects && needs_entries(bound)) {
                break;
            }
            let sources = round.place(bound, desk)?;
            if partition_count > 1 {
                round.place_known(bound, desk)?;
                collects |= match bound.statement.statement().upkeep {
                    IndexUpkeep::None => false,
                    IndexUpkeep::Collected => true,
                    IndexUpkeep::Known(_) | IndexUpkeep::Truncated(_) => is_load(bound),
                };
            }
            round.statements.push(StatementPart { bound: bound.clone(), sources });
            if ships {
                break;
            }
        }
        let waits = |part: &StatementPart| {
            part.bound.shipped.is_none() && is_shipped(&part.bound) || asks(&part.bound, desk)
        };
        round.is_last = round.statements.len() == batch.len()
            && !round.statements.last().is_some_and(waits)
            && !collects;
        Ok(round)
    }

    /// A round that carries out changes of index entries and nothing else.
    pub(crate) fn of_entries(entries: PendingEntries, partition_count: u32) -> Round {
        let mut round = Round::empty(partition_count as usize);
        round.entries = entries;
        round.is_last = true;
        round
    }

    fn empty(partition_count: usize) -> Round {
        Round {
            tasks: vec![Vec::new(); partition_count],
            entries: PendingEntries::new(),
            collected: Vec::new(),
            answers: Vec::new(),
            is_last: false,
            statements: Vec::new(),
        }
    }

    /// The entries that a statement is known to change go where they belong, beside it.
    fn place_known(&mut self, bound: &BoundStatement, desk: &Desk<'_>) -> Result<(), Failure> {
        for (number, partitions) in places_of_known(bound, desk)?.into_iter().enumerate() {
            for partition in partitions {
                self.task(partition, bound, FragmentPart::Entry(number));
            }
        }
        Ok(())
    }

    /// Whether a partition runs parts of statements, not only changes of index entries.
    pub(crate) fn runs_statements(&self, partition: usize) -> bool {
        let mut sources = self.statements.iter().flat_map(|part| part.sources.each());
        sources.any(|(source, _)| source.index() == partition)
    }

    /// The changes of index entries that the round's statements asked for: of each statement
    /// first all removals, then all additions.
    pub(crate) fn take_collected(&mut self) -> PendingEntries {
        let mut pending = PendingEntries::new();
        for part in &self.statements {
            let sources = part.sources.each();
            let mut merged: BTreeMap<PartitionId, PartitionEntries> = BTreeMap::new();
            for &(partition, task) in sources {
                let asked = self.collected[partition.index()].iter();
                for changes in asked.filter(|asked| asked.task == task).flat_map(|a| &a.changes) {
                    let partition = changes.partition;
                    let entries = merged.entry(partition).or_insert_with(|| PartitionEntries {
                        partition,
                        removed: Vec::new(),
                        added: Vec::new(),
                    });
                    entries.removed.extend_from_slice(&changes.removed);
                    entries.added.extend_from_slice(&changes.added);
                }
            }
            for (partition, entries) in merged {
                pending.entry(partition).or_default().push(entries);
            }
        }
        pending
    }

    /// The partitions that all statements of a batch need, index entries left out.
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
            if asks(bound, desk) {
                owners_of_questions(bound, desk.ring, desk.context.timestamp_us)?
                    .into_iter()
                    .for_each(|partition| needed[partition.index()] = true);
                continue;
            }
            for sources in places(bound, desk)? {
                sources.iter().for_each(|(_, partition)| needed[partition.index()] = true);
            }
        }
        let taken = (0..partition_count).filter(|place| needed[*place]);
        Ok(taken.map(|place| PartitionId(place as u32)).collect())
    }

    /// The partitions of the index entries that the statements of a batch are known to change.
    pub(crate) fn partitions_of_known(
        batch: &VecDeque<BoundStatement>,
        desk: &Desk<'_>,
    ) -> Result<Vec<PartitionId>, Failure> {
        let mut known = Vec::new();
        for bound in batch {
            known.extend(places_of_known(bound, desk)?.into_iter().flatten());
        }
        Ok(known)
    }

    /// The partitions that have something to do, in the order of their numbers.
    pub(crate) fn partitions(&self) -> Vec<PartitionId> {
        self.busy().collect()
    }

    /// Whether no partition has anything to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.busy().next().is_none()
    }

    /// The same, one after the other.
    pub(crate) fn busy(&self) -> impl Iterator<Item = PartitionId> {
        let numbered = (0..).map(PartitionId).zip(&self.tasks);
        numbered
            .filter(|(partition, tasks)| !tasks.is_empty() || self.has_entries(*partition))
            .map(|(partition, _)| partition)
    }

    /// Whether a partition has changes of index entries to carry out.
    fn has_entries(&self, partition: PartitionId) -> bool {
        !self.entries.is_empty() && self.entries.contains_key(&partition)
    }

    /// Those of the round's partitions that write.
    pub(crate) fn writers(&self, partitions: &[PartitionId]) -> Arc<[PartitionId]> {
        let does_write = |partition: &PartitionId| {
            let mut tasks = self.tasks[partition.index()].iter();
            self.has_entries(*partition) || tasks.any(|task| writes(&task.bound, task.part))
        };
        // All or none of them, as a rule, for which there is nothing to collect first.
        match partitions.iter().filter(|partition| does_write(partition)).count() {
            0 => Arc::default(),
            all if all == partitions.len() => partitions.into(),
            _ => partitions.iter().copied().filter(does_write).collect(),
        }
    }

    /// Whether it is all of a batch's work, so that no partition is needed but its own, and
    /// statements need them all.
    pub(crate) fn covers(&self, batch: &VecDeque<BoundStatement>) -> bool {
        let has_more = |bound: &BoundStatement| {
            is_shipped(bound) || changes_known_entries(bound) || may_ask(bound)
        };
        self.statements.len() == batch.len() && !batch.iter().any(has_more)
    }

    /// Gives the statement's work to partitions; returns where its tables will be.
    fn place(&mut self, bound: &BoundStatement, desk: &Desk<'_>) -> Result<Sources, Failure> {
        if let Some((part, partition)) = only_partition(bound, desk)?.filter(|_| !is_load(bound)) {
            return Ok(Sources::One(self.task(partition, bound, part)));
        }
        let place = |parts: Vec<(FragmentPart, PartitionId)>| {
            parts.into_iter().map(|(part, partition)| self.task(partition, bound, part)).collect()
        };
        Ok(Sources::Fragments(places(bound, desk)?.into_iter().map(place).collect()))
    }

    /// Asks global indexes where a statement's rows are; returns where the answers will be.
    fn ask(&mut self, bound: &BoundStatement, desk: &Desk<'_>) -> Result<Sources, Failure> {
        let owners = owners_of_questions(bound, desk.ring, desk.context.timestamp_us)?
            .into_iter()
            .enumerate();
        let ask = |(number, owner)| vec![self.task(owner, bound, FragmentPart::Lookup(number))];
        Ok(Sources::Fragments(owners.map(ask).collect()))
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
        mut self,
        batch: &mut VecDeque<BoundStatement>,
        results: &mut Vec<Vec<u8>>,
        profiles: &mut Vec<StatementProfile>,
        desk: &Desk<'_>,
    ) -> Result<(), Failure> {
        for part in std::mem::take(&mut self.statements) {
            batch.pop_front();
            let merged = match &part.sources {
                Sources::One((partition, task)) => {
                    let tables = &mut self.answers[partition.index()];
                    Merged::Result(std::mem::take(&mut tables[*task]))
                }
                Sources::Fragments(sources) => {
                    let profiler = profiler_of(&part.bound, desk);
                    let merged =
                        self.merge_statement(&part.bound, sources, profiler.clone(), desk)?;
                    profiles.extend(part.bound.profile.zip(profiler).map(
                        |(statement, profiler)| {
                            let operators = profiler.operators();
                            StatementProfile { statement, partition: None, operators }
                        },
                    ));
                    merged
                }
            };
            match merged {
                Merged::Result(table) => results.push(table),
                Merged::Shipped(rows) => {
                    let mut bound = part.bound.clone();
                    bound.shipped = Some(Arc::new(rows));
                    batch.push_front(bound);
                }
                Merged::Found(places) => {
                    let mut bound = part.bound.clone();
                    bound.found = Some(Arc::new(places));
                    batch.push_front(bound);
                }
            }
        }
        Ok(())
    }

    fn merge_statement(
        &self,
        bound: &BoundStatement,
        sources: &[Vec<(PartitionId, usize)>],
        profiler: Option<Arc<Profiler>>,
        desk: &Desk<'_>,
    ) -> Result<Merged, Failure> {
        let table = |&(partition, task): &(PartitionId, usize)| {
            self.answers[partition.index()][task].as_slice()
        };
        let inputs: Vec<Vec<&[u8]>> =
            sources.iter().map(|sources| sources.iter().map(table).collect()).collect();
        if asks(bound, desk) {
            let answers = inputs.iter().flatten().map(|table| read_places(table));
            let places = answers.collect::<Result<_, _>>().map_err(|e| e.to_failure())?;
            return Ok(Merged::Found(places));
        }
        // Who loads counts the rows before.
        if is_load(bound) {
            return Ok(Merged::Result(Vec::new()));
        }
        let statement = &*bound.statement;
        let mut context = desk.context.clone();
        context.watch.profiler = profiler;
        let mut out = Vec::new();
        match &statement.statement().execution {
            Execution::Local { .. } => unreachable!("one partition's result is the statement's"),
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
            owner_of_value(bound, value, timestamp_us, ring).ok()
        }
        _ => None,
    })
}

fn is_shipped(bound: &BoundStatement) -> bool {
    matches!(bound.statement.statement().execution, Execution::Shipped { .. })
}

/// Whether a statement stands for rows that it loads.
fn is_load(bound: &BoundStatement) -> bool {
    bound.shipped.is_some() && !is_shipped(bound)
}

/// The partition that runs the whole of a statement, if one does, and as what.
fn only_partition(
    bound: &BoundStatement,
    desk: &Desk<'_>,
) -> Result<Option<(FragmentPart, PartitionId)>, Failure> {
    let Execution::Local { routing, .. } = &bound.statement.statement().execution else {
        return Ok(None);
    };
    if let Some(Home { partition, addresses_partition }) = desk.call_home {
        return Ok(Some((FragmentPart::Home { addresses_partition }, partition)));
    }
    let partition = match routing {
        None => desk.home,
        Some(value) => first_owner_of(bound, value, desk)?,
    };
    Ok(Some((FragmentPart::Whole, partition)))
}

/// Per fragment of a statement, the partitions where it runs.
fn places(
    bound: &BoundStatement,
    desk: &Desk<'_>,
) -> Result<Vec<Vec<(FragmentPart, PartitionId)>>, Failure> {
    let all = || (0..desk.ring.partition_count()).map(PartitionId);
    if let Some(rows) = bound.shipped.as_ref().filter(|_| is_load(bound)) {
        let loads = all()
            .filter(|partition| rows.get(partition.index()).is_some_and(|table| !table.is_empty()));
        return Ok(vec![loads.map(|partition| (FragmentPart::Load, partition)).collect()]);
    }
    if bound.shipped.is_some() {
        return Ok(vec![all().map(|partition| (FragmentPart::Apply, partition)).collect()]);
    }
    if let Some(only) = only_partition(bound, desk)? {
        return Ok(vec![vec![only]]);
    }
    let mut places = Vec::new();
    for (number, fragment) in fragments(&bound.statement).iter().enumerate() {
        let partitions = match &fragment.target {
            Target::All => all().collect(),
            Target::One => vec![desk.home],
            Target::Owner(value) => vec![first_owner_of(bound, value, desk)?],
            Target::Owners(values) => {
                let mut owners = BTreeSet::new();
                for value in values {
                    owners.extend(owners_of(bound, value, desk)?);
                }
                owners.into_iter().collect()
            }
            Target::OwnersOfArray(parameter) => owners_of_elements(bound, *parameter, desk)?,
        };
        let part = |partition| (FragmentPart::Fragment(number), partition);
        places.push(partitions.into_iter().map(part).collect());
    }
    Ok(places)
}

/// Whether a statement has to find what those before it changed in the entries of indexes.
fn needs_entries(bound: &BoundStatement) -> bool {
    bound.statement.statement().needs_entries || changes_known_entries(bound)
}

/// Whether a statement changes entries of indexes that are known before it runs.
fn changes_known_entries(bound: &BoundStatement) -> bool {
    let upkeep = &bound.statement.statement().upkeep;
    matches!(upkeep, IndexUpkeep::Known(_) | IndexUpkeep::Truncated(_)) && !is_load(bound)
}

/// Per index entry that a statement is known to change, the partitions where it does.
fn places_of_known(
    bound: &BoundStatement,
    desk: &Desk<'_>,
) -> Result<Vec<Vec<PartitionId>>, Failure> {
    let all = || (0..desk.ring.partition_count()).map(PartitionId).collect();
    match &bound.statement.statement().upkeep {
        _ if desk.ring.partition_count() == 1 || is_load(bound) => Ok(Vec::new()),
        IndexUpkeep::None | IndexUpkeep::Collected => Ok(Vec::new()),
        IndexUpkeep::Truncated(tables) => Ok(tables.iter().map(|_| all()).collect()),
        IndexUpkeep::Known(entries) => with_parameters(bound, |parameters| {
            let now_us = desk.context.timestamp_us;
            let owner = |entry| owner_of_entry(entry, parameters, now_us, desk.ring);
            entries.iter().map(|entry| Ok(vec![owner(entry)?])).collect()
        }),
    }
}

/// Whether a statement has questions to global indexes that are not answered.
fn may_ask(bound: &BoundStatement) -> bool {
    bound.found.is_none() && !lookups(bound.statement.statement()).is_empty()
}

/// Whether global indexes have to be asked before a statement can run.
fn asks(bound: &BoundStatement, desk: &Desk<'_>) -> bool {
    desk.ring.partition_count() > 1
        && desk.call_home.is_none()
        && bound.shipped.is_none()
        && may_ask(bound)
}

/// Per question of a statement, the partition that answers it.
pub(crate) fn owners_of_questions(
    bound: &BoundStatement,
    ring: &HashRing,
    now_us: i64,
) -> Result<Vec<PartitionId>, Failure> {
    with_parameters(bound, |parameters| {
        let questions = lookups(bound.statement.statement()).into_iter().filter_map(Lookup::of);
        questions.map(|question| lookup_owner(&question, parameters, now_us, ring)).collect()
    })
}

enum Merged {
    Found(Vec<Vec<PartitionId>>),
    Result(Vec<u8>),
    Shipped(Vec<Vec<u8>>),
}
