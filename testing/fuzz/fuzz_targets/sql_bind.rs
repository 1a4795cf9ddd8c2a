//! SQL text against a small schema: schema changes are applied, other statements planned, for
//! one partition and for several.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_plan::{
    BatchKind, Catalog, NativeProcedures, NativeSource, PlanContext, classify_batch,
    plan_statement,
};
use lockstep_sql::{Limits, parse_batch};
use std::sync::OnceLock;

const SCHEMA: &str = "
CREATE TABLE item (id INTEGER NOT NULL, kind INTEGER NOT NULL, label VARCHAR(20), price DECIMAL,
  weight FLOAT, made TIMESTAMP, picture VARBINARY(10), PRIMARY KEY (id));
PARTITION TABLE item ON COLUMN id;
CREATE TABLE t (a INTEGER NOT NULL, b BIGINT, c VARCHAR(10), PRIMARY KEY (a));
CREATE INDEX t_b ON t (b, c);
CREATE VIEW by_kind (kind, items, total) AS
  SELECT kind, COUNT(*), SUM(price) FROM item GROUP BY kind;
CREATE PROCEDURE p PARTITION ON TABLE item COLUMN id AS SELECT label FROM item WHERE id = ?;
";

struct NoNatives;

impl NativeProcedures for NoNatives {
    fn find(&self, _: &str) -> Option<NativeSource> {
        None
    }
}

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let parsed = parse_batch(SCHEMA, &Limits::default()).expect("the schema is sound");
        Catalog::default().apply(&parsed, &NoNatives).expect("it can be applied").catalog
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(parsed) = parse_batch(text, &Limits::default()) else { return };
    match classify_batch(&parsed) {
        Err(_) => {}
        Ok(BatchKind::Ddl) => {
            let _ = catalog().apply(&parsed, &NoNatives);
        }
        Ok(BatchKind::DmlQueries) => {
            for statement in &parsed {
                for context in [PlanContext::SinglePartition, PlanContext::MultiPartition] {
                    let _ = plan_statement(catalog(), statement, context);
                }
            }
        }
    }
});
