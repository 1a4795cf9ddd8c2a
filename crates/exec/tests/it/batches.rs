//! Queries in batches give what queries row by row give: random tables, expressions and plans.

use super::support::*;
use lockstep_base::random::SeededRandom;
use lockstep_exec::statement::execute;
use lockstep_exec::{Database, PreparedStatement};
use lockstep_plan_ir::expression::Quantifier;
use lockstep_plan_ir::expression::{Arithmetic, Comparison, Subquery};
use lockstep_plan_ir::relation::{
    AggregateCall, FrameBound, FrameExclusion, FrameUnit, Join, JoinKind, JoinMethod, SortKey,
    WindowCall, WindowFrame, WindowFunction,
};
use lockstep_plan_ir::{Access, AggregateFunction, Expression, Function, Node, Relation};
use lockstep_types::{Decimal, IndexId, SqlType, Value};
use std::sync::Arc;

const TYPES: [SqlType; 9] = [
    SqlType::TinyInt,
    SqlType::SmallInt,
    SqlType::Integer,
    SqlType::BigInt,
    SqlType::Float,
    SqlType::Decimal,
    SqlType::Timestamp,
    SqlType::Varchar,
    SqlType::Varbinary,
];

/// More rows than a batch.
const ROWS: u32 = 1500;

/// A random source of values, expressions and relations over two tables of all types.
struct Maker {
    random: SeededRandom,
    /// Subqueries so far.
    subqueries: u16,
}

impl Maker {
    fn below(&mut self, bound: u32) -> u32 {
        self.random.below(u64::from(bound)) as u32
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }

    /// A value of a type; extremes now and then, NULL as well.
    fn value(&mut self, sql_type: SqlType) -> Value {
        if self.one_in(8) {
            return Value::Null;
        }
        let small = i64::from(self.below(9)) - 4;
        match sql_type {
            SqlType::Float => Value::Float(match self.below(14) {
                0 => 1.7e308,
                4 => f64::NAN,
                5 => f64::INFINITY,
                1 => -1.6e308,
                2 => -0.0,
                3 => 1e-300,
                _ => small as f64 / 2.0,
            }),
            SqlType::Decimal => Value::Decimal(match self.below(12) {
                0 => Decimal::from_raw(lockstep_types::decimal::MAX_UNITS),
                1 => Decimal::from_raw(-lockstep_types::decimal::MAX_UNITS),
                2 => Decimal::from_raw(1),
                _ => Decimal::from_raw(i128::from(small) * lockstep_types::decimal::ONE / 4),
            }),
            SqlType::Varchar => {
                let texts = ["", "a", "ab", "abcdefgh", "abcdefghi", "abcdefghij", "ä", "b%"];
                Value::Text(self.pick(&texts).into())
            }
            SqlType::Varbinary => {
                let bytes: [&[u8]; 5] = [&[], &[0], &[1, 2], &[255; 9], &[255; 8]];
                Value::Bytes(self.pick(&bytes).into())
            }
            SqlType::Timestamp => Value::Timestamp(small * 86_400_000_000),
            _ => {
                let (low, high) = sql_type.integer_range().expect("an integer type");
                Value::Int(match self.below(12) {
                    0 => low,
                    1 => high,
                    _ => small,
                })
            }
        }
    }

    fn literal(&mut self, sql_type: SqlType) -> Expression {
        Expression::literal(self.value(sql_type), sql_type)
    }

    /// A column or constant of a type. Slots are the tables that a frame has.
    fn leaf(&mut self, slots: &[u16], sql_type: SqlType) -> Expression {
        if self.one_in(4) {
            return self.literal(sql_type);
        }
        let column = TYPES.iter().position(|of| *of == sql_type).expect("a column's type");
        col(self.pick(slots), column as u16 + 1, sql_type)
    }

    fn expression(&mut self, slots: &[u16], sql_type: SqlType, depth: u32) -> Expression {
        if depth == 0 || self.one_in(3) {
            return self.leaf(slots, sql_type);
        }
        let node = match self.below(6) {
            0 => Node::Case {
                branches: vec![(
                    self.condition(slots, depth - 1),
                    self.expression(slots, sql_type, depth - 1),
                )],
                otherwise: match self.one_in(3) {
                    true => None,
                    false => Some(Box::new(self.expression(slots, sql_type, depth - 1))),
                },
            },
            1 if sql_type == SqlType::Varchar => {
                Node::Call(Function::Upper, vec![self.expression(slots, sql_type, depth - 1)])
            }
            1 if sql_type.is_integer() => {
                Node::Call(Function::Abs, vec![self.expression(slots, sql_type, depth - 1)])
            }
            2 if sql_type.is_number() => {
                Node::Negate(Box::new(self.expression(slots, sql_type, depth - 1)))
            }
            3 if matches!(sql_type, SqlType::BigInt | SqlType::Float | SqlType::Decimal) => {
                let value = Box::new(self.expression(slots, SqlType::Integer, depth - 1));
                Node::Cast { value, length: 0, length_in_bytes: false }
            }
            _ if sql_type.is_number() => {
                let operators = [
                    Arithmetic::Add,
                    Arithmetic::Subtract,
                    Arithmetic::Multiply,
                    Arithmetic::Divide,
                    Arithmetic::Remainder,
                ];
                let operand = |maker: &mut Maker| {
                    let narrow = match sql_type {
                        SqlType::Float => maker.pick(&[SqlType::Decimal, SqlType::SmallInt]),
                        SqlType::Decimal => SqlType::Integer,
                        other => other,
                    };
                    let of = if maker.one_in(3) { narrow } else { sql_type };
                    Box::new(maker.expression(slots, of, depth - 1))
                };
                let operator = self.pick(&operators);
                let left = operand(self);
                Node::Arithmetic(operator, left, operand(self))
            }
            _ => return self.leaf(slots, sql_type),
        };
        Expression { node, sql_type }
    }

    fn condition(&mut self, slots: &[u16], depth: u32) -> Expression {
        let of_type = self.pick(&TYPES);
        let node = match self.below(if depth == 0 { 2 } else { 9 }) {
            0 => Node::IsNull(Box::new(self.expression(slots, of_type, depth))),
            2 => Node::And(vec![
                self.condition(slots, depth - 1),
                self.condition(slots, depth - 1),
                self.condition(slots, depth - 1),
            ]),
            3 => Node::Or(vec![self.condition(slots, depth - 1), self.condition(slots, depth - 1)]),
            4 => Node::Not(Box::new(self.condition(slots, depth - 1))),
            5 => {
                let of_type = self.pick(&[SqlType::BigInt, SqlType::Varchar, SqlType::Float]);
                let list = (0..3).map(|_| self.literal(of_type)).collect();
                Node::InList { value: Box::new(self.expression(slots, of_type, depth)), list }
            }
            7 => {
                let of_type = self.pick(&[SqlType::BigInt, SqlType::Varchar, SqlType::Float]);
                let column = TYPES.iter().position(|of| *of == of_type).expect("a column's type");
                let filter = compare(Comparison::Less, big(2, 0), int(i64::from(self.below(40))));
                self.subqueries += 1;
                let subquery = Subquery {
                    relation: scan_where(2, 1, Some(filter)),
                    output: vec![col(2, column as u16 + 1, of_type)],
                    uncorrelated: true,
                    number: self.subqueries,
                };
                let is_in = self.one_in(2);
                Node::Quantified {
                    comparison: if is_in { Comparison::Equal } else { Comparison::NotEqual },
                    quantifier: if is_in { Quantifier::Any } else { Quantifier::All },
                    row: vec![self.expression(slots, of_type, depth)],
                    subquery: Box::new(subquery),
                }
            }
            6 => Node::Like {
                value: Box::new(self.expression(slots, SqlType::Varchar, depth)),
                pattern: Box::new(text(self.pick(&["a%", "%b", "_b%", "%", "ab", "%bc%"]))),
                escape: None,
            },
            _ => {
                let comparison = self.pick(&[
                    Comparison::Equal,
                    Comparison::NotEqual,
                    Comparison::Less,
                    Comparison::LessOrEqual,
                    Comparison::Greater,
                    Comparison::GreaterOrEqual,
                    Comparison::Distinct,
                    Comparison::NotDistinct,
                ]);
                let numbers = [SqlType::TinyInt, SqlType::BigInt, SqlType::Float, SqlType::Decimal];
                let other = match of_type.is_number() && self.one_in(2) {
                    true => self.pick(&numbers),
                    false => of_type,
                };
                let left = self.expression(slots, of_type, depth);
                let right = self.expression(slots, other, depth);
                Node::Compare(comparison, Box::new(left), Box::new(right))
            }
        };
        Expression { node, sql_type: SqlType::Boolean }
    }

    /// Rows of the first table, filtered or not, maybe joined with the second.
    fn source(&mut self) -> (Relation, Vec<u16>) {
        let filter = (!self.one_in(3)).then(|| self.condition(&[0], 2));
        let mut relation = scan_where(0, 0, filter);
        let mut slots = vec![0];
        if self.one_in(3) {
            let predicate = self.condition(&[0], 2);
            relation = Relation::Filter { input: Box::new(relation), predicate };
        }
        if self.one_in(2) {
            let right_filter = self.one_in(2).then(|| self.condition(&[1], 1));
            let kind = self.pick(&[
                JoinKind::Inner,
                JoinKind::Left,
                JoinKind::Semi,
                JoinKind::Anti,
                JoinKind::Right,
                JoinKind::Full,
            ]);
            let mut key_type = self.pick(&TYPES);
            let left_key = self.expression(&[0], key_type, 1);
            if key_type.is_number() && self.one_in(3) {
                key_type = self.pick(&[SqlType::BigInt, SqlType::Float, SqlType::Decimal]);
            }
            let right_key = self.expression(&[1], key_type, 1);
            let (mut left, mut right) = (vec![left_key], vec![right_key]);
            // Few pairs per row.
            left.push(col(0, 0, SqlType::BigInt));
            right.push(col(1, 0, SqlType::BigInt));
            let condition = self.one_in(3).then(|| self.condition(&[0, 1], 1));
            let mut method = JoinMethod::Hash { left, right };
            let mut right = scan_where(1, 1, right_filter);
            if self.one_in(3)
                && let Relation::Scan(scan) = &mut right
            {
                let leaf = self.one_in(2);
                let by_column = col(0, 0, SqlType::BigInt);
                let key = if leaf { by_column } else { self.expression(&[0], SqlType::BigInt, 1) };
                method = JoinMethod::NestedLoop;
                scan.access = Access::Index {
                    index: IndexId(0),
                    equal: vec![key],
                    null_matches: vec![false],
                    lower: None,
                    upper: None,
                    reverse: false,
                    at_most_one: self.one_in(2),
                };
            }
            let is_lookup = method == JoinMethod::NestedLoop;
            let kind = match kind {
                JoinKind::Right | JoinKind::Full if is_lookup => JoinKind::Left,
                kind => kind,
            };
            relation = Relation::Join(Box::new(Join {
                kind,
                left: relation,
                right,
                method,
                condition,
                left_slots: vec![0],
                right_slots: vec![1],
            }));
            if !matches!(kind, JoinKind::Semi | JoinKind::Anti) {
                slots.push(1);
            }
        }
        (relation, slots)
    }

    fn sort(&mut self, input: Relation, slots: &[u16]) -> Relation {
        let keys = (0..=self.below(2))
            .map(|_| {
                let of_type = self.pick(&TYPES);
                let depth = self.below(2);
                SortKey {
                    expression: self.expression(slots, of_type, depth),
                    descending: self.one_in(2),
                    nulls_first: self.one_in(2),
                }
            })
            .collect();
        let limit = self.one_in(2).then(|| int(i64::from(self.below(30))));
        let offset = self.one_in(4).then(|| int(i64::from(self.below(9))));
        Relation::Sort { input: Box::new(input), keys, limit, offset }
    }

    /// Values of each of the slots, and row numbers.
    fn output(&mut self, slots: &[u16]) -> Vec<Expression> {
        let mut output: Vec<Expression> =
            slots.iter().map(|slot| col(*slot, 0, SqlType::BigInt)).collect();
        for _ in 0..2 {
            let of_type = self.pick(&TYPES);
            output.push(self.expression(slots, of_type, 2));
        }
        output
    }

    fn aggregate(&mut self, input: Relation, slots: &[u16]) -> (Relation, Vec<Expression>) {
        let group: Vec<Expression> = (0..self.below(3))
            .map(|_| {
                let of_type = self.pick(&TYPES);
                self.expression(slots, of_type, 1)
            })
            .collect();
        let mut calls = vec![call(AggregateFunction::CountStar, None)];
        for _ in 0..3 {
            use AggregateFunction::{ApproximateCountDistinct, Average, Count, Max, Min, Sum};
            let function =
                self.pick(&[Count, Sum, Sum, Average, Min, Max, ApproximateCountDistinct]);
            let argument = match function {
                Sum | Average => self.pick(&[
                    SqlType::SmallInt,
                    SqlType::BigInt,
                    SqlType::Float,
                    SqlType::Decimal,
                ]),
                _ => self.pick(&TYPES),
            };
            let sql_type = match function {
                Count | ApproximateCountDistinct => SqlType::BigInt,
                Sum | Average if argument.is_integer() => SqlType::BigInt,
                _ => argument,
            };
            let argument = Some(self.expression(slots, argument, 1));
            let distinct = self.one_in(4);
            calls.push(AggregateCall { function, distinct, argument, sql_type, user: None });
        }
        let types: Vec<SqlType> = group
            .iter()
            .map(|expression| expression.sql_type)
            .chain(calls.iter().map(|call| call.sql_type))
            .collect();
        let output = (0..).zip(types).map(|(column, of)| col(3, column, of)).collect();
        (Relation::Aggregate { input: Box::new(input), slot: 3, group, calls }, output)
    }

    fn window(&mut self, input: Relation, slots: &[u16]) -> (Relation, Vec<SqlType>) {
        let mut calls: Vec<WindowCall> = Vec::new();
        for _ in 0..=self.below(2) {
            let of_type = self.pick(&TYPES);
            let function = self.pick(&[
                WindowFunction::RowNumber,
                WindowFunction::Rank,
                WindowFunction::DenseRank,
                WindowFunction::Lag,
                WindowFunction::LastValue,
                WindowFunction::Aggregate(AggregateFunction::Max),
                WindowFunction::Aggregate(AggregateFunction::Count),
            ]);
            let argument = self.expression(slots, of_type, 1);
            let (arguments, sql_type) = match function {
                WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank => {
                    (vec![], SqlType::BigInt)
                }
                WindowFunction::Aggregate(AggregateFunction::Count) => {
                    (vec![argument], SqlType::BigInt)
                }
                _ => (vec![argument], of_type),
            };
            let by = self.pick(&TYPES);
            let mut call = WindowCall {
                function,
                arguments,
                partition: vec![self.expression(slots, by, 1)],
                order: vec![SortKey {
                    expression: self.leaf(slots, of_type),
                    descending: self.one_in(2),
                    nulls_first: self.one_in(2),
                }],
                frame: None,
                sql_type,
            };
            if self.one_in(3) {
                call.frame = Some(WindowFrame {
                    unit: FrameUnit::Rows,
                    start: FrameBound::Preceding(int(2)),
                    end: FrameBound::CurrentRow,
                    exclusion: FrameExclusion::Nothing,
                });
            }
            if let (Some(first), true) = (calls.first(), self.one_in(2)) {
                call.partition = first.partition.clone();
                call.order = first.order.clone();
            }
            calls.push(call);
        }
        let types = calls.iter().map(|call| call.sql_type).collect();
        (Relation::Window { input: Box::new(input), slot: 3, calls }, types)
    }

    fn query(&mut self) -> (Relation, Vec<Expression>) {
        let (source, mut slots) = self.source();
        match self.below(6) {
            5 => {
                let (relation, types) = self.window(source, &slots);
                let mut output: Vec<Expression> =
                    (0..).zip(types).map(|(column, of)| col(3, column, of)).collect();
                slots.truncate(1);
                output.extend(self.output(&slots));
                (relation, output)
            }
            0 => (source, self.output(&slots)),
            1 => {
                let limit = Some(int(i64::from(self.below(200))));
                let relation = Relation::Limit { input: Box::new(source), limit, offset: None };
                (relation, self.output(&slots))
            }
            2 => (self.sort(source, &slots), self.output(&slots)),
            3 => {
                let expressions: Vec<Expression> = (0..2)
                    .map(|_| {
                        let of_type = self.pick(&TYPES);
                        self.expression(&slots, of_type, 1)
                    })
                    .collect();
                let types: Vec<SqlType> = expressions.iter().map(|e| e.sql_type).collect();
                let input =
                    Box::new(Relation::Project { input: Box::new(source), slot: 3, expressions });
                let output = (0..).zip(types).map(|(column, of)| col(3, column, of)).collect();
                (Relation::Distinct { input, slot: 3 }, output)
            }
            _ => self.aggregate(source, &slots),
        }
    }
}

/// Two tables of a number and a column of each type.
fn tables(maker: &mut Maker) -> Database {
    let columns = || {
        let mut columns = vec![not_null("N", SqlType::BigInt)];
        columns.extend(TYPES.iter().map(|of| column(of.name(), *of)));
        columns
    };
    let by_number = vec![index("BY_N", &[0], true)];
    let mut database =
        database(vec![table(0, "A", columns(), vec![]), table(1, "B", columns(), by_number)]);
    for table in [0, 1] {
        for number in 0..ROWS >> (2 * table) {
            // Several rows of the first table meet one of the second.
            let number = if table == 0 { number % 400 } else { number };
            let mut values = vec![int(i64::from(number))];
            values.extend(TYPES.map(|of| maker.literal(of)));
            must(&mut database, insert(table, values));
        }
    }
    database
}

fn answer(database: &mut Database, statement: &PreparedStatement) -> Result<String, String> {
    let mut out = Vec::new();
    match execute(database, statement, &[], &mut out) {
        Ok(()) => Ok(show(&out)),
        Err(error) => Err(error.message().to_string()),
    }
}

/// `BATCH_QUERIES` and `BATCH_SEED` ask for more, or others.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test may be asked for more from outside")]
fn batches_answer_as_single_rows_do() {
    let count = std::env::var("BATCH_QUERIES").ok().and_then(|count| count.parse().ok());
    let first = std::env::var("BATCH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let (mut answered, mut refused) = (0, 0);
    for seed in first..first + count.unwrap_or(400) / 100 + 1 {
        let mut maker = Maker { random: SeededRandom::new(seed), subqueries: 0 };
        let mut database = tables(&mut maker);
        for number in 0..100 {
            let (relation, output) = maker.query();
            let statement = Arc::new(statement(query(relation, output), 0));
            let prepared = PreparedStatement::new(statement.clone());
            database.set_batches(false);
            let expected = answer(&mut database, &prepared);
            database.set_batches(true);
            let found = answer(&mut database, &prepared);
            match &expected {
                Ok(_) => answered += 1,
                Err(_) => refused += 1,
            }
            // Of several errors, an aggregation may tell another.
            let both_refuse = found.is_err() && expected.is_err();
            if found != expected && !both_refuse {
                let cut = |answer: &Result<String, String>| {
                    let mut text = format!("{answer:?}");
                    text.truncate(text.char_indices().nth(600).map_or(text.len(), |(at, _)| at));
                    text
                };
                panic!(
                    "seed {seed}, query {number}: {:#?}\nin batches {}\nby rows {}",
                    statement.execution,
                    cut(&found),
                    cut(&expected)
                );
            }
        }
    }
    println!("{answered} answered, {refused} refused");
    assert!(
        answered > refused && refused > answered / 20,
        "{answered} answered, {refused} refused"
    );
}
