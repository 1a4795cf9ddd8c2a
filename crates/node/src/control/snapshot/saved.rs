//! The answers of `@SnapshotSave`.

use super::{SAVED_SITES, SAVED_TABLES, write_table};
use crate::control::Control;
use crate::message::Origin;
use lockstep_types::{Datum, HostId};

impl Control {
    pub(super) fn answer_begun(&mut self, origin: Origin) {
        let tables = self.snapshots.newest().map(|past| past.tables.clone());
        let tables = tables.unwrap_or_default();
        let hosts = self.saving_hosts();
        self.answer_tables(origin, |out| {
            let mut rows = Vec::new();
            for (host, name) in &hosts {
                for table in &tables {
                    let texts = [name.as_str(), table, "SUCCESS", ""].map(Datum::Text);
                    rows.push([&[Datum::Int(host.0.into())][..], &texts].concat());
                }
            }
            write_table(out, SAVED_TABLES, &rows);
            1
        });
    }

    /// The hosts that save.
    pub(super) fn saving_hosts(&self) -> Vec<(HostId, String)> {
        let own = || vec![(self.facts.placement().host(), self.facts.host_name.clone())];
        self.snapshots.hosts_of_all().unwrap_or_else(own)
    }

    pub(super) fn answer_saved(&mut self, origin: Origin, hosts: &[(HostId, String)]) {
        let sites = self.facts.placement().site_count();
        self.answer_tables(origin, |out| {
            let mut rows: Vec<Vec<Datum<'_>>> = Vec::new();
            for (host, name) in hosts {
                for site in 0..sites {
                    let id = Datum::Int(host.0.into());
                    let numbers = [id, Datum::Text(name), Datum::Int(site.into())];
                    rows.push([&numbers[..], &["SUCCESS", ""].map(Datum::Text)].concat());
                }
            }
            write_table(out, SAVED_SITES, &rows);
            1
        });
    }

    pub(super) fn answer_save_failure(&mut self, origin: Origin, problem: &str) {
        let (host, name) = (self.facts.placement().host(), self.facts.host_name.clone());
        self.answer_save_failure_at(origin, (host, &name), problem);
    }

    /// The problem is that of one host.
    pub(super) fn answer_save_failure_at(
        &mut self,
        origin: Origin,
        (host, name): (HostId, &str),
        problem: &str,
    ) {
        let id = Datum::Int(host.0.into());
        self.answer_tables(origin, |out| {
            let texts = [name, "", "FAILURE", problem].map(Datum::Text);
            write_table(out, SAVED_TABLES, &[[&[id][..], &texts].concat()]);
            1
        });
    }
}
