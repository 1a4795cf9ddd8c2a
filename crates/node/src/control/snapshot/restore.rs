//! `@SnapshotRestore` into a host that serves: a thread reads the files and makes calls of their
//! rows, which go through the same doors as those of clients. So views, global indexes and the
//! command log hear of every row, and the number of partitions does not matter.

use super::check::check;
use super::place::snapshot_place;
use super::request::{self, ChosenTables, SnapshotRequest};
use super::{RESTORED, write_table};
use crate::control::own_calls::LENGTH_BYTES;
use crate::control::{Control, SystemCall, arguments};
use crate::intake::Changes;
use crate::mailbox::Bell;
use crate::message::{Envelope, ForwardedCall, Origin};
use crate::own_call::OwnCall;
use crate::snapshot::load::saved_columns;
use lockstep_durability::snapshot::{
    self, ContentKind, Manifest, RowsReader, TableHead, TableKind,
};
use lockstep_env::{Disk, OpenMode};
use lockstep_host::load::LOAD_AT_PARTITION;
use lockstep_host::schema::Handled;
use lockstep_plan::Catalog;
use lockstep_plan_ir::TableDefinition;
use lockstep_storage::{ColumnLayout, RowRef, RowsRecord, StorageError, TableLayout};
use lockstep_types::hashing::CompositeKey;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{
    Datum, Failure, HashRing, PartitionId, SqlType, TableBuilder, TableSchema, Value,
};
use lockstep_wire_volt::response::Response;
use lockstep_wire_volt::{Invocation, invocation};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Calls that wait in the channel.
const CALLS_AHEAD: usize = 16;
/// Calls that are in progress.
const CALLS_UNDER_WAY: usize = 16;
/// Rows of a call, and about their bytes.
const ROWS_A_CALL: u32 = 500;
const BYTES_A_CALL: usize = 256 * 1024;

/// What the thread wants done next.
enum Step {
    /// A call; of one partition if it names one.
    Call { body: Vec<u8>, partition: Option<PartitionId> },
    /// That was all, or why not.
    End(Result<(), String>),
}

/// A restore in progress.
pub(in crate::control) struct Restoring {
    origin: Origin,
    steps: Receiver<Step>,
    under_way: usize,
    ended: Option<Result<(), String>>,
    tables: Vec<RestoredTable>,
}

/// A table that is restored.
#[derive(Debug, Clone)]
pub(super) struct RestoredTable {
    pub(super) name: String,
    replicated: bool,
    /// The table that takes the rows; none while there is no schema.
    pub(super) definition: Option<Arc<TableDefinition>>,
    /// The partitioning columns of the schema in force; none while there is no schema.
    places: Option<Vec<u16>>,
}

impl Restoring {
    /// A call has its response: the first failure ends the restore.
    fn call_ended(&mut self, frame: &[u8]) {
        self.under_way = self.under_way.saturating_sub(1);
        let problem = match frame.get(LENGTH_BYTES..).map(Response::decode) {
            Some(Ok(response)) if response.status == 1 => None,
            Some(Ok(response)) => Some(response.status_text.unwrap_or("it failed").to_string()),
            _ => Some("its answer cannot be read".to_string()),
        };
        if let Some(problem) = problem
            && !matches!(self.ended, Some(Err(_)))
        {
            self.ended = Some(Err(problem));
        }
    }
}

impl Control {
    /// `@SnapshotRestore`.
    pub(in crate::control) fn snapshot_restore(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        arguments::restore(invocation).map_err(Failure::graceful)?;
        if self.schema.is_changing() {
            self.schema.defer(call)?;
            return Ok(Handled::Pending);
        }
        self.facts.intake.check(Changes::Anything, call.admin)?;
        let Some(request) = request::read(invocation)? else {
            return Err(Failure::graceful("@SnapshotRestore takes a directory and a nonce"));
        };
        self.check_no_restore()?;
        let (disk, folder, _) =
            snapshot_place(&self.facts, request.path.as_deref()).map_err(Failure::graceful)?;
        let read = move || {
            let manifest = snapshot::read_manifest(&*disk, &folder, &request.nonce);
            manifest.map(|manifest| (disk, folder, manifest, request))
        };
        self.with_files(read, |control, read| {
            let origin = call.origin;
            let begun = match read {
                Err(error) => Err(Failure::graceful(error.to_string())),
                Ok(_) if control.schema.is_changing() => control.schema.defer(call).map(|_| ()),
                Ok((disk, folder, manifest, request)) => {
                    control.begin_restore(origin, (disk, folder), manifest, &request)
                }
            };
            if let Err(failure) = begun {
                control.answer_failure(origin, &failure);
            }
        })?;
        Ok(Handled::Pending)
    }

    fn check_no_restore(&self) -> Result<(), Failure> {
        match self.restoring {
            Some(_) => Err(Failure::graceful("Another restore is in progress")),
            None => Ok(()),
        }
    }

    /// Begins a restore whose manifest was read.
    fn begin_restore(
        &mut self,
        origin: Origin,
        (disk, folder): (Arc<dyn Disk>, String),
        manifest: Manifest,
        request: &SnapshotRequest,
    ) -> Result<(), Failure> {
        self.check_no_restore()?;
        check_whole(&manifest, &disk.shown(&folder))?;
        let tables = tables_to_restore(&self.schema.catalog().plan, &manifest, &request.tables)?;
        let (steps, taken) = sync_channel(CALLS_AHEAD);
        let has_schema = self.schema.catalog().plan.visible_tables().next().is_some();
        let job = RestoreJob {
            disk,
            folder,
            manifest,
            tables: tables.clone(),
            makes_schema: !has_schema,
            ring: self.facts.ring.clone(),
            sender: Sender { steps, bell: Arc::clone(&self.bell) },
        };
        let thread = std::thread::Builder::new().name("restore".to_string());
        thread.spawn(move || job.run()).map_err(|error| {
            Failure::unexpected(format!("the system gives no thread for the restore: {error}"))
        })?;
        let (under_way, ended) = (0, None);
        self.restoring = Some(Restoring { origin, steps: taken, under_way, ended, tables });
        Ok(())
    }

    /// Makes further calls of a restore, as long as there is room for them.
    pub(in crate::control) fn attend_to_restore(&mut self) {
        loop {
            let Some(restoring) = &mut self.restoring else { return };
            if restoring.ended.is_some() {
                if restoring.under_way == 0 {
                    self.restore_ended();
                }
                return;
            }
            // What makes the schema comes before the rows.
            let makes_schema = self.schema.is_changing();
            if restoring.under_way >= CALLS_UNDER_WAY || makes_schema || self.schema.has_deferred()
            {
                return;
            }
            if let Err(failure) = self.facts.intake.check(Changes::Anything, true) {
                restoring.ended = Some(Err(failure.message));
                continue;
            }
            match restoring.steps.try_recv() {
                Ok(Step::Call { body, partition }) => {
                    restoring.under_way += 1;
                    self.own_call(body, partition);
                }
                Ok(Step::End(result)) => restoring.ended = Some(result),
                Err(std::sync::mpsc::TryRecvError::Empty) => return,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    restoring.ended = Some(Err("the thread of the restore ended".to_string()));
                }
            }
        }
    }

    fn own_call(&mut self, body: Vec<u8>, partition: Option<PartitionId>) {
        let origin = self.own_origin(OwnCall::Restore, 0);
        match partition.filter(|_| !self.schema.catalog().has_global_indexes()) {
            Some(partition) => {
                let call = ForwardedCall { origin, body };
                let thread = self.facts.placement().leader_of(partition);
                self.outbox.send(thread, Envelope::Call(partition, call));
            }
            None => {
                self.call(SystemCall { origin, admin: true, body: body.into(), time_limit: None });
            }
        }
    }

    /// A call of the restore has its response.
    pub(in crate::control) fn restore_call_ended(&mut self, frame: &[u8]) {
        if let Some(restoring) = &mut self.restoring {
            restoring.call_ended(frame);
        }
        self.attend_to_restore();
    }

    fn restore_ended(&mut self) {
        let Some(restoring) = self.restoring.take() else { return };
        let (id, host) = (self.facts.host_id(), self.facts.host_name.clone());
        let facts = Arc::clone(&self.facts);
        let placement = facts.placement();
        let result = restoring.ended.unwrap_or(Ok(()));
        if let Err(problem) = &result {
            tracing::error!(problem, "the restore failed; what was loaded before stays");
        }
        self.answer_tables(restoring.origin, |out| {
            let row = |partition: PartitionId, table: &'_ str, problem: Option<&'_ str>| {
                let site = placement.leader_of(partition);
                let text = |text: &str| Value::Text(text.into());
                let result = if problem.is_none() { "SUCCESS" } else { "FAILURE" };
                [
                    id.to_value(),
                    text(&host),
                    Value::Int(site.index() as i64),
                    text(table),
                    Value::Int(partition.0.into()),
                    text(result),
                    text(problem.unwrap_or("")),
                ]
            };
            let rows: Vec<_> = match &result {
                Ok(()) => (0..placement.partition_count())
                    .map(PartitionId)
                    .flat_map(|at| restoring.tables.iter().map(move |table| (at, table)))
                    .map(|(partition, table)| row(partition, &table.name, None))
                    .collect(),
                Err(problem) => vec![row(PartitionId(0), "", Some(problem))],
            };
            let rows: Vec<Vec<Datum<'_>>> =
                rows.iter().map(|row| row.iter().map(Value::as_datum).collect()).collect();
            write_table(out, RESTORED, &rows);
            1
        });
    }
}

/// Whether the parts of all hosts are there that saved a snapshot.
fn check_whole(manifest: &Manifest, shown: &str) -> Result<(), Failure> {
    let lacked: Vec<String> = manifest.lacked_partitions().map(|at| at.to_string()).collect();
    match lacked.is_empty() {
        true => Ok(()),
        false => Err(Failure::graceful(format!(
            "{shown} does not have all of snapshot {}: other hosts saved the partitions {}. Copy \
             the files of all hosts there, then restore again",
            manifest.nonce,
            lacked.join(", ")
        ))),
    }
}

/// The tables that are restored.
fn tables_to_restore(
    catalog: &Catalog,
    manifest: &Manifest,
    chosen: &ChosenTables,
) -> Result<Vec<RestoredTable>, Failure> {
    if manifest.content != ContentKind::Native {
        return Err(Failure::graceful(format!(
            "Snapshot {} is CSV text: load its files by `lockstep load csv`",
            manifest.nonce
        )));
    }
    let known = |name: &str| manifest.tables.iter().any(|table| table.name == name);
    if let Some(name) = chosen.named().find(|name| !known(name)) {
        return Err(Failure::graceful(format!("the snapshot has no table {name}")));
    }
    let has_schema = catalog.visible_tables().next().is_some();
    let mut tables = Vec::new();
    for table in &manifest.tables {
        let hidden = matches!(table.kind, TableKind::Derived | TableKind::Entries);
        if hidden || !chosen.has(&table.name) {
            continue;
        }
        if has_schema && catalog.table(&table.name).is_none() {
            let name = &table.name;
            let text = match chosen.is_all() {
                true => format!("the schema has no table {name}; name others in skiptables"),
                false => format!("the schema has no table {name}"),
            };
            return Err(Failure::graceful(text));
        }
        let definition = catalog.table(&table.name).map(|found| &found.definition);
        let saved = table.kind == TableKind::Replicated;
        tables.push(RestoredTable {
            name: table.name.clone(),
            replicated: definition.map_or(saved, |definition| definition.is_replicated()),
            places: definition.map(|definition| definition.partition_columns.clone()),
            definition: definition.cloned(),
        });
    }
    Ok(tables)
}

/// Gives steps to the control thread, which may be full of them.
struct Sender {
    steps: SyncSender<Step>,
    bell: Arc<Bell>,
}

impl Sender {
    /// False when nobody wants them any more.
    fn send(&self, step: Step) -> bool {
        let sent = self.steps.send(step).is_ok();
        self.bell.ring();
        sent
    }
}

/// What the thread of a restore does.
struct RestoreJob {
    disk: Arc<dyn Disk>,
    folder: String,
    manifest: Manifest,
    tables: Vec<RestoredTable>,
    makes_schema: bool,
    ring: HashRing,
    sender: Sender,
}

/// A table of a file, and the rows of it that wait for a call.
struct OpenTable<'m> {
    head: &'m TableHead,
    layout: TableLayout,
    /// The partitioning columns; none of a replicated table.
    places: Vec<u16>,
    replicated: bool,
    schema: TableSchema,
    batches: BTreeMap<u32, Batch>,
}

#[derive(Default)]
struct Batch {
    key: Option<Vec<u8>>,
    rows: Vec<Vec<Value>>,
    bytes: usize,
}

impl<'m> OpenTable<'m> {
    fn new(head: &'m TableHead, table: &RestoredTable) -> Result<OpenTable<'m>, StorageError> {
        let columns: Vec<ColumnLayout> = saved_columns(head);
        let layout = TableLayout::new(&columns)?;
        let types: Vec<(String, SqlType)> =
            columns.iter().map(|column| (String::new(), column.sql_type)).collect();
        let places = match &table.places {
            _ if table.replicated => Vec::new(),
            Some(places) => places.clone(),
            None => head.partition_columns.clone(),
        };
        Ok(OpenTable {
            head,
            layout,
            places,
            replicated: table.replicated,
            schema: TableSchema::new(&types),
            batches: BTreeMap::new(),
        })
    }

    /// Where a row belongs, and the bytes whose hash says so; none for NULL.
    fn place(&self, ring: &HashRing, row: RowRef<'_>) -> (PartitionId, Option<Vec<u8>>) {
        let value = |place: &u16| {
            let place = usize::from(*place);
            if place < row.len() { row.column(place) } else { Datum::Null }
        };
        let key = match self.places.as_slice() {
            [] => return (PartitionId(0), None),
            [place] => match value(place) {
                Datum::Int(number) => number.to_le_bytes().to_vec(),
                Datum::Text(text) => text.as_bytes().to_vec(),
                Datum::Bytes(bytes) => bytes.to_vec(),
                _ => return (ring.partition_of(Datum::Null), None),
            },
            places => CompositeKey::of(places.iter().map(value)).bytes().to_vec(),
        };
        (ring.partition_of(Datum::Bytes(&key)), Some(key))
    }
}

/// Bytes of a value beside its slot.
fn long_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

impl RestoreJob {
    fn run(self) {
        let result = self.restore();
        self.sender.send(Step::End(result));
    }

    fn restore(&self) -> Result<(), String> {
        check(&*self.disk, (&self.folder, &self.manifest), &self.tables)?;
        if self.makes_schema {
            self.make_schema()?;
        }
        for partition in 0..self.manifest.positions.len() as u32 {
            let reader = RowsReader::open(&*self.disk, &self.folder, &self.manifest, partition);
            self.restore_file(reader.map_err(|error| error.to_string())?, partition == 0)?;
        }
        Ok(())
    }

    fn call(&self, procedure: &str, parameters: &ParameterWriter, partition: Option<PartitionId>) {
        let mut frame = Vec::new();
        let options = Default::default();
        invocation::encode(&mut frame, procedure, 1, &options, parameters.bytes());
        // Without the frame's length. Nobody listens any more when the host stops.
        self.sender.send(Step::Call { body: frame.split_off(4), partition });
    }

    fn make_schema(&self) -> Result<(), String> {
        let mut parameters = ParameterWriter::default();
        for file in self.manifest.files.iter().filter(|file| file.name.ends_with(".classes")) {
            let name = match self.folder.as_str() {
                "" => file.name.clone(),
                folder => format!("{folder}/{}", file.name),
            };
            let read = || {
                let opened = self.disk.open(&name, OpenMode::Read)?;
                let mut jar = vec![0; file.bytes as usize];
                opened.read_at(0, &mut jar)?;
                Ok::<_, lockstep_env::DiskError>(jar)
            };
            let jar = read().map_err(|error| error.to_string())?;
            parameters.clear();
            parameters.scalar(SqlType::Varbinary, Datum::Bytes(&jar));
            parameters.scalar(SqlType::Varchar, Datum::Null);
            self.call("@UpdateClasses", &parameters, None);
        }
        parameters.clear();
        parameters.text(&self.manifest.schema);
        self.call("@AdHoc", &parameters, None);
        Ok(())
    }

    fn restore_file(&self, mut reader: RowsReader, is_first: bool) -> Result<(), String> {
        let heads = reader.tables().to_vec();
        let mut open = BTreeMap::new();
        for head in &heads {
            let chosen = self.tables.iter().find(|table| table.name == head.name);
            let Some(chosen) = chosen else { continue };
            // What was replicated in the snapshot is in every file.
            let kind = self.manifest.tables.iter().find(|table| table.name == head.name);
            if kind.is_some_and(|table| table.kind == TableKind::Replicated) && !is_first {
                continue;
            }
            let table = OpenTable::new(head, chosen).map_err(|error| error.to_string())?;
            open.insert(head.table, table);
        }
        let mut payload = Vec::new();
        while let Some(chunk) = reader.next(&mut payload).map_err(|error| error.to_string())? {
            let mut input = &payload[..];
            loop {
                let at = payload.len() - input.len();
                let damaged = |error: StorageError| {
                    reader.damaged_record(chunk, at, error.to_string()).to_string()
                };
                let Some(record) = RowsRecord::take(&mut input).map_err(damaged)? else { break };
                let Some(table) = open.get_mut(&record.table.0) else { continue };
                self.restore_record(table, &record).map_err(damaged)?;
            }
        }
        for table in open.values_mut() {
            for (partition, batch) in std::mem::take(&mut table.batches) {
                self.send_batch(table, partition, batch);
            }
        }
        Ok(())
    }

    fn restore_record(
        &self,
        table: &mut OpenTable<'_>,
        record: &RowsRecord<'_>,
    ) -> Result<(), StorageError> {
        let mut full = Vec::new();
        let (layout, name) = (table.layout.clone(), table.head.name.clone());
        record.read_rows(&layout, &name, |_, row| {
            let (partition, key) = table.place(&self.ring, row);
            let batch = table.batches.entry(partition.0).or_default();
            if batch.rows.is_empty() {
                batch.key = key;
            }
            let values: Vec<Value> = row.columns().map(|value| value.to_value()).collect();
            batch.bytes += layout.slot_bytes() + values.iter().map(long_bytes).sum::<usize>();
            batch.rows.push(values);
            if batch.rows.len() as u32 >= ROWS_A_CALL || batch.bytes >= BYTES_A_CALL {
                full.push((partition.0, std::mem::take(batch)));
            }
            Ok::<(), StorageError>(())
        })?;
        full.into_iter().for_each(|(partition, batch)| self.send_batch(table, partition, batch));
        Ok(())
    }

    fn send_batch(&self, table: &OpenTable<'_>, partition: u32, batch: Batch) {
        if batch.rows.is_empty() {
            return;
        }
        let mut rows = Vec::new();
        let mut builder = TableBuilder::begin(&mut rows, &table.schema);
        for row in &batch.rows {
            let values: Vec<Datum<'_>> = row.iter().map(|value| value.as_datum()).collect();
            builder.row(&table.schema, &values);
        }
        builder.finish();
        let mut parameters = ParameterWriter::default();
        if !table.replicated {
            let key = batch.key.as_deref().map_or(Datum::Null, Datum::Bytes);
            parameters.scalar(SqlType::Varbinary, key);
        }
        parameters.text(&table.head.name);
        parameters.scalar(SqlType::TinyInt, Datum::Int(0));
        parameters.table(&rows);
        match table.replicated {
            true => self.call("@LoadMultipartitionTable", &parameters, None),
            false => self.call(LOAD_AT_PARTITION, &parameters, Some(PartitionId(partition))),
        }
    }
}
