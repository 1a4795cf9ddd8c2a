//! Calls of one connection: how they stay in order on their way to the coordinator, and where a
//! schema change overtakes them.

use super::control::ControlCall;
use super::{CallNumber, Message, World};
use crate::plans::Request;
use lockstep_host::several::CoordinatorCall;
use lockstep_site::MultiCall;

impl World {
    /// Sends a request by a connection whose calls go one after the other: each on the way that
    /// the connection's thread has to whom it goes.
    pub(crate) fn request_in_order(&mut self, thread: usize, call: CallNumber, request: Request) {
        self.connections.insert(call, thread);
        self.take_request(thread, call, request);
    }

    /// A schema change overtook a call that waited for the coordinator, and is in force: the
    /// coordinator goes on when it has been planned again. What the control thread plans goes to
    /// that.
    pub(super) fn plan_at_coordinator(
        &mut self,
        call: CallNumber,
    ) -> Option<CoordinatorCall<CallNumber, u64>> {
        if self.expiry_overtaken(call) {
            return None;
        }
        self.planned_again += 1;
        let request = self.requests.get(&call).cloned().expect("it was requested");
        if self.is_planned_by_control(0, &request) {
            self.control_call(ControlCall::Plan(call));
            return None;
        }
        match self.plan(0, call, &request) {
            Message::Multi(multi) => Some(CoordinatorCall::Multi(Box::new(multi))),
            Message::OneRound(call, one_round) => Some(CoordinatorCall::OneRound(call, one_round)),
            other => {
                self.in_flight.push(other);
                None
            }
        }
    }

    /// The message that arrives in place of a drawn one: the first on its way, where messages stay
    /// in order. Those are the calls of one connection to the coordinator or to a partition, and
    /// the messages between control thread and coordinator.
    pub(super) fn first_of_its_way(&self, place: usize) -> usize {
        let number = |message: &Message| match (message, &self.in_flight[place]) {
            (Message::Ordered(number, _), Message::Ordered(..))
            | (Message::ToControl(number, _), Message::ToControl(..)) => Some(*number),
            _ => None,
        };
        let numbered = self.in_flight.iter().map(number).zip(0..);
        let first = numbered.filter_map(|(number, at)| Some((number?, at))).min();
        first.map_or_else(|| self.first_of_its_connection(place), |(_, at)| at)
    }

    fn first_of_its_connection(&self, place: usize) -> usize {
        let of = |message: &Message| {
            let call = match message {
                Message::Multi(MultiCall { origin, .. }) => *origin,
                Message::OneRound(call, _) => *call,
                Message::Call(_, call) => call.call,
                _ => return None,
            };
            let way = (*self.connections.get(&call)?, message.partition());
            Some((way, call))
        };
        let Some((way, _)) = of(&self.in_flight[place]) else { return place };
        let all = self.in_flight.iter().map(of).zip(0..);
        let same = all.filter_map(|(found, at)| found.filter(|one| one.0 == way).zip(Some(at)));
        same.min_by_key(|((_, call), _)| *call).map_or(place, |(_, at)| at)
    }
}
