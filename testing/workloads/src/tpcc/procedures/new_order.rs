//! New-Order [2.4].

use super::{ShortText, as_double, list, number, parameter, times, value};
use crate::tpcc::scale::INVALID_ITEM;
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, SqlType, TableSchema};

/// `NewOrder(warehouse, district, customer, items, their supplying warehouses, their quantities)`:
/// orders 1 to 15 items. Answers with the customer, the order (taxes, number, total) and its lines
/// (name, stock left, brand, price, amount). An unknown item takes it back.
pub struct NewOrder {
    name: &'static str,
    order: TableSchema,
    lines: TableSchema,
}

const ITEM: usize = 0;
const WAREHOUSE: usize = 1;
const DISTRICT: usize = 2;
const CUSTOMER: usize = 3;
/// Of the district with number 1; the others follow.
const STOCK: usize = 4;
const NEXT_ORDER: usize = 14;
const INSERT_ORDER: usize = 15;
const INSERT_NEW_ORDER: usize = 16;
const UPDATE_STOCK: usize = 17;
const INSERT_LINE: usize = 18;

/// The most lines of an order [2.4.1.3].
const MAX_LINES: usize = 15;
/// Where the results of the first batch stand: three rows, then items, then stocks.
const FIRST_ITEM: usize = 3;

const STATEMENTS: &[(&str, &str)] = &[
    ("item", "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?;"),
    ("warehouse", "SELECT w_tax FROM warehouse WHERE w_id = ?;"),
    ("district", "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?;"),
    (
        "customer",
        "SELECT c_discount, c_last, c_credit FROM customer
         WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;",
    ),
    ("stock1", "SELECT s_quantity, s_data, s_dist_01 FROM stock WHERE s_w_id = ? AND s_i_id = ?;"),
    ("stock2", "SELECT s_quantity, s_data, s_dist_02 FROM stock WHERE s_w_id = ? AND s_i_id = ?;"),
    ("stock3", "SELECT s_quantity, s_data, s_dist_03 FROM stock WHERE s_w_id = ? AND s_i_id = ?;"),
    ("stock4", "SELECT s_quantity, s_data, s_dist_04 FROM stock WHERE s_w_id = ? AND s_i_id = ?;"),
    ("stock5", "SELECT s_quantity, s_data, s_dist_05 FROM stock WHERE s_w_id = ? AND s_i_id = ?;"),
    ("stock6", "SELECT s_quantity, s_data, s_dist_06 FROM stock WHERE s_w_id = ? AND s_i_id = ?;"),
    ("stock7", "SELECT s_quantity, s_data, s_dist_07 FROM stock WHERE s_w_id = ? AND s_i_id = ?;"),
    ("stock8", "SELECT s_quantity, s_data, s_dist_08 FROM stock WHERE s_w_id = ? AND s_i_id = ?;"),
    ("stock9", "SELECT s_quantity, s_data, s_dist_09 FROM stock WHERE s_w_id = ? AND s_i_id = ?;"),
    ("stock10", "SELECT s_quantity, s_data, s_dist_10 FROM stock WHERE s_w_id = ? AND s_i_id = ?;"),
    ("nextOrder", "UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?;"),
    (
        "insertOrder",
        "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt,
         o_all_local) VALUES (?, ?, ?, ?, ?, NULL, ?, ?);",
    ),
    ("insertNewOrder", "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?);"),
    (
        "updateStock",
        "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1,
         s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?;",
    ),
    (
        "insertLine",
        "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
         ol_delivery_d, ol_quantity, ol_amount, ol_dist_info)
         VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?);",
    ),
];

/// What is ordered, and what came of it.
#[derive(Clone, Copy)]
struct Line {
    item: i64,
    supplier: i64,
    quantity: i64,
    price: Datum<'static>,
    amount: Datum<'static>,
    stock_left: i64,
    is_brand: bool,
    name: ShortText,
    district_info: ShortText,
}

impl Line {
    const EMPTY: Line = Line {
        item: 0,
        supplier: 0,
        quantity: 0,
        price: Datum::Null,
        amount: Datum::Null,
        stock_left: 0,
        is_brand: false,
        name: ShortText::EMPTY,
        district_info: ShortText::EMPTY,
    };
}

/// Taxes, discount, and the number of the order.
#[derive(Clone, Copy)]
struct Terms {
    warehouse_tax: f64,
    district_tax: f64,
    discount: f64,
    order: i64,
}

impl NewOrder {
    /// To be registered under a name.
    pub fn new(name: &'static str) -> NewOrder {
        let order = [
            ("w_tax", SqlType::Float),
            ("d_tax", SqlType::Float),
            ("o_id", SqlType::BigInt),
            ("total", SqlType::Float),
        ];
        let lines = [
            ("i_name", SqlType::Varchar),
            ("s_quantity", SqlType::BigInt),
            ("brand_generic", SqlType::Varchar),
            ("i_price", SqlType::Float),
            ("ol_amount", SqlType::Float),
        ];
        NewOrder { name, order: TableSchema::new(&order), lines: TableSchema::new(&lines) }
    }
}

impl NativeProcedure for NewOrder {
    fn name(&self) -> &str {
        self.name
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const {
            &[
                parameter(SqlType::SmallInt),
                parameter(SqlType::TinyInt),
                parameter(SqlType::Integer),
                list(SqlType::Integer),
                list(SqlType::Integer),
                list(SqlType::Integer),
            ]
        }
    }

    fn statements(&self) -> &[(&str, &str)] {
        STATEMENTS
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let (warehouse, district) = (number(context, 0)?, number(context, 1)?);
        let mut lines = [Line::EMPTY; MAX_LINES];
        let count = ordered(context, &mut lines)?;
        let lines = &mut lines[..count];
        let terms = read(context, (warehouse, district), lines)?;
        write(context, (warehouse, district), &terms, lines)?;
        let total: f64 = lines.iter().map(|line| as_double(line.amount)).sum();
        let total =
            total * (1.0 - terms.discount) * (1.0 + terms.warehouse_tax + terms.district_tax);
        let order = [
            Datum::Float(terms.warehouse_tax),
            Datum::Float(terms.district_tax),
            Datum::Int(terms.order),
            Datum::Float(total),
        ];
        context.return_table(&self.order, [&order[..]].into_iter());
        let row = |line: &'_ Line| -> [Datum<'_>; 5] {
            [
                Datum::Null,
                Datum::Int(line.stock_left),
                Datum::Text(if line.is_brand { "B" } else { "G" }),
                Datum::Float(as_double(line.price)),
                Datum::Float(as_double(line.amount)),
            ]
        };
        let mut rows = [[Datum::Null; 5]; MAX_LINES];
        for (place, line) in rows.iter_mut().zip(lines.iter()) {
            *place = row(line);
            place[0] = Datum::Text(line.name.as_str());
        }
        context.return_table(&self.lines, rows[..count].iter().map(|row| &row[..]));
        Ok(())
    }
}

/// Reads what is ordered from the parameters.
fn ordered(
    context: &ProcedureContext<'_>,
    lines: &mut [Line; MAX_LINES],
) -> Result<usize, ProcedureError> {
    let counts = [3, 4, 5].map(|place| context.array_parameter(place).count());
    if counts[0] == 0 || counts[0] > MAX_LINES || counts.iter().any(|count| *count != counts[0]) {
        let message = format!("{counts:?} items, warehouses, quantities > 1 to {MAX_LINES}, alike");
        return Err(context.abort(message));
    }
    let columns = context.array_parameter(3).zip(context.array_parameter(4));
    for (line, ((item, supplier), quantity)) in
        lines.iter_mut().zip(columns.zip(context.array_parameter(5)))
    {
        let (Datum::Int(item), Datum::Int(supplier), Datum::Int(quantity)) =
            (item, supplier, quantity)
        else {
            return Err(context.abort("an item, warehouse or quantity is NULL"));
        };
        (line.item, line.supplier, line.quantity) = (item, supplier, quantity);
    }
    Ok(counts[0])
}

/// The first batch: all that is read. So the partitions that the transaction needs are known, and
/// an unknown item is found before anything is written.
fn read(
    context: &mut ProcedureContext<'_>,
    (warehouse, district): (i64, i64),
    lines: &mut [Line],
) -> Result<Terms, ProcedureError> {
    let (w_id, d_id) = (Datum::Int(warehouse), Datum::Int(district));
    if !(1..=10).contains(&district) {
        return Err(context.abort(format!("there is no district {district}")));
    }
    let customer = context.parameter(2);
    context.queue(WAREHOUSE, &[w_id])?;
    context.queue(DISTRICT, &[w_id, d_id])?;
    context.queue(CUSTOMER, &[w_id, d_id, customer])?;
    for line in lines.iter() {
        context.queue(ITEM, &[Datum::Int(line.item)])?;
    }
    for line in lines.iter() {
        let stock = STOCK + district as usize - 1;
        context.queue(stock, &[Datum::Int(line.supplier), Datum::Int(line.item)])?;
    }
    let results = context.execute()?;
    let rate = |value: Option<Datum<'_>>| value.map(as_double);
    let found = (
        rate(results.scalar(0)?),
        rate(results.scalar(1)?),
        number_of(value(&results, 1, 0, 1)?),
        rate(results.scalar(2)?),
    );
    let mut unknown = None;
    let count = lines.len();
    for (place, line) in lines.iter_mut().enumerate() {
        let (item, stock) = (FIRST_ITEM + place, FIRST_ITEM + count + place);
        let (mut item_rows, mut stock_rows) =
            (results.table(item)?.rows(), results.table(stock)?.rows());
        let (Some(Ok(item_row)), Some(Ok(stock_row))) = (item_rows.next(), stock_rows.next())
        else {
            unknown.get_or_insert(line.item);
            continue;
        };
        take(line, item_row.values(), stock_row.values())?;
    }
    context.return_result(2)?;
    let (Some(warehouse_tax), Some(district_tax), Some(order), Some(discount)) = found else {
        let message = format!("there is no customer {customer} of {warehouse}, {district}");
        return Err(context.abort(message));
    };
    match unknown {
        Some(_) => Err(context.abort(INVALID_ITEM)),
        None => Ok(Terms { warehouse_tax, district_tax, discount, order }),
    }
}

fn number_of(value: Option<Datum<'_>>) -> Option<i64> {
    match value {
        Some(Datum::Int(number)) => Some(number),
        _ => None,
    }
}

/// Takes over what is known of an item and its stock.
fn take(
    line: &mut Line,
    mut item: lockstep_types::table::Values<'_>,
    mut stock: lockstep_types::table::Values<'_>,
) -> Result<(), ProcedureError> {
    let damaged = || ProcedureError::Unexpected("an item or stock cannot be read".to_string());
    let next = |values: &mut lockstep_types::table::Values<'_>| match values.next() {
        Some(Ok(Datum::Float(value))) => Ok(Datum::Float(value)),
        Some(Ok(Datum::Decimal(value))) => Ok(Datum::Decimal(value)),
        _ => Err(damaged()),
    };
    line.price = next(&mut item)?;
    line.name = ShortText::of(item.next().and_then(Result::ok));
    let is_original = |value: Option<Result<Datum<'_>, _>>| match value {
        Some(Ok(Datum::Text(text))) => text.contains("ORIGINAL"),
        _ => false,
    };
    let original_item = is_original(item.next());
    let Some(Ok(Datum::Int(quantity))) = stock.next() else { return Err(damaged()) };
    let stock_data = stock.next();
    line.is_brand = original_item && is_original(stock_data);
    line.district_info = ShortText::of(stock.next().and_then(Result::ok));
    line.amount = times(line.price, line.quantity).ok_or_else(damaged)?;
    let enough = quantity >= line.quantity + 10;
    line.stock_left = quantity - line.quantity + if enough { 0 } else { 91 };
    Ok(())
}

/// The second batch: all that is written.
fn write(
    context: &mut ProcedureContext<'_>,
    (warehouse, district): (i64, i64),
    terms: &Terms,
    lines: &[Line],
) -> Result<(), ProcedureError> {
    let (w_id, d_id) = (Datum::Int(warehouse), Datum::Int(district));
    let order = Datum::Int(terms.order);
    let is_local = lines.iter().all(|line| line.supplier == warehouse);
    let entry = Datum::Timestamp(context.transaction_time_us());
    context.queue(NEXT_ORDER, &[Datum::Int(terms.order + 1), w_id, d_id])?;
    let customer = context.parameter(2);
    let count = Datum::Int(lines.len() as i64);
    let local = Datum::Int(is_local.into());
    context.queue(INSERT_ORDER, &[order, d_id, w_id, customer, entry, count, local])?;
    context.queue(INSERT_NEW_ORDER, &[order, d_id, w_id])?;
    for line in lines {
        let (item, supplier) = (Datum::Int(line.item), Datum::Int(line.supplier));
        let remote = Datum::Int((line.supplier != warehouse).into());
        let (left, quantity) = (Datum::Int(line.stock_left), Datum::Int(line.quantity));
        context.queue(UPDATE_STOCK, &[left, quantity, remote, supplier, item])?;
    }
    for (place, line) in lines.iter().enumerate() {
        let row = [
            order,
            d_id,
            w_id,
            Datum::Int(place as i64 + 1),
            Datum::Int(line.item),
            Datum::Int(line.supplier),
            Datum::Int(line.quantity),
            line.amount,
            Datum::Text(line.district_info.as_str()),
        ];
        context.queue(INSERT_LINE, &row)?;
    }
    context.execute().map(|_| ())
}
