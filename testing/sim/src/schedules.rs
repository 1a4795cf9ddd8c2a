//! Tasks: calls that a host makes by schedules, while their tasks are dropped, created again,
//! disabled and enabled, and while the host loses power and is recovered.
//!
//! Checked in every run: a schedule never has two calls in progress, also when its task is dropped
//! and created again meanwhile; none begins before its time, nor after a failure has stopped its
//! task; the statistics count each call of a task once; and the rows show each call that succeeded
//! once, those before a power cut too, and none that failed.

use crate::bank::Failure;
use crate::plans::decoded;
use crate::power::Broken;
use crate::power::read;
use crate::world::log::HostLog;
use crate::world::replay::HostDisk;
use crate::world::{Answer, CallNumber, SentTask, Shape, World, is_task};
use lockstep_base::random::SeededRandom;
use lockstep_durability::command_log::{FIRST_BLOCK, FOLDER, LogFaults};
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_env::Disk;
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_site::Faults;
use lockstep_types::{Status, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

const SCHEMA: &str = "
CREATE TABLE ticks (id BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (id));
PARTITION TABLE ticks ON COLUMN id;
CREATE TABLE sweeps (id BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (id));
PARTITION TABLE sweeps ON COLUMN id;
CREATE PROCEDURE Tick PARTITION ON TABLE ticks COLUMN id AS
  UPDATE ticks SET n = n + 1 WHERE id = ?;
CREATE PROCEDURE TickTwo AS BEGIN
  UPDATE ticks SET n = n + 1 WHERE id = ?;
  UPDATE ticks SET n = n + 1 WHERE id = ?;
END;
CREATE PROCEDURE Broken AS BEGIN
  UPDATE ticks SET n = n + 1 WHERE id = ?;
  INSERT INTO ticks VALUES (?, 0);
END;
CREATE PROCEDURE Sweep DIRECTED AS UPDATE sweeps SET n = n + 1;
";
/// Rows of each table.
const ROWS: i64 = 8;

/// When calls of a task begin at the soonest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// From the begin of a call to that of the next, microseconds.
    Every(i64),
    /// From the end of a call to the begin of the next, microseconds.
    Delay(i64),
    Calendar,
}

/// A task: its name, how it is declared, its procedure and first argument, and its rule.
const TASKS: [(&str, &str, (&str, i64), Rule); 5] = [
    (
        "A",
        "EVERY 5 MILLISECONDS PROCEDURE Tick WITH (0) ON ERROR IGNORE",
        ("Tick", 0),
        Rule::Every(5_000),
    ),
    (
        "B",
        "DELAY 3 MILLISECONDS PROCEDURE TickTwo WITH (1, 5) ON ERROR LOG",
        ("TickTwo", 1),
        Rule::Delay(3_000),
    ),
    (
        "C",
        "EVERY 7 MILLISECONDS PROCEDURE Sweep ON ERROR IGNORE RUN ON PARTITIONS",
        ("Sweep", 0),
        Rule::Every(7_000),
    ),
    ("D", "CRON * * * * * * PROCEDURE Tick WITH (2) ON ERROR IGNORE", ("Tick", 2), Rule::Calendar),
    (
        "E",
        "EVERY 9 MILLISECONDS PROCEDURE Broken WITH (3, 3) ON ERROR STOP",
        ("Broken", 3),
        Rule::Every(9_000),
    ),
];

/// A schedule: the place of its task among all, and its partition.
type Key = (usize, Option<u32>);

/// What is known of a schedule of one declaration of its task.
#[derive(Debug, Clone, Copy, Default)]
struct Declared {
    first_us: Option<i64>,
    begun: i64,
    ended_us: Option<i64>,
    answered: u64,
    failed: u64,
}

/// Calls that are there, at least, and that may be there besides.
#[derive(Debug, Clone, Copy, Default)]
struct Effect {
    before: i64,
    done: i64,
    unknown: i64,
}

/// What runs did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls that succeeded, failed, and were in progress when the power failed.
    pub calls: [u64; 3],
    /// Changes of tasks.
    pub changes: u64,
    /// Calls whose task was dropped or created again meanwhile.
    pub outlived: u64,
    /// How often a failure stopped a task.
    pub stopped: u64,
    /// A hash of everything that happened.
    pub trace: u64,
}

struct Run {
    seed: u64,
    shape: Shape,
    random: SeededRandom,
    disk: MemoryDisk,
    open: BTreeMap<CallNumber, (Key, u64)>,
    declared: BTreeMap<(Key, u64), Declared>,
    effects: BTreeMap<Key, Effect>,
    /// The version of the catalog that last said something of a task when a failure stopped it.
    stopped: BTreeMap<String, u64>,
    is_changing: bool,
    report: Report,
}

/// Runs one seed: a host of three lives with this number of steps each.
///
/// # Errors
/// The first check that failed.
pub fn run_seed(seed: u64, steps: usize, faults: Faults) -> Result<Report, Failure> {
    let mut run = Run::new(seed, faults);
    match run.lives(steps) {
        Ok(()) => Ok(run.report),
        Err(message) => Err(Failure { seed, message: format!("tasks: {message}") }),
    }
}

impl Run {
    fn new(seed: u64, faults: Faults) -> Run {
        let mut random = SeededRandom::new(seed ^ 0x7a5c);
        let mut shape = Shape::of(1 + random.below(4) as u32);
        shape.faults = faults;
        Run {
            seed,
            shape,
            random,
            disk: MemoryDisk::new(),
            open: BTreeMap::new(),
            declared: BTreeMap::new(),
            effects: BTreeMap::new(),
            stopped: BTreeMap::new(),
            is_changing: false,
            report: Report::default(),
        }
    }

    fn lives(&mut self, steps: usize) -> Result<(), String> {
        for folder in [FOLDER, SNAPSHOT_FOLDER] {
            self.disk.create_folder(folder).map_err(|error| error.to_string())?;
        }
        let mut world = self.recover(0)?;
        world.schema(SCHEMA);
        for table in ["ticks", "sweeps"] {
            let insert = world.prepare(&format!("INSERT INTO {table} VALUES (?, 0)"));
            (0..ROWS).for_each(|id| world.call(id as usize, &[(&insert, &[id])]));
            world.settle();
        }
        world.take_answers();
        for life in 1..=3 {
            for _ in 0..steps {
                self.step(&mut world)?;
            }
            if self.random.chance(1, 3) {
                self.come_to_rest(&mut world)?;
            }
            self.report.trace ^= world.trace;
            self.cut_power();
            world = self.recover(life)?;
            self.judge_rows(&mut world)?;
        }
        Ok(())
    }

    /// Recovers the host from its disk, and has it log again.
    fn recover(&mut self, life: u64) -> Result<World, String> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let host = HostDisk {
            disk: Arc::clone(&disk),
            faults: LogFaults::default(),
            replays_all: false,
            runs_failed_writes: false,
            skips: None,
        };
        let mut recovered =
            host.recover(self.seed.wrapping_mul(7).wrapping_add(life), self.shape)?;
        let end = std::mem::take(&mut recovered.end);
        let settings = (FIRST_BLOCK + 8_192, self.random.next_u64(), 3, 0);
        let log = HostLog::open(&disk, settings, end, Broken::default());
        recovered.world.attach_log(log.map_err(|error| error.to_string())?);
        Ok(recovered.world)
    }

    /// The power fails; of what was not synced, each write is kept or lost.
    fn cut_power(&mut self) {
        let random = &mut self.random;
        self.disk.cut_power(|_| match random.chance(1, 2) {
            true => Survival::Kept,
            false => Survival::Lost,
        });
        self.report.calls[2] += self.open.len() as u64;
        for (_, (key, _)) in std::mem::take(&mut self.open) {
            self.effects.entry(key).or_default().unknown += 1;
        }
        self.declared.clear();
        self.stopped.clear();
        self.is_changing = false;
    }

    fn step(&mut self, world: &mut World) -> Result<(), String> {
        if !world.step() {
            let left_us = world.task_time_left_us().unwrap_or(1_000).min(200_000);
            world.jump_clock(self.random.between(1, left_us.max(2)));
        }
        if self.random.chance(1, 3) {
            self.run_tasks(world)?;
        }
        if !self.is_changing && self.random.chance(1, 40) {
            self.change(world);
        }
        if self.random.chance(1, 200) {
            world.expire();
        }
        self.hear(world)
    }

    /// The host makes the calls that are due.
    fn run_tasks(&mut self, world: &mut World) -> Result<(), String> {
        let sent = world.run_tasks();
        for sent in sent {
            self.begun(world, &sent)?;
        }
        self.judge_statistics(world)
    }

    fn begun(&mut self, world: &World, sent: &SentTask) -> Result<(), String> {
        let versions = world.followed_tasks();
        let place = task_of(&sent.body)?;
        let (name, _, _, rule) = TASKS[place];
        let key = (place, sent.partition.map(|partition| partition.0));
        if self.open.values().any(|(open, _)| *open == key) {
            return Err(format!("two calls of {name} at {:?} are in progress", sent.partition));
        }
        let (version, changed) = *versions.get(name).ok_or("a task runs that is not there")?;
        if self.stopped.get(name) == Some(&changed) {
            return Err(format!("{name} runs after a failure has stopped it"));
        }
        let (now_us, declared) = (world.now_us(), self.declared.entry((key, version)).or_default());
        let first_us = *declared.first_us.get_or_insert(now_us);
        let is_early = match rule {
            Rule::Every(interval_us) => declared.begun > (now_us - first_us) / interval_us + 1,
            Rule::Delay(pause_us) => declared.ended_us.is_some_and(|end| now_us < end + pause_us),
            Rule::Calendar => declared.begun > (now_us - first_us) / 1_000_000 + 1,
        };
        declared.begun += 1;
        self.open.insert(sent.call, (key, version));
        match is_early {
            true => Err(format!("{name} begins before its time")),
            false => Ok(()),
        }
    }

    /// Each call of a task is counted once, as answered and as failed.
    fn judge_statistics(&self, world: &World) -> Result<(), String> {
        for row in world.task_rows() {
            let (partition, calls, failures) = (int(&row[0]), int(&row[14]), int(&row[23]));
            let name = row[1].as_datum().to_string();
            let place = TASKS.iter().position(|task| task.0 == name).ok_or("nobody's task")?;
            let key = (place, u32::try_from(partition).ok());
            let Some((version, _)) = world.followed_tasks().get(&name) else { continue };
            let known = self.declared.get(&(key, *version)).copied().unwrap_or_default();
            if (calls, failures) != (known.answered as i64, known.failed as i64) {
                return Err(format!(
                    "{name} at {partition} counts {calls} calls, {failures} failed, not {known:?}"
                ));
            }
        }
        Ok(())
    }

    /// Begins a change of a task.
    fn change(&mut self, world: &mut World) {
        let (name, declaration, ..) = TASKS[self.random.below(TASKS.len() as u64) as usize];
        let create = format!("CREATE TASK {name} ON SCHEDULE {declaration}");
        let is_there = world.latest().1.host.plan.tasks.contains_key(name);
        let ddl = match (is_there, self.random.below(5)) {
            (false, _) => create,
            (true, 0) => format!("DROP TASK {name}"),
            (true, 1) => format!("ALTER TASK {name} DISABLE"),
            (true, 2) => format!("ALTER TASK {name} ENABLE"),
            (true, _) => format!("DROP TASK {name}; {create}"),
        };
        world.begin_schema(&ddl);
        self.is_changing = true;
        self.report.changes += 1;
    }

    /// Hears of changes and calls that have ended.
    fn hear(&mut self, world: &mut World) -> Result<(), String> {
        if let Some(answer) = world.take_change_answer() {
            self.is_changing = false;
            if let Some(why) = answer.failure.filter(|why| !why.contains("timeout")) {
                return Err(format!("a change of a task failed: {why}"));
            }
        }
        for answer in world.take_answers() {
            self.hear_answer(world, &answer)?;
        }
        Ok(())
    }

    fn hear_answer(&mut self, world: &mut World, answer: &Answer) -> Result<(), String> {
        assert!(is_task(answer.call), "nobody else calls");
        let (key, version) = self.open.remove(&answer.call).ok_or("a call is answered twice")?;
        let (name, ..) = TASKS[key.0];
        let failure = answer.outcome.failure.clone();
        let effect = self.effects.entry(key).or_default();
        match &failure {
            None if name == "E" => return Err("a call succeeded that had to fail".to_string()),
            None => effect.done += 1,
            Some(failure) if failure.status == Status::ResponseUnknown => effect.unknown += 1,
            Some(_) => {}
        }
        self.report.calls[usize::from(failure.is_some())] += 1;
        let declared = self.declared.entry((key, version)).or_default();
        declared.ended_us = Some(world.now_us());
        // The host knows the task of the catalog that its control thread followed last.
        let followed = world.followed_tasks().get(name);
        let is_current = followed.is_some_and(|(declared, _)| *declared == version);
        if is_current {
            declared.answered += 1;
            declared.failed += u64::from(failure.is_some());
        }
        self.report.outlived += u64::from(!is_current);
        world.task_ended(answer.call, failure.map_or(Ok(()), Err));
        for stopped in world.take_stopped_tasks() {
            self.report.stopped += 1;
            if let Some((_, changed)) = world.followed_tasks().get(&stopped) {
                self.stopped.insert(stopped, *changed);
            }
        }
        Ok(())
    }

    /// Everything in progress ends, and nothing new begins.
    fn come_to_rest(&mut self, world: &mut World) -> Result<(), String> {
        world.settle();
        self.hear(world)?;
        match self.open.is_empty() && !self.is_changing && world.is_idle() {
            true => Ok(()),
            false => Err(format!("calls are not answered: {:?}", self.open)),
        }
    }

    /// After a recovery, the rows show the calls.
    fn judge_rows(&mut self, world: &mut World) -> Result<(), String> {
        let ticks = read(world, "SELECT id, n FROM ticks ORDER BY id")?;
        let sweeps = read(world, "SELECT id, n FROM sweeps ORDER BY id")?;
        if ticks.len() as i64 != ROWS || sweeps.len() as i64 != ROWS || ticks[1][1] != ticks[5][1] {
            return Err(format!("rows are missing or half changed: {ticks:?}, {sweeps:?}"));
        }
        for (place, (name, _, (_, id), _)) in TASKS.iter().enumerate() {
            let rows = if *name == "C" { &sweeps[..] } else { &ticks[*id as usize..=*id as usize] };
            for row in rows {
                let partition = (*name == "C").then(|| world.partition_of(row[0]).0);
                let key = (place, partition);
                let Effect { before, done, unknown } =
                    self.effects.get(&key).copied().unwrap_or_default();
                if !(before + done..=before + done + unknown).contains(&row[1]) {
                    return Err(format!(
                        "{name} at {partition:?} ran {} times, not {done} to {}",
                        row[1] - before,
                        done + unknown
                    ));
                }
            }
            for row in rows {
                let key = (place, (*name == "C").then(|| world.partition_of(row[0]).0));
                self.effects.insert(key, Effect { before: row[1], ..Effect::default() });
            }
        }
        Ok(())
    }
}

/// Which task a call is of.
fn task_of(body: &[u8]) -> Result<usize, String> {
    let invocation = decoded(body);
    let first = match invocation.parameters.get(0) {
        Some(Ok(parameter)) => match parameter {
            lockstep_types::Parameter::Scalar(_, lockstep_types::Datum::Int(id)) => id,
            other => return Err(format!("a task gives {other:?}")),
        },
        _ => 0,
    };
    let called = (invocation.procedure, first);
    TASKS.iter().position(|task| task.2 == called).ok_or(format!("nobody's call: {called:?}"))
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        _ => i64::MIN,
    }
}
