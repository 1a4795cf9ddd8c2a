//! The answers of `@SnapshotSave`.

use super::{SAVED_SITES, SAVED_TABLES, write_table};
use crate::control::Control;
use crate::message::Origin;
use lockstep_types::Datum;

impl Control {
    pub(super) fn answer_begun(&mut self, origin: Origin) {
        let tables = self.snapshots.newest().map(|past| past.tables.clone());
        let tables = tables.unwrap_or_default();
        let (id, host) = (self.facts.host_id(), self.facts.host_name.clone());
        self.answer_tables(origin, |out| {
            let row = |table| {
                let texts = [host.as_str(), table, "SUCCESS", ""].map(Datum::Text);
                [&[id][..], &texts].concat()
            };
            let rows: Vec<_> = tables.iter().map(|table| row(table.as_str())).collect();
            write_table(out, SAVED_TABLES, &rows);
            1
        });
    }

    pub(super) fn answer_saved(&mut self, origin: Origin) {
        let (id, host) = (self.facts.host_id(), self.facts.host_name.clone());
        let sites = self.facts.placement().site_count();
        self.answer_tables(origin, |out| {
            let rows: Vec<Vec<Datum<'_>>> = (0..sites)
                .map(|site| {
                    let numbers = [id, Datum::Text(&host), Datum::Int(site.into())];
                    [&numbers[..], &["SUCCESS", ""].map(Datum::Text)].concat()
                })
                .collect();
            write_table(out, SAVED_SITES, &rows);
            1
        });
    }

    pub(super) fn answer_save_failure(&mut self, origin: Origin, problem: &str) {
        let (id, host) = (self.facts.host_id(), self.facts.host_name.clone());
        self.answer_tables(origin, |out| {
            let texts = [host.as_str(), "", "FAILURE", problem].map(Datum::Text);
            write_table(out, SAVED_TABLES, &[[&[id][..], &texts].concat()]);
            1
        });
    }
}
