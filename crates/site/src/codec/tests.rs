//! Messages are read as they were written, and refused where they are cut off or name what is not
//! there.

use super::*;
use crate::fence::{ChangeId, FenceReport, KnownOutcome, LoggedRound, UndecidedTransaction};
use crate::message::{
    AnswerForm, BoundStatement, FragmentPart, FragmentTask, FromPartition, MultiCall, MultiWork,
    Numbered, RoundAnswer, RoundTasks, StatementCall, StatementProfile, TaskEntries, ToPartition,
    Writers,
};
use lockstep_exec::statement::StatementOrigin;
use lockstep_exec::watch::OperatorProfile;
use lockstep_plan_ir::lookup::question;
use lockstep_txn::log_entry::{Vote, WriterRound};
use lockstep_types::{SqlType, TableId};

/// A catalog of questions alone, with one change that was prepared.
struct Questions {
    version: u64,
    change: Arc<SchemaTask<u64>>,
}

impl Identities<u64> for Questions {
    fn catalog_version(&self) -> u64 {
        self.version
    }

    fn partition_count(&self) -> u32 {
        3
    }

    fn statement(&mut self, id: &StatementId<'_>) -> Result<Arc<PreparedStatement>, String> {
        match id {
            StatementId::Question { entries, key } => Ok(asked(*entries, key)),
            other => Err(format!("there is no {other:?}")),
        }
    }

    fn procedure(&mut self, name: &str) -> Result<Arc<PreparedProcedure>, String> {
        Err(format!("there is no procedure {name}"))
    }

    fn prepared_change(
        &mut self,
        catalog_version: u64,
        source: &[u8],
    ) -> Result<Arc<SchemaTask<u64>>, String> {
        match (catalog_version, source) == (self.change.catalog_version, &*self.change.source) {
            true => Ok(Arc::clone(&self.change)),
            false => Err("it was not prepared".to_string()),
        }
    }
}

fn questions() -> Questions {
    let change = SchemaTask {
        changes: Vec::new(),
        swap: None,
        snapshot: None,
        catalog: 6,
        catalog_version: 6,
        source: b"CREATE".as_slice().into(),
        advice: None,
    };
    Questions { version: 5, change: Arc::new(change) }
}

fn asked(entries: TableId, key: &[SqlType]) -> Arc<PreparedStatement> {
    let prepared = PreparedStatement::new(Arc::new(question(entries, key)));
    Arc::new(prepared.with_origin(StatementOrigin::Question { entries }))
}

fn bound() -> BoundStatement {
    BoundStatement {
        statement: asked(TableId(300), &[SqlType::BigInt, SqlType::Varchar]),
        parameters: [0, 0].as_slice().into(),
        shipped: Some(Arc::new(vec![Vec::new(), vec![1, 2], vec![3]])),
        found: Some(Arc::new(vec![vec![PartitionId(2)], Vec::new()])),
        profile: Some(7),
    }
}

const TRANSACTION: TransactionId = TransactionId(1 << 40);

fn entries() -> PartitionEntries {
    PartitionEntries { partition: PartitionId(1), removed: vec![1], added: vec![2, 3] }
}

fn limit() -> TimeLimit {
    TimeLimit { timeout_ms: 1_000, source: LimitSource::Write, caller: Caller(1 << 50) }
}

fn report() -> FenceReport {
    let undecided = |logged| UndecidedTransaction {
        transaction: TRANSACTION,
        logged,
        voters: vec![PartitionId(0), PartitionId(2)],
    };
    let writers = vec![WriterRound { partition: PartitionId(1), round: 300 }];
    let outcome = |writers: Option<Vec<WriterRound>>| KnownOutcome {
        transaction: TRANSACTION,
        commits: writers.is_some(),
        writers: writers.map(Writers::new),
    };
    FenceReport {
        partition: PartitionId(2),
        epoch: 300,
        undecided: vec![undecided(Some(LoggedRound { round: 2, vote: Vote::No })), undecided(None)],
        outcomes: vec![outcome(None), outcome(Some(writers))],
        change: Some(ChangeId {
            transaction: TRANSACTION,
            catalog_version: 6,
            snapshot: Some([1, 2].into()),
        }),
        catalog_version: 5,
        last: TRANSACTION,
    }
}

fn told() -> Vec<Numbered<u64>> {
    let tasks = RoundTasks {
        transaction: TRANSACTION,
        catalog_version: 5,
        round: 2,
        procedure_number: u32::MAX,
        time_limit: Some(limit()),
        last: true,
        entries: vec![entries()].into(),
        tasks: vec![
            FragmentTask { bound: bound(), part: FragmentPart::Lookup(0) },
            FragmentTask {
                bound: BoundStatement { shipped: None, found: None, profile: None, ..bound() },
                part: FragmentPart::Home { addresses_partition: true },
            },
        ]
        .into(),
        writers: vec![PartitionId(0), PartitionId(2)].into(),
    };
    let writers = vec![WriterRound { partition: PartitionId(1), round: 300 }];
    let decision = |writers| ToPartition::Decision {
        transaction: TRANSACTION,
        commit: true,
        run: 9,
        acknowledge: false,
        writers,
        memory: Vec::new(),
    };
    let messages = [
        ToPartition::Fragments(Box::new(tasks)),
        ToPartition::Schema { transaction: TRANSACTION, round: 1, task: questions().change },
        ToPartition::Build { transaction: TRANSACTION, round: 3, entries: vec![entries()].into() },
        decision(None),
        decision(Some(Writers::new(writers))),
        ToPartition::Confirm { checkpoint: 300 },
        ToPartition::Resolve {
            decisions: report().outcomes.into(),
            acknowledge: [TRANSACTION].into(),
        },
    ];
    let (partition, number, epoch) = (PartitionId(1), 77, 300);
    let numbered = |message| Numbered { partition, number, epoch, message };
    messages.map(numbered).into()
}

#[test]
fn what_a_partition_is_told_is_read_back() {
    for message in told() {
        let mut bytes = Vec::new();
        write_to_partition(&mut bytes, &message);
        assert_eq!(read_address(&bytes), Ok((PartitionId(1), 77)));
        let read = read_to_partition(&bytes, &mut questions()).expect("sound");
        let mut again = Vec::new();
        write_to_partition(&mut again, &read);
        assert_eq!(again, bytes, "{message:?}");
        for cut in 0..bytes.len() {
            let read = read_to_partition(&bytes[..cut], &mut questions());
            assert!(read.is_err(), "cut at {cut}: {message:?}");
        }
        bytes.push(0);
        let longer = read_to_partition(&bytes, &mut questions()).map(drop);
        assert_eq!(longer, Err(MessageError::TooLong(1)));
    }
}

#[test]
fn a_partition_gets_its_own_rows_only() {
    let mut bytes = Vec::new();
    write_to_partition(&mut bytes, &told()[0]);
    let read = read_to_partition(&bytes, &mut questions()).expect("sound").message;
    let ToPartition::Fragments(tasks) = read else { panic!("it has fragments") };
    let shipped = tasks.tasks[0].bound.shipped.as_deref().expect("rows go along");
    assert_eq!(shipped, &[Vec::new(), vec![1, 2], Vec::new()]);
    assert_eq!(tasks.tasks[0].bound.profile, Some(7));
}

#[test]
fn messages_of_other_catalogs_are_told_apart_from_broken_ones() {
    let mut bytes = Vec::new();
    write_to_partition(&mut bytes, &told()[0]);
    let read = |bytes: &[u8], version| {
        let mut names = Questions { version, ..questions() };
        read_to_partition(bytes, &mut names).map(drop)
    };
    assert_eq!(read(&bytes, 4), Err(MessageError::LaterCatalog(5)));
    assert_eq!(read(&bytes, 6), Err(MessageError::EarlierCatalog(5)));
    let mut other = Vec::new();
    let beyond = Numbered { partition: PartitionId(3), ..told().remove(3) };
    write_to_partition(&mut other, &beyond);
    assert_eq!(read(&other, 5), Err(MessageError::Number("partition", 3)));
    let text = read(&other, 5).map_err(|error| error.to_string());
    assert_eq!(text, Err("the message has partition 3, which is too great".to_string()));
}

#[test]
fn what_a_partition_tells_is_read_back() {
    let operator = OperatorProfile { rows: 1, loops: 2, ticks: u64::MAX };
    let profile = StatementProfile {
        statement: 1,
        partition: Some(PartitionId(2)),
        operators: vec![operator],
    };
    let answer = |result| RoundAnswer {
        partition: PartitionId(2),
        transaction: TRANSACTION,
        round: 4,
        run: 300,
        epoch: 5,
        result,
        entries: vec![TaskEntries { task: 1, changes: vec![entries()] }],
        profiles: vec![profile.clone()],
        misled: true,
    };
    let failure = || Failure { deterministic: false, ..Failure::graceful("why: é") };
    let one_round = |result| FromPartition::OneRound {
        partition: PartitionId(0),
        transaction: TRANSACTION,
        run: 1,
        epoch: 300,
        result,
    };
    let messages = [
        FromPartition::Answer(Box::new(answer(Ok(vec![vec![1, 2, 3], Vec::new()])))),
        FromPartition::Answer(Box::new(answer(Err(failure())))),
        one_round(Ok(vec![9; 300])),
        one_round(Err(Box::new(failure()))),
        FromPartition::Acknowledged {
            partition: PartitionId(1),
            transaction: TRANSACTION,
            epoch: 300,
        },
        FromPartition::Fenced(Box::new(report())),
        FromPartition::Resolved { partition: PartitionId(2), epoch: 7 },
        FromPartition::Confirmed { partition: PartitionId(2), epoch: 7, checkpoint: 300 },
    ];
    for message in messages {
        let mut bytes = Vec::new();
        write_from_partition(&mut bytes, &message);
        let read = read_from_partition(&bytes, 3).expect("sound");
        let mut again = Vec::new();
        write_from_partition(&mut again, &read);
        assert_eq!(again, bytes, "{message:?}");
        for cut in 0..bytes.len() {
            assert!(read_from_partition(&bytes[..cut], 3).is_err(), "cut at {cut}: {message:?}");
        }
        assert!(read_from_partition(&bytes, 0).is_err(), "no such partition");
    }
}

#[test]
fn calls_are_read_back_or_found_overtaken() {
    let call = |work| MultiCall {
        origin: 42u64,
        procedure_number: 1,
        catalog_version: 5,
        time_limit: None,
        declared: vec![PartitionId(2)],
        home: Some(Home { partition: PartitionId(1), addresses_partition: false }),
        led: Some(bound()),
        work,
    };
    let statements = StatementCall {
        statements: vec![bound(), bound()],
        read_only: false,
        answer: AnswerForm::Count(-1),
    };
    let works = [MultiWork::Statements(statements), MultiWork::Schema(questions().change)];
    for call in works.map(call) {
        let mut bytes = Vec::new();
        write_multi(&mut bytes, &call, |out, origin| out.put_varint(*origin));
        let read = |bytes: &[u8], version| {
            let mut names = Questions { version, ..questions() };
            read_multi(bytes, &mut names, |reader| Ok(reader.varint()?))
        };
        let Ok(ReceivedCall::Current(found)) = read(&bytes, 5) else { panic!("it is current") };
        let mut again = Vec::new();
        write_multi(&mut again, &found, |out, origin| out.put_varint(*origin));
        assert_eq!(again, bytes);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut], 5).is_err(), "cut at {cut}");
        }
        // Nothing overtakes a change of the catalog.
        let is_overtaken = matches!(read(&bytes, 6), Ok(ReceivedCall::Overtaken(42)));
        assert_eq!(is_overtaken, matches!(call.work, MultiWork::Statements(_)));
    }
}

#[test]
fn a_statement_runs_no_part_that_it_does_not_have() {
    let parts = [
        FragmentPart::Lookup(1),
        FragmentPart::Fragment(0),
        FragmentPart::Entry(0),
        FragmentPart::Apply,
    ];
    for part in parts {
        let mut message = told().remove(0);
        let ToPartition::Fragments(tasks) = &mut message.message else { panic!("fragments") };
        tasks.tasks = vec![FragmentTask { bound: bound(), part }].into();
        let mut bytes = Vec::new();
        write_to_partition(&mut bytes, &message);
        let read = read_to_partition(&bytes, &mut questions()).map(drop);
        assert!(matches!(read, Err(MessageError::Number(..))), "{part:?}: {read:?}");
    }
}
