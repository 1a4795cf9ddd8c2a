//! TPC-C: wholesale orders over warehouses and districts, by the specification 5.11 and as the
//! PyTPCC harness runs it.

mod consistency;
mod population;
pub mod procedures;
pub mod scale;
mod schema;
pub mod session;

use crate::distribution::session_random;
use crate::form::Form;
use crate::workload::{Check, Database, Found, RowSink, Session, TableToFill, Workload};
use consistency::Before;
use population::Population;
use scale::{Delivery, NuConstants, Partitioning, Rules, Scale};
use schema::Calls;
use session::{Plan, Terminal};
use std::sync::Arc;

/// What can be chosen.
#[derive(Debug, Clone, Copy)]
pub struct TpccOptions {
    /// How much there is.
    pub scale: Scale,
    /// Where rows live.
    pub partitioning: Partitioning,
    /// How Delivery is run.
    pub delivery: Delivery,
    /// Whether some items and customers are of other warehouses.
    pub remote: bool,
    /// How sessions draw.
    pub rules: Rules,
    /// Amounts as DECIMAL, not FLOAT.
    pub exact_money: bool,
}

/// What is run.
#[derive(Debug, Clone)]
pub struct Tpcc {
    options: TpccOptions,
    /// What its procedures are in: native or Java.
    form: Form,
    before: Before,
}

impl Tpcc {
    /// With options, and native procedures.
    pub fn new(options: TpccOptions) -> Tpcc {
        Tpcc { options, form: Form::Native, before: Before::default() }
    }

    /// The same with the procedures in Java, of a jar, which may be empty where the procedures are
    /// at the server already.
    pub fn with_java(self, jar: Arc<[u8]>) -> Tpcc {
        Tpcc { form: Form::Java(jar), ..self }
    }

    /// What was chosen.
    pub fn chosen(&self) -> &TpccOptions {
        &self.options
    }

    fn constants(&self, seed: u64) -> NuConstants {
        match self.options.rules {
            // The harness draws with the constants that it filled the rows with.
            Rules::Py => scale::LOAD_CONSTANTS,
            Rules::Spec { .. } => NuConstants::of_run(seed),
        }
    }
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn transactions(&self) -> &[&'static str] {
        &session::TRANSACTIONS
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let TpccOptions { scale, partitioning, delivery, remote, rules, exact_money } =
            self.options;
        let partitioning = match partitioning {
            Partitioning::Warehouse => "warehouse",
            Partitioning::District => "district",
        };
        let delivery = match delivery {
            Delivery::Original => "original",
            Delivery::Split => "split",
            Delivery::LeftOut => "none",
        };
        let rules = match rules {
            Rules::Py => "pytpcc".to_string(),
            Rules::Spec { waits_percent } => format!("spec, {waits_percent} % of all waits"),
        };
        vec![
            ("warehouses", scale.warehouses.to_string()),
            ("items", scale.items.to_string()),
            ("customers_per_district", scale.customers.to_string()),
            ("partitioning", partitioning.to_string()),
            ("delivery", delivery.to_string()),
            ("remote", if remote { "on" } else { "off" }.to_string()),
            ("rules", rules),
            ("money", if exact_money { "decimal" } else { "float" }.to_string()),
            ("procedures", self.form.name().to_string()),
        ]
    }

    fn schema(&self) -> Vec<String> {
        schema::tables(self.options.partitioning, self.options.exact_money)
    }

    fn procedures(&self) -> Vec<String> {
        schema::procedures(self.options.partitioning, &self.form)
    }

    fn classes(&self) -> Result<Option<&[u8]>, String> {
        self.form.classes()
    }

    fn tables(&self) -> Vec<TableToFill> {
        let TpccOptions { scale, partitioning, exact_money, .. } = &self.options;
        population::tables(scale, *partitioning, *exact_money)
    }

    fn fill(&self, rows: &mut dyn RowSink) -> Result<(), String> {
        Population::new(self.options.scale, self.options.exact_money, rows).fill()
    }

    fn survey(&self, database: &mut dyn Database) -> Result<Found, String> {
        let Ok(warehouses) = database.number("SELECT COUNT(*) FROM warehouse;") else {
            return Ok(Found::Nothing);
        };
        if warehouses == 0 {
            return Ok(Found::Tables);
        }
        let scale = &self.options.scale;
        let districts = (scale.warehouses * scale::DISTRICTS) as i64;
        let counts = [
            ("warehouses", warehouses, scale.warehouses as i64),
            ("districts", database.number("SELECT COUNT(*) FROM district;")?, districts),
            ("items", database.number("SELECT COUNT(*) FROM item;")?, scale.items as i64),
            (
                "customers",
                database.number("SELECT COUNT(*) FROM customer;")?,
                districts * scale.customers as i64,
            ),
        ];
        match counts.into_iter().find(|(_, held, wanted)| held != wanted) {
            None => Ok(Found::Rows),
            Some((what, held, wanted)) => {
                Err(format!("the database has {held} {what}, this run is for {wanted}"))
            }
        }
    }

    fn begin(&mut self, database: &mut dyn Database) -> Result<(), String> {
        self.before = Before::read(database)?;
        Ok(())
    }

    fn session(&self, number: u64, seed: u64) -> Box<dyn Session> {
        let TpccOptions { scale, partitioning, delivery, remote, rules, .. } = self.options;
        let calls = Calls::new(partitioning, delivery);
        let constants = self.constants(seed);
        let plan = Plan { scale, rules, delivery, remote, calls, constants };
        Box::new(Terminal::new(plan, session_random(seed, number), number))
    }

    fn counters(&self) -> &[&'static str] {
        &session::COUNTERS
    }

    fn check(
        &self,
        database: &mut dyn Database,
        counts: &[u64],
        _complete: bool,
    ) -> Result<Vec<Check>, String> {
        let count = |place: usize| counts.get(place).copied().unwrap_or(0) as i64;
        let (delivered, orders) = ((count(0), count(1)), (count(2), count(3)));
        consistency::check(database, &self.options.scale, &self.before, delivered, orders)
    }
}
