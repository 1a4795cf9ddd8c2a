//! Changes of the catalog at the control thread: the surroundings of [`lockstep_host::schema`],
//! which has the order of changes and what they make.

use super::{Control, SystemCall, answer};
use crate::catalog::{HostCatalog, NativeRegistry};
use crate::classes;
use crate::intake::Changes;
use crate::message::Origin;
use crate::own_call::OwnCall;
use lockstep_host::expiry;
use lockstep_host::schema::change::{
    CatalogChange, ChangeRuntime, OwnedChange, PreparedChange, prepare_change,
};
use lockstep_host::schema::{self, Requester, SchemaChanges, SchemaHost};
use lockstep_jvm::{JavaNonTransactional, JavaSettings};
use lockstep_plan::{Catalog, ProcedureClasses};
use lockstep_site::{MultiWork, SchemaTask, StatementCall};
use lockstep_sql::Limits;
use lockstep_types::Failure;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

/// Stack of a thread that prepares a change: planning is recursive.
const PREPARING_STACK_BYTES: usize = 8 << 20;

/// The schema changes of this host.
pub(super) type HostSchema = SchemaChanges<SystemCall, Origin, JavaNonTransactional>;

/// A change that is ready for the partitions.
type HostChange = PreparedChange<JavaNonTransactional>;

/// A change that a thread of its own prepares, because code of users may run for it.
pub(super) type Preparing = Receiver<Result<HostChange, Failure>>;

impl SchemaHost for Control {
    type Call = SystemCall;
    type Origin = Origin;
    type Outside = JavaNonTransactional;

    fn schema_changes(&mut self) -> &mut HostSchema {
        &mut self.schema
    }

    fn prepare_change(&mut self, change: CatalogChange<'_>) -> Result<HostChange, Failure> {
        self.check_nothing_loads("the schema cannot change")?;
        prepare_change(
            self.schema.catalog(),
            &self.change_settings(),
            change,
            self.planner.planning(),
        )
    }

    fn prepare_on_own_thread(&mut self, change: OwnedChange) -> Result<(), Failure> {
        self.check_nothing_loads("the schema cannot change")?;
        let (catalog, planning) =
            (Arc::clone(self.schema.catalog()), self.planner.planning().clone());
        let (settings, bell) = (self.change_settings(), Arc::clone(&self.bell));
        let (sender, prepared) = std::sync::mpsc::sync_channel(1);
        let builder = std::thread::Builder::new().name("catalog change".to_string());
        let started = builder.stack_size(PREPARING_STACK_BYTES).spawn(move || {
            let change = prepare_change(&catalog, &settings, change.borrowed(), &planning);
            let _ = sender.send(change);
            bell.ring();
        });
        started.map_err(|error| Failure::graceful(format!("no thread for the change: {error}")))?;
        self.preparing = Some(prepared);
        Ok(())
    }

    fn check_limits(&mut self, next: &Catalog) -> Result<(), Failure> {
        self.check_task_count(next)
    }

    fn order(&mut self, requester: Requester<Origin>, task: SchemaTask<Arc<HostCatalog>>) {
        let origin = match requester {
            Requester::Client(origin) => origin,
            Requester::IndexBuild => self.build_origin(),
        };
        let task = Arc::new(task);
        self.facts.note_prepared(&task);
        self.order_at_all_hosts(origin, task);
    }

    fn in_force(&mut self, advice: Vec<String>, description: String) {
        let version = self.schema.catalog().version();
        tracing::info!(version, "schema changed: {description}");
        advice.iter().for_each(|text| tracing::warn!("{text}"));
        expiry::set_tables(self);
        self.planner.catalog_changed();
        self.tell_sites_of_catalog();
        self.push_catalog();
    }

    fn snapshot_decided(&mut self, committed: bool) {
        self.snapshot_begun(committed);
    }

    fn handle(&mut self, call: SystemCall) {
        self.call(call);
    }

    fn refuse(&mut self, origin: Origin, why: &Failure) {
        self.answer_failure(origin, why);
    }

    fn check_intake(&mut self) -> Result<(), Failure> {
        self.facts.intake.check(Changes::Anything, true)
    }

    fn build_rows_max(&mut self) -> u32 {
        self.facts.options.index_build_rows.to_u32()
    }

    fn order_build_step(&mut self, work: StatementCall) {
        let work = MultiWork::Statements(work);
        self.send_multi(self.build_origin(), Arc::from(&[][..]), None, work);
    }

    fn build_paused(&mut self, index: &str, why: &Failure, pause_us: i64) {
        let pause_ms = pause_us / 1_000;
        tracing::warn!(index, pause_ms, %why, "a step of the index build failed: repeated later");
    }

    fn build_ended(
        &mut self,
        origin: Option<Origin>,
        index: &str,
        result: Result<Option<String>, Failure>,
    ) {
        match (result, origin) {
            (Ok(advice), Some(origin)) => {
                self.answer_tables_with(origin, advice, answer::write_status);
            }
            (Ok(_), None) => {}
            (Err(why), Some(origin)) => self.answer_failure(origin, &why),
            (Err(why), None) => tracing::warn!(index, %why, "the index is not built"),
        }
    }
}

impl Control {
    pub(super) fn change_settings(&self) -> ChangeSettings {
        ChangeSettings {
            natives: self.natives.clone(),
            java: self.facts.java_settings(),
            limits: self.facts.options.sql_limits(),
            initialize_classes: true,
        }
    }

    /// The origin of the steps of index builds. Their responses come to this thread by the path by
    /// which it is notified that a change is decided, so that none arrives before that.
    fn build_origin(&self) -> Origin {
        self.own_origin(OwnCall::IndexBuild, 0)
    }

    /// Continues with a change that a thread has prepared; whether there was one.
    pub(super) fn take_prepared(&mut self) -> bool {
        let Some(preparing) = &self.preparing else { return false };
        let prepared = match preparing.try_recv() {
            Ok(prepared) => prepared,
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => {
                Err(Failure::unexpected("the change of the catalog failed within the host"))
            }
        };
        self.preparing = None;
        schema::prepared(self, prepared);
        true
    }
}

/// What changes are made with besides the catalog.
pub(crate) struct ChangeSettings {
    pub(crate) natives: NativeRegistry,
    pub(crate) java: JavaSettings,
    pub(crate) limits: Limits,
    /// Whether the static initializers of added classes have to succeed: not those of a change
    /// that was made before, which replay makes again whatever they find now.
    pub(crate) initialize_classes: bool,
}

impl ChangeRuntime for ChangeSettings {
    type Procedures = NativeRegistry;

    fn procedures(&self) -> &NativeRegistry {
        &self.natives
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn change_classes(
        &self,
        catalog: &Catalog,
        jar: Option<&[u8]>,
        removed: Option<&str>,
    ) -> Result<Arc<dyn ProcedureClasses>, String> {
        classes::change(catalog, &self.java, jar, removed, self.initialize_classes)
    }
}
