//! What one read-only transaction finds in all tables of TPC-C, and what must hold of that: the
//! consistency conditions [3.3.2], and each transaction that was answered before once.

use super::{Action, District, End, LEAST_CENTS, Transaction, Wholesale};
use std::collections::{BTreeMap, BTreeSet};

/// The reads, in this order.
pub(super) const READS: [&str; 8] = [
    "SELECT w_id, w_ytd FROM warehouse ORDER BY w_id",
    "SELECT d_w_id, d_id, d_ytd, d_next_o_id FROM district ORDER BY d_w_id, d_id",
    "SELECT o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt FROM orders",
    "SELECT no_w_id, no_d_id, no_o_id FROM new_order",
    "SELECT ol_w_id, ol_d_id, ol_o_id, ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, \
     ol_delivery_d FROM order_line",
    "SELECT h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_amount FROM history",
    "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt \
     FROM customer",
    "SELECT s_w_id, s_i_id, s_ytd, s_order_cnt, s_remote_cnt FROM stock",
];

/// How the judge reads NULL.
const NULL: i64 = i64::MIN;

/// An order.
#[derive(Debug, Default)]
struct Order {
    customer: i64,
    carrier: Option<i64>,
    /// As it says itself.
    lines: i64,
    /// Lines that there are, those that are delivered, and their amounts in cents.
    found: i64,
    delivered: i64,
    cents: i64,
}

/// What a read of all tables has found, money in cents.
pub(super) struct Snapshot<'t> {
    tables: &'t [Vec<Vec<i64>>],
    /// By district and number.
    orders: BTreeMap<(District, i64), Order>,
    /// By district, orders that wait for delivery.
    waiting: BTreeMap<District, BTreeSet<i64>>,
}

/// Both sides of a condition are equal.
fn equal(condition: u32, place: &str, left: i64, right: i64) -> Result<(), String> {
    match left == right {
        true => Ok(()),
        false => Err(format!("condition {condition}, {place}: {left} is not {right}")),
    }
}

impl Snapshot<'_> {
    pub(super) fn new(tables: &[Vec<Vec<i64>>]) -> Result<Snapshot<'_>, String> {
        if tables.len() != READS.len() {
            return Err(format!("{} tables were read, not {}", tables.len(), READS.len()));
        }
        let mut orders: BTreeMap<(District, i64), Order> = BTreeMap::new();
        for row in &tables[2] {
            let carrier = Some(row[4]).filter(|carrier| *carrier != NULL);
            let order = Order { customer: row[3], carrier, lines: row[5], ..Order::default() };
            orders.insert(((row[0], row[1]), row[2]), order);
        }
        for row in &tables[4] {
            let number = ((row[0], row[1]), row[2]);
            let order = orders.get_mut(&number).ok_or(format!("lines without order {number:?}"))?;
            order.found += 1;
            order.delivered += i64::from(row[7] != NULL);
            order.cents += row[6];
        }
        let mut waiting: BTreeMap<District, BTreeSet<i64>> = BTreeMap::new();
        for row in &tables[3] {
            waiting.entry((row[0], row[1])).or_default().insert(row[2]);
        }
        Ok(Snapshot { tables, orders, waiting })
    }

    /// What the transactions of a run have left, as a read has found it that was begun then.
    pub(super) fn judge(&self, run: &Wholesale, begun: u64) -> Result<(), String> {
        self.judge_years(run)?;
        self.judge_districts()?;
        self.judge_orders()?;
        self.judge_customers()?;
        self.judge_stock()?;
        self.find_orders(run, begun)?;
        self.find_payments(run, begun)?;
        self.find_deliveries(run, begun)
    }

    /// Conditions 1, 8 and 9.
    fn judge_years(&self, run: &Wholesale) -> Result<(), String> {
        let mut paid: BTreeMap<District, i64> = BTreeMap::new();
        for row in &self.tables[5] {
            *paid.entry((row[0], row[1])).or_default() += row[5];
        }
        equal(1, "warehouses", self.tables[0].len() as i64, run.warehouses)?;
        for row in &self.tables[0] {
            let (place, mut sum, mut in_history) = (format!("warehouse {}", row[0]), 0, 0);
            for district in self.tables[1].iter().filter(|it| it[0] == row[0]) {
                let of = paid.get(&(district[0], district[1])).copied().unwrap_or(0);
                equal(9, &format!("{place}, {}", district[1]), district[2], of)?;
                sum += district[2];
                in_history += of;
            }
            equal(1, &place, row[1], sum)?;
            equal(8, &place, row[1], in_history)?;
        }
        Ok(())
    }

    /// Conditions 2, 3 and 4.
    fn judge_districts(&self) -> Result<(), String> {
        for row in &self.tables[1] {
            let (at, next) = ((row[0], row[1]), row[3]);
            let place = format!("district {at:?}");
            let orders = || self.orders.range((at, i64::MIN)..=(at, i64::MAX));
            let last = orders().next_back().map_or(0, |((_, number), _)| *number);
            equal(2, &place, next - 1, last)?;
            // None is missing: no order is deleted.
            equal(2, &place, last, orders().count() as i64)?;
            let lines: i64 = orders().map(|(_, order)| order.lines).sum();
            let found: i64 = orders().map(|(_, order)| order.found).sum();
            equal(4, &place, lines, found)?;
            let Some(waiting) = self.waiting.get(&at) else { continue };
            if let (Some(first), Some(last)) = (waiting.first(), waiting.last()) {
                equal(2, &place, next - 1, *last)?;
                equal(3, &place, last - first + 1, waiting.len() as i64)?;
            }
        }
        Ok(())
    }

    /// Conditions 5, 6 and 7.
    fn judge_orders(&self) -> Result<(), String> {
        for ((at, number), order) in &self.orders {
            let place = format!("order {number} of {at:?}");
            let waits = self.waiting.get(at).is_some_and(|waiting| waiting.contains(number));
            equal(5, &place, i64::from(waits), i64::from(order.carrier.is_none()))?;
            equal(6, &place, order.lines, order.found)?;
            equal(7, &place, order.delivered, if waits { 0 } else { order.found })?;
        }
        Ok(())
    }

    /// Conditions 10 and 12, and the counts of payments and deliveries.
    fn judge_customers(&self) -> Result<(), String> {
        let mut paid: BTreeMap<(District, i64), (i64, i64)> = BTreeMap::new();
        for row in &self.tables[5] {
            let sums = paid.entry(((row[2], row[3]), row[4])).or_default();
            *sums = (sums.0 + row[5], sums.1 + 1);
        }
        let mut got: BTreeMap<(District, i64), (i64, i64)> = BTreeMap::new();
        for ((at, _), order) in self.orders.iter().filter(|(_, it)| it.carrier.is_some()) {
            let sums = got.entry((*at, order.customer)).or_default();
            *sums = (sums.0 + order.cents, sums.1 + 1);
        }
        for row in &self.tables[6] {
            let customer = ((row[0], row[1]), row[2]);
            let place = format!("customer {customer:?}");
            let [(paid, payments), (got, deliveries)] =
                [&paid, &got].map(|sums| sums.get(&customer).copied().unwrap_or_default());
            equal(10, &place, row[3], got - paid)?;
            equal(12, &place, row[3] + row[4], got)?;
            equal(12, &format!("payments of {place}"), row[5], payments)?;
            equal(12, &format!("deliveries to {place}"), row[6], deliveries)?;
        }
        Ok(())
    }

    /// What was ordered has left the stock of its warehouse, also of another one.
    fn judge_stock(&self) -> Result<(), String> {
        let mut ordered: BTreeMap<(i64, i64), [i64; 3]> = BTreeMap::new();
        for row in &self.tables[4] {
            let [quantity, count, remote] = ordered.entry((row[3], row[4])).or_default();
            *quantity += row[5];
            *count += 1;
            *remote += i64::from(row[3] != row[0]);
        }
        for row in &self.tables[7] {
            let of = ordered.get(&(row[0], row[1])).copied().unwrap_or_default();
            if row[2..5] != of {
                return Err(format!("stock {row:?} has left by lines with {of:?}"));
            }
        }
        Ok(())
    }

    /// Each order is there that was answered, and no more than are in progress or unknown.
    fn find_orders(&self, run: &Wholesale, begun: u64) -> Result<(), String> {
        let mut claimed: BTreeMap<(District, i64), usize> = BTreeMap::new();
        let mut maybe: BTreeMap<District, i64> = BTreeMap::new();
        for (call, transaction) in &run.transactions {
            let Action::NewOrder { at, customer, lines, rolls_back, .. } = transaction.action
            else {
                continue;
            };
            let Some(number) = transaction.order else {
                let is_open = transaction.end != Some(End::Failed) && !rolls_back;
                *maybe.entry(at).or_default() += i64::from(is_open);
                continue;
            };
            if let Some(other) = claimed.insert((at, number), *call) {
                return Err(format!("calls {other} and {call} have made order {number} of {at:?}"));
            }
            let found = self.orders.get(&(at, number));
            let is_it = |it: &Order| (it.customer, it.lines) == (customer, lines);
            let holds = match found {
                Some(order) => is_it(order),
                None => !was_before(transaction, begun),
            };
            if !holds {
                return Err(format!("order {number} of call {call} is {found:?}: {transaction:?}"));
            }
        }
        let mut others: BTreeMap<District, i64> = BTreeMap::new();
        for (at, _) in self.orders.keys().filter(|number| !claimed.contains_key(number)) {
            *others.entry(*at).or_default() += 1;
        }
        for (at, count) in others {
            let most = maybe.get(&at).copied().unwrap_or(0);
            if count > most {
                return Err(format!("{count} orders of {at:?} are nobody's, {most} may be"));
            }
        }
        Ok(())
    }

    /// Each payment that was answered is there once, with one amount for each call.
    fn find_payments(&self, run: &Wholesale, begun: u64) -> Result<(), String> {
        let mut found: BTreeMap<usize, Vec<&[i64]>> = BTreeMap::new();
        for row in &self.tables[5] {
            found.entry((row[5] - LEAST_CENTS) as usize).or_default().push(row);
        }
        for (call, transaction) in &run.transactions {
            let Action::Payment { at, of, customer } = transaction.action else { continue };
            let rows = found.remove(call).unwrap_or_default();
            let wanted = [at.0, at.1, of.0, of.1, customer];
            let is_there = rows.len() == 1 && rows[0][..5] == wanted;
            let may_lack = !was_before(transaction, begun);
            let may_be = transaction.end != Some(End::Failed);
            if !(is_there && may_be || rows.is_empty() && may_lack) {
                return Err(format!("payment {call} is {rows:?}: {transaction:?}"));
            }
        }
        match found.is_empty() {
            true => Ok(()),
            false => Err(format!("payments that nobody made: {found:?}")),
        }
    }

    /// Each delivery that was answered is there, and nobody else has delivered.
    fn find_deliveries(&self, run: &Wholesale, begun: u64) -> Result<(), String> {
        for ((at, number), order) in &self.orders {
            let Some(carrier) = order.carrier else { continue };
            let by = run.transactions.get(&(carrier as usize));
            let holds = by.is_some_and(|by| {
                let is_it =
                    matches!(by.action, Action::Delivery { warehouse } if warehouse == at.0);
                let is_told = by.end != Some(End::Done) || by.delivered.contains(&(at.1, *number));
                is_it && is_told && by.end != Some(End::Failed)
            });
            if !holds {
                return Err(format!("order {number} of {at:?} was delivered by {by:?}"));
            }
        }
        for (call, transaction) in &run.transactions {
            let Action::Delivery { warehouse } = transaction.action else { continue };
            if !was_before(transaction, begun) {
                continue;
            }
            for (district, number) in &transaction.delivered {
                let order = self.orders.get(&((warehouse, *district), *number));
                if order.and_then(|order| order.carrier) != Some(*call as i64) {
                    return Err(format!("delivery {call} left {order:?}: {transaction:?}"));
                }
            }
        }
        Ok(())
    }
}

/// Whether a transaction succeeded and was answered before a read was begun.
fn was_before(transaction: &Transaction, begun: u64) -> bool {
    let is_done = transaction.end == Some(End::Done);
    is_done && transaction.answered.is_some_and(|answered| answered < begun)
}
