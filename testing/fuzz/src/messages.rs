//! What messages name, and some of them to begin with.

use lockstep_host::catalog::HostCatalog;
use lockstep_host::names::CatalogNames;
use lockstep_host::schema::prepared::PreparedChanges;
use lockstep_host::statement_cache::{StatementCache, StatementSources};
use lockstep_jvm::JavaNonTransactional;
use lockstep_node::NativeRegistry;
use lockstep_node::codec::write_message;
use lockstep_node::message::Envelope;
use lockstep_plan::Catalog;
use lockstep_site::codec::StatementId;
use lockstep_site::{
    AnswerForm, BoundStatement, FragmentPart, FragmentTask, FromPartition, Numbered, RoundAnswer,
    RoundTasks, ToPartition,
};
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::{Failure, PartitionId, TransactionId};
use std::sync::{Arc, OnceLock};

const SCHEMA: &str = "
CREATE TABLE item (id INTEGER NOT NULL, kind INTEGER NOT NULL, PRIMARY KEY (id));
PARTITION TABLE item ON COLUMN id;
CREATE PROCEDURE p PARTITION ON TABLE item COLUMN id AS SELECT kind FROM item WHERE id = ?;
CREATE PROCEDURE both AS BEGIN
  UPDATE item SET kind = kind - 1 WHERE id = ?; UPDATE item SET kind = kind + 1 WHERE id = ?; END;
";
const PARTITIONS: u32 = 3;

type FuzzCatalog = HostCatalog<JavaNonTransactional>;

fn catalog() -> &'static FuzzCatalog {
    static CATALOG: OnceLock<FuzzCatalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let natives = NativeRegistry::default();
        let parsed = parse_batch(SCHEMA, &Limits::default()).expect("the schema is sound");
        let plan = Catalog::default().apply(&parsed, &natives).expect("it can be applied").catalog;
        HostCatalog::new(plan, &natives).expect("its procedures have code")
    })
}

/// The names of a small catalog.
pub struct Names {
    limits: Limits,
    statements: StatementCache,
    prepared: PreparedChanges<Arc<FuzzCatalog>>,
}

impl Default for Names {
    fn default() -> Self {
        Names::new()
    }
}

impl Names {
    /// No statement is planned yet.
    pub fn new() -> Names {
        Names {
            limits: Limits::default(),
            statements: StatementCache::default(),
            prepared: PreparedChanges::default(),
        }
    }

    /// Lends the names to what reads a message.
    pub fn lend<T>(
        &mut self,
        read: impl FnOnce(&mut CatalogNames<'_, JavaNonTransactional, Arc<FuzzCatalog>>) -> T,
    ) -> T {
        let limits = &self.limits;
        let sources = StatementSources { catalog: catalog(), limits, partition_count: PARTITIONS };
        read(&mut CatalogNames {
            sources,
            partition_count: PARTITIONS,
            statements: &mut self.statements,
            prepared: &self.prepared,
        })
    }

    fn bound(&mut self, id: &StatementId<'_>) -> BoundStatement {
        let statement = self.lend(|names| names.statements.statement(id, &names.sources));
        BoundStatement {
            statement: statement.expect("the catalog has it"),
            parameters: [0, 0].as_slice().into(),
            shipped: None,
            found: None,
            profile: None,
        }
    }
}

/// A message of each of several kinds.
pub fn samples() -> Vec<Vec<u8>> {
    let mut names = Names::new();
    let of_procedure = names.bound(&StatementId::Procedure { name: "BOTH", number: 1 });
    let text = "SELECT kind, COUNT(*) FROM item GROUP BY kind ORDER BY kind";
    let of_text = names.bound(&StatementId::Text {
        text,
        single_partition: false,
        rules_off: 0,
        planning: None,
    });
    let transaction = TransactionId(1 << 40);
    let tasks = RoundTasks {
        transaction,
        catalog_version: catalog().version(),
        round: 1,
        procedure_number: 0,
        time_limit: None,
        last: true,
        entries: Arc::from(Vec::new()),
        tasks: Arc::from(vec![
            FragmentTask { bound: of_procedure, part: FragmentPart::Whole },
            FragmentTask { bound: of_text.clone(), part: FragmentPart::Fragment(0) },
        ]),
        writers: Arc::from(vec![PartitionId(1)]),
    };
    let (commit, run, acknowledge) = (true, 0, true);
    let (writers, memory) = (None, Vec::new());
    let told = |message| Numbered { partition: PartitionId(1), number: 1, epoch: 2, message };
    let answer = RoundAnswer {
        partition: PartitionId(2),
        transaction,
        round: 1,
        run: 0,
        epoch: 2,
        result: Err(Failure::graceful("no")),
        entries: Vec::new(),
        profiles: Vec::new(),
        misled: false,
    };
    let messages = [
        Envelope::ToPartition(told(ToPartition::Fragments(Box::new(tasks)))),
        Envelope::ToPartition(told(ToPartition::Decision {
            transaction,
            commit,
            run,
            acknowledge,
            writers,
            memory,
        })),
        Envelope::FromPartition(FromPartition::Answer(Box::new(answer))),
        Envelope::Gather { request: 3, validate: true },
        Envelope::Drain,
    ];
    let mut all: Vec<Vec<u8>> = messages.iter().map(bytes_of).collect();
    all.push(call_of_statements(of_text));
    all
}

fn bytes_of(message: &Envelope) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(write_message(&mut bytes, message), "it has a byte form");
    bytes
}

fn call_of_statements(bound: BoundStatement) -> Vec<u8> {
    use lockstep_node::message::{MultiOrigin, MultiRequest, Origin, TASK_KEY};
    use lockstep_site::{MultiWork, StatementCall};
    use lockstep_types::ThreadId;

    let origin = Origin {
        thread: ThreadId(1),
        connection: TASK_KEY,
        handle: 3,
        arrived_us: 4,
        procedure: 5,
        weight: 6,
    };
    let answer = AnswerForm::Results;
    bytes_of(&Envelope::Multi(Box::new(MultiRequest {
        origin: MultiOrigin { origin, body: Some(Arc::from(vec![1, 2, 3])) },
        procedure_number: 0,
        catalog_version: catalog().version(),
        time_limit: None,
        declared: Vec::new(),
        home: None,
        led: None,
        work: MultiWork::Statements(StatementCall {
            statements: vec![bound],
            read_only: true,
            answer,
        }),
    })))
}
