//! TPC-C while hosts are lost: the tables and native procedures of the benchmark, scaled down, with
//! orders and payments over several warehouses. Reads of everything, during the run and at rest,
//! must find the consistency conditions of the specification, and each answered transaction once;
//! see [`snapshot`].

mod snapshot;

use super::judge::{End, Judge, Kind, read_tables};
use super::{Cluster, FORM_US, READS_AT_REST, Report, TICK_US};
use crate::plans::{Request, Sql, invocation_of};
use lockstep_base::random::SeededRandom;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Decimal, SqlType};
use lockstep_workloads::Workload;
use lockstep_workloads::tpcc::scale::{Delivery, INVALID_ITEM, Partitioning, Rules, Scale};
use lockstep_workloads::tpcc::{Tpcc, TpccOptions};
use std::collections::BTreeMap;

/// Scaled down: districts of a warehouse, customers of a district, and items.
const DISTRICTS: i64 = 2;
const CUSTOMERS: i64 = 3;
const ITEMS: i64 = 12;
/// The most lines of an order.
const LINES_MAX: i64 = 4;
/// A hundredth, in the units of DECIMAL.
const CENT_UNITS: i128 = lockstep_types::decimal::ONE / 100;
/// The amount of a payment is this and the number of its call, in cents.
const LEAST_CENTS: i64 = 100;

/// A warehouse and one of its districts.
type District = (i64, i64);

/// What a client asks for.
#[derive(Debug, Clone)]
enum Action {
    /// Of a customer of a district, with this number of lines; it is to be rolled back, or not.
    NewOrder {
        at: District,
        customer: i64,
        lines: i64,
        rolls_back: bool,
        is_remote: bool,
    },
    /// At a district, of a customer of another district or the same.
    Payment {
        at: District,
        of: District,
        customer: i64,
    },
    Delivery {
        warehouse: i64,
    },
    /// Of a customer who has that order or a later one.
    OrderStatus {
        least: i64,
    },
    StockLevel,
    /// A read of all tables.
    Read,
}

/// A call, with when it was sent and answered, in events of the run.
#[derive(Debug)]
struct Transaction {
    action: Action,
    begun: u64,
    answered: Option<u64>,
    end: Option<End>,
    /// Of a district, the greatest order that was answered before this one was begun.
    before: i64,
    /// The order that was made.
    order: Option<i64>,
    /// By district, the orders that were delivered.
    delivered: Vec<(i64, i64)>,
}

/// The transactions of a run.
#[derive(Debug)]
pub(super) struct Wholesale {
    warehouses: i64,
    events: u64,
    /// By call.
    transactions: BTreeMap<usize, Transaction>,
    /// By district, and by customer of one, the greatest order that was answered.
    last_orders: BTreeMap<District, i64>,
    last_of_customers: BTreeMap<(District, i64), i64>,
    report: Report,
}

fn workload() -> Tpcc {
    Tpcc::new(TpccOptions {
        scale: Scale { warehouses: 1, items: 1, customers: 1, new_orders: 0 },
        partitioning: Partitioning::Warehouse,
        delivery: Delivery::Original,
        remote: true,
        rules: Rules::Py,
        exact_money: true,
    })
}

/// The tables and procedures.
pub(super) fn schema() -> String {
    let tpcc = workload();
    [tpcc.schema(), tpcc.procedures()].concat().concat()
}

/// The last name of a customer; those with odd numbers have the same one.
fn last_name(customer: i64) -> &'static str {
    if customer % 2 == 1 { "BAR" } else { "OUGHT" }
}

impl Wholesale {
    pub(super) fn of_seed(seed: u64) -> Wholesale {
        let mut random = SeededRandom::new(seed ^ 0x7bcc_7bcc);
        Wholesale {
            warehouses: random.between(2, 4),
            events: 0,
            transactions: BTreeMap::new(),
            last_orders: BTreeMap::new(),
            last_of_customers: BTreeMap::new(),
            report: Report::default(),
        }
    }

    /// The rows of each warehouse, and the items.
    fn rows(&self) -> Vec<Request> {
        let insert = |text: &str| -> Sql { format!("INSERT INTO {text}").into() };
        let item = insert("item (i_id, i_name, i_price, i_data) VALUES (?, 'item', ?, 'data')");
        let items = (1..=ITEMS).map(|id| (item.clone(), vec![id, id])).collect();
        let warehouse = insert("warehouse (w_id, w_name, w_tax, w_ytd) VALUES (?, 'w', 0.1, 0)");
        let district = insert(
            "district (d_id, d_w_id, d_name, d_tax, d_ytd, d_next_o_id) \
             VALUES (?, ?, 'd', 0.05, 0, 1)",
        );
        let stock = insert(
            "stock (s_i_id, s_w_id, s_quantity, s_dist_01, s_dist_02, s_ytd, s_order_cnt, \
             s_remote_cnt, s_data) VALUES (?, ?, 50, 'one', 'two', 0, 0, 0, 'data')",
        );
        let customer = |id: i64| {
            let (name, credit) = (last_name(id), if id == CUSTOMERS { "BC" } else { "GC" });
            insert(&format!(
                "customer (c_id, c_d_id, c_w_id, c_first, c_last, c_credit, c_discount, \
                 c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data) \
                 VALUES (?, ?, ?, 'first', '{name}', '{credit}', 0.1, 0, 0, 0, 0, '')"
            ))
        };
        let mut requests = vec![Request::Statements(items)];
        for id in 1..=self.warehouses {
            let mut rows = vec![(warehouse.clone(), vec![id])];
            rows.extend((1..=ITEMS).map(|item| (stock.clone(), vec![item, id])));
            for of in 1..=DISTRICTS {
                rows.push((district.clone(), vec![of, id]));
                rows.extend((1..=CUSTOMERS).map(|it| (customer(it), vec![it, of, id])));
            }
            requests.push(Request::Statements(rows));
        }
        requests
    }

    fn begin(&mut self, call: usize, action: Action) {
        self.events += 1;
        let before = match &action {
            Action::NewOrder { at, .. } => self.last_orders.get(at).copied().unwrap_or(0),
            _ => 0,
        };
        let transaction = Transaction {
            action,
            begun: self.events,
            answered: None,
            end: None,
            before,
            order: None,
            delivered: Vec::new(),
        };
        self.transactions.insert(call, transaction);
    }

    /// What a client asks for, by about the mix of the specification [5.2.3].
    fn draw(&mut self, call: usize, random: &mut SeededRandom) -> Request {
        let at = self.draw_district(random);
        let customer = random.between(1, CUSTOMERS);
        match random.below(100) {
            0..=39 => self.new_order(call, at, customer, random),
            40..=77 => self.payment(call, at, customer, random),
            78..=83 => {
                let mut given = ParameterWriter::default();
                // The carrier says which call has delivered an order.
                given.integer(at.0 as i32).integer(call as i32);
                self.begin(call, Action::Delivery { warehouse: at.0 });
                of_procedure("Delivery", &given)
            }
            84..=88 => {
                let least = self.last_of_customers.get(&(at, customer)).copied().unwrap_or(0);
                let mut given = ParameterWriter::default();
                given.integer(at.0 as i32).integer(at.1 as i32).integer(customer as i32);
                given.scalar(SqlType::Varchar, Datum::Null);
                self.begin(call, Action::OrderStatus { least });
                of_procedure("OrderStatus", &given)
            }
            89..=92 => {
                let mut given = ParameterWriter::default();
                given.integer(at.0 as i32).integer(at.1 as i32).integer(45);
                self.begin(call, Action::StockLevel);
                of_procedure("StockLevel", &given)
            }
            _ => self.read(call),
        }
    }

    fn draw_district(&self, random: &mut SeededRandom) -> District {
        (random.between(1, self.warehouses), random.between(1, DISTRICTS))
    }

    fn new_order(
        &mut self,
        call: usize,
        at: District,
        customer: i64,
        random: &mut SeededRandom,
    ) -> Request {
        let lines = random.between(1, LINES_MAX);
        let rolls_back = random.chance(1, 100);
        let [mut items, mut suppliers, mut quantities] = [const { Vec::new() }; 3];
        for line in 1..=lines {
            let unknown = rolls_back && line == lines;
            items.push(if unknown { ITEMS + 1 } else { random.between(1, ITEMS) });
            let other = random.chance(1, 8);
            suppliers.push(if other { random.between(1, self.warehouses) } else { at.0 });
            quantities.push(random.between(1, 10));
        }
        let is_remote = suppliers.iter().any(|supplier| *supplier != at.0);
        let mut given = ParameterWriter::default();
        given.integer(at.0 as i32).integer(at.1 as i32).integer(customer as i32);
        for list in [items, suppliers, quantities] {
            let list: Vec<Datum<'_>> = list.into_iter().map(Datum::Int).collect();
            given.array(SqlType::Integer, &list);
        }
        self.begin(call, Action::NewOrder { at, customer, lines, rolls_back, is_remote });
        of_procedure(if is_remote { "NewOrderRemote" } else { "NewOrder" }, &given)
    }

    fn payment(
        &mut self,
        call: usize,
        at: District,
        customer: i64,
        random: &mut SeededRandom,
    ) -> Request {
        let of = if random.chance(1, 4) { self.draw_district(random) } else { at };
        let cents = LEAST_CENTS + call as i64;
        let amount = Decimal::from_raw(i128::from(cents) * CENT_UNITS);
        let mut given = ParameterWriter::default();
        given.integer(at.0 as i32).integer(at.1 as i32);
        given.scalar(SqlType::Decimal, Datum::Decimal(amount));
        given.integer(of.0 as i32).integer(of.1 as i32);
        // The middle one of a name is the first one of two.
        let by_name = customer < CUSTOMERS && random.chance(1, 2);
        match by_name {
            true => given.scalar(SqlType::Integer, Datum::Null).text(last_name(customer)),
            false => given.integer(customer as i32).scalar(SqlType::Varchar, Datum::Null),
        };
        self.begin(call, Action::Payment { at, of, customer });
        of_procedure(if of.0 == at.0 { "Payment" } else { "PaymentRemote" }, &given)
    }

    fn read(&mut self, call: usize) -> Request {
        self.begin(call, Action::Read);
        Request::Statements(snapshot::READS.map(|text| (text.into(), Vec::new())).to_vec())
    }

    /// A transaction has ended, with why it failed if it did.
    fn end(&mut self, call: usize, end: End, why: &str) {
        self.events += 1;
        let transaction = self.transactions.get_mut(&call).expect("it was begun");
        (transaction.end, transaction.answered) = (Some(end), Some(self.events));
        let rolls_back = matches!(transaction.action, Action::NewOrder { rolls_back: true, .. });
        let is_meant = end == End::Failed && why.contains(INVALID_ITEM);
        self.report.rollbacks += u64::from(rolls_back && is_meant);
    }

    /// A transaction was answered with these tables.
    fn answer(&mut self, call: usize, tables: &[u8]) -> Result<(), String> {
        let tables = read_tables(tables)?;
        let transaction = self.transactions.get_mut(&call).expect("it was begun");
        let first = |table: usize, column: usize| -> Option<i64> {
            tables.get(table)?.first()?.get(column).copied()
        };
        match transaction.action.clone() {
            Action::NewOrder { rolls_back: true, .. } => {
                return Err(format!("order {call} of an unknown item was answered"));
            }
            Action::NewOrder { at, customer, is_remote, .. } => {
                let order = first(1, 2).ok_or(format!("order {call} has no number"))?;
                if order <= transaction.before {
                    return Err(format!("order {order} was made after {transaction:?} was sent"));
                }
                transaction.order = Some(order);
                let last = self.last_orders.entry(at).or_default();
                *last = order.max(*last);
                let last = self.last_of_customers.entry((at, customer)).or_default();
                *last = order.max(*last);
                self.report.orders += 1;
                self.report.remote += u64::from(is_remote);
            }
            Action::Payment { at, of, .. } => {
                self.report.payments += 1;
                self.report.remote += u64::from(at.0 != of.0);
            }
            Action::Delivery { .. } => {
                let orders = tables.first().ok_or("a delivery has no orders")?;
                transaction.delivered = orders.iter().map(|row| (row[0], row[1])).collect();
                self.report.deliveries += orders.len() as u64;
            }
            Action::OrderStatus { least } => {
                let last = first(1, 0).unwrap_or(0);
                let lines = tables.get(2).map_or(0, Vec::len);
                if last < least || (last > 0) != (lines > 0) {
                    return Err(format!("status {call}: order {last}, {lines} lines; {least}"));
                }
            }
            Action::StockLevel => {
                let low = first(0, 0).unwrap_or(-1);
                if !(0..=ITEMS).contains(&low) {
                    return Err(format!("{low} items are low in stock"));
                }
            }
            Action::Read => {
                self.report.snapshots += 1;
                let begun = transaction.begun;
                return snapshot::Snapshot::new(&tables)?.judge(self, begun);
            }
        }
        Ok(())
    }
}

fn of_procedure(name: &str, given: &ParameterWriter) -> Request {
    Request::Procedure(invocation_of(name, given.bytes()))
}

impl Judge {
    /// The rows that TPC-C begins with, where the run has it.
    pub(super) fn load_wholesale(&mut self) -> Vec<(usize, Request)> {
        let rows = self.wholesale.as_ref().map(Wholesale::rows).unwrap_or_default();
        rows.into_iter().map(|request| (self.begin(Kind::Load), request)).collect()
    }

    /// A client's transaction, where the run has TPC-C and it is its turn.
    pub(super) fn call_wholesale(&mut self, random: &mut SeededRandom) -> Option<(usize, Request)> {
        if self.wholesale.is_none() || random.chance(1, 10) {
            return None;
        }
        let call = self.begin(Kind::Wholesale);
        let wholesale = self.wholesale.as_mut().expect("it was looked at");
        Some((call, wholesale.draw(call, random)))
    }

    fn read_wholesale(&mut self) -> (usize, Request) {
        let call = self.begin(Kind::Wholesale);
        (call, self.wholesale.as_mut().expect("the run has TPC-C").read(call))
    }

    /// A transaction has ended.
    pub(super) fn wholesale_ended(&mut self, call: usize, end: End) {
        let wholesale = self.wholesale.as_mut().expect("the run has TPC-C");
        wholesale.end(call, end, &self.why);
    }

    /// A transaction was answered with these tables.
    pub(super) fn wholesale_answered(&mut self, call: usize, tables: &[u8]) -> Result<(), String> {
        let wholesale = self.wholesale.as_mut().expect("the run has TPC-C");
        wholesale.answer(call, tables).map_err(|problem| format!("TPC-C: {problem}"))
    }
}

impl Cluster {
    /// At rest all tables are read.
    pub(super) fn judge_wholesale(&mut self) -> Result<(), String> {
        if self.judge.wholesale.is_none() {
            return Ok(());
        }
        for attempt in 0..READS_AT_REST {
            let serving = self.serving();
            let call = self.judge.read_wholesale();
            self.call_at(serving[attempt % serving.len()], call);
            let limit_us = self.now_us + FORM_US;
            if !self.run_until(limit_us, |it| it.judge.outstanding == 0)? {
                return Err("a read of all warehouses at rest is not answered".to_string());
            }
            if self.judge.is_last_done() {
                let wholesale = self.judge.wholesale.as_ref().expect("the run has TPC-C");
                self.report.add(&wholesale.report);
                return Ok(());
            }
            self.run_until(self.now_us + TICK_US, |_| false)?;
        }
        Err(format!("reads of all warehouses at rest fail: {}", self.judge.why))
    }
}
