//! The twelve consistency conditions [3.3.2.1 to 3.3.2.12]. Sums of money are compared in whole
//! hundredths. The eleventh is stated for the rows of the beginning: orders less those that wait
//! are what was delivered then; here what the run delivered is added.

use super::scale::{DISTRICTS, Scale};
use crate::workload::{Check, Database};
use lockstep_types::Value;
use std::collections::BTreeMap;

/// What the checks know of the time before the run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Before {
    /// Orders that were delivered.
    pub delivered: i64,
    /// All orders.
    pub orders: i64,
}

impl Before {
    /// Asks for it.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub fn read(database: &mut dyn Database) -> Result<Before, String> {
        let orders = database.number("SELECT COUNT(*) FROM orders;")?;
        let waiting = database.number("SELECT COUNT(*) FROM new_order;")?;
        Ok(Before { delivered: orders - waiting, orders })
    }
}

/// A condition: how often it was tested, how often it did not hold, and where first.
#[derive(Default)]
struct Condition {
    tested: u64,
    wrong: u64,
    first: Option<String>,
}

impl Condition {
    fn test(&mut self, holds: bool, tell: impl FnOnce() -> String) {
        self.tested += 1;
        if !holds {
            self.wrong += 1;
            self.first.get_or_insert_with(tell);
        }
    }

    fn equal(&mut self, place: &str, left: i64, right: i64) {
        self.test(left == right, || format!("{place}: {left} ≠ {right}"));
    }

    fn check(self, number: usize) -> Check {
        let (name, _) = CONDITIONS[number - 1];
        let name = format!("condition {number}, {name}");
        let (tested, places) = (self.tested, CONDITIONS[number - 1].1);
        let detail = match self.first {
            None => format!("{tested} {places}"),
            Some(first) => format!("wrong at {} of {tested} {places}; {first}", self.wrong),
        };
        Check { name, holds: self.wrong == 0 && tested > 0, detail }
    }
}

/// What each says, and of what it is tested.
const CONDITIONS: [(&str, &str); 12] = [
    ("W_YTD = sum(D_YTD)", "warehouses"),
    ("D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)", "districts"),
    ("max(NO_O_ID) - min(NO_O_ID) + 1 = count(NEW_ORDER)", "districts"),
    ("sum(O_OL_CNT) = count(ORDER_LINE)", "districts"),
    ("O_CARRIER_ID is null where NEW_ORDER has the order, only there", "orders"),
    ("O_OL_CNT = count(ORDER_LINE)", "orders"),
    ("OL_DELIVERY_D is null where O_CARRIER_ID is, only there", "orders"),
    ("W_YTD = sum(H_AMOUNT)", "warehouses"),
    ("D_YTD = sum(H_AMOUNT)", "districts"),
    ("C_BALANCE = sum(OL_AMOUNT delivered) - sum(H_AMOUNT)", "customers"),
    ("count(ORDERS) - count(NEW_ORDER) = delivered orders", "databases"),
    ("C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT delivered)", "customers"),
];

/// A sum of money in hundredths.
fn cents(value: &Value) -> Result<i64, String> {
    const CENT_UNITS: i128 = lockstep_types::decimal::ONE / 100;
    match value {
        Value::Float(value) => Ok((value * 100.0).round() as i64),
        Value::Decimal(value) => {
            i64::try_from(value.units() / CENT_UNITS).map_err(|_| "a sum is too great".to_string())
        }
        Value::Null => Ok(0),
        other => Err(format!("money was expected, not {other}")),
    }
}

fn number(value: &Value) -> Result<i64, String> {
    match value {
        Value::Int(number) => Ok(*number),
        Value::Null => Ok(0),
        other => Err(format!("a number was expected, not {other}")),
    }
}

/// Money by two numbers.
type Sums = BTreeMap<(i64, i64), i64>;

/// Rows of two numbers and money.
fn sums(database: &mut dyn Database, sql: &str) -> Result<Sums, String> {
    let rows = database.query(sql)?;
    let entry = |row: &Vec<Value>| Ok(((number(&row[0])?, number(&row[1])?), cents(&row[2])?));
    rows.iter().map(entry).collect()
}

#[derive(Default)]
struct Conditions {
    /// By number, from 1.
    all: [Condition; 13],
}

/// Tests all conditions. `delivered` and `orders` are what the run added, each with how many more
/// there may be because nobody was answered.
///
/// # Errors
/// The database cannot be asked.
pub fn check(
    database: &mut dyn Database,
    scale: &Scale,
    before: &Before,
    delivered: (i64, i64),
    orders: (i64, i64),
) -> Result<Vec<Check>, String> {
    let mut conditions = Conditions::default();
    conditions.totals(database)?;
    let paid = sums(
        database,
        "SELECT h_w_id, h_d_id, SUM(h_amount) FROM history GROUP BY h_w_id, h_d_id;",
    )?;
    conditions.years(database, scale, &paid)?;
    for warehouse in 1..=scale.warehouses as i64 {
        let history = sums(
            database,
            &format!(
                "SELECT h_c_d_id, h_c_id, SUM(h_amount) FROM history WHERE h_c_w_id = {warehouse} \
                 GROUP BY h_c_d_id, h_c_id;"
            ),
        )?;
        for district in 1..=DISTRICTS as i64 {
            conditions.orders(database, warehouse, district)?;
            conditions.customers(database, (warehouse, district), &history)?;
        }
    }
    let now = Before::read(database)?;
    let within = |held: i64, (sure, maybe): (i64, i64)| (sure..=sure + maybe).contains(&held);
    let grown = now.delivered - before.delivered;
    let eleventh = &mut conditions.all[11];
    eleventh.test(within(grown, delivered), || {
        format!("{grown} more than before the run, which delivered {}", delivered.0)
    });
    let mut checks: Vec<Check> =
        conditions.all.into_iter().enumerate().skip(1).map(|(n, c)| c.check(n)).collect();
    let held = now.orders - before.orders;
    checks.push(Check::within("new orders = New-Orders answered", held, orders.0, orders.1));
    Ok(checks)
}

impl Conditions {
    /// The tables have the warehouses that they should.
    fn totals(&mut self, database: &mut dyn Database) -> Result<(), String> {
        let lines = database.number("SELECT COUNT(*) FROM order_line;")?;
        let counted = database.number("SELECT SUM(o_ol_cnt) FROM orders;")?;
        self.all[4].equal("all districts", counted, lines);
        Ok(())
    }

    /// Conditions 1, 8 and 9.
    fn years(
        &mut self,
        database: &mut dyn Database,
        scale: &Scale,
        paid: &Sums,
    ) -> Result<(), String> {
        let warehouses = sums(database, "SELECT w_id, 0, w_ytd FROM warehouse;")?;
        let districts = sums(database, "SELECT d_w_id, d_id, d_ytd FROM district;")?;
        let of = |sums: &Sums, id: i64| -> i64 {
            sums.range((id, i64::MIN)..=(id, i64::MAX)).map(|(_, cents)| *cents).sum()
        };
        for id in 1..=scale.warehouses as i64 {
            let place = format!("warehouse {id}");
            let Some(ytd) = warehouses.get(&(id, 0)).copied() else {
                self.all[1].test(false, || format!("there is no {place}"));
                continue;
            };
            self.all[1].equal(&place, ytd, of(&districts, id));
            self.all[8].equal(&place, ytd, of(paid, id));
            for district in 1..=DISTRICTS as i64 {
                let place = format!("district {id}, {district}");
                let [ytd, paid] =
                    [&districts, paid].map(|sums| sums.get(&(id, district)).copied().unwrap_or(0));
                self.all[9].equal(&place, ytd, paid);
            }
        }
        Ok(())
    }

    /// Conditions 2 to 7.
    fn orders(&mut self, database: &mut dyn Database, w_id: i64, d_id: i64) -> Result<(), String> {
        let place = format!("district {w_id}, {d_id}");
        let next = database.number(&format!(
            "SELECT d_next_o_id FROM district WHERE d_w_id = {w_id} AND d_id = {d_id};"
        ))?;
        let waiting = database.query(&format!(
            "SELECT no_o_id FROM new_order WHERE no_w_id = {w_id} AND no_d_id = {d_id};"
        ))?;
        let waiting: BTreeMap<i64, ()> =
            waiting.iter().map(|row| Ok((number(&row[0])?, ()))).collect::<Result<_, String>>()?;
        let orders = database.query(&format!(
            "SELECT o_id, o_ol_cnt, o_carrier_id FROM orders \
             WHERE o_w_id = {w_id} AND o_d_id = {d_id};"
        ))?;
        let lines = database.query(&format!(
            "SELECT ol_o_id, COUNT(*), COUNT(ol_delivery_d) FROM order_line \
             WHERE ol_w_id = {w_id} AND ol_d_id = {d_id} GROUP BY ol_o_id;"
        ))?;
        let mut counts: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for row in &lines {
            counts.insert(number(&row[0])?, (number(&row[1])?, number(&row[2])?));
        }
        let (mut greatest, mut wanted) = (0, 0);
        for row in &orders {
            let (id, count) = (number(&row[0])?, number(&row[1])?);
            (greatest, wanted) = (id.max(greatest), wanted + count);
            let waits = row[2] == Value::Null;
            let order = format!("order {id} of {place}");
            let (lines, delivered) = counts.get(&id).copied().unwrap_or((0, 0));
            self.all[5].test(waits == waiting.contains_key(&id), || order.clone());
            self.all[6].equal(&order, count, lines);
            self.all[7].equal(&order, delivered, if waits { 0 } else { lines });
        }
        self.all[2].equal(&place, next - 1, greatest);
        let held: i64 = counts.values().map(|(lines, _)| lines).sum();
        self.all[4].equal(&place, wanted, held);
        if let (Some((first, _)), Some((last, _))) =
            (waiting.first_key_value(), waiting.last_key_value())
        {
            self.all[2].equal(&place, next - 1, *last);
            self.all[3].equal(&place, last - first + 1, waiting.len() as i64);
        }
        Ok(())
    }

    /// Conditions 10 and 12.
    fn customers(
        &mut self,
        database: &mut dyn Database,
        (w_id, d_id): (i64, i64),
        history: &Sums,
    ) -> Result<(), String> {
        let customers = database.query(&format!(
            "SELECT c_id, c_balance, c_ytd_payment FROM customer \
             WHERE c_w_id = {w_id} AND c_d_id = {d_id};"
        ))?;
        let delivered = sums(
            database,
            &format!(
                "SELECT 0, o_c_id, SUM(ol_amount) FROM orders, order_line \
                 WHERE o_w_id = {w_id} AND o_d_id = {d_id} AND ol_w_id = {w_id} \
                 AND ol_d_id = {d_id} AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL \
                 GROUP BY o_c_id;"
            ),
        )?;
        for row in &customers {
            let (id, balance, ytd) = (number(&row[0])?, cents(&row[1])?, cents(&row[2])?);
            let got = delivered.get(&(0, id)).copied().unwrap_or(0);
            let paid = history.get(&(d_id, id)).copied().unwrap_or(0);
            let place = format!("customer {w_id}, {d_id}, {id}");
            self.all[10].equal(&place, balance, got - paid);
            self.all[12].equal(&place, balance + ytd, got);
        }
        Ok(())
    }
}
