//! Comparisons that published studies made, with LockstepDB alone: the two partitionings of TPC-C
//! with three ways to deliver, and the five ways of TATP to find a subscriber by number.

use crate::Plan;
use crate::host::Host;
use crate::measure::{Rate, busy, load, note};
use lockstep_bench::chart::Bars;
use lockstep_bench::report::grouped;
use lockstep_bench::run::Pace;
use lockstep_bench::verdict::{align, median};
use lockstep_workloads::Workload;
use lockstep_workloads::tatp::{AlternateKey, Tatp};
use lockstep_workloads::tpcc::scale::{Delivery, Partitioning, Rules, Scale};
use lockstep_workloads::tpcc::{Tpcc, TpccOptions};
use serde_json::{Value, json};

/// Sites of the hosts; they share the core of the servers.
pub const SITES: u32 = 4;
/// What the PyTPCC study found between its two partitionings.
const STUDY_RATIO: f64 = 3.5;

/// Variants of a workload, each with its samples.
#[derive(Debug, Clone)]
pub struct Study {
    /// What is compared.
    pub title: String,
    /// By name, in the order of measurement.
    pub variants: Vec<(String, Vec<Rate>)>,
    /// What a study found, and ours beside it.
    pub remarks: Vec<String>,
}

impl Study {
    fn rate(&self, name: &str) -> f64 {
        let found = self.variants.iter().find(|(variant, _)| variant == name);
        found.map_or(0.0, |(_, rates)| median(rates.iter().map(|rate| rate.per_s)))
    }

    /// The variants by rate, the fastest first: rank, name, rates, and how much slower they are.
    pub fn ranking(&self) -> Vec<Vec<String>> {
        let of = |rates: &[Rate], value: fn(&Rate) -> f64| median(rates.iter().map(value));
        let mut sorted: Vec<_> = self.variants.iter().collect();
        sorted.sort_by(|a, b| of(&b.1, |r| r.per_s).total_cmp(&of(&a.1, |r| r.per_s)));
        let best = sorted.first().map_or(0.0, |(_, rates)| of(rates, |rate| rate.per_s));
        let row = |(place, (name, rates)): (usize, &&(String, Vec<Rate>))| {
            let per_s = of(rates, |rate| rate.per_s);
            vec![
                (place + 1).to_string(),
                name.clone(),
                grouped(per_s as u64),
                grouped(of(rates, |rate| rate.per_busy_s) as u64),
                format!("{:.2} x", per_s / best.max(1e-9)),
            ]
        };
        sorted.iter().enumerate().map(row).collect()
    }

    /// The ranking as bars.
    pub fn bars(&self) -> Bars {
        let bar = |row: Vec<String>| {
            let rate = self.rate(&row[1]);
            (row[1].clone(), rate, format!("{} ({})", row[2], row[4]))
        };
        Bars {
            title: self.title.clone(),
            label: "transactions per second (share of the best)".to_string(),
            bars: self.ranking().into_iter().map(bar).collect(),
        }
    }

    /// Title, aligned table and remarks.
    pub fn render(&self) -> String {
        let mut lines = vec![HEAD.map(str::to_string).to_vec()];
        lines.extend(self.ranking());
        let remarks: String = self.remarks.iter().map(|remark| format!("{remark}\n")).collect();
        format!("{}\n{}{remarks}", self.title, align(&lines, |column| column != 1))
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let variant = |(name, rates): &(String, Vec<Rate>)| {
            let per_s: Vec<f64> = rates.iter().map(|rate| rate.per_s).collect();
            json!({ "name": name, "per_s": per_s })
        };
        json!({
            "title": self.title,
            "variants": self.variants.iter().map(variant).collect::<Vec<_>>(),
            "remarks": self.remarks,
        })
    }
}

/// The head of a ranking.
pub const HEAD: [&str; 5] = ["rank", "variant", "per s", "per s of processor time", "of the best"];

/// Runs each variant on a host of its own, in turns.
fn measure(
    plan: &Plan,
    title: String,
    names: Vec<String>,
    fresh: &dyn Fn(usize) -> Result<Box<dyn Workload>, String>,
) -> Result<Study, String> {
    let mut measured: Vec<(String, Vec<Rate>)> =
        names.into_iter().map(|name| (name, Vec::new())).collect();
    for repeat in 1..=plan.repeats {
        for (place, (name, rates)) in measured.iter_mut().enumerate() {
            let host = Host::start(plan, SITES, false)?;
            let run = host.run(plan, &mut *fresh(place)?, &load(Pace::Closed, repeat))?;
            let rate = Rate::of(&run);
            note(name, repeat, rate.per_s, &busy(rate));
            rates.push(rate);
        }
    }
    Ok(Study { title, variants: measured, remarks: Vec::new() })
}

/// TPC-C by warehouse and by district, each with three ways to deliver.
///
/// # Errors
/// A host does not start, a transaction fails, or a check does not hold.
pub fn tpcc_strategies(plan: &Plan) -> Result<Study, String> {
    let ways: Vec<(Partitioning, Delivery)> = [Partitioning::Warehouse, Partitioning::District]
        .into_iter()
        .flat_map(|by| {
            [Delivery::Original, Delivery::Split, Delivery::LeftOut].map(|delivery| (by, delivery))
        })
        .collect();
    let scale = Scale::new(plan.warehouses, plan.divisor)?;
    let fresh = |place: usize| -> Result<Box<dyn Workload>, String> {
        let (partitioning, delivery) = ways[place];
        Ok(Box::new(Tpcc::new(TpccOptions {
            scale,
            partitioning,
            delivery,
            remote: true,
            rules: Rules::Py,
            exact_money: false,
        })))
    };
    let name = |(by, delivery): &(Partitioning, Delivery)| {
        let by = match by {
            Partitioning::Warehouse => "by warehouse",
            Partitioning::District => "by district",
        };
        let delivery = match delivery {
            Delivery::Original => "Delivery original",
            Delivery::Split => "Delivery in ten calls",
            Delivery::LeftOut => "no Delivery",
        };
        format!("{by}, {delivery}")
    };
    let names = ways.iter().map(name).collect();
    let title = format!("TPC-C, {} warehouses, {SITES} sites on one core", plan.warehouses);
    let mut study = measure(plan, title, names, &fresh)?;
    let rate = |by, delivery| study.rate(&name(&(by, delivery)));
    let ratio = rate(Partitioning::Warehouse, Delivery::Original)
        / rate(Partitioning::District, Delivery::Original).max(1e-9);
    let by_delivery = |by| {
        let original = rate(by, Delivery::Original).max(1e-9);
        let split = rate(by, Delivery::Split) / original;
        format!(
            "{split:.2} x in ten calls, {:.2} x without",
            rate(by, Delivery::LeftOut) / original
        )
    };
    study.remarks = vec![
        format!(
            "by warehouse / by district, Delivery original: {ratio:.2} x; the PyTPCC study found \
             {STUDY_RATIO} x between its strategies"
        ),
        format!("Delivery by warehouse: {}", by_delivery(Partitioning::Warehouse)),
        format!("Delivery by district: {}", by_delivery(Partitioning::District)),
    ];
    Ok(study)
}

/// TATP with the five ways to find a subscriber by number.
///
/// # Errors
/// As for [`tpcc_strategies`].
pub fn tatp_modes(plan: &Plan) -> Result<Study, String> {
    let fresh = |place: usize| -> Result<Box<dyn Workload>, String> {
        Ok(Box::new(Tatp::new(plan.subscribers, AlternateKey::NAMES[place].1)?))
    };
    let names = AlternateKey::NAMES.iter().map(|(name, _)| name.to_string()).collect();
    let title = format!("TATP, {} subscribers, {SITES} sites on one core", plan.subscribers);
    measure(plan, title, names, &fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_comes_first() {
        let rate = |per_s: f64| vec![Rate { per_s, per_busy_s: per_s }];
        let study = Study {
            title: "ways".to_string(),
            variants: vec![("slow".to_string(), rate(25.0)), ("fast".to_string(), rate(100.0))],
            remarks: vec!["a remark".to_string()],
        };
        let ranks: Vec<String> = study.ranking().iter().map(|row| row.join(" ")).collect();
        assert_eq!(ranks, ["1 fast 100 100 1.00 x", "2 slow 25 25 0.25 x"]);
        assert_eq!(study.render().lines().count(), 5);
        assert_eq!(study.bars().bars[1], ("slow".to_string(), 25.0, "25 (0.25 x)".to_string()));
    }
}
