//! The rows that the tables begin with [4.3.3.1].

use super::scale::{DISTRICTS, LOAD_CONSTANTS, Partitioning, Scale, last_name};
use crate::distribution::{digits, letters, nurand};
use crate::workload::{RowSink, TableToFill};
use lockstep_base::random::SeededRandom;
use lockstep_types::{Datum, Decimal, SqlType};

/// What rows follow from: the same ones every time.
const SEED: u64 = 0x7c_c5_11;
/// The date of everything that is there at the beginning: 2026-01-01.
const LOADED_AT_US: i64 = 1_767_225_600_000_000;
/// Places in [`tables`].
const ITEM: usize = 0;
const WAREHOUSE: usize = 1;
const DISTRICT: usize = 2;
const CUSTOMER: usize = 3;
const HISTORY: usize = 4;
const STOCK: usize = 5;
const ORDERS: usize = 6;
const NEW_ORDER: usize = 7;
const ORDER_LINE: usize = 8;

/// The tables in the order in which they are filled.
pub fn tables(scale: &Scale, partitioning: Partitioning, exact_money: bool) -> Vec<TableToFill> {
    let money = if exact_money { SqlType::Decimal } else { SqlType::Float };
    let per_district = scale.warehouses * DISTRICTS;
    let orders = per_district * scale.customers;
    let rows = [
        scale.items,
        scale.warehouses,
        per_district,
        orders,
        orders,
        scale.warehouses * scale.items,
        orders,
        per_district * scale.new_orders,
        // The lines of an order are drawn: ten as a mean.
        orders * 10,
    ];
    let table = |place: usize, columns: Columns| {
        let (name, by_warehouse, by_district) = KEYS[place];
        let rows = rows[place];
        let key = match partitioning {
            Partitioning::Warehouse => by_warehouse,
            Partitioning::District => by_district,
        };
        let partitioned_by = columns.iter().position(|(name, _)| *name == key);
        TableToFill { name, partitioned_by, columns, rows }
    };
    let columns = columns(money).into_iter().enumerate();
    columns.map(|(place, columns)| table(place, columns)).collect()
}

/// The tables, with what each is partitioned by: by warehouse and by district. Without a column of
/// that name it is replicated.
const KEYS: [(&str, &str, &str); 9] = [
    ("item", "", "i_id"),
    ("warehouse", "w_id", ""),
    ("district", "d_w_id", ""),
    ("customer", "c_w_id", "c_d_id"),
    ("history", "h_w_id", "h_d_id"),
    ("stock", "s_w_id", "s_i_id"),
    ("orders", "o_w_id", "o_d_id"),
    ("new_order", "no_w_id", "no_d_id"),
    ("order_line", "ol_w_id", "ol_d_id"),
];

/// A table's columns.
type Columns = Vec<(&'static str, SqlType)>;

/// The columns of all tables.
fn columns(money: SqlType) -> [Columns; 9] {
    use SqlType::{Integer, SmallInt, Timestamp, TinyInt, Varchar};
    let mut stock = vec![("s_i_id", Integer), ("s_w_id", SmallInt), ("s_quantity", Integer)];
    stock.extend(STOCK_INFO.map(|name| (name, Varchar)));
    stock.extend([("s_ytd", Integer), ("s_order_cnt", Integer), ("s_remote_cnt", Integer)]);
    stock.push(("s_data", Varchar));
    let mut warehouse = vec![("w_id", SmallInt)];
    let names = ["w_name", "w_street_1", "w_street_2", "w_city", "w_state", "w_zip"];
    warehouse.extend(names.map(|name| (name, Varchar)));
    warehouse.extend([("w_tax", money), ("w_ytd", money)]);
    let mut district = vec![("d_id", TinyInt), ("d_w_id", SmallInt)];
    let names = ["d_name", "d_street_1", "d_street_2", "d_city", "d_state", "d_zip"];
    district.extend(names.map(|name| (name, Varchar)));
    district.extend([("d_tax", money), ("d_ytd", money), ("d_next_o_id", Integer)]);
    let mut item = vec![("i_id", Integer), ("i_im_id", Integer), ("i_name", Varchar)];
    item.extend([("i_price", money), ("i_data", Varchar)]);
    let mut history = vec![("h_c_id", Integer), ("h_c_d_id", TinyInt), ("h_c_w_id", SmallInt)];
    history.extend([("h_d_id", TinyInt), ("h_w_id", SmallInt), ("h_date", Timestamp)]);
    history.extend([("h_amount", money), ("h_data", Varchar)]);
    let mut orders = vec![("o_id", Integer), ("o_c_id", Integer), ("o_d_id", TinyInt)];
    orders.extend([("o_w_id", SmallInt), ("o_entry_d", Timestamp), ("o_carrier_id", Integer)]);
    orders.extend([("o_ol_cnt", Integer), ("o_all_local", Integer)]);
    let new_order = vec![("no_o_id", Integer), ("no_d_id", TinyInt), ("no_w_id", SmallInt)];
    let mut line = vec![("ol_o_id", Integer), ("ol_d_id", TinyInt), ("ol_w_id", SmallInt)];
    line.extend([("ol_number", Integer), ("ol_i_id", Integer), ("ol_supply_w_id", SmallInt)]);
    line.extend([("ol_delivery_d", Timestamp), ("ol_quantity", Integer)]);
    line.extend([("ol_amount", money), ("ol_dist_info", Varchar)]);
    let customer = customer_columns(money);
    [item, warehouse, district, customer, history, stock, orders, new_order, line]
}

const STOCK_INFO: [&str; 10] = [
    "s_dist_01",
    "s_dist_02",
    "s_dist_03",
    "s_dist_04",
    "s_dist_05",
    "s_dist_06",
    "s_dist_07",
    "s_dist_08",
    "s_dist_09",
    "s_dist_10",
];

fn customer_columns(money: SqlType) -> Columns {
    use SqlType::{Integer, SmallInt, Timestamp, TinyInt, Varchar};
    vec![
        ("c_id", Integer),
        ("c_d_id", TinyInt),
        ("c_w_id", SmallInt),
        ("c_first", Varchar),
        ("c_middle", Varchar),
        ("c_last", Varchar),
        ("c_street_1", Varchar),
        ("c_street_2", Varchar),
        ("c_city", Varchar),
        ("c_state", Varchar),
        ("c_zip", Varchar),
        ("c_phone", Varchar),
        ("c_since", Timestamp),
        ("c_credit", Varchar),
        ("c_credit_lim", money),
        ("c_discount", money),
        ("c_balance", money),
        ("c_ytd_payment", money),
        ("c_payment_cnt", Integer),
        ("c_delivery_cnt", Integer),
        ("c_data", Varchar),
    ]
}

/// Fills all tables.
pub struct Population<'s> {
    scale: Scale,
    exact_money: bool,
    random: SeededRandom,
    rows: &'s mut dyn RowSink,
    /// Texts of the row that is made, with where each ends.
    texts: String,
    ends: Vec<usize>,
}

impl<'s> Population<'s> {
    /// Gives rows to a sink.
    pub fn new(scale: Scale, exact_money: bool, rows: &'s mut dyn RowSink) -> Population<'s> {
        let random = SeededRandom::new(SEED);
        Population { scale, exact_money, random, rows, texts: String::new(), ends: Vec::new() }
    }

    /// Gives all rows.
    ///
    /// # Errors
    /// What the sink says.
    pub fn fill(&mut self) -> Result<(), String> {
        self.items()?;
        for warehouse in 1..=self.scale.warehouses as i64 {
            self.warehouse(warehouse)?;
            self.stock(warehouse)?;
            for district in 1..=DISTRICTS as i64 {
                self.district(warehouse, district)?;
                self.customers(warehouse, district)?;
                self.orders(warehouse, district)?;
            }
        }
        Ok(())
    }

    /// A number with N digits after the point.
    fn fixed(&self, number: i64, digits: u32) -> Datum<'static> {
        let divisor = 10i64.pow(digits);
        match self.exact_money {
            true => {
                let units = lockstep_types::decimal::ONE / i128::from(divisor);
                Datum::Decimal(Decimal::from_raw(i128::from(number) * units))
            }
            false => Datum::Float(number as f64 / divisor as f64),
        }
    }

    fn begin_texts(&mut self) {
        self.texts.clear();
        self.ends.clear();
    }

    fn end_text(&mut self) {
        self.ends.push(self.texts.len());
    }

    /// A text of letters, of a length between two.
    fn letters(&mut self, low: i64, high: i64) {
        let length = self.random.between(low, high) as usize;
        letters(&mut self.random, length, &mut self.texts);
        self.end_text();
    }

    fn literal(&mut self, text: &str) {
        self.texts.push_str(text);
        self.end_text();
    }

    /// Two streets, a city, a state, a code [4.3.2.7].
    fn address(&mut self) {
        (0..3).for_each(|_| self.letters(10, 20));
        self.letters(2, 2);
        digits(&mut self.random, 4, &mut self.texts);
        self.literal("11111");
    }

    /// A text of data; in one of ten rows it says ORIGINAL somewhere.
    fn data(&mut self) {
        let length = self.random.between(26, 50) as usize;
        let start = self.texts.len();
        letters(&mut self.random, length, &mut self.texts);
        if self.random.below(10) == 0 {
            let at = start + self.random.below(length as u64 - 7) as usize;
            self.texts.replace_range(at..at + 8, "ORIGINAL");
        }
        self.end_text();
    }

    fn text(&self, place: usize) -> Datum<'_> {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        Datum::Text(&self.texts[start..self.ends[place]])
    }

    fn items(&mut self) -> Result<(), String> {
        for id in 1..=self.scale.items as i64 {
            self.begin_texts();
            self.letters(14, 24);
            self.data();
            let (image, price) = (self.random.between(1, 10_000), self.random.between(100, 10_000));
            let price = self.fixed(price, 2);
            let [name, data] = [0, 1].map(|place| copy(self.text(place)));
            let row = [Datum::Int(id), Datum::Int(image), Datum::Text(&name), price];
            self.rows.row(ITEM, &[row[0], row[1], row[2], row[3], Datum::Text(&data)])?;
        }
        Ok(())
    }

    fn warehouse(&mut self, id: i64) -> Result<(), String> {
        self.begin_texts();
        self.letters(6, 10);
        self.address();
        let tax = self.random.between(0, 2000);
        // The sum of its districts: 300,000.00 at full scale.
        let ytd = self.scale.customers * DISTRICTS * 10;
        let ends = [self.fixed(tax, 4), self.fixed(ytd as i64 * 100, 2)];
        let texts: Vec<Box<str>> = (0..6).map(|place| copy(self.text(place))).collect();
        let row: Vec<Datum<'_>> = std::iter::once(Datum::Int(id))
            .chain(texts.iter().map(|text| Datum::Text(text)))
            .chain(ends)
            .collect();
        self.rows.row(WAREHOUSE, &row)
    }

    fn district(&mut self, warehouse: i64, id: i64) -> Result<(), String> {
        self.begin_texts();
        self.letters(6, 10);
        self.address();
        let tax = self.random.between(0, 2000);
        let ytd = self.scale.customers as i64 * 10;
        let next = Datum::Int(self.scale.customers as i64 + 1);
        let ends = [self.fixed(tax, 4), self.fixed(ytd * 100, 2), next];
        let texts: Vec<Box<str>> = (0..6).map(|place| copy(self.text(place))).collect();
        let row: Vec<Datum<'_>> = [Datum::Int(id), Datum::Int(warehouse)]
            .into_iter()
            .chain(texts.iter().map(|text| Datum::Text(text)))
            .chain(ends)
            .collect();
        self.rows.row(DISTRICT, &row)
    }

    fn stock(&mut self, warehouse: i64) -> Result<(), String> {
        for item in 1..=self.scale.items as i64 {
            self.begin_texts();
            (0..10).for_each(|_| self.letters(24, 24));
            self.data();
            let quantity = Datum::Int(self.random.between(10, 100));
            let zero = Datum::Int(0);
            let mut row = [zero; 17];
            row[..3].copy_from_slice(&[Datum::Int(item), Datum::Int(warehouse), quantity]);
            let texts = self.texts.as_str();
            let mut start = 0;
            for (place, end) in self.ends.iter().enumerate() {
                let column = if place < 10 { 3 + place } else { 16 };
                row[column] = Datum::Text(&texts[start..*end]);
                start = *end;
            }
            self.rows.row(STOCK, &row)?;
        }
        Ok(())
    }

    fn customers(&mut self, warehouse: i64, district: i64) -> Result<(), String> {
        for id in 1..=self.scale.customers as i64 {
            self.begin_texts();
            self.letters(6, 10);
            self.literal("OE");
            let name = match id {
                1..=1000 => id as u64 - 1,
                _ => nurand(&mut self.random, 255, LOAD_CONSTANTS.last_name, 0, 999) as u64,
            };
            last_name(name, &mut self.texts);
            self.end_text();
            self.address();
            digits(&mut self.random, 16, &mut self.texts);
            self.end_text();
            let credit = if self.random.below(10) == 0 { "BC" } else { "GC" };
            self.letters(300, 500);
            let discount = self.random.between(0, 5000);
            let discount = self.fixed(discount, 4);
            self.customer_row([id, district, warehouse], credit, discount)?;
            self.history_row([id, district, warehouse])?;
        }
        Ok(())
    }

    fn customer_row(
        &mut self,
        ids: [i64; 3],
        credit: &str,
        discount: Datum<'static>,
    ) -> Result<(), String> {
        let [limit, balance, paid] = [5_000_000, -1000, 1000].map(|cents| self.fixed(cents, 2));
        let mut row = [Datum::Null; 21];
        row[..3].copy_from_slice(&ids.map(Datum::Int));
        let texts = self.texts.as_str();
        let mut start = 0;
        // First, middle and last name, five of the address, the telephone; the data comes last.
        for (place, end) in self.ends.iter().enumerate() {
            let column = if place < 9 { 3 + place } else { 20 };
            row[column] = Datum::Text(&texts[start..*end]);
            start = *end;
        }
        row[12] = Datum::Timestamp(LOADED_AT_US);
        row[13] = Datum::Text(credit);
        row[14..18].copy_from_slice(&[limit, discount, balance, paid]);
        (row[18], row[19]) = (Datum::Int(1), Datum::Int(0));
        self.rows.row(CUSTOMER, &row)
    }

    fn history_row(&mut self, [id, district, warehouse]: [i64; 3]) -> Result<(), String> {
        self.begin_texts();
        self.letters(12, 24);
        let amount = self.fixed(1000, 2);
        let [id, d_id, w_id] = [id, district, warehouse].map(Datum::Int);
        let date = Datum::Timestamp(LOADED_AT_US);
        let text = Datum::Text(&self.texts);
        self.rows.row(HISTORY, &[id, d_id, w_id, d_id, w_id, date, amount, text])
    }

    fn orders(&mut self, warehouse: i64, district: i64) -> Result<(), String> {
        let count = self.scale.customers as i64;
        let mut customers: Vec<i64> = (1..=count).collect();
        for place in (1..customers.len()).rev() {
            let other = self.random.below(place as u64 + 1) as usize;
            customers.swap(place, other);
        }
        let [d_id, w_id] = [district, warehouse].map(Datum::Int);
        let entry = Datum::Timestamp(LOADED_AT_US);
        for (customer, id) in customers.into_iter().zip(1..) {
            let waits = id > count - self.scale.new_orders as i64;
            let lines = self.random.between(5, 15);
            let carrier = match waits {
                true => Datum::Null,
                false => Datum::Int(self.random.between(1, 10)),
            };
            let (o_id, c_id) = (Datum::Int(id), Datum::Int(customer));
            let row = [o_id, c_id, d_id, w_id, entry, carrier, Datum::Int(lines), Datum::Int(1)];
            self.rows.row(ORDERS, &row)?;
            if waits {
                self.rows.row(NEW_ORDER, &[o_id, d_id, w_id])?;
            }
            for line in 1..=lines {
                self.line([o_id, d_id, w_id], line, waits)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, ids: [Datum<'_>; 3], number: i64, waits: bool) -> Result<(), String> {
        self.begin_texts();
        self.letters(24, 24);
        let item = self.random.between(1, self.scale.items as i64);
        let cents = if waits { self.random.between(1, 999_999) } else { 0 };
        let amount = self.fixed(cents, 2);
        let delivered = if waits { Datum::Null } else { Datum::Timestamp(LOADED_AT_US) };
        let [o_id, d_id, w_id] = ids;
        let (number, item, quantity) = (Datum::Int(number), Datum::Int(item), Datum::Int(5));
        let info = Datum::Text(&self.texts);
        let row = [o_id, d_id, w_id, number, item, w_id, delivered, quantity, amount, info];
        self.rows.row(ORDER_LINE, &row)
    }
}

fn copy(text: Datum<'_>) -> Box<str> {
    match text {
        Datum::Text(text) => text.into(),
        _ => "".into(),
    }
}
