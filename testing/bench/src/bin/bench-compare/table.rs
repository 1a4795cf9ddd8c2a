//! The report: each figure beside what it must and should reach.

use crate::instructions::Instructions;
use crate::measure::{Sample, Samples, median};
use crate::memory::{Memory, ROW_BYTES};
use lockstep_bench::report::grouped;
use lockstep_bench::stalls::Undisturbed;
use lockstep_bench::verdict::{Bound, align, report_json, times, verdict};
use serde_json::{Value, json};

/// A line of the report, with a column of its own for an echo server.
pub struct Row {
    what: &'static str,
    reached: String,
    must: String,
    aim: String,
    verdict: &'static str,
    echo: String,
    detail: String,
}

fn rate(samples: &[Sample]) -> f64 {
    median(samples, |sample| sample.throughput_per_s)
}

fn cpu(samples: &[Sample]) -> f64 {
    median(samples, |sample| sample.cpu_us)
}

fn calls(rate: f64) -> String {
    format!("{}/s", grouped(rate as u64))
}

/// A row about a ratio.
fn ratio_row(
    what: &'static str,
    ratio: f64,
    (must, aim): (Bound, Bound),
    echo: f64,
    detail: String,
) -> Row {
    Row {
        what,
        reached: times(ratio),
        must: times(must.value()),
        aim: times(aim.value()),
        verdict: verdict(ratio, must, aim),
        echo: times(echo),
        detail,
    }
}

/// The report's lines.
pub fn rows(samples: &Samples, instructions: &Instructions, memory: &Memory) -> Vec<Row> {
    let mut rows = speed_rows(samples);
    let (per_call, redis) = (instructions.per_call, rate(&samples.redis));
    let (must, aim) = (Bound::AtMost(6000.0), Bound::AtMost(3000.0));
    rows.insert(
        2,
        Row {
            what: "voter embedded, instructions a call",
            reached: grouped(per_call as u64),
            must: grouped(6000),
            aim: grouped(3000),
            verdict: verdict(per_call, must, aim),
            echo: "-".to_string(),
            detail: format!("{}, {} calls", instructions.counted_by, instructions.calls),
        },
    );
    let embedded = rate(&samples.embedded);
    rows.insert(
        3,
        ratio_row(
            "voter embedded / Redis SET, x64",
            embedded / redis,
            (Bound::AtLeast(1.2), Bound::AtLeast(2.0)),
            rate(&samples.echo) / redis,
            format!(
                "{} against {}; by CPU time {}",
                calls(embedded),
                calls(redis),
                times(cpu(&samples.redis) / cpu(&samples.embedded))
            ),
        ),
    );
    rows.extend(memory_rows(memory));
    rows
}

fn speed_rows(samples: &Samples) -> Vec<Row> {
    let (voter, redis, echo) = (rate(&samples.voter), rate(&samples.redis), rate(&samples.echo));
    let sql = rate(&samples.sql);
    let (voter_cpu, redis_cpu) = (cpu(&samples.voter_single), cpu(&samples.redis_single));
    let p99 = |samples: &[Sample]| median(samples, Sample::judged_p99_us);
    let (p99_voter, p99_echo) = (p99(&samples.voter_open), p99(&samples.echo_open));
    let own = samples.redis_benchmark.map_or("none".to_string(), calls);
    vec![
        ratio_row(
            "voter / Redis SET, calls a second, x64",
            voter / redis,
            (Bound::AtLeast(1.0), Bound::AtLeast(1.5)),
            echo / redis,
            format!(
                "{} against {} (redis-benchmark {own}); by CPU time {}",
                calls(voter),
                calls(redis),
                times(cpu(&samples.redis) / cpu(&samples.voter))
            ),
        ),
        ratio_row(
            "voter / Redis SET, CPU time a call, x1",
            voter_cpu / redis_cpu,
            (Bound::AtMost(1.1), Bound::AtMost(0.95)),
            cpu(&samples.echo_single) / redis_cpu,
            format!("{voter_cpu:.2} us against {redis_cpu:.2} us"),
        ),
        Row {
            what: "voter as SQL only / Redis SET, x64",
            reached: times(sql / redis),
            must: "stated".to_string(),
            aim: "stated".to_string(),
            verdict: "stated",
            echo: times(echo / redis),
            detail: format!(
                "{}; by CPU time {}",
                calls(sql),
                times(cpu(&samples.redis) / cpu(&samples.sql))
            ),
        },
        Row {
            what: "p99 latency at half of the peak",
            reached: format!("{:.3} ms", p99_voter / 1000.0),
            must: "1 ms".to_string(),
            aim: "0.3 ms".to_string(),
            verdict: verdict(p99_voter, Bound::AtMost(1000.0), Bound::AtMost(300.0)),
            echo: format!("{:.3} ms", p99_echo / 1000.0),
            detail: format!("at {}; {}", calls(rate(&samples.voter_open)), open_detail(samples)),
        },
    ]
}

/// Each repeat's percentile with and without the calls that the machine disturbed.
fn open_detail(samples: &Samples) -> String {
    let open = &samples.voter_open;
    let listed =
        |value: &dyn Fn(&Sample) -> String| open.iter().map(value).collect::<Vec<_>>().join(" ");
    let all = listed(&|sample| format!("{:.2}", sample.p99_us / 1000.0));
    if open.iter().any(|sample| sample.undisturbed.is_none()) {
        return format!("of all calls, repeats {all} ms; no real-time priority to see stalls by");
    }
    let of = |sample: &Sample| sample.undisturbed.unwrap_or_default();
    let left = listed(&|sample| format!("{:.2}", of(sample).p99_us / 1000.0));
    let set_aside = listed(&|sample| format!("{:.0}", of(sample).set_aside * 100.0));
    let stalled_ms: f64 = open.iter().map(|sample| of(sample).stalled_us / 1000.0).sum();
    let longest_ms = open.iter().map(|sample| of(sample).longest_us / 1000.0).fold(0.0, f64::max);
    let too_few = match open.iter().all(|sample| of(sample).counts()) {
        true => "",
        false => " (over half: all calls count)",
    };
    format!(
        "repeats {left} ms where the machine did not stall, {all} ms of all calls; set aside \
         {set_aside} %{too_few}, stalls {stalled_ms:.0} ms together, the longest {longest_ms:.1} ms"
    )
}

fn memory_rows(memory: &Memory) -> Vec<Row> {
    let difference = (memory.stated_per_row / memory.grown_per_row.max(1e-9) - 1.0).abs();
    let of_row = memory.stated_per_row / ROW_BYTES;
    vec![
        Row {
            what: "memory a row of votes, stated / grown",
            reached: format!("{:.0} % apart", difference * 100.0),
            must: "10 %".to_string(),
            aim: "10 %".to_string(),
            verdict: verdict(difference, Bound::AtMost(0.1), Bound::AtMost(0.1)),
            echo: "-".to_string(),
            detail: format!(
                "{:.1} against {:.1} bytes, {} rows",
                memory.stated_per_row,
                memory.grown_per_row,
                grouped(memory.rows)
            ),
        },
        Row {
            what: "memory a row of votes / the row's bytes",
            reached: times(of_row),
            must: "stated".to_string(),
            aim: times(1.25),
            verdict: if of_row <= 1.25 { "aim" } else { "must" },
            echo: "-".to_string(),
            detail: format!("a row has {ROW_BYTES} bytes"),
        },
    ]
}

/// The lines as an aligned table.
pub fn render(rows: &[Row]) -> String {
    let header = ["figure", "reached", "must", "aim", "verdict", "echo server", "detail"];
    let mut lines = vec![header.map(str::to_string).to_vec()];
    for row in rows {
        lines.push(vec![
            row.what.to_string(),
            row.reached.clone(),
            row.must.clone(),
            row.aim.clone(),
            row.verdict.to_string(),
            row.echo.clone(),
            row.detail.clone(),
        ]);
    }
    align(&lines, |column| matches!(column, 1..=3 | 5))
}

/// Rows, samples and options as JSON.
pub fn json(rows: &[Row], samples: &Samples, options: &[(&str, String)]) -> Value {
    let row = |row: &Row| {
        json!({
            "figure": row.what, "reached": row.reached, "must": row.must, "aim": row.aim,
            "verdict": row.verdict, "echo": row.echo, "detail": row.detail,
        })
    };
    let list = |samples: &[Sample]| -> Value {
        let sample = |s: &Sample| {
            json!({
                "throughput_per_s": s.throughput_per_s, "cpu_us": s.cpu_us, "p99_us": s.p99_us,
                "undisturbed": s.undisturbed.as_ref().map(Undisturbed::json),
            })
        };
        samples.iter().map(sample).collect()
    };
    let samples = json!({
        "voter": list(&samples.voter),
        "redis": list(&samples.redis),
        "echo": list(&samples.echo),
        "sql": list(&samples.sql),
        "voter_single": list(&samples.voter_single),
        "redis_single": list(&samples.redis_single),
        "echo_single": list(&samples.echo_single),
        "embedded": list(&samples.embedded),
        "voter_open": list(&samples.voter_open),
        "echo_open": list(&samples.echo_open),
        "redis_benchmark_per_s": samples.redis_benchmark,
    });
    report_json(rows.iter().map(row).collect(), samples, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_verdict() {
        let rate =
            |rate| vec![Sample { throughput_per_s: rate, cpu_us: 1e6 / rate, ..Sample::default() }];
        let undisturbed =
            Some(Undisturbed { p99_us: 500.0, set_aside: 0.1, ..Undisturbed::default() });
        let samples = Samples {
            voter: rate(1.2e6),
            sql: rate(6e5),
            redis: rate(1e6),
            echo: rate(2e6),
            voter_single: rate(5e4),
            redis_single: rate(1e5),
            echo_single: rate(1e5),
            embedded: rate(3e6),
            voter_open: vec![Sample { p99_us: 4000.0, undisturbed, ..Sample::default() }],
            echo_open: rate(6e5),
            redis_benchmark: Some(9e5),
        };
        let instructions = Instructions { per_call: 7000.0, counted_by: "perf", calls: 9 };
        let memory = Memory { stated_per_row: 18.0, grown_per_row: 19.0, rows: 1000 };
        let rows = rows(&samples, &instructions, &memory);
        let verdicts: Vec<_> = rows.iter().map(|row| (row.reached.as_str(), row.verdict)).collect();
        let expected = [
            ("1.20 x", "must"),
            ("2.00 x", "MISSED"),
            ("7 000", "MISSED"),
            ("3.00 x", "aim"),
            ("0.60 x", "stated"),
            ("0.500 ms", "must"),
            ("5 % apart", "aim"),
            ("1.20 x", "aim"),
        ];
        assert_eq!(verdicts, expected);
        let text = render(&rows);
        assert_eq!(text.lines().count(), 9);
        assert!(text.starts_with("figure "));
        assert_eq!(json(&rows, &samples, &[("a", "b".into())])["options"]["a"], "b");
    }
}
