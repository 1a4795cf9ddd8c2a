//! Connections that send several calls of the same two partitions without waiting: they run in
//! the order in which they were sent, whatever becomes of the schema meanwhile.

use super::{Call, End, Run, sql};
use crate::plans::{Request, Sql, invocation_of};
use crate::world::World;
use lockstep_types::parameter::ParameterWriter;

/// Connections that take turns.
const CONNECTIONS: i64 = 3;
/// Each has two rows.
pub(super) const ROWS: i64 = 2 * CONNECTIONS;

const TURN: &str = "UPDATE turns SET overtaken = overtaken + CASE WHEN last >= ? THEN 1 ELSE 0 \
     END, done = done + 1, last = ? WHERE id = ?";

/// What connections have sent since the last recovery.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// By connection, the numbers of their calls, in order.
    sent: [Vec<usize>; CONNECTIONS as usize],
    /// Of each, how many turns were had before.
    before: [i64; CONNECTIONS as usize],
    /// Some of them may have ended without their client being told.
    pub(super) may_fail: bool,
}

impl Run {
    /// One more turn of a connection: its number is that of the call.
    pub(super) fn take_turn(&mut self, world: &mut World) -> Call {
        let number = self.calls.len();
        let connection = self.random.below(CONNECTIONS as u64) as i64;
        self.turns.sent[connection as usize].push(number);
        let (n, rows) = (number as i64, [2 * connection, 2 * connection + 1]);
        let apart = world.partition_of(rows[0]) != world.partition_of(rows[1]);
        // Statements that one partition can answer do not go by the coordinator. Those that do are
        // planned by the control thread: nothing keeps them in order with calls of procedures.
        let request = match apart && connection == 0 {
            true => {
                let turn = |row: i64| -> (Sql, Vec<i64>) { (sql(TURN), vec![n, n, row]) };
                Request::Statements(rows.map(turn).to_vec())
            }
            false => {
                let mut writer = ParameterWriter::default();
                for value in rows.iter().flat_map(|row| [n, n, *row]) {
                    writer.bigint(value);
                }
                Request::Procedure(invocation_of("Turn", writer.bytes()))
            }
        };
        let thread = connection as usize % world.partition_count() as usize;
        world.request_in_order(thread, number, request);
        Call::new(Vec::new())
    }

    /// After a recovery: nobody was overtaken, and of those that nobody heard of the first are
    /// there.
    pub(super) fn judge_turns(&mut self, world: &mut World) -> Result<(), String> {
        let text = "SELECT id, last, done, overtaken FROM turns ORDER BY id";
        let rows = super::judge::read(world, text)?;
        for (connection, pair) in rows.chunks(2).enumerate() {
            let [one, other] = pair else { return Err(format!("rows are missing: {rows:?}")) };
            if one[1..] != other[1..] || one[3] != 0 {
                return Err(format!("connection {connection} was overtaken: {one:?}, {other:?}"));
            }
            let (last, done) = (one[1], one[2]);
            let sent = std::mem::take(&mut self.turns.sent[connection]);
            let (there, cut_off): (Vec<usize>, Vec<usize>) =
                sent.iter().partition(|number| **number as i64 <= last);
            let ends = |numbers: &[usize], end: End| {
                numbers.iter().filter(|number| self.calls[**number].end == end).count() as i64
            };
            if ends(&cut_off, End::Known(true)) > 0 {
                return Err(format!("connection {connection} ends with {last}, not {sent:?}"));
            }
            let least = self.turns.before[connection] + ends(&there, End::Known(true));
            let most = least + ends(&there, End::Open);
            let is_beginning =
                done == most || (self.turns.may_fail && least <= done && done < most);
            if !is_beginning {
                return Err(format!(
                    "connection {connection} had {done} turns up to {last}, not {least} to {most}"
                ));
            }
            self.report.turns += (done - self.turns.before[connection]) as u64;
            self.turns.before[connection] = done;
        }
        Ok(())
    }
}
