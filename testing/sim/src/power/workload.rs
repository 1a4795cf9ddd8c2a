//! What clients of the power cuts ask for.

use super::{Call, End, RATES, Run, sql};
use crate::classes::STAMP;
use crate::plans::{Request, Sql, invocation_of};
use crate::world::{CallNumber, World};
use lockstep_base::random::split_mix;
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{PartitionId, SqlType};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The side of notes with a drawn amount.
pub(super) const DRAWN: i64 = 3;
/// Rows of the replicated table that calls load have their numbers after this.
pub(super) const LOADED: i64 = 1_000;

const TAGS: u64 = 24;
const CHANGE_RATE: &str = "UPDATE rates SET value = value + ? WHERE id = ?";
const EXTRA_ROW: &str = "INSERT INTO extra (id, account) VALUES (?, ?)";
const CHANGE: &str = "UPDATE accounts SET money = money + ? WHERE account = ?";
const NOTE: &str = "INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?)";
const TAKEN: &str = "INSERT INTO accounts VALUES (?, 0)";
const TAG: &str = "INSERT INTO tags VALUES (?, ?)";
const TAG_ANEW: &str = "UPDATE tags SET tag = ? WHERE id = ?";
const UNTAG: &str = "DELETE FROM tags WHERE id = ?";
const COUNT: &str = "SELECT COUNT(*) FROM moves";
const COUNT_HERE: &str = "SELECT COUNT(*) FROM moves WHERE account = ?";

impl Call {
    pub(super) fn new(notes: Vec<super::Note>) -> Call {
        let (must_fail, has_extra, end) = (false, false, End::Open);
        let (counts, drawn, rate, answered) = (None, None, None, None);
        Call { notes, must_fail, counts, drawn, rate, has_extra, end, answered }
    }

    fn failing() -> Call {
        Call { must_fail: true, ..Call::new(Vec::new()) }
    }
}

impl Run {
    /// Messages arrive twice, and builds of global indexes find that the host takes no more data.
    pub(super) fn disturb(&mut self, world: &mut World) {
        world.repeat_one_in = [0, 3, 20][self.random.below(3) as usize];
        world.refuse_intake([0, 0, 0, 6][self.random.below(4) as usize]);
    }

    pub(super) fn begin(&mut self, world: &mut World) {
        let rival = self.rival(world);
        let call = match rival {
            Some(call) => call,
            None => self.draw_call(world),
        };
        self.calls.push(call);
        self.outstanding += 1;
    }

    fn draw_call(&mut self, world: &mut World) -> Call {
        // What a schema change overtakes is had in order, too.
        if self.schema.is_changing() && self.random.chance(1, 3) {
            return self.take_turn(world);
        }
        match self.random.below(35) {
            0..=2 => self.move_money(world),
            3 | 4 => self.move_slowly(world),
            5 => self.deposit(world),
            6 => self.break_key(world),
            kind @ 7..=10 => self.hold(world, kind),
            11 => self.tag(world),
            12 => self.tag_anew(world),
            13 => self.append(world),
            14 => {
                self.statements(world, &[(COUNT, &[])]);
                Call { counts: Some(None), ..Call::new(Vec::new()) }
            }
            15 => self.stopped(world),
            16 | 17 => self.rate(world),
            18 | 19 => self.load(world),
            20 | 21 => self.draw(world),
            23..=26 => self.take_turn(world),
            27 | 28 => self.stamp(world),
            29 | 30 => self.insert_exchanged(world),
            31..=34 => self.insert_aging(world),
            22 if self.schema.has_extra() => self.insert_extra(world),
            _ => {
                let account = self.account();
                self.statements(world, &[(COUNT_HERE, &[account])]);
                Call { counts: Some(Some(account)), ..Call::new(Vec::new()) }
            }
        }
    }

    pub(super) fn account(&mut self) -> i64 {
        self.random.below(self.accounts as u64) as i64
    }

    /// The number of the call that begins.
    fn next_number(&self) -> i64 {
        self.calls.len() as i64
    }

    fn move_money(&mut self, world: &mut World) -> Call {
        let (n, from, to) = (self.next_number(), self.account(), self.account());
        let x = self.random.between(1, 50);
        let (taken, given) = ([from, n, 0, -x], [to, n, 1, x]);
        match self.random.chance(1, 2) {
            true => self.statements(
                world,
                &[(CHANGE, &[-x, from]), (NOTE, &taken), (CHANGE, &[x, to]), (NOTE, &given)],
            ),
            false => {
                let parameters: [&[i64]; 4] = [&[-x, from], &taken, &[x, to], &given];
                self.procedure(world, "Move", &parameters);
            }
        }
        Call::new(vec![(from, 0, -x), (to, 1, x)])
    }

    fn move_slowly(&mut self, world: &mut World) -> Call {
        let (n, from, to) = (self.next_number(), self.account(), self.account());
        let x = self.random.between(1, 50);
        let must_fail = self.random.chance(1, 4);
        self.procedure(world, "SlowMove", &[&[from, to, x, n, i64::from(must_fail)]]);
        Call { must_fail, ..Call::new(vec![(from, 0, -x), (to, 1, x)]) }
    }

    fn deposit(&mut self, world: &mut World) -> Call {
        let (n, to) = (self.next_number(), self.account());
        let x = self.random.between(1, 50);
        let given = [to, n, 1, x];
        match self.random.chance(1, 2) {
            true => self.statements(world, &[(CHANGE, &[x, to]), (NOTE, &given)]),
            false => self.procedure(world, "Deposit", &[&given, &[x, to]]),
        }
        Call::new(vec![(to, 1, x)])
    }

    /// The key is taken: what was done before must go back.
    fn break_key(&mut self, world: &mut World) -> Call {
        let (n, from, to) = (self.next_number(), self.account(), self.account());
        let (change, note) = ([-1, from], [from, n, 0, -1]);
        match self.random.chance(1, 2) {
            true => self.statements(world, &[(CHANGE, &change), (NOTE, &note), (TAKEN, &[to])]),
            false => self.procedure(world, "Break", &[&change, &note, &[to]]),
        }
        Call::failing()
    }

    /// Holds a pair of accounts, or releases it; a release may fail, and what holds after it
    /// says yes first and no then.
    fn hold(&mut self, world: &mut World, kind: u64) -> Call {
        let account = self.account();
        self.hold_pair(world, kind, account - account % 2)
    }

    pub(super) fn hold_pair(&mut self, world: &mut World, kind: u64, one: i64) -> Call {
        let (n, other) = (self.next_number(), one + 1);
        let (first, second) = ([one, n, 0, 0], [other, n, 1, 0]);
        match kind {
            7 | 8 => {
                let parameters: [&[i64]; 4] = [&[one, n], &first, &[other, n], &second];
                self.procedure(world, "Hold", &parameters);
            }
            9 => {
                let parameters: [&[i64]; 4] = [&[one], &first, &[other], &second];
                self.procedure(world, "Release", &parameters);
            }
            _ => {
                let taken = self.account();
                self.procedure(world, "BreakRelease", &[&[one], &[other], &[taken]]);
                return Call::failing();
            }
        }
        Call::new(vec![(one, 0, 0), (other, 1, 0)])
    }

    /// Inserts a row that a global index finds; its key may be taken.
    fn tag(&mut self, world: &mut World) -> Call {
        let (n, from) = (self.next_number(), self.account());
        let tag = self.random.below(TAGS) as i64;
        let (change, note) = ([-1, from], [from, n, 0, -1]);
        self.statements(world, &[(CHANGE, &change), (TAG, &[n, tag]), (NOTE, &note)]);
        Call::new(vec![(from, 0, -1)])
    }

    /// Gives such a row another key, or deletes it.
    fn tag_anew(&mut self, world: &mut World) -> Call {
        let tag = self.random.below(TAGS) as i64;
        let id = self.random.below(self.calls.len() as u64 + 1) as i64;
        match self.random.chance(1, 2) {
            true => self.statements(world, &[(TAG_ANEW, &[tag, id])]),
            false => self.statements(world, &[(UNTAG, &[id])]),
        }
        Call::new(Vec::new())
    }

    fn append(&mut self, world: &mut World) -> Call {
        let n = self.next_number();
        let accounts = [self.account(), self.account(), self.account()];
        let notes = [0, 1, 2].map(|side| [accounts[side], n, side as i64, 0]);
        self.statements(world, &notes.each_ref().map(|note| (NOTE, &note[..])));
        Call::new(notes.iter().map(|note| (note[0], note[2], 0)).collect())
    }

    /// Changes what every partition has.
    fn rate(&mut self, world: &mut World) -> Call {
        let (n, account) = (self.next_number(), self.account());
        let (id, change) = (self.random.below(RATES as u64) as i64, self.random.between(-9, 9));
        let (rate, note) = ([change, id], [account, n, 0, 0]);
        match self.random.below(5) {
            0 | 1 => self.statements(world, &[(CHANGE_RATE, &rate), (NOTE, &note)]),
            2 | 3 => self.procedure(world, "Rate", &[&rate, &note]),
            _ => {
                self.procedure(world, "BreakRate", &[&rate, &[account]]);
                return Call::failing();
            }
        }
        Call { rate: Some((id, change)), ..Call::new(vec![(account, 0, 0)]) }
    }

    /// Rows in bulk: notes of one account or of several, rows that a global index finds, or rows
    /// of a replicated table.
    fn load(&mut self, world: &mut World) -> Call {
        let n = self.next_number();
        let count = 1 + self.random.below(3) as i64;
        let (table, rows, notes) = match self.random.below(5) {
            0 => ("RATES", vec![vec![LOADED + n, n]], vec![(-1, 0, n)]),
            1 => {
                let tags = (0..count).map(|_| self.random.below(TAGS) as i64);
                let rows = tags.zip(0..).map(|(tag, more)| vec![n + more * 100_000, tag]);
                ("TAGS", rows.collect(), Vec::new())
            }
            several => {
                let one = self.account();
                let mut accounts = Vec::new();
                for _ in 0..count {
                    accounts.push(if several == 2 { self.account() } else { one });
                }
                let notes = accounts.into_iter().zip(0..).map(|(account, side)| (account, side, 0));
                let notes: Vec<super::Note> = notes.collect();
                let row = |note: &super::Note| vec![note.0, n, note.1, note.2];
                ("MOVES", notes.iter().map(row).collect(), notes)
            }
        };
        world.request(self.calls.len(), Request::Load(table, rows));
        Call::new(notes)
    }

    /// The call draws an amount, which nobody knows before.
    fn draw(&mut self, world: &mut World) -> Call {
        let (n, account) = (self.next_number(), self.account());
        self.procedure(world, "Draw", &[&[account, n]]);
        Call { drawn: Some((account, None)), ..Call::new(Vec::new()) }
    }

    /// A deposit that the host stops now and then, which it would not do if it ran again.
    fn stopped(&mut self, world: &mut World) -> Call {
        let (n, account) = (self.next_number(), self.account());
        let x = self.random.between(1, 50);
        self.procedure(world, "Stopped", &[&[account, n, x]]);
        Call::new(vec![(account, 1, x)])
    }

    /// The call leaves the number of the version that its procedure's class has.
    fn stamp(&mut self, world: &mut World) -> Call {
        let (n, account) = (self.next_number(), self.account());
        self.procedure(world, STAMP, &[&[account, n]]);
        Call { drawn: Some((account, None)), ..Call::new(Vec::new()) }
    }

    fn insert_extra(&mut self, world: &mut World) -> Call {
        let (n, account) = (self.next_number(), self.account());
        self.statements(world, &[(EXTRA_ROW, &[n, account]), (NOTE, &[account, n, 0, 0])]);
        self.schema.add_extra(n as usize);
        Call { has_extra: true, ..Call::new(vec![(account, 0, 0)]) }
    }

    pub(super) fn statements(&mut self, world: &mut World, statements: &[(&str, &[i64])]) {
        let number: CallNumber = self.calls.len();
        let texts: Vec<Sql> = statements.iter().map(|(text, _)| sql(text)).collect();
        let bound: Vec<(&Sql, &[i64])> =
            texts.iter().zip(statements).map(|(text, (_, given))| (text, *given)).collect();
        world.call(number, &bound);
    }

    fn procedure(&mut self, world: &mut World, name: &'static str, parameters: &[&[i64]]) {
        let number: CallNumber = self.calls.len();
        let mut writer = ParameterWriter::default();
        parameters.concat().iter().for_each(|value| {
            writer.bigint(*value);
        });
        world.request(number, Request::Procedure(invocation_of(name, writer.bytes())));
    }
}

/// `(from, to, amount, number, aborts)`: looks at both accounts, then takes, then gives, each in a
/// round of its own, and aborts at the end if it is to.
struct SlowMove;

/// The procedure of several rounds, the one that never does the same twice, and the one that a host
/// stops while it serves.
pub(crate) fn procedures(seed: u64, serving: &Arc<AtomicBool>) -> [Arc<dyn NativeProcedure>; 3] {
    let (drawn, is_serving) = (AtomicU64::new(seed), Arc::clone(serving));
    let stopped = Stopped { drawn: AtomicU64::new(seed ^ 0x5709), is_serving };
    [Arc::new(SlowMove), Arc::new(Draw { drawn }), Arc::new(stopped)]
}

impl NativeProcedure for SlowMove {
    fn name(&self) -> &str {
        "SlowMove"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const NUMBER: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
        const { &[NUMBER, NUMBER, NUMBER, NUMBER, NUMBER] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            ("look", "SELECT money FROM accounts WHERE account = ?;"),
            ("change", "UPDATE accounts SET money = money + ? WHERE account = ?;"),
            ("note", "INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);"),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        use lockstep_types::Datum::Int;
        let number = |place| match context.parameter(place) {
            Int(number) => number,
            _ => 0,
        };
        let [from, to, amount, call, aborts] = [0, 1, 2, 3, 4].map(number);
        context.queue(0, &[Int(from)])?;
        context.queue(0, &[Int(to)])?;
        context.execute()?;
        for (account, side, change) in [(from, 0, -amount), (to, 1, amount)] {
            context.queue(1, &[Int(change), Int(account)])?;
            context.queue(2, &[Int(account), Int(call), Int(side), Int(change)])?;
            context.execute()?;
        }
        match aborts {
            0 => Ok(()),
            _ => Err(context.abort("the move ends here")),
        }
    }
}

/// `(account, number)`: gives the account an amount that is drawn, and tells it. What is drawn is
/// no part of the data, so that the call does something else when it runs again.
struct Draw {
    drawn: AtomicU64,
}

impl NativeProcedure for Draw {
    fn name(&self) -> &str {
        "Draw"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const NUMBER: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
        const { &[NUMBER, NUMBER] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            ("change", "UPDATE accounts SET money = money + ? WHERE account = ?;"),
            ("note", "INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);"),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        use lockstep_types::Datum::Int;
        let (account, number) = (context.parameter(0), context.parameter(1));
        let mut state = self.drawn.fetch_add(1, Ordering::Relaxed);
        // Over several partitions it runs again for every round, and its statements are logged.
        let amount = match context.partition() {
            PartitionId::MULTI => context.random().below(100) as i64,
            _ => (split_mix(&mut state) % 100) as i64,
        };
        context.queue(0, &[Int(amount), account])?;
        context.queue(1, &[account, number, Int(DRAWN), Int(amount)])?;
        context.execute()?;
        context.return_scalar(amount);
        Ok(())
    }
}

/// `(account, number, amount)`: a deposit that fails now and then after it has changed its rows, as
/// one does whose time is over. Where it is replayed it never fails.
struct Stopped {
    drawn: AtomicU64,
    is_serving: Arc<AtomicBool>,
}

impl NativeProcedure for Stopped {
    fn name(&self) -> &str {
        "Stopped"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const NUMBER: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
        const { &[NUMBER, NUMBER, NUMBER] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            ("change", "UPDATE accounts SET money = money + ? WHERE account = ?;"),
            ("note", "INSERT INTO moves (account, number, side, amount) VALUES (?, ?, ?, ?);"),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        use lockstep_types::Datum::Int;
        let [account, number, amount] = [0, 1, 2].map(|place| context.parameter(place));
        context.queue(0, &[amount, account])?;
        context.queue(1, &[account, number, Int(1), amount])?;
        context.execute()?;
        let mut state = self.drawn.fetch_add(1, Ordering::Relaxed);
        let is_stopped = split_mix(&mut state).is_multiple_of(3);
        match is_stopped && self.is_serving.load(Ordering::Relaxed) {
            true => Err(context.abort("its time is over")),
            false => Ok(()),
        }
    }
}
