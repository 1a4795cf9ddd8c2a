//! System procedures that the catalog and the host's facts answer.

use super::{Control, answer};
use crate::clock;
use crate::message::Origin;
use lockstep_base::elapsed::Elapsed;
use lockstep_types::{
    Datum, Failure, Outcome, Parameter, SqlType, TableBuilder, TableSchema, timestamp,
};
use lockstep_wire_volt::topology::{KeyType, partition_keys, write_partition_keys};
use lockstep_wire_volt::{COMPATIBLE_VERSION, Invocation, response};

/// Appends the answer of `@Ping`, which carries the status text SUCCESS.
pub fn write_ping(out: &mut Vec<u8>, handle: i64) {
    let start = response::begin(out);
    let table_count = answer::write_status(out);
    let outcome = Outcome::success(table_count);
    response::finish_with_text(out, start, handle, &outcome, Some("SUCCESS"), Elapsed::ZERO);
}

/// The text of a parameter, if it is one.
pub(super) fn text_parameter<'a>(invocation: &Invocation<'a>, index: usize) -> Option<&'a str> {
    match invocation.parameters.get(index)? {
        Ok(Parameter::Scalar(_, Datum::Text(text))) => Some(text),
        _ => None,
    }
}

impl Control {
    pub(super) fn system_catalog(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let count = invocation.parameters.count();
        if count != 1 {
            return Err(Failure::graceful(format!(
                "Incorrect number of arguments to @SystemCatalog (expects 1, received {count})"
            )));
        }
        let selector = text_parameter(invocation, 0).unwrap_or("").to_ascii_uppercase();
        let catalog = std::sync::Arc::clone(self.schema.catalog());
        if selector == "PROCEDURES" {
            self.answer_tables(origin, |out| answer::procedures(out, &catalog));
            return Ok(());
        }
        let listing = catalog.plan.listing(&selector).map_err(Failure::graceful)?;
        self.answer_tables(origin, |out| {
            listing.write(out);
            1
        });
        Ok(())
    }

    pub(super) fn partition_keys(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let count = invocation.parameters.count();
        if count != 1 {
            return Err(Failure::graceful(
                "GetPartitionKeys must have one string parameter specifying the type of \
                 partition key to return and can be one of INTEGER, STRING or VARCHAR \
                 (equivalent), or VARBINARY",
            ));
        }
        let key_type = KeyType::parse(text_parameter(invocation, 0).unwrap_or("null"))?;
        let facts = std::sync::Arc::clone(&self.facts);
        self.answer_tables(origin, |out| {
            let keys = partition_keys(&facts.ring, key_type);
            write_partition_keys(out, key_type, &keys)
        });
        Ok(())
    }

    pub(super) fn system_information(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let selector = match invocation.parameters.count() {
            0 => "OVERVIEW".to_string(),
            1 => text_parameter(invocation, 0)
                .ok_or_else(|| {
                    Failure::graceful(
                        "First argument to @SystemInformation must be a valid STRING selector, \
                         instead was null",
                    )
                })?
                .to_ascii_uppercase(),
            count => {
                return Err(Failure::graceful(format!(
                    "VOLTDB ERROR: PROCEDURE @SystemInformation EXPECTS 1 PARAMS, BUT RECEIVED \
                     {count}"
                )));
            }
        };
        match selector.as_str() {
            "OVERVIEW" => {
                let (id, rows) = (self.facts.host_id(), self.overview());
                self.answer_tables(origin, |out| write_overview(out, id, &rows));
            }
            "DEPLOYMENT" => {
                let rows = self.deployment();
                self.answer_tables(origin, |out| write_properties(out, &rows));
            }
            "LICENSE" => {
                let rows = vec![("LICENSE".to_string(), "Apache-2.0".to_string())];
                self.answer_tables(origin, |out| write_properties(out, &rows));
            }
            other => {
                return Err(Failure::graceful(format!(
                    "Invalid @SystemInformation selector {other}; use OVERVIEW, DEPLOYMENT or \
                     LICENSE"
                )));
            }
        }
        Ok(())
    }

    fn overview(&self) -> Vec<(&'static str, String)> {
        let facts = &self.facts;
        let created_ms = facts.cluster_created_ms;
        let started_ms = facts.started_ms;
        let uptime = Elapsed::between_ms(started_ms, clock::now_us() / 1000);
        let none = String::new;
        let cores = std::thread::available_parallelism().map_or(1, usize::from).to_string();
        let started = timestamp::format(started_ms * 1000);
        vec![
            ("IPADDRESS", facts.client_address.ip().to_string()),
            ("HOSTNAME", facts.host_name.clone()),
            ("CLIENTINTERFACE", facts.client_address.ip().to_string()),
            ("CLIENTPORT", facts.client_address.port().to_string()),
            ("ADMININTERFACE", facts.admin_address.ip().to_string()),
            ("ADMINPORT", facts.admin_address.port().to_string()),
            ("HTTPINTERFACE", none()),
            ("HTTPPORT", "0".to_string()),
            ("INTERNALINTERFACE", none()),
            ("INTERNALPORT", "0".to_string()),
            ("ZKINTERFACE", none()),
            ("ZKPORT", "0".to_string()),
            ("DRINTERFACE", none()),
            ("DRPORT", "0".to_string()),
            ("PUBLICINTERFACE", none()),
            ("DRPUBLICINTERFACE", none()),
            ("DRPUBLICPORT", "0".to_string()),
            ("BUILDSTRING", facts.build.clone()),
            ("VERSION", COMPATIBLE_VERSION.to_string()),
            ("CATALOG", format!("version {}", self.schema.catalog().version())),
            ("DEPLOYMENT", none()),
            ("CLUSTERSTATE", self.cluster_state().to_string()),
            ("CLUSTERSAFETY", "FULL".to_string()),
            ("INITIALIZED", "true".to_string()),
            ("REPLICATIONROLE", "NONE".to_string()),
            ("CATALOGCRC", self.schema.catalog().version().to_string()),
            ("IV2ENABLED", "true".to_string()),
            ("STARTTIME", started_ms.to_string()),
            ("CREATIONTIME", created_ms.to_string()),
            ("HOSTSTARTTIME", started_ms.to_string()),
            ("UPTIME", uptime_text(uptime)),
            ("LAST_UPDATECORE_DURATION", "0".to_string()),
            ("LOG4JPORT", "0".to_string()),
            ("PLACEMENTGROUP", "0".to_string()),
            ("PARTITIONGROUP", "0".to_string()),
            ("VOLTDBROOT", facts.data_disk.as_ref().map_or_else(none, |disk| disk.shown(""))),
            ("FULLCLUSTERSIZE", "1".to_string()),
            ("CLUSTERID", "0".to_string()),
            ("TOPICSPUBLICINTERFACE", none()),
            ("TOPICSPUBLICPORT", "0".to_string()),
            ("TOPICSPORT", "0".to_string()),
            ("CPUCORES", cores.clone()),
            ("CPUTHREADS", cores),
            ("MEMORY", (super::resources::physical_memory_kb()).to_string()),
            ("KUBERNETES", "false".to_string()),
            ("STARTED", started),
            ("LOCKSTEPVERSION", env!("CARGO_PKG_VERSION").to_string()),
        ]
    }
}

fn uptime_text(uptime: Elapsed) -> String {
    let seconds = uptime.ms() / 1000;
    format!(
        "{} days {:02}:{:02}:{:02}.{:03}",
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        uptime.ms() % 1000
    )
}

fn write_overview(out: &mut Vec<u8>, id: Datum<'_>, rows: &[(&'static str, String)]) -> u16 {
    let schema = TableSchema::new(&[
        ("HOST_ID", SqlType::Integer),
        ("KEY", SqlType::Varchar),
        ("VALUE", SqlType::Varchar),
    ]);
    let mut table = TableBuilder::begin(out, &schema);
    for (key, value) in rows {
        table.row(&schema, &[id, Datum::Text(key), Datum::Text(value)]);
    }
    table.finish();
    1
}

fn write_properties(out: &mut Vec<u8>, rows: &[(String, String)]) -> u16 {
    let schema = TableSchema::new(&[("PROPERTY", SqlType::Varchar), ("VALUE", SqlType::Varchar)]);
    let mut table = TableBuilder::begin(out, &schema);
    for (key, value) in rows {
        table.row(&schema, &[Datum::Text(key), Datum::Text(value)]);
    }
    table.finish();
    1
}
