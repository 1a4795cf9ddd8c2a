//! Changes of the catalog, as the log keeps them and as they are made: DDL, other classes, an
//! exchange of tables. What a change makes depends on the catalog before it and on what is
//! written here, so that replay makes the same.
//!
//! ```text
//! change  := planning | u8 ddl | bytes text
//!                     | u8 classes | u8 has jar | bytes jar | u8 removes | bytes patterns
//!                     | u8 swap | bytes table | bytes table
//!                     | u8 begin index | bytes text
//!                     | u8 end index | bytes index | u8 keep
//! planning := rules off | ordered sources | partitions | table count, each: id | rows
//!             | column count, each: distinct | bound count | value*
//! ```

use super::ad_hoc::{ddl_failure, plan_failure, syntax_failure};
use super::{Control, swap};
use crate::catalog::{HostCatalog, NativeRegistry};
use crate::classes;
use crate::message::Origin;
use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes};
use lockstep_jvm::JavaSettings;
use lockstep_plan::planning::{ColumnStatistics, Statistics, TableStatistics};
use lockstep_plan::{Catalog, Planning, RuleSet};
use lockstep_site::{MultiWork, SchemaTask};
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::geography::Point;
use lockstep_types::{Decimal, Failure, TableId, Value};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

/// Among the bits of the rules that are off: procedures are created WITH LOCAL DATA.
const LOCAL_DATA: u64 = 1 << 63;
/// Stack of a thread that works a change out: planning is recursive.
const MAKING_STACK_BYTES: usize = 8 << 20;

/// Characters of a DDL text that the log shows.
const SAID_CHARACTERS: usize = 400;

const DDL: u8 = 1;
const CLASSES: u8 = 2;
const SWAP: u8 = 3;
const BEGIN_INDEX: u8 = 4;
const END_INDEX: u8 = 5;

/// A change of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogChange<'a> {
    /// DDL text.
    Ddl(&'a str),
    /// Other Java classes.
    Classes {
        /// Those of a jar are added or take the place of others.
        jar: Option<&'a [u8]>,
        /// Names, with patterns, of those that go.
        removed: Option<&'a str>,
    },
    /// Two tables exchange their contents.
    Swap(&'a str, &'a str),
    /// The text of a CREATE GLOBAL INDEX, whose rows are taken in by statements behind it.
    BeginIndex(&'a str),
    /// A global index that is built is in force, or goes.
    EndIndex {
        /// Its name.
        index: &'a str,
        /// It is in force.
        keep: bool,
    },
}

/// A change with its texts, for another thread.
#[derive(Debug)]
enum OwnedChange {
    Ddl(String),
    Classes { jar: Option<Vec<u8>>, removed: Option<String> },
}

impl CatalogChange<'_> {
    /// What it is, in a line of bounded length.
    fn said(self) -> String {
        match self {
            CatalogChange::Ddl(text) | CatalogChange::BeginIndex(text) => {
                let words: Vec<&str> = text.split_whitespace().collect();
                let line = words.join(" ");
                match line.char_indices().nth(SAID_CHARACTERS) {
                    Some((end, _)) => format!("{}...", &line[..end]),
                    None => line,
                }
            }
            CatalogChange::Classes { jar: Some(jar), .. } => {
                format!("classes of a jar with {} bytes", jar.len())
            }
            CatalogChange::Classes { removed, .. } => {
                format!("classes {} removed", removed.unwrap_or(""))
            }
            CatalogChange::Swap(one, other) => format!("tables {one} and {other} exchanged"),
            CatalogChange::EndIndex { index, keep: true } => {
                format!("global index {index} is built")
            }
            CatalogChange::EndIndex { index, keep: false } => {
                format!("global index {index} is given up")
            }
        }
    }

    /// A copy for another thread, if code of users may run while the change is worked out: static
    /// initializers and constructors of classes that it names. Those that are in use were run.
    fn beside(self, catalog: &Catalog) -> Option<OwnedChange> {
        match self {
            CatalogChange::Ddl(text) => {
                let upper = text.to_ascii_uppercase();
                let names_code = upper.contains("CLASS") || upper.contains("METHOD");
                let runs = catalog.classes.is_some() && names_code;
                runs.then(|| OwnedChange::Ddl(text.to_string()))
            }
            CatalogChange::Classes { jar, removed } => Some(OwnedChange::Classes {
                jar: jar.map(<[u8]>::to_vec),
                removed: removed.map(str::to_string),
            }),
            CatalogChange::Swap(..)
            | CatalogChange::BeginIndex(_)
            | CatalogChange::EndIndex { .. } => None,
        }
    }
}

impl OwnedChange {
    fn borrowed(&self) -> CatalogChange<'_> {
        match self {
            OwnedChange::Ddl(text) => CatalogChange::Ddl(text),
            OwnedChange::Classes { jar, removed } => {
                CatalogChange::Classes { jar: jar.as_deref(), removed: removed.as_deref() }
            }
        }
    }
}

/// A change that a thread of its own works out, because code of users may run for it.
#[derive(Debug)]
pub(super) struct Making {
    origin: Origin,
    made: Receiver<Result<MadeChange, Failure>>,
}

impl Control {
    /// Whether a change of the catalog is under way, so that another has to wait.
    pub(super) fn is_changing(&self) -> bool {
        self.next_catalog.is_some() || self.making.is_some()
    }

    /// Works a change of the catalog out and sends it to the sites, or has it worked out.
    pub(super) fn change_catalog(
        &mut self,
        origin: Origin,
        change: CatalogChange<'_>,
    ) -> Result<(), Failure> {
        let settings = ChangeSettings {
            natives: self.natives.clone(),
            java: self.facts.java_settings(),
            limits: self.sql_limits(),
            initialize_classes: true,
        };
        let Some(change) = change.beside(&self.catalog.plan) else {
            let made = make_change(&self.catalog, &settings, change, &self.planning)?;
            return self.send_change(origin, made);
        };
        let (catalog, planning) = (Arc::clone(&self.catalog), self.planning.clone());
        let bell = Arc::clone(&self.bell);
        let (sender, made) = std::sync::mpsc::sync_channel(1);
        let builder = std::thread::Builder::new().name("catalog change".to_string());
        let started = builder.stack_size(MAKING_STACK_BYTES).spawn(move || {
            let made = make_change(&catalog, &settings, change.borrowed(), &planning);
            let _ = sender.send(made);
            bell.ring();
        });
        started.map_err(|error| Failure::graceful(format!("no thread for the change: {error}")))?;
        self.making = Some(Making { origin, made });
        Ok(())
    }

    fn send_change(&mut self, origin: Origin, made: MadeChange) -> Result<(), Failure> {
        self.check_task_count(&made.task.catalog.plan)?;
        self.next_advice = made.advice;
        self.next_said = made.said;
        self.next_catalog = Some(Arc::clone(&made.task.catalog));
        let work = MultiWork::Schema(Arc::new(made.task));
        self.send_multi(origin, Arc::from(&[][..]), None, work);
        Ok(())
    }

    /// Goes on with a change that has been worked out; whether there was one.
    pub(super) fn take_made(&mut self) -> bool {
        let Some(making) = &self.making else { return false };
        let made = match making.made.try_recv() {
            Ok(made) => made,
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => {
                Err(Failure::unexpected("the change of the catalog failed within the host"))
            }
        };
        let origin = making.origin;
        self.making = None;
        if let Err(failure) = made.and_then(|made| self.send_change(origin, made)) {
            self.answer_failure(origin, &failure);
            self.go_on_with_waiting();
        }
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

/// A change that is ready for the sites, and what to tell whoever made it.
pub(crate) struct MadeChange {
    pub(crate) task: SchemaTask<Arc<HostCatalog>>,
    pub(crate) advice: Vec<String>,
    /// What it is, for the log.
    pub(crate) said: String,
}

/// Works a change out.
///
/// # Errors
/// What the user gets: why it cannot be made.
pub(crate) fn make_change(
    catalog: &HostCatalog,
    settings: &ChangeSettings,
    change: CatalogChange<'_>,
    planning: &Planning,
) -> Result<MadeChange, Failure> {
    let current = Catalog { planning: planning.clone(), ..catalog.plan.clone() };
    let natives = &settings.natives;
    let (made, swap) = match change {
        CatalogChange::Ddl(text) => {
            let parsed =
                parse_batch(text, &settings.limits).map_err(|e| syntax_failure(text, &e))?;
            lockstep_plan::classify_batch(&parsed).map_err(plan_failure)?;
            (current.apply(&parsed, natives).map_err(ddl_failure)?, None)
        }
        CatalogChange::BeginIndex(text) => {
            let parsed =
                parse_batch(text, &settings.limits).map_err(|e| syntax_failure(text, &e))?;
            (current.begin_global_index(&parsed, natives).map_err(ddl_failure)?, None)
        }
        CatalogChange::EndIndex { index, keep } => {
            (current.end_global_index(index, keep, natives).map_err(ddl_failure)?, None)
        }
        CatalogChange::Classes { jar, removed } => {
            let initialize = settings.initialize_classes;
            let classes = classes::change(&catalog.plan, &settings.java, jar, removed, initialize)
                .map_err(Failure::graceful)?;
            (current.change_classes(classes, natives).map_err(ddl_failure)?, None)
        }
        CatalogChange::Swap(first, second) => {
            let swap = swap::table_swap(&catalog.plan, first, second)?;
            let mut catalog = catalog.plan.clone();
            catalog.version += 1;
            let (changes, advice) = (Vec::new(), Vec::new());
            (lockstep_plan::SchemaChange { catalog, changes, advice }, Some(swap))
        }
    };
    let catalog = Arc::new(HostCatalog::new(made.catalog, natives).map_err(ddl_failure)?);
    let task = SchemaTask {
        changes: made.changes,
        swap,
        snapshot: None,
        catalog_version: catalog.version(),
        catalog,
        source: encode(change, planning).into(),
        advice: (!made.advice.is_empty()).then(|| made.advice.join("\n")),
    };
    Ok(MadeChange { task, advice: made.advice, said: change.said() })
}

fn encode(change: CatalogChange<'_>, planning: &Planning) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_planning(&mut bytes, planning);
    match change {
        CatalogChange::Ddl(text) => {
            bytes.put_u8(DDL);
            bytes.put_counted(text.as_bytes());
        }
        CatalogChange::Classes { jar, removed } => {
            bytes.put_u8(CLASSES);
            bytes.put_u8(u8::from(jar.is_some()));
            bytes.put_counted(jar.unwrap_or_default());
            bytes.put_u8(u8::from(removed.is_some()));
            bytes.put_counted(removed.unwrap_or_default().as_bytes());
        }
        CatalogChange::Swap(first, second) => {
            bytes.put_u8(SWAP);
            bytes.put_counted(first.as_bytes());
            bytes.put_counted(second.as_bytes());
        }
        CatalogChange::BeginIndex(text) => {
            bytes.put_u8(BEGIN_INDEX);
            bytes.put_counted(text.as_bytes());
        }
        CatalogChange::EndIndex { index, keep } => {
            bytes.put_u8(END_INDEX);
            bytes.put_counted(index.as_bytes());
            bytes.put_u8(u8::from(keep));
        }
    }
    bytes
}

/// Reads what the log has of a change: the change, and what it was planned with.
///
/// # Errors
/// It is cut off, or of a kind that this release does not know.
pub(crate) fn decode(bytes: &[u8]) -> Result<(CatalogChange<'_>, Planning), String> {
    let mut reader = ByteReader::new(bytes);
    let broken = |_: EndOfBytes| "a catalog change in the log is cut off".to_string();
    let planning = decode_planning(&mut reader).map_err(broken)?;
    let kind = reader.u8().map_err(broken)?;
    let mut part = || reader.counted().map_err(broken);
    let change = match kind {
        DDL => CatalogChange::Ddl(text(part()?)?),
        SWAP => CatalogChange::Swap(text(part()?)?, text(part()?)?),
        BEGIN_INDEX => CatalogChange::BeginIndex(text(part()?)?),
        END_INDEX => {
            let index = text(part()?)?;
            CatalogChange::EndIndex { index, keep: reader.u8().map_err(broken)? != 0 }
        }
        CLASSES => {
            let has_jar = reader.u8().map_err(broken)? != 0;
            let jar = reader.counted().map_err(broken)?;
            let removes = reader.u8().map_err(broken)? != 0;
            let removed = text(reader.counted().map_err(broken)?)?;
            CatalogChange::Classes {
                jar: has_jar.then_some(jar),
                removed: removes.then_some(removed),
            }
        }
        other => {
            return Err(format!(
                "a catalog change in the log has kind {other}, which this release does not know"
            ));
        }
    };
    Ok((change, planning))
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    let error = |_| "a catalog change in the log is not UTF-8".to_string();
    std::str::from_utf8(bytes).map_err(error)
}

/// What the procedures of a catalog were planned with, as a snapshot keeps it.
pub(crate) fn encode_saved_planning(planning: &Planning) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_planning(&mut bytes, planning);
    bytes
}

/// Reads what [`encode_saved_planning`] wrote.
///
/// # Errors
/// It is cut off, or followed by something else.
pub(crate) fn decode_saved_planning(bytes: &[u8]) -> Result<Planning, String> {
    let mut reader = ByteReader::new(bytes);
    let planning = decode_planning(&mut reader);
    let planning = planning.map_err(|_| "what it was planned with is cut off".to_string())?;
    match reader.remaining() {
        0 => Ok(planning),
        more => Err(format!("{more} bytes follow what it was planned with")),
    }
}

fn encode_planning(bytes: &mut Vec<u8>, planning: &Planning) {
    let local_data = if planning.local_data { LOCAL_DATA } else { 0 };
    bytes.put_varint(planning.disabled_rules.bits() | local_data);
    bytes.put_varint(u64::from(planning.max_ordered_sources));
    let statistics = &planning.statistics;
    bytes.put_varint(u64::from(statistics.partitions));
    bytes.put_varint(statistics.tables.len() as u64);
    for (id, table) in &statistics.tables {
        bytes.put_varint(u64::from(id.0));
        bytes.put_varint(table.rows);
        bytes.put_varint(table.columns.len() as u64);
        for column in &table.columns {
            bytes.put_varint(column.distinct);
            bytes.put_varint(column.bounds.len() as u64);
            column.bounds.iter().for_each(|value| encode_value(bytes, value));
        }
    }
}

fn decode_planning(reader: &mut ByteReader<'_>) -> Result<Planning, EndOfBytes> {
    let small = |number: u64| u32::try_from(number).map_err(|_| EndOfBytes);
    let bits = reader.varint()?;
    let (disabled_rules, local_data) = (RuleSet::from_bits(bits), bits & LOCAL_DATA != 0);
    let max_ordered_sources = small(reader.varint()?)?;
    let mut statistics =
        Statistics { partitions: small(reader.varint()?)?, ..Statistics::default() };
    for _ in 0..reader.varint()? {
        let id = TableId(small(reader.varint()?)?);
        let mut table = TableStatistics { rows: reader.varint()?, columns: Vec::new() };
        for _ in 0..reader.varint()? {
            let mut column = ColumnStatistics { distinct: reader.varint()?, bounds: Vec::new() };
            for _ in 0..reader.varint()? {
                column.bounds.push(decode_value(reader)?);
            }
            table.columns.push(column);
        }
        statistics.tables.insert(id, table);
    }
    let statistics = Arc::new(statistics);
    Ok(Planning { disabled_rules, max_ordered_sources, local_data, statistics })
}

fn encode_value(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => bytes.put_u8(0),
        Value::Bool(value) => {
            bytes.put_u8(1);
            bytes.put_u8(u8::from(*value));
        }
        Value::Int(value) => {
            bytes.put_u8(2);
            bytes.put_i64(*value);
        }
        Value::Float(value) => {
            bytes.put_u8(3);
            bytes.put_f64(*value);
        }
        Value::Decimal(value) => {
            bytes.put_u8(4);
            bytes.put_i128(value.units());
        }
        Value::Timestamp(value) => {
            bytes.put_u8(5);
            bytes.put_i64(*value);
        }
        Value::Text(value) => {
            bytes.put_u8(6);
            bytes.put_counted(value.as_bytes());
        }
        Value::Bytes(value) => {
            bytes.put_u8(7);
            bytes.put_counted(value);
        }
        Value::Point(value) => {
            bytes.put_u8(8);
            bytes.put_f64(value.longitude());
            bytes.put_f64(value.latitude());
        }
    }
}

fn decode_value(reader: &mut ByteReader<'_>) -> Result<Value, EndOfBytes> {
    Ok(match reader.u8()? {
        0 => Value::Null,
        1 => Value::Bool(reader.u8()? != 0),
        2 => Value::Int(reader.i64()?),
        3 => Value::Float(reader.f64()?),
        4 => Value::Decimal(Decimal::from_units(reader.i128()?).ok_or(EndOfBytes)?),
        5 => Value::Timestamp(reader.i64()?),
        6 => Value::Text(std::str::from_utf8(reader.counted()?).map_err(|_| EndOfBytes)?.into()),
        7 => Value::Bytes(reader.counted()?.into()),
        8 => Value::Point(Point::new(reader.f64()?, reader.f64()?).ok_or(EndOfBytes)?),
        _ => return Err(EndOfBytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_back_with_what_they_were_planned_with() {
        let bounds = vec![
            Value::Null,
            Value::Int(-3),
            Value::Float(0.5),
            Value::Decimal(Decimal::from_integer(7)),
            Value::Timestamp(9),
            Value::Text("é".into()),
            Value::Bytes([1, 2].into()),
            Value::Point(Point::new(-71.06, 42.36).expect("within range")),
        ];
        let columns = vec![ColumnStatistics { distinct: 5, bounds }, ColumnStatistics::default()];
        let tables = [(TableId(3), TableStatistics { rows: 12, columns })].into();
        let planning = Planning {
            disabled_rules: RuleSet::from_bits(3),
            max_ordered_sources: 4,
            local_data: true,
            statistics: Arc::new(Statistics { partitions: 2, tables }),
        };
        let changes = [
            CatalogChange::Ddl("CREATE TABLE t (a INTEGER);"),
            CatalogChange::Classes { jar: Some(&[7; 300]), removed: None },
            CatalogChange::Classes { jar: None, removed: Some("org.*") },
            CatalogChange::Swap("A", "B"),
            CatalogChange::BeginIndex("CREATE GLOBAL INDEX i ON t (a)"),
            CatalogChange::EndIndex { index: "I", keep: true },
        ];
        for change in changes {
            let bytes = encode(change, &planning);
            let (read, with) = decode(&bytes).expect("sound");
            assert_eq!(read, change);
            assert_eq!(with.statistics, planning.statistics);
            assert_eq!(with.disabled_rules, planning.disabled_rules);
            assert_eq!((with.max_ordered_sources, with.local_data), (4, true));
            for cut in 0..bytes.len() {
                assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}
