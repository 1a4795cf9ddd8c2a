//! What clients call: the parameters of the five transactions, by the rules of the PyTPCC harness
//! or of the specification.

use super::scale::{Delivery, NuConstants, Rules, Scale, last_name};
use super::schema::Calls;
use crate::distribution::nurand;
use crate::workload::{Answer, Next, NextCall, Session, Verdict};
use lockstep_base::random::SeededRandom;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Decimal, SqlType};

/// The kinds of transactions, by the names and in the order of the PyTPCC harness.
pub const TRANSACTIONS: [&str; 5] =
    ["DELIVERY", "NEW_ORDER", "ORDER_STATUS", "PAYMENT", "STOCK_LEVEL"];
/// Places in [`TRANSACTIONS`].
pub const DELIVERY: usize = 0;
/// See [`DELIVERY`].
pub const NEW_ORDER: usize = 1;
/// See [`DELIVERY`].
pub const ORDER_STATUS: usize = 2;
/// See [`DELIVERY`].
pub const PAYMENT: usize = 3;
/// See [`DELIVERY`].
pub const STOCK_LEVEL: usize = 4;

/// What sessions count, for the checks.
pub const COUNTERS: [&str; 4] =
    ["orders delivered", "orders that may be delivered", "orders", "orders that may be there"];

/// Keying times [5.2.5.7], by kind, in microseconds.
const KEYING_US: [u64; 5] = [2_000_000, 18_000_000, 2_000_000, 3_000_000, 2_000_000];
/// Mean think times [5.2.5.7].
const THINK_US: [u64; 5] = [5_000_000, 12_000_000, 10_000_000, 12_000_000, 5_000_000];
/// A deck of cards, by kind: each terminal plays one after the other, shuffled [5.2.4.2].
const DECK: [usize; 5] = [1, 10, 1, 10, 1];

/// What all sessions of a run share.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How much there is.
    pub scale: Scale,
    /// How they draw.
    pub rules: Rules,
    /// How Delivery is run.
    pub delivery: Delivery,
    /// Whether some items and customers are of other warehouses.
    pub remote: bool,
    /// What they call.
    pub calls: Calls,
    /// Constants of the non-uniform draws.
    pub constants: NuConstants,
}

/// One terminal.
pub struct Terminal {
    plan: Plan,
    random: SeededRandom,
    /// By the specification, the warehouse and the district of the terminal.
    home: (u64, u64),
    deck: Vec<usize>,
    name: String,
    last: Last,
    counts: [u64; 4],
}

/// The last call.
#[derive(Debug, Clone, Copy)]
struct Last {
    kind: usize,
    /// It is meant to take itself back.
    rolls_back: bool,
    /// Of a split Delivery: warehouse, the next district, carrier.
    split: Option<(u64, u64, i64)>,
}

impl Terminal {
    /// A terminal by its number.
    pub fn new(plan: Plan, random: SeededRandom, number: u64) -> Terminal {
        let home = (number / 10 % plan.scale.warehouses + 1, number % 10 + 1);
        let last = Last { kind: NEW_ORDER, rolls_back: false, split: None };
        let (deck, name) = (Vec::new(), String::new());
        Terminal { plan, random, home, deck, name, last, counts: [0; 4] }
    }

    fn kind(&mut self) -> usize {
        let drawn = match self.plan.rules {
            // Of a hundred: 4, 4, 4, 43, 45.
            Rules::Py => match self.random.between(1, 100) {
                1..=4 => STOCK_LEVEL,
                5..=8 => DELIVERY,
                9..=12 => ORDER_STATUS,
                13..=55 => PAYMENT,
                _ => NEW_ORDER,
            },
            Rules::Spec { .. } => self.card(),
        };
        match (drawn, self.plan.delivery) {
            (DELIVERY, Delivery::LeftOut) => ORDER_STATUS,
            (drawn, _) => drawn,
        }
    }

    /// The next card of the deck; a new deck is shuffled when it is empty.
    fn card(&mut self) -> usize {
        if self.deck.is_empty() {
            for (kind, count) in DECK.iter().enumerate() {
                self.deck.extend(std::iter::repeat_n(kind, *count));
            }
            for place in (1..self.deck.len()).rev() {
                let other = self.random.below(place as u64 + 1) as usize;
                self.deck.swap(place, other);
            }
        }
        self.deck.pop().unwrap_or(NEW_ORDER)
    }

    fn warehouse(&mut self) -> u64 {
        match self.plan.rules {
            Rules::Py => self.random.below(self.plan.scale.warehouses) + 1,
            Rules::Spec { .. } => self.home.0,
        }
    }

    fn district(&mut self) -> u64 {
        self.random.below(super::scale::DISTRICTS) + 1
    }

    /// Another warehouse in N of a hundred cases, where there is one.
    fn maybe_other(&mut self, own: u64, percent: u64) -> u64 {
        let warehouses = self.plan.scale.warehouses;
        let drawn = self.random.below(100) < percent;
        if !drawn || warehouses == 1 || !self.plan.remote {
            return own;
        }
        let other = self.random.below(warehouses - 1) + 1;
        other + u64::from(other >= own)
    }

    fn customer(&mut self) -> i64 {
        let (c, most) = (self.plan.constants.customer, self.plan.scale.customers as i64);
        nurand(&mut self.random, 1023, c, 1, most)
    }

    fn draw_name(&mut self) {
        let most = self.plan.scale.customers.min(1000) as i64 - 1;
        let c = self.plan.constants.last_name;
        self.name.clear();
        last_name(nurand(&mut self.random, 255, c, 0, most) as u64, &mut self.name);
    }

    /// Writes a customer: 60 of 100 by last name, the others by number.
    fn write_customer(&mut self, parameters: &mut ParameterWriter) {
        if self.random.below(100) < 60 {
            self.draw_name();
            parameters.scalar(SqlType::Integer, Datum::Null).text(&self.name);
        } else {
            parameters.integer(self.customer() as i32);
            parameters.scalar(SqlType::Varchar, Datum::Null);
        }
    }

    fn new_order(&mut self, parameters: &mut ParameterWriter) -> &'static str {
        let (w_id, d_id) = (self.warehouse(), self.district());
        let customer = self.customer();
        let count = self.random.between(5, 15) as usize;
        let spec = matches!(self.plan.rules, Rules::Spec { .. });
        self.last.rolls_back = self.random.below(100) == 0;
        let [mut items, mut suppliers, mut quantities] = [[Datum::Null; 15]; 3];
        let mut is_local = true;
        for place in 0..count {
            let item = loop {
                let (c, most) = (self.plan.constants.item, self.plan.scale.items as i64);
                let drawn = nurand(&mut self.random, 8191, c, 1, most);
                // The harness orders each item once; the specification does not care.
                if spec || !items[..place].contains(&Datum::Int(drawn)) {
                    break drawn;
                }
            };
            let supplier = self.maybe_other(w_id, 1);
            is_local &= supplier == w_id;
            items[place] = Datum::Int(item);
            suppliers[place] = Datum::Int(supplier as i64);
            quantities[place] = Datum::Int(self.random.between(1, 10));
        }
        if self.last.rolls_back {
            items[count - 1] = Datum::Int(self.plan.scale.items as i64 + 1);
        }
        parameters.integer(w_id as i32).integer(d_id as i32).integer(customer as i32);
        for list in [&items, &suppliers, &quantities] {
            parameters.array(SqlType::Integer, &list[..count]);
        }
        self.plan.calls.new_order(is_local)
    }

    fn payment(&mut self, parameters: &mut ParameterWriter) -> &'static str {
        let (w_id, d_id) = (self.warehouse(), self.district());
        let customer_warehouse = self.maybe_other(w_id, 15);
        let is_local = customer_warehouse == w_id;
        let customer_district = if is_local { d_id } else { self.district() };
        // From 1.00 to 5000.00.
        let units = i128::from(self.random.between(100, 500_000)) * CENT_UNITS;
        parameters.integer(w_id as i32).integer(d_id as i32);
        parameters.scalar(SqlType::Decimal, Datum::Decimal(Decimal::from_raw(units)));
        parameters.integer(customer_warehouse as i32).integer(customer_district as i32);
        self.write_customer(parameters);
        self.plan.calls.payment(is_local)
    }

    fn delivery(&mut self, parameters: &mut ParameterWriter) -> &'static str {
        let split = self.plan.delivery == Delivery::Split;
        let (w_id, d_id, carrier) = match self.last.split {
            Some(next) => next,
            None => (self.warehouse(), 1, self.random.between(1, 10)),
        };
        parameters.integer(w_id as i32);
        if split {
            parameters.integer(d_id as i32);
            self.last.split = Some((w_id, d_id + 1, carrier));
        }
        parameters.integer(carrier as i32);
        self.plan.calls.delivery()
    }

    fn stock_level(&mut self, parameters: &mut ParameterWriter) -> &'static str {
        let district = match self.plan.rules {
            Rules::Py => self.district(),
            Rules::Spec { .. } => self.home.1,
        };
        let warehouse = self.warehouse();
        parameters.integer(warehouse as i32).integer(district as i32);
        parameters.integer(self.random.between(10, 20) as i32);
        "StockLevel"
    }

    fn order_status(&mut self, parameters: &mut ParameterWriter) -> &'static str {
        let (w_id, d_id) = (self.warehouse(), self.district());
        parameters.integer(w_id as i32).integer(d_id as i32);
        self.write_customer(parameters);
        "OrderStatus"
    }

    /// The think time after a transaction and the keying time of the next one [5.2.5].
    fn pause_us(&mut self, ended: usize, next: usize) -> u64 {
        let Rules::Spec { waits_percent } = self.plan.rules else { return 0 };
        let mean = THINK_US[ended] as f64;
        let think = -(1.0 - self.random.fraction()).ln() * mean;
        let pause = think.min(10.0 * mean) as u64 + KEYING_US[next];
        pause * waits_percent / 100
    }
}

/// A hundredth, in the units of DECIMAL.
const CENT_UNITS: i128 = lockstep_types::decimal::ONE / 100;

impl Session for Terminal {
    fn first_pause_us(&mut self) -> u64 {
        self.last.kind = self.kind();
        let Rules::Spec { waits_percent } = self.plan.rules else { return 0 };
        // Terminals do not all begin at once.
        let keying = KEYING_US[self.last.kind];
        self.random.below(keying + THINK_US[self.last.kind]) * waits_percent / 100
    }

    fn next_call(&mut self, parameters: &mut ParameterWriter) -> NextCall {
        let kind = self.last.kind;
        self.last.rolls_back = false;
        let procedure = match kind {
            DELIVERY => self.delivery(parameters),
            NEW_ORDER => self.new_order(parameters),
            ORDER_STATUS => self.order_status(parameters),
            PAYMENT => self.payment(parameters),
            _ => self.stock_level(parameters),
        };
        NextCall { transaction: kind, procedure }
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Next {
        let kind = self.last.kind;
        let good = answer.is_success() && !self.last.rolls_back;
        match kind {
            DELIVERY if good => self.counts[0] += answer.row_count(0).unwrap_or(0) as u64,
            NEW_ORDER if good => self.counts[2] += 1,
            _ => {}
        }
        if good && matches!(self.last.split, Some((_, next, _)) if next <= super::scale::DISTRICTS)
        {
            return Next::go_on();
        }
        self.last.split = None;
        let is_meant = self.last.rolls_back
            && answer.is_abort()
            && answer.status_text.is_some_and(|text| text.contains(super::scale::INVALID_ITEM));
        let verdict = match (good, is_meant) {
            (true, _) => Verdict::Good,
            (false, true) => Verdict::Aborted,
            (false, false) => Verdict::Error,
        };
        self.last.kind = self.kind();
        let pause_us = self.pause_us(kind, self.last.kind);
        Next { pause_us, ..Next::end(verdict) }
    }

    fn lost(&mut self) {
        match self.last.kind {
            DELIVERY => self.counts[1] += super::scale::DISTRICTS,
            NEW_ORDER if !self.last.rolls_back => self.counts[3] += 1,
            _ => {}
        }
        self.last.split = None;
    }

    fn counts(&self) -> &[u64] {
        &self.counts
    }
}
