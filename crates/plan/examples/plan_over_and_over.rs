//! Plans a point query (0) or a join (1) from its text, over and over, for profilers. Arguments:
//! the number of rounds, and which.

use lockstep_plan::{Catalog, NativeProcedures, NativeSource, PlanContext, plan_statement};
use lockstep_sql::{Limits, parse_batch};

struct NoNatives;

impl NativeProcedures for NoNatives {
    fn find(&self, _name: &str) -> Option<NativeSource> {
        None
    }
}

const SCHEMA: &str = "CREATE TABLE P (K INTEGER NOT NULL, N INTEGER NOT NULL, V INTEGER, \
                      S VARCHAR(20), PRIMARY KEY (K, N)); PARTITION TABLE P ON COLUMN K; \
                      CREATE TABLE R (ID INTEGER NOT NULL PRIMARY KEY, A INTEGER);";
const TEXTS: [&str; 2] = [
    "SELECT V, S FROM P WHERE K = 17 AND N = 3",
    "SELECT P.V, R.A FROM P JOIN R ON P.V = R.ID WHERE P.K = 17 AND R.A > 3 ORDER BY 1",
];

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000u64);
    let which = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(0usize);
    let limits = Limits::default();
    let batch = parse_batch(SCHEMA, &limits).expect("DDL");
    let catalog = Catalog::default().apply(&batch, &NoNatives).expect("a schema").catalog;
    let text = TEXTS[which.min(TEXTS.len() - 1)];
    for _ in 0..rounds {
        let parsed = parse_batch(text, &limits).expect("SQL");
        plan_statement(&catalog, &parsed[0], PlanContext::MultiPartition).expect("a plan");
    }
    println!("planned {rounds} times: {text}");
}
