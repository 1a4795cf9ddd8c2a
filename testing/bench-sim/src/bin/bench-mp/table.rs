//! The report: each ratio beside what it must and should reach.

use crate::alternate_key::AlternateKey;
use crate::bystander::Bystander;
use crate::inserts::Inserts;
use crate::measure::{SHARES_PER_MILLE, Samples};
use lockstep_bench::report::grouped;
use lockstep_bench::verdict::{Bound, Row, median, report_json, times, verdict};
use serde_json::{Value, json};

/// What each share of transfers must and should reach.
const SHARE_BOUNDS: [(f64, f64); 4] = [(0.90, 0.97), (0.50, 0.80), (0.25, 0.50), (0.15, 0.35)];

fn ratio(what: &str, samples: &[f64], must: f64, aim: f64, detail: &str) -> Row {
    let reached = median(samples.iter().copied());
    let each: Vec<String> = samples.iter().map(|ratio| format!("{ratio:.2}")).collect();
    Row {
        what: what.to_string(),
        reached: times(reached),
        must: times(must),
        aim: times(aim),
        verdict: verdict(reached, Bound::AtLeast(must), Bound::AtLeast(aim)),
        detail: format!("{detail}{}", each.join(" ")),
    }
}

/// A line without a bound.
fn stated(what: &str, samples: &[f64]) -> Row {
    let (must, aim) = ("stated".to_string(), "stated".to_string());
    Row { must, aim, verdict: "stated", ..ratio(what, samples, 0.0, 0.0, "") }
}

/// The report's lines.
pub fn rows(
    samples: &Samples,
    inserts: &[Inserts],
    bystander: &Result<Bystander, String>,
    simulated: &[f64; 2],
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (place, (must, aim)) in SHARE_BOUNDS.into_iter().enumerate() {
        let what = format!("{} % transfers / none", SHARES_PER_MILLE[place] / 10);
        let alone = grouped(median(samples.alone_per_s.iter().copied()) as u64);
        let detail = if place == 0 { format!("none: {alone}/s; ") } else { String::new() };
        rows.push(ratio(&what, &samples.one_round[place], must, aim, &detail));
    }
    for (place, share) in SHARES_PER_MILLE.into_iter().enumerate() {
        let what = format!("{} % transfers of two rounds / none", share / 10);
        rows.push(stated(&what, &samples.two_rounds[place]));
    }
    let [by_fragments, by_calls] = &samples.against_stopping;
    rows.push(ratio("10 % transfers / stopping everything", by_fragments, 1.5, 2.0, ""));
    rows.push(stated("the same by the short path", by_calls));
    let [eight, many] = *simulated;
    let simulated = "simulated, hops of 50 us; ";
    rows.push(ratio("the same, 8 partitions", &[eight], 3.0, 6.0, simulated));
    rows.push(ratio("the same, 64 partitions", &[many], 8.0, 30.0, simulated));
    rows.extend(alternate_key_rows(&samples.alternate_key, &samples.alternate_text));
    rows.push(inserts_row(inserts));
    rows.push(bystander_row(bystander));
    rows.push(latency_row(samples));
    rows
}

/// Inserts with a global unique index against the same without.
pub fn inserts_row(inserts: &[Inserts]) -> Row {
    let ratios: Vec<f64> = inserts.iter().map(Inserts::ratio).collect();
    let without = grouped(median(inserts.iter().map(|each| each.without_per_s)) as u64);
    let detail = format!("without: {without}/s; ");
    ratio("inserts with a global unique index / without", &ratios, 0.30, 0.50, &detail)
}

/// The lines of the alternate-key mix.
pub fn alternate_key_rows(integers: &AlternateKey, texts: &AlternateKey) -> Vec<Row> {
    let alone = grouped(median(integers.alone_per_s.iter().copied()) as u64);
    let elsewhere = integers.share_elsewhere * 100.0;
    let detail = format!("none: {alone}/s; {elsewhere:.0} % of the entries elsewhere; ");
    let (name, cpu) = ("20 % by a global unique index / none", "calls per processor time: ");
    let by_cpu = ratio("the same by processor time", &integers.cpu_ratios, 0.80, 0.95, cpu);
    vec![
        ratio(name, &integers.ratios, 0.80, 0.95, &detail),
        by_cpu,
        stated("the same with texts of 15 digits", &texts.ratios),
        stated("the same by processor time", &texts.cpu_ratios),
    ]
}

fn bystander_row(bystander: &Result<Bystander, String>) -> Row {
    let (reached, verdict, detail) = match bystander {
        Ok(Bystander { alone, busy }) => {
            let apart = (busy / alone - 1.0).abs();
            let detail = format!("{alone:.0} alone, {busy:.0} instructions a call");
            let verdict = verdict(apart, Bound::AtMost(0.01), Bound::AtMost(0.002));
            (format!("{:.2} % apart", apart * 100.0), verdict, detail)
        }
        Err(reason) => ("-".to_string(), "not counted", reason.clone()),
    };
    Row {
        what: "a partition that takes no part, busy / alone".to_string(),
        reached,
        must: "1 %".to_string(),
        aim: "0.2 %".to_string(),
        verdict,
        detail,
    }
}

fn latency_row(samples: &Samples) -> Row {
    let (deposit, transfer) = (&samples.deposit_us, &samples.transfer_us);
    let ratios: Vec<f64> = transfer.iter().zip(deposit).map(|(t, d)| t / d).collect();
    let reached = median(ratios.iter().copied());
    let us = |values: &[f64]| median(values.iter().copied());
    let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    Row {
        what: "latency over TCP, two partitions / one".to_string(),
        reached: times(reached),
        must: times(2.0),
        aim: times(1.5),
        verdict: verdict(reached, Bound::AtMost(2.0), Bound::AtMost(1.5)),
        detail: format!(
            "medians {:.0} us and {:.0} us; {}",
            us(transfer),
            us(deposit),
            each.join(" ")
        ),
    }
}

/// Rows, samples and options as JSON.
pub fn json(
    rows: &[Row],
    samples: &Samples,
    inserts: &[Inserts],
    options: &[(&str, String)],
) -> Value {
    let samples = json!({
            "transfers_per_mille": SHARES_PER_MILLE,
            "alone_per_s": samples.alone_per_s,
            "one_round": samples.one_round,
            "two_rounds": samples.two_rounds,
            "against_stopping": samples.against_stopping,
            "deposit_us": samples.deposit_us,
            "transfer_us": samples.transfer_us,
            "inserts_per_s": inserts.iter().map(|i| i.with_per_s).collect::<Vec<_>>(),
            "inserts_without_index_per_s":
                inserts.iter().map(|i| i.without_per_s).collect::<Vec<_>>(),
            "alternate_key": alternate_key_json(&samples.alternate_key),
            "alternate_text": alternate_key_json(&samples.alternate_text),
    });
    report_json(rows.iter().map(Row::json).collect(), samples, options)
}

fn alternate_key_json(samples: &AlternateKey) -> Value {
    json!({
        "alone_per_s": samples.alone_per_s,
        "ratios": samples.ratios,
        "cpu_ratios": samples.cpu_ratios,
        "share_elsewhere": samples.share_elsewhere,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_its_verdict() {
        let samples = Samples {
            alone_per_s: vec![1e6],
            one_round: [vec![0.95], vec![0.4], vec![0.6, 0.3, 0.2], vec![0.35]],
            two_rounds: [vec![0.9], vec![0.5], vec![0.2], vec![0.1]],
            against_stopping: [vec![1.6], vec![1.1]],
            deposit_us: vec![100.0, 10.0],
            transfer_us: vec![180.0, 19.0],
            alternate_key: AlternateKey {
                alone_per_s: vec![1e6],
                ratios: vec![0.81],
                cpu_ratios: vec![0.79],
                share_elsewhere: 0.8,
            },
            alternate_text: AlternateKey { ratios: vec![0.6], ..AlternateKey::default() },
        };
        let bystander = Ok(Bystander { alone: 5000.0, busy: 5020.0 });
        let inserts = [Inserts { with_per_s: 40.0, without_per_s: 100.0 }];
        let rows = rows(&samples, &inserts, &bystander, &[3.5, 31.0]);
        let verdicts: Vec<_> = rows.iter().map(|row| (row.reached.as_str(), row.verdict)).collect();
        let expected = [
            ("0.95 x", "must"),
            ("0.40 x", "MISSED"),
            ("0.30 x", "must"),
            ("0.35 x", "aim"),
            ("0.90 x", "stated"),
            ("0.50 x", "stated"),
            ("0.20 x", "stated"),
            ("0.10 x", "stated"),
            ("1.60 x", "must"),
            ("1.10 x", "stated"),
            ("3.50 x", "must"),
            ("31.00 x", "aim"),
            ("0.81 x", "must"),
            ("0.79 x", "MISSED"),
            ("0.60 x", "stated"),
            ("0.00 x", "stated"),
            ("0.40 x", "must"),
            ("0.40 % apart", "must"),
            ("1.85 x", "must"),
        ];
        assert_eq!(verdicts, expected);
        assert_eq!(Row::render(&rows).lines().count(), 20);
        let missing = bystander_row(&Err("no valgrind".to_string()));
        assert_eq!(missing.verdict, "not counted");
    }
}
