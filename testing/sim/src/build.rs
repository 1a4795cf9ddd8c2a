//! CREATE GLOBAL INDEX on a table that is there, as a host's control thread carries it out: a
//! schema change declares the index, short transactions take in the next rows at every partition,
//! a schema change puts it in force. Calls run between the steps. A step that fails ends it: a
//! schema change takes the index away.

use crate::plans::{Change, SimCatalog};
use crate::world::{BUILD_CALL, Message, SimSite, World};
use lockstep_base::bytes::ByteReader;
use lockstep_exec::PreparedStatement;
use lockstep_exec::entries::check_entries;
use lockstep_plan::{Catalog, GlobalIndexBuild};
use lockstep_site::{BoundStatement, MultiCall, MultiWork, Site, StatementCall};
use lockstep_types::{Datum, Outcome, TableId, TableView};
use std::sync::Arc;

/// Most rows that a step takes in at a partition: few, so that calls come between the steps.
const MOST_ROWS: u64 = 3;

/// A global index that is being built.
pub(crate) struct IndexBuild {
    build: GlobalIndexBuild,
    stage: Stage,
    /// What the last step took in, or why it failed.
    ended: Option<Result<i64, String>>,
}

/// The step that is under way.
enum Stage {
    Begin,
    Cover,
    End,
    /// With the reason.
    TakeAway(String),
}

impl IndexBuild {
    /// A step that takes in rows has ended.
    pub(crate) fn covered(&mut self, outcome: Outcome, tables: &[u8]) {
        self.ended = Some(match outcome.failure {
            Some(failure) => Err(failure.message),
            None => Ok(count(tables)),
        });
    }

    /// Such an end, once.
    pub(crate) fn take_covered(&mut self) -> Option<Result<i64, String>> {
        self.ended.take()
    }
}

impl World {
    /// Begins to build a global index; false while another schema change is under way. It ends as
    /// other changes do ([`World::take_schema_answer`]).
    pub fn begin_index(&mut self, ddl: &str) -> bool {
        if self.changing {
            return false;
        }
        let build = self.latest().1.build_of(ddl);
        self.index_build = Some(IndexBuild { build, stage: Stage::Begin, ended: None });
        self.change_catalog(&Change::BeginIndex(ddl));
        true
    }

    /// The name of the global index whose building was under way when the host stopped, if one
    /// was.
    pub(crate) fn interrupted_index(&self) -> Option<String> {
        self.latest().1.host.plan.builds().next().map(|build| build.index)
    }

    /// Goes on with it.
    pub(crate) fn go_on_with_index(&mut self) {
        let build = self.latest().1.host.plan.builds().next().expect("one is being built");
        self.changing = true;
        self.index_build = Some(IndexBuild { build, stage: Stage::Cover, ended: None });
        self.cover();
    }

    /// A schema change of the build has ended. Gives how the whole ended, if it has.
    pub(crate) fn index_step(&mut self, failure: Option<String>) -> Option<Option<String>> {
        let build = self.index_build.as_ref().expect("one is being built");
        match (&build.stage, failure) {
            (Stage::Begin, None) => self.cover(),
            (Stage::End, None) => return self.index_ended(None),
            (Stage::Begin, Some(why)) => return self.index_ended(Some(why)),
            (Stage::TakeAway(why), None) => {
                let why = why.clone();
                return self.index_ended(Some(why));
            }
            // Whatever else happens, it must go in the end.
            (Stage::TakeAway(why), Some(_)) => {
                let why = why.clone();
                self.end_index(Stage::TakeAway(why));
            }
            (Stage::End, Some(why)) => self.end_index(Stage::TakeAway(why)),
            (Stage::Cover, _) => unreachable!("that is no schema change"),
        }
        None
    }

    /// A step has taken in rows, or failed.
    pub(crate) fn index_covered(&mut self, covered: Result<i64, String>) {
        match covered {
            Ok(0) => self.end_index(Stage::End),
            Ok(_) => self.cover(),
            Err(why) => self.end_index(Stage::TakeAway(why)),
        }
    }

    /// The newest catalog, which may still be under way.
    pub(crate) fn latest(&self) -> (u64, &SimCatalog) {
        let (version, catalog) = self.catalogs.last_key_value().expect("there is a catalog");
        (*version, catalog)
    }

    /// The text of the newest schema.
    pub(crate) fn schema_text(&self) -> String {
        self.latest().1.host.plan.schema_text()
    }

    /// The text of the schema behind a change.
    pub(crate) fn schema_behind(&self, ddl: &str) -> String {
        self.latest().1.make(&Change::Ddl(ddl), &self.natives).catalog.host.plan.schema_text()
    }

    /// Hashes of all partitions' data.
    pub fn content_hashes(&self) -> Vec<u64> {
        self.sites.iter().map(|site| site.database().content_hash()).collect()
    }

    /// The first table that is not the same in another host.
    pub(crate) fn difference(&self, other: &World) -> String {
        for (one, two) in self.sites.iter().zip(&other.sites) {
            let tables = |site: &SimSite| -> Vec<(TableId, u64, u64)> {
                let database = site.database();
                let rows = database.row_counts();
                database
                    .table_hashes()
                    .zip(rows)
                    .map(|((id, h), (_, rows))| (id, h, rows))
                    .collect()
            };
            let (first, second) = (tables(one), tables(two));
            let same = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
            if same < first.len().max(second.len()) {
                let (of, with) = (first.get(same), second.get(same));
                let name = of.and_then(|(id, _, _)| one.database().definition(*id));
                let name = name.map_or("", |definition| &definition.name);
                return format!("table {name}: {of:?} against {with:?}");
            }
        }
        "no table".to_string()
    }

    /// Holds the entries of all global indexes against their tables, if nothing is under way.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_indexes(&self) -> Result<(), String> {
        if !self.is_idle() {
            return Ok(());
        }
        let databases: Vec<_> = self.sites.iter().map(Site::database).collect();
        check_entries(&databases)
    }

    fn index_ended(&mut self, failure: Option<String>) -> Option<Option<String>> {
        self.index_build = None;
        Some(failure)
    }

    /// Sends the transaction that takes in the next rows.
    fn cover(&mut self) {
        let rows = 1 + self.random.below(MOST_ROWS) as u32;
        let (catalog_version, partition_count) = (self.latest().0, self.partition_count());
        let build = self.index_build.as_mut().expect("one is being built");
        build.stage = Stage::Cover;
        let statement = Catalog::cover(&build.build, rows);
        let bound = BoundStatement {
            statement: Arc::new(PreparedStatement::for_partitions(statement, partition_count)),
            parameters: Arc::from(&[0, 0][..]),
            shipped: None,
            found: None,
            profile: None,
        };
        let statements = vec![bound];
        let work = StatementCall { statements, read_only: false, counted: false, answer: None };
        self.in_flight.push(Message::Multi(MultiCall {
            origin: BUILD_CALL,
            procedure_number: 0,
            catalog_version,
            time_limit: None,
            declared: Vec::new(),
            home: None,
            led: None,
            work: MultiWork::Statements(work),
        }));
    }

    /// Puts the index in force, or takes it away.
    fn end_index(&mut self, stage: Stage) {
        let keep = matches!(stage, Stage::End);
        let build = self.index_build.as_mut().expect("one is being built");
        build.stage = stage;
        let index = build.build.index.clone();
        self.change_catalog(&Change::EndIndex(&index, keep));
    }
}

/// The count that a step answers with.
fn count(tables: &[u8]) -> i64 {
    let table = TableView::read(&mut ByteReader::new(tables)).expect("it has a table");
    let mut values = Vec::new();
    if let Some(Ok(row)) = table.rows().next() {
        row.read_into(&mut values).expect("its own row");
    }
    match values.as_slice() {
        [Datum::Int(count)] => *count,
        other => unreachable!("a step counts its rows: {other:?}"),
    }
}
