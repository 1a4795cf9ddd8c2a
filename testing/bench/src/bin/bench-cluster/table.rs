//! The figures as a table: what was reached beside what must and should be.

use crate::half_load::AtRate;
use crate::rejoin::Rejoin;
use crate::rolling::Rolling;
use lockstep_bench::verdict::{Bound, Row, median, times};
use serde_json::{Value, json};

/// Processor time for a call at a fixed rate, where one partition is all: one value a repeat.
#[derive(Debug, Default)]
pub struct OneLeader {
    /// Calls per second.
    pub rate_per_s: f64,
    /// Of a host without copies.
    pub alone_cpu_us: Vec<f64>,
    /// Of the leader, with one copy.
    pub leader_cpu_us: Vec<f64>,
    /// Of the host with the copy.
    pub follower_cpu_us: Vec<f64>,
    /// Of a process that answers at once.
    pub answering_cpu_us: Vec<f64>,
    /// Of a process that passes calls on to that one.
    pub forwarding_cpu_us: Vec<f64>,
    /// Whether it is judged what a copy costs.
    pub is_judged: bool,
}

impl OneLeader {
    /// At a rate at which the leader uses half of its core.
    pub fn judged_at(rate_per_s: f64) -> OneLeader {
        OneLeader { rate_per_s, is_judged: true, ..OneLeader::default() }
    }

    /// At a lower rate, at which waking for each call takes most, or a higher one, at which almost
    /// all is the procedure itself.
    pub fn stated_at(rate_per_s: f64) -> OneLeader {
        OneLeader { rate_per_s, ..OneLeader::default() }
    }

    fn rows(&self) -> [Option<Row>; 3] {
        let (rate, leader) = (self.rate_per_s, of(&self.leader_cpu_us));
        let (alone, words) = (of(&self.alone_cpu_us), ("K = 0", "K = 1"));
        let what = format!("{rate} calls/s, one leader: its processor time a call, K = 0 / K = 1");
        let of_follower = "follower's processor time an entry / leader's a call";
        let (follower, follows) = (of(&self.follower_cpu_us), ("follower", "leader"));
        let (leader_row, follower_row) = match self.is_judged {
            true => (
                ratio(&what, (alone, leader), at_least(0.7, 0.85), words),
                ratio(of_follower, (follower, leader), at_most(0.8, 0.5), follows),
            ),
            false => (
                stated_ratio(&what, (alone, leader), words),
                stated_ratio(of_follower, (follower, leader), follows),
            ),
        };
        let processes = stated_ratio(
            "the same of processes that only answer / only pass on",
            (of(&self.answering_cpu_us), of(&self.forwarding_cpu_us)),
            ("answering", "passing on"),
        );
        [leader_row, processes, follower_row]
    }

    fn json(&self) -> Value {
        json!({
            "rate_per_s": self.rate_per_s, "alone_cpu_us": self.alone_cpu_us,
            "leader_cpu_us": self.leader_cpu_us, "follower_cpu_us": self.follower_cpu_us,
            "answering_cpu_us": self.answering_cpu_us, "forwarding_cpu_us": self.forwarding_cpu_us,
        })
    }
}

/// What was measured, one value a repeat.
#[derive(Debug, Default)]
pub struct Samples {
    /// With one leader, at each of the fixed rates.
    pub one_leader: Vec<OneLeader>,
    /// Of three hosts with spread leaders in a closed loop, K = 0.
    pub spread_k0_us: Vec<f64>,
    /// And K = 1.
    pub spread_k1_us: Vec<f64>,
    /// At the fixed rate, K = 0.
    pub rated_k0_us: Vec<f64>,
    /// And K = 1.
    pub rated_k1_us: Vec<f64>,
    /// Of two hosts, calls to the leader.
    pub to_leader_us: Vec<f64>,
    /// And calls to the other host.
    pub to_other_us: Vec<f64>,
    /// Latency at half of the calls per second that three hosts with K = 1 answer in a closed loop.
    pub half_load: Vec<AtRate>,
    /// And at the rate that takes half of their core.
    pub half_busy: Vec<AtRate>,
    /// For a write of a row with one copy.
    pub write_cpu_us: Vec<f64>,
    /// The same of Redis.
    pub redis_cpu_us: Vec<f64>,
    /// The same of PostgreSQL.
    pub postgres_cpu_us: Vec<f64>,
    /// Median latency of a server that does nothing.
    pub ping_us: Vec<f64>,
    /// Median latency of a vote, K = 0.
    pub idle_k0_us: Vec<f64>,
    /// And K = 1.
    pub idle_k1_us: Vec<f64>,
    /// Median latencies of deposits and of transfers, K = 0.
    pub transfers_k0: Vec<(f64, f64)>,
    /// And K = 1.
    pub transfers_k1: Vec<(f64, f64)>,
    /// Longest gaps after `kill -9`, in milliseconds.
    pub kills: Vec<f64>,
    /// And after SIGSTOP.
    pub suspensions: Vec<f64>,
    /// Rolling restarts.
    pub rolling: Vec<Rolling>,
    /// Hosts that came back.
    pub rejoins: Vec<Rejoin>,
}

/// How busy the servers with K = 1 are at half load, at the least.
const HALF_BUSY: f64 = 0.5;

/// The median of what the ratio is in each run, since a stalled machine disturbs all its figures.
/// It is judged where `is_judged` and the load is half of what the servers' core takes, or more.
fn tail_row(what: &str, runs: &[AtRate], is_judged: bool) -> Option<Row> {
    let middle = |of: &dyn Fn(&AtRate) -> f64| median(runs.iter().map(of));
    let ratio = middle(&|run| run.p99_us()[0] / run.p99_us()[1]);
    let [here, echo, alone] = [0, 1, 2].map(|which| middle(&|run| run.p99_us()[which]));
    let detail = format!(
        "{here:.0} us K = 1 at {:.0} calls/s, {:.0} % busy (median {:.0} us), {echo:.0} us echo, \
         {alone:.0} us K = 0; with the machine's stalls {:.0}, {:.0}, {:.0} us",
        middle(&|run| run.per_s),
        middle(&|run| run.copied.busy) * 100.0,
        middle(&|run| run.copied.p50_us),
        middle(&|run| run.copied.p99_us),
        middle(&|run| run.echo.p99_us),
        middle(&|run| run.alone.p99_us)
    );
    (!runs.is_empty()).then(|| match is_judged && middle(&|run| run.copied.busy) >= HALF_BUSY {
        true => Row::judged(what, (ratio, times), at_most(3.0, 2.0), detail),
        false => Row::stated(what, times(ratio), detail),
    })
}

fn runs(runs: &[AtRate]) -> Vec<Value> {
    runs.iter().map(AtRate::json).collect()
}

fn of(values: &[f64]) -> f64 {
    median(values.iter().copied())
}

/// A row for a ratio of two figures; none of what was not measured.
fn ratio(
    what: &str,
    (above, below): (f64, f64),
    bounds: (Bound, Bound),
    words: (&str, &str),
) -> Option<Row> {
    if below == 0.0 {
        return None;
    }
    let detail = format!("{above:.2} us {}, {below:.2} us {}", words.0, words.1);
    Some(Row::judged(what, (above / below, times), bounds, detail))
}

/// The same, without bounds.
fn stated_ratio(what: &str, (above, below): (f64, f64), words: (&str, &str)) -> Option<Row> {
    let detail = format!("{above:.2} us {}, {below:.2} us {}", words.0, words.1);
    (below > 0.0).then(|| Row::stated(what, times(above / below), detail))
}

fn at_least(must: f64, aim: f64) -> (Bound, Bound) {
    (Bound::AtLeast(must), Bound::AtLeast(aim))
}

fn at_most(must: f64, aim: f64) -> (Bound, Bound) {
    (Bound::AtMost(must), Bound::AtMost(aim))
}

impl Samples {
    /// All rows.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = self.of_processor_time();
        rows.extend(self.of_latency());
        let milliseconds: fn(f64) -> String = |value| format!("{value:.0} ms");
        for (what, gaps, most, usual) in [
            ("kill -9", &self.kills, at_most(1500.0, 600.0), at_most(1000.0, 400.0)),
            ("SIGSTOP", &self.suspensions, at_most(2000.0, 800.0), at_most(1500.0, 500.0)),
        ] {
            if gaps.is_empty() {
                continue;
            }
            let mut sorted = gaps.clone();
            sorted.sort_by(f64::total_cmp);
            let rank = (sorted.len() as f64 * 0.95).ceil() as usize;
            let figures =
                [("most", sorted[sorted.len() - 1], most), ("p95", sorted[rank - 1], usual)];
            for (name, value, bounds) in figures {
                let what = format!("{what} of a host: longest gap, {name} of {}", gaps.len());
                let detail = format!("median {:.0} ms", of(gaps));
                rows.push(Row::judged(&what, (value, milliseconds), bounds, detail));
            }
        }
        rows.extend(self.of_rolling_restarts());
        rows.extend(self.of_rejoins());
        rows
    }

    /// Medians of all rejoins.
    fn of_rejoins(&self) -> Vec<Row> {
        if self.rejoins.is_empty() {
            return Vec::new();
        }
        let middle = |of: &dyn Fn(&Rejoin) -> f64| median(self.rejoins.iter().map(of));
        let millions: fn(f64) -> String = |value| format!("{:.2} M", value / 1e6);
        let detail = format!(
            "{:.1} M rows, {:.0} MiB at most: {:.2} s of the host, {:.2} s of the two others, \
             after {:.1} s",
            middle(&|it| it.rows) / 1e6,
            middle(&|it| it.peak_bytes) / f64::from(1 << 20),
            middle(&|it| it.joiner_s),
            middle(&|it| it.others_s),
            middle(&|it| it.took_s)
        );
        let all = middle(&|it| it.rows / (it.joiner_s + it.others_s));
        vec![
            Row::judged(
                &format!(
                    "rejoin: rows a second a core of the host, median of {}",
                    self.rejoins.len()
                ),
                (middle(&Rejoin::rows_per_core), millions),
                at_least(1e6, 4e6),
                detail,
            ),
            Row::stated(
                "the same with the processor time of all three",
                millions(all),
                String::new(),
            ),
        ]
    }

    /// The worst of all restarts.
    fn of_rolling_restarts(&self) -> Vec<Row> {
        if self.rolling.is_empty() {
            return Vec::new();
        }
        let most = |of: &dyn Fn(&Rolling) -> f64| self.rolling.iter().map(of).fold(0.0, f64::max);
        let count = self.rolling.len();
        let took = format!("three hosts in {:.1} s", most(&|it| it.took_s));
        let calls: fn(f64) -> String = |value| format!("{value:.0}");
        let milliseconds: fn(f64) -> String = |value| format!("{value:.0} ms");
        vec![
            Row::judged(
                &format!("rolling restart: failed calls, most of {count}"),
                (most(&|it| it.failed), calls),
                at_most(0.0, 0.0),
                took,
            ),
            Row::judged(
                &format!("rolling restart: longest gap, most of {count}"),
                (most(&|it| it.gap_ms), milliseconds),
                at_most(300.0, 50.0),
                String::new(),
            ),
        ]
    }

    fn of_processor_time(&self) -> Vec<Row> {
        let one_leader = self.one_leader.iter().flat_map(OneLeader::rows);
        let mut rows: Vec<Row> = one_leader.flatten().collect();
        let slow = self.one_leader.first().map_or(0.0, |first| first.rate_per_s);
        let spread = [
            ratio(
                "calls per processor time of all three, closed loop: K = 1 / K = 0",
                (of(&self.spread_k0_us), of(&self.spread_k1_us)),
                at_least(0.45, 0.6),
                ("K = 0", "K = 1"),
            ),
            stated_ratio(
                &format!("the same at {slow} calls/s"),
                (of(&self.rated_k0_us), of(&self.rated_k1_us)),
                ("K = 0", "K = 1"),
            ),
            ratio(
                "calls per processor time of both: to another host / to the leader",
                (of(&self.to_leader_us), of(&self.to_other_us)),
                at_least(0.5, 0.7),
                ("to the leader", "to another"),
            ),
            ratio(
                "processor time a write, K = 1 / Redis, a replica, WAIT 1 a batch",
                (of(&self.write_cpu_us), of(&self.redis_cpu_us)),
                at_most(1.0, 0.5),
                ("here", "Redis"),
            ),
            ratio(
                "processor time a write, K = 1 / PostgreSQL, a replica, remote_apply",
                (of(&self.write_cpu_us), of(&self.postgres_cpu_us)),
                at_most(1.0, 0.5),
                ("here", "PostgreSQL"),
            ),
        ];
        rows.extend(spread.into_iter().flatten());
        rows
    }

    fn of_latency(&self) -> Vec<Row> {
        let (ping, k0, k1) = (of(&self.ping_us), of(&self.idle_k0_us), of(&self.idle_k1_us));
        let mut rows = Vec::new();
        if !self.ping_us.is_empty() {
            rows.push(Row::judged(
                "one idle client: median that K = 1 adds / a ping",
                ((k1 - k0) / ping, times),
                at_most(4.0, 2.5),
                format!("{k0:.0} us K = 0, {k1:.0} us K = 1, ping {ping:.0} us"),
            ));
        }
        for (what, runs, is_judged) in [
            ("p99 at half load, K = 1 / echo processes", &self.half_busy, true),
            ("the same at half of the closed loop's calls/s", &self.half_load, false),
        ] {
            rows.extend(tail_row(what, runs, is_judged));
        }
        for (what, samples, bounds) in [
            (
                "transfer over two hosts / deposit, medians, K = 0",
                &self.transfers_k0,
                at_most(3.0, 2.0),
            ),
            (
                "transfer over two hosts / deposit, medians, K = 1",
                &self.transfers_k1,
                at_most(4.0, 3.0),
            ),
        ] {
            let deposit = median(samples.iter().map(|sample| sample.0));
            let transfer = median(samples.iter().map(|sample| sample.1));
            rows.extend(ratio(what, (transfer, deposit), bounds, ("transfer", "deposit")));
        }
        rows
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "one_leader": self.one_leader.iter().map(OneLeader::json).collect::<Vec<_>>(),
            "spread_k0_us": self.spread_k0_us, "spread_k1_us": self.spread_k1_us,
            "rated_k0_us": self.rated_k0_us, "rated_k1_us": self.rated_k1_us,
            "to_leader_us": self.to_leader_us, "to_other_us": self.to_other_us,
            "half_load": runs(&self.half_load), "half_busy": runs(&self.half_busy),
            "write_cpu_us": self.write_cpu_us, "redis_cpu_us": self.redis_cpu_us,
            "postgres_cpu_us": self.postgres_cpu_us,
            "ping_us": self.ping_us, "idle_k0_us": self.idle_k0_us, "idle_k1_us": self.idle_k1_us,
            "transfers_k0_us": self.transfers_k0, "transfers_k1_us": self.transfers_k1,
            "kill_gaps_ms": self.kills, "suspension_gaps_ms": self.suspensions,
            "rolling_restarts": self.rolling.iter().map(Rolling::json).collect::<Vec<_>>(),
            "rejoins": self.rejoins.iter().map(Rejoin::json).collect::<Vec<_>>(),
        })
    }
}
