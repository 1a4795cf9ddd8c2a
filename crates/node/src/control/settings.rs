//! `@SystemInformation DEPLOYMENT`: how the host is set up, by the names that tools for VoltDB look
//! for, and all its options by their own.

use super::Control;
use super::snapshot::AUTOMATIC_PREFIX;
use crate::log::Durability;
use crate::options::OptionValue;
use lockstep_durability::command_log::FOLDER as LOG_FOLDER;
use lockstep_durability::directory::SNAPSHOT_FOLDER;

impl Control {
    /// The rows: property and value.
    pub(super) fn deployment(&self) -> Vec<(String, String)> {
        let facts = &self.facts;
        let options = &facts.options;
        let shown = |name: &str| match &facts.data_disk {
            Some(disk) => disk.shown(name),
            None => String::new(),
        };
        let mut rows = vec![
            ("voltdbroot", shown("")),
            ("hostcount", "1".to_string()),
            ("kfactor", "0".to_string()),
            ("sitesperhost", facts.partition_count.to_string()),
            ("httpport", "0".to_string()),
            ("httpenabled", "false".to_string()),
            ("jsonenabled", "false".to_string()),
            ("snapshotpath", shown(SNAPSHOT_FOLDER)),
        ];
        rows.extend(self.snapshot_schedule());
        rows.extend([
            ("export", "false".to_string()),
            ("largequeryswappath", String::new()),
            ("partitiondetection", "false".to_string()),
            ("heartbeattimeout", "0".to_string()),
            ("adminport", facts.admin_address.port().to_string()),
        ]);
        let mode = match facts.durability {
            Durability::None => None,
            Durability::Async => Some("async"),
            Durability::Sync => Some("sync"),
        };
        if let Some(mode) = mode {
            rows.extend([
                ("commandlogmode", mode.to_string()),
                ("commandlogfreqtime", options.log_interval_ms.get().to_string()),
                // A group commit takes what there is: no number of transactions begins one.
                ("commandlogfreqtxns", i32::MAX.to_string()),
                ("commandlogpath", shown(LOG_FOLDER)),
                ("commandlogsnapshotpath", shown(SNAPSHOT_FOLDER)),
            ]);
        }
        rows.extend([
            ("commandlogenabled", mode.is_some().to_string()),
            ("users", String::new()),
            ("elasticduration", "0".to_string()),
            ("elasticthroughput", "0".to_string()),
            ("snapshotpriority", "0".to_string()),
            ("temptablesmaxsize", (options.max_temporary_bytes.get() >> 20).to_string()),
            ("querytimeout", options.query_timeout_ms.number().to_string()),
            ("drrole", "none".to_string()),
            ("prioritiesenabled", "false".to_string()),
        ]);
        let rows = rows.into_iter().map(|(name, value)| (name.to_string(), value));
        let options = crate::options::TABLE.iter().map(|option| {
            let value = options.get(option.name).unwrap_or(option.default);
            (option.name.to_string(), value.to_string())
        });
        rows.chain(options).collect()
    }

    /// The snapshots that the host takes by itself.
    fn snapshot_schedule(&self) -> Vec<(&'static str, String)> {
        let options = &self.facts.options;
        let by_log = self.log_pruner.is_some() && options.snapshot_log_bytes.is_some();
        let by_clock = options.snapshot_interval_s;
        let is_enabled = self.facts.data_disk.is_some() && (by_log || by_clock.is_some());
        let mut rows = Vec::new();
        if is_enabled {
            rows.push(("snapshotprefix", AUTOMATIC_PREFIX.to_string()));
            if let Some(interval) = by_clock {
                rows.push(("snapshotfrequency", format!("{}s", interval.get())));
            }
            rows.push(("snapshotretain", options.snapshots_kept.get().to_string()));
        }
        rows.push(("snapshotenabled", is_enabled.to_string()));
        rows
    }
}
