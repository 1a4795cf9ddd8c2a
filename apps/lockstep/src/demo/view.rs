//! What `lockstep demo --hosts` shows while the load runs.

use crate::admin::cluster::{Cluster, Partition};
use lockstep_bench::cluster::load::ClusterLoad;
use lockstep_bench::report::grouped;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Events that are shown, the last ones.
const SHOWN_EVENTS: usize = 8;
/// Between two views on a terminal.
const REDRAW: Duration = Duration::from_millis(200);
/// Between two lines elsewhere.
const LINE: Duration = Duration::from_secs(1);

/// A live view: redrawn on a terminal, line by line elsewhere.
pub struct View {
    is_terminal: bool,
    begun: Instant,
    duration: Duration,
    shown_at: Instant,
    /// Calls of each partition that were answered when the view was shown last.
    answered: Vec<u64>,
    events: Vec<String>,
    /// Lines that stand on the terminal.
    drawn: usize,
    pub hint: &'static str,
}

impl View {
    pub fn new(partitions: usize, duration: Duration) -> View {
        let now = Instant::now();
        View {
            is_terminal: io::stdout().is_terminal(),
            begun: now,
            duration,
            shown_at: now,
            answered: vec![0; partitions],
            events: Vec::new(),
            drawn: 0,
            hint: "",
        }
    }

    /// Something happened.
    pub fn event(&mut self, what: &str) {
        let line = format!("{:>5.1} s  {what}", self.begun.elapsed().as_secs_f64());
        match self.is_terminal {
            true => self.events.push(line),
            false => println!("{line}"),
        }
    }

    /// A key was pressed, which began another line.
    pub fn key(&mut self) {
        self.drawn += 1;
    }

    /// Shows how things are, if it is time to.
    pub fn show(&mut self, load: &ClusterLoad, cluster: Option<&Cluster>) {
        let since = self.shown_at.elapsed();
        if since < if self.is_terminal { REDRAW } else { LINE } {
            return;
        }
        self.shown_at = Instant::now();
        let count = |partition| load.answered_of(partition);
        let answered: Vec<u64> = (0..self.answered.len()).map(count).collect();
        let rate =
            |(now, before): (&u64, &u64)| ((now - before) as f64 / since.as_secs_f64()) as u64;
        let rates: Vec<u64> = answered.iter().zip(&self.answered).map(rate).collect();
        self.answered = answered;
        let partitions = cluster.map_or(&[][..], |cluster| &cluster.partitions);
        if self.is_terminal {
            let text = self.screen(load, cluster, &rates);
            self.clear();
            // Lines that wrapped would break the way back up.
            print!("\x1b[?7l{text}\x1b[?7h");
            self.drawn = text.lines().count();
        } else {
            let led = |it: &Partition| format!("{}>{}{}", it.id, it.leader, followers(it, "+"));
            println!(
                "{:>5.1} s  {:>7} calls/s  longest gap {}  partitions {}",
                self.begun.elapsed().as_secs_f64(),
                grouped(rates.iter().sum()),
                seconds(load.longest_gap().lasted),
                partitions.iter().map(led).collect::<Vec<_>>().join(" ")
            );
        }
        // A terminal that cannot be written to is noticed by the result's own printing.
        let _ = io::stdout().flush();
    }

    fn screen(&self, load: &ClusterLoad, cluster: Option<&Cluster>, rates: &[u64]) -> String {
        let counts = load.counts();
        let mut text = format!(
            "{:>3.0} of {:.0} s  {} calls/s  {} answered, {} unknown, {} failed\n\n",
            self.begun.elapsed().as_secs_f64(),
            self.duration.as_secs_f64(),
            grouped(rates.iter().sum()),
            grouped(counts.answered),
            grouped(counts.unknown),
            grouped(counts.failed)
        );
        if let Some(cluster) = cluster {
            text += &hosts(cluster);
            text += "\npartition  leader  followers  epoch   calls/s  longest gap\n";
            for partition in &cluster.partitions {
                let at = partition.id as usize;
                text += &format!(
                    "{:>9}  {:>6}  {:>9}  {:>5}  {:>8}  {:>11}\n",
                    partition.id,
                    partition.leader,
                    followers(partition, ""),
                    partition.epoch,
                    grouped(rates.get(at).copied().unwrap_or(0)),
                    seconds(load.gap_of(at))
                );
            }
        }
        let from = self.events.len().saturating_sub(SHOWN_EVENTS);
        text + "\n" + &self.events[from..].join("\n") + "\n" + self.hint + "\n"
    }

    /// Removes the view, and leaves the events on a terminal.
    pub fn end(&mut self) {
        self.clear();
        self.events.iter().for_each(|event| println!("{event}"));
    }

    /// Goes back to where the view began and wipes it.
    fn clear(&mut self) {
        if self.drawn > 0 {
            print!("\x1b[{}A\r\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }
}

fn hosts(cluster: &Cluster) -> String {
    let listed = |is_in: &dyn Fn(&Partition) -> bool| {
        let numbers = cluster.partitions.iter().filter(|partition| is_in(partition));
        numbers.map(|partition| partition.id.to_string()).collect::<Vec<_>>().join(" ")
    };
    let mut text = "host  state    leads           follows\n".to_string();
    for host in &cluster.hosts {
        let leads = listed(&|partition| partition.leader == host.id);
        let follows = listed(&|partition| partition.followers.contains(&host.id));
        let line = format!("{:>4}  {:<7}  {leads:<14}  {follows}", host.id, host.state);
        text = text + line.trim_end() + "\n";
    }
    text
}

fn followers(partition: &Partition, before: &str) -> String {
    let followers: Vec<String> = partition.followers.iter().map(i64::to_string).collect();
    match followers.is_empty() {
        true => String::new(),
        false => format!("{before}{}", followers.join("+")),
    }
}

/// A time in words.
pub fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}
