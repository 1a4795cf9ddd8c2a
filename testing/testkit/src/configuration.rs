//! Configurations of the SQL corpus: how many sites, and in what form statements reach them.

use lockstep_client::rows::Table;
use lockstep_client::{Connection, ParameterWriter};
use lockstep_node::RuleSet;
use lockstep_node::options::{Count, Options};

/// A file of `corpus/configs`: `name = value` a line, `#` before comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// What `skipif` and `onlyif` call it: the file's name.
    pub name: String,
    /// `sites`: threads of the host that serve partitions.
    pub sites: u32,
    /// `partitions_per_site`: the partitions of each, one if it is left out.
    pub partitions_per_site: u32,
    /// `hosts`: the hosts of a cluster in one process, of which the last one is asked; one if it is
    /// left out.
    pub hosts: u32,
    /// `kfactor`: copies of each partition besides its leader.
    pub kfactor: u8,
    /// `tables = replicated`: PARTITION TABLE statements are left out.
    pub replicated: bool,
    /// `statements = procedures`: a query or a change is made a procedure and called.
    pub procedures: bool,
    /// `statements = single-partition`: as `procedures`, and they run at one partition where they
    /// may; what writes replicated tables or truncates may not.
    pub single_partition: bool,
    /// `messages = bytes`: messages between threads go through their byte form.
    pub sends_bytes: bool,
    /// `rules_off = NAME, ...` or `all`: planner rules that are switched off.
    pub rules_off: RuleSet,
    /// `skip = FILE: REASON`: files that are not run.
    pub skip: Vec<String>,
}

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn read(name: &str, text: &str) -> Result<Configuration, String> {
        let mut configuration = Configuration {
            name: name.to_string(),
            sites: 1,
            hosts: 1,
            kfactor: 0,
            partitions_per_site: 1,
            replicated: false,
            procedures: false,
            single_partition: false,
            sends_bytes: false,
            rules_off: RuleSet::EMPTY,
            skip: Vec::new(),
        };
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let bad = || format!("configuration {name}: not understood: {line}");
            let (key, value) = line.split_once('=').ok_or_else(bad)?;
            match (key.trim(), value.trim()) {
                ("sites", value) => configuration.sites = value.parse().map_err(|_| bad())?,
                ("hosts", value) => configuration.hosts = value.parse().map_err(|_| bad())?,
                ("kfactor", value) => configuration.kfactor = value.parse().map_err(|_| bad())?,
                ("partitions_per_site", value) => {
                    configuration.partitions_per_site = value.parse().map_err(|_| bad())?;
                }
                ("tables", "replicated") => configuration.replicated = true,
                ("statements", "procedures") => configuration.procedures = true,
                ("statements", "single-partition") => {
                    (configuration.procedures, configuration.single_partition) = (true, true);
                }
                ("messages", "bytes") => configuration.sends_bytes = true,
                ("rules_off", "all") => configuration.rules_off = RuleSet::from_bits(u64::MAX),
                ("rules_off", names) => configuration.rules_off = RuleSet::parse(names)?,
                ("skip", value) => {
                    let (file, _reason) = value.split_once(':').ok_or_else(bad)?;
                    configuration.skip.push(file.trim().to_string());
                }
                _ => return Err(bad()),
            }
        }
        Ok(configuration)
    }

    /// Partitions of its hosts.
    pub fn partition_count(&self) -> u32 {
        self.hosts * self.sites * self.partitions_per_site / (u32::from(self.kfactor) + 1)
    }

    /// The options of its hosts.
    pub fn options(&self) -> Options {
        let mut options = Options::default();
        if self.kfactor > 0 {
            // A busy machine suspects no host that runs.
            for patient in ["heartbeat_interval_ms=200", "suspect_after_ms=5000", "lease_ms=4000"] {
                options.set(patient).expect("an option within its range");
            }
        }
        Options {
            disabled_rules: self.rules_off,
            partitions_per_site: Count(self.partitions_per_site.into()),
            ..options
        }
    }

    /// Makes what the statements of this configuration need.
    ///
    /// # Errors
    /// The server's message.
    pub fn prepare(&self, connection: &mut Connection) -> Result<(), String> {
        if self.single_partition {
            connection.sql(ROUTING_TABLE).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Runs SQL in the form of this configuration.
    ///
    /// # Errors
    /// The server's message.
    pub fn execute(&self, connection: &mut Connection, sql: &str) -> Result<Vec<Table>, String> {
        let kept;
        let sql = match self.replicated {
            true => {
                kept = without_partitioning(sql);
                if kept.trim().is_empty() {
                    return Ok(Vec::new());
                }
                kept.as_str()
            }
            false => sql,
        };
        if !self.procedures || !is_data_statement(sql) {
            return connection.sql(sql).map_err(|error| error.to_string());
        }
        let body = sql.trim().trim_end_matches(';');
        if self.single_partition {
            let routed = format!(
                "CREATE PROCEDURE corpus_statement PARTITION ON TABLE corpus_routing COLUMN k AS \
                 BEGIN SELECT k FROM corpus_routing WHERE k = ?; {body}\n; END"
            );
            let created = connection.sql(&routed).map_err(|error| error.to_string());
            let needs_all = |message: &String| SPANNING.iter().any(|part| message.contains(part));
            match created {
                Err(message) if needs_all(&message) => {}
                created => {
                    created?;
                    let mut parameters = ParameterWriter::default();
                    parameters.bigint(1);
                    let mut tables = call_and_drop(connection, &parameters)?;
                    if !tables.is_empty() {
                        tables.remove(0);
                    }
                    return Ok(tables);
                }
            }
        }
        let body = match sql.contains(';') {
            true => format!("BEGIN {body}; END"),
            false => sql.to_string(),
        };
        let create = format!("CREATE PROCEDURE corpus_statement AS {body}");
        connection.sql(&create).map_err(|error| error.to_string())?;
        call_and_drop(connection, &ParameterWriter::default())
    }
}

/// By this table's column the calls at one partition are sent there.
const ROUTING_TABLE: &str =
    "CREATE TABLE corpus_routing (k BIGINT NOT NULL); PARTITION TABLE corpus_routing ON COLUMN k";
/// Why a statement may not run at one partition.
const SPANNING: [&str; 2] = ["in a single-partition procedure", "Single partitioned procedure"];

/// Calls the statement's procedure, and drops it.
fn call_and_drop(
    connection: &mut Connection,
    parameters: &ParameterWriter,
) -> Result<Vec<Table>, String> {
    let answer = connection
        .call("corpus_statement", parameters)
        .map_err(|error| error.to_string())
        .and_then(|response| response.tables().map_err(|error| error.to_string()));
    let dropped = connection.sql("DROP PROCEDURE corpus_statement");
    dropped.map_err(|error| format!("{error}, after the call"))?;
    answer
}

/// The statements of a text but for PARTITION TABLE.
fn without_partitioning(sql: &str) -> String {
    let is_kept = |part: &&str| !part.trim_start().to_uppercase().starts_with("PARTITION TABLE");
    match sql.to_uppercase().contains("PARTITION TABLE") {
        true => sql.split(';').filter(is_kept).collect::<Vec<_>>().join(";"),
        false => sql.to_string(),
    }
}

/// Whether a text reads or changes data, all of it without parameters.
fn is_data_statement(sql: &str) -> bool {
    let first = sql.split_whitespace().next().unwrap_or("").to_uppercase();
    let first = first.trim_start_matches('(');
    ["SELECT", "INSERT", "UPDATE", "UPSERT", "DELETE", "TRUNCATE", "WITH"].contains(&first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_and_applied() {
        let text = "# c\nsites = 3\ntables = replicated\nskip = a.slt: why\n";
        let read = Configuration::read("x", text).expect("sound");
        assert!(read.sites == 3 && read.replicated && !read.procedures);
        assert_eq!(read.skip, ["a.slt"]);
        let read = Configuration::read("x", "sites = 2\npartitions_per_site = 3").expect("sound");
        assert_eq!((read.sites, read.partition_count()), (2, 6));
        assert_eq!(read.options().partitions_per_site, Count(3));
        assert!(Configuration::read("x", "tables = none").is_err());
        let kept =
            without_partitioning("CREATE TABLE t (a INTEGER); partition table t ON COLUMN a");
        assert_eq!(kept, "CREATE TABLE t (a INTEGER)");
        assert!(is_data_statement("(SELECT 1") && !is_data_statement("DROP TABLE t"));
    }
}
