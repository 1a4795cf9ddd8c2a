//! TATP: a telephone network's registers, read and changed by subscriber, of whom some
//! transactions know only the number.

pub mod procedures;
mod schema;
pub mod session;

pub use schema::AlternateKey;

use crate::distribution::{digits, session_random};
use crate::form::Form;
use crate::workload::{Check, Database, Found, RowSink, Session, TableToFill, Workload};
use lockstep_base::random::SeededRandom;
use lockstep_types::{Datum, SqlType};
use session::{BY_KIND, Client, FOUND_PERCENT, TRANSACTIONS, number_of};
use std::sync::Arc;

/// What rows follow from.
const SEED: u64 = 0x7a7b;
/// Places in the list of tables.
const SUBSCRIBER: usize = 0;
const ACCESS_INFO: usize = 1;
const SPECIAL_FACILITY: usize = 2;
const CALL_FORWARDING: usize = 3;
const LOOKUP: usize = 4;

const NO_SQL_BY_INDEX: &str = "\
with a global index TATP cannot be run by procedures of SQL statements alone: the DELETE of \
DeleteCallForwardingByNumber is on a table that knows no numbers of subscribers, so it does not \
say by itself at which partition its rows are. Use --alternate-key lookup, read-all, update-all \
or ask-all, or --procedures native";

/// What is run.
#[derive(Debug, Clone)]
pub struct Tatp {
    subscribers: u64,
    mode: AlternateKey,
    form: Form,
    partition_keys: Arc<[i64]>,
    forwardings: i64,
    others: [i64; 2],
}

impl Tatp {
    /// N subscribers, found by number in a way.
    ///
    /// # Errors
    /// No subscriber.
    pub fn new(subscribers: u64, mode: AlternateKey) -> Result<Tatp, String> {
        if subscribers == 0 {
            return Err("there must be a subscriber".to_string());
        }
        let partition_keys = Arc::from([]);
        let form = Form::Native;
        Ok(Tatp { subscribers, mode, form, partition_keys, forwardings: 0, others: [0; 2] })
    }

    /// The same with procedures of another form.
    ///
    /// # Errors
    /// They cannot find subscribers in this way.
    pub fn in_form(self, form: Form) -> Result<Tatp, String> {
        match (&form, self.mode) {
            (Form::Sql, AlternateKey::GlobalIndex) => Err(NO_SQL_BY_INDEX.to_string()),
            _ => Ok(Tatp { form, ..self }),
        }
    }

    fn count(database: &mut dyn Database, table: &str) -> Result<i64, String> {
        database.number(&format!("SELECT COUNT(*) FROM {table};"))
    }
}

impl Workload for Tatp {
    fn name(&self) -> &'static str {
        "tatp"
    }

    fn transactions(&self) -> &[&'static str] {
        &TRANSACTIONS
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        vec![
            ("subscribers", self.subscribers.to_string()),
            ("alternate_key", self.mode.name().to_string()),
            ("procedures", self.form.name().to_string()),
        ]
    }

    fn schema(&self) -> Vec<String> {
        schema::tables(self.mode)
    }

    fn procedures(&self) -> Vec<String> {
        schema::procedures(self.mode, &self.form)
    }

    fn classes(&self) -> Result<Option<&[u8]>, String> {
        self.form.classes()
    }

    fn tables(&self) -> Vec<TableToFill> {
        use SqlType::{BigInt, SmallInt, TinyInt, Varchar};
        let mut subscriber = vec![("s_id", BigInt), ("sub_nbr", Varchar)];
        subscriber.extend(BITS.map(|name| (name, TinyInt)));
        subscriber.extend(HEXES.map(|name| (name, TinyInt)));
        subscriber.extend(BYTES.map(|name| (name, SmallInt)));
        subscriber.extend([("msc_location", BigInt), ("vlr_location", BigInt)]);
        let access = vec![
            ("s_id", BigInt),
            ("ai_type", TinyInt),
            ("data1", SmallInt),
            ("data2", SmallInt),
            ("data3", Varchar),
            ("data4", Varchar),
        ];
        let facility = vec![
            ("s_id", BigInt),
            ("sf_type", TinyInt),
            ("is_active", TinyInt),
            ("error_cntrl", SmallInt),
            ("data_a", SmallInt),
            ("data_b", Varchar),
        ];
        let forwarding = vec![
            ("s_id", BigInt),
            ("sf_type", TinyInt),
            ("start_time", TinyInt),
            ("end_time", TinyInt),
            ("numberx", Varchar),
        ];
        let table = |name, columns, halves: u64| {
            let rows = self.subscribers * halves / 4;
            TableToFill { name, columns, partitioned_by: Some(0), rows }
        };
        // As means: two and a half of each, and one and a half forwardings of a facility.
        let mut tables = vec![
            table("subscriber", subscriber, 4),
            table("access_info", access, 10),
            table("special_facility", facility, 10),
            table("call_forwarding", forwarding, 15),
        ];
        if self.mode == AlternateKey::Lookup {
            let columns = vec![("sub_nbr", Varchar), ("s_id", BigInt)];
            tables.push(table("subscriber_lookup", columns, 4));
        }
        tables
    }

    fn fill(&self, rows: &mut dyn RowSink) -> Result<(), String> {
        let mut random = SeededRandom::new(SEED);
        let mut number = String::new();
        for id in 1..=self.subscribers {
            number_of(id, &mut number);
            fill_subscriber(id as i64, &number, &mut random, rows)?;
            if self.mode == AlternateKey::Lookup {
                rows.row(LOOKUP, &[Datum::Text(&number), Datum::Int(id as i64)])?;
            }
        }
        Ok(())
    }

    fn survey(&self, database: &mut dyn Database) -> Result<Found, String> {
        let Ok(subscribers) = Tatp::count(database, "subscriber") else {
            return Ok(Found::Nothing);
        };
        let wanted = self.subscribers as i64;
        match subscribers {
            0 => Ok(Found::Tables),
            held if held == wanted => Ok(Found::Rows),
            held => Err(format!("there are {held} subscribers, this run is for {wanted}")),
        }
    }

    fn begin(&mut self, database: &mut dyn Database) -> Result<(), String> {
        self.forwardings = Tatp::count(database, "call_forwarding")?;
        self.others =
            [Tatp::count(database, "access_info")?, Tatp::count(database, "special_facility")?];
        if self.mode == AlternateKey::AskAll {
            self.partition_keys = database.partition_keys()?.into();
        }
        Ok(())
    }

    fn session(&self, number: u64, seed: u64) -> Box<dyn Session> {
        let random = session_random(seed, number);
        let keys = Arc::clone(&self.partition_keys);
        Box::new(Client::new((self.mode, self.form == Form::Sql), self.subscribers, random, keys))
    }

    fn counters(&self) -> &[&'static str] {
        &session::COUNTERS
    }

    fn check(
        &self,
        database: &mut dyn Database,
        counts: &[u64],
        _complete: bool,
    ) -> Result<Vec<Check>, String> {
        let count = |place: usize| counts.get(place).copied().unwrap_or(0) as i64;
        let subscribers = Tatp::count(database, "subscriber")?;
        let mut checks =
            vec![Check::equal("subscribers are kept", subscribers, self.subscribers as i64)];
        for (table, before) in ["access_info", "special_facility"].into_iter().zip(self.others) {
            let now = Tatp::count(database, table)?;
            checks.push(Check::equal(&format!("rows of {table} are kept"), now, before));
        }
        let grown = Tatp::count(database, "call_forwarding")? - self.forwardings;
        let (sure, maybe) = (count(0) - count(2) - count(3), count(1) + count(3));
        let name = "growth of call_forwarding = inserted - deleted";
        checks.push(Check::within(name, grown, sure, maybe));
        if self.mode == AlternateKey::GlobalIndex {
            let entries = Tatp::count(database, "\"SUB_NBR_IDX#ENTRIES\"")?;
            checks.push(Check::equal("index entries = subscribers", entries, subscribers));
        }
        checks.extend((0..TRANSACTIONS.len()).filter_map(|kind| {
            found_check(kind, count(BY_KIND + kind), count(BY_KIND + 7 + kind))
        }));
        Ok(checks)
    }
}

/// Whether a kind found as often as the definition says; few transactions say nothing.
fn found_check(kind: usize, all: i64, found: i64) -> Option<Check> {
    if all < 1000 {
        return None;
    }
    let (share, wanted) = (100.0 * found as f64 / all as f64, FOUND_PERCENT[kind]);
    // Five standard deviations of N draws; rows that come and go move it by a little more.
    let part = wanted / 100.0;
    let spread = 500.0 * (part * (1.0 - part) / all as f64).sqrt() + 2.5 * (1.0 - part).sqrt();
    let holds = (share - wanted).abs() <= spread;
    let name = format!("{} find {wanted} %", TRANSACTIONS[kind]);
    Some(Check { name, holds, detail: format!("{share:.1} % of {all}") })
}

const BITS: [&str; 10] =
    ["bit_1", "bit_2", "bit_3", "bit_4", "bit_5", "bit_6", "bit_7", "bit_8", "bit_9", "bit_10"];
const HEXES: [&str; 10] =
    ["hex_1", "hex_2", "hex_3", "hex_4", "hex_5", "hex_6", "hex_7", "hex_8", "hex_9", "hex_10"];
const BYTES: [&str; 10] = [
    "byte2_1", "byte2_2", "byte2_3", "byte2_4", "byte2_5", "byte2_6", "byte2_7", "byte2_8",
    "byte2_9", "byte2_10",
];

/// The four types in a random order, and how many of them are taken: one to four.
fn draw_types(random: &mut SeededRandom) -> ([i64; 4], usize) {
    let mut types = [1, 2, 3, 4];
    for place in (1..4).rev() {
        types.swap(place, random.below(place as u64 + 1) as usize);
    }
    (types, random.between(1, 4) as usize)
}

fn capitals(random: &mut SeededRandom, count: usize, out: &mut String) {
    out.clear();
    out.extend((0..count).map(|_| (b'A' + random.below(26) as u8) as char));
}

fn fill_subscriber(
    id: i64,
    number: &str,
    random: &mut SeededRandom,
    rows: &mut dyn RowSink,
) -> Result<(), String> {
    let mut row = [Datum::Int(id); 34];
    row[1] = Datum::Text(number);
    for (place, value) in row.iter_mut().enumerate().skip(2) {
        let most = match place {
            2..12 => 1,
            12..22 => 15,
            22..32 => 255,
            _ => i64::from(u32::MAX),
        };
        *value = Datum::Int(random.between(0, most));
    }
    rows.row(SUBSCRIBER, &row)?;
    let [mut short, mut long] = [String::new(), String::new()];
    let (types, count) = draw_types(random);
    for ai_type in &types[..count] {
        let [first, second] = [0, 1].map(|_| Datum::Int(random.between(0, 255)));
        capitals(random, 3, &mut short);
        capitals(random, 5, &mut long);
        let (short, long) = (Datum::Text(&short), Datum::Text(&long));
        let row = [Datum::Int(id), Datum::Int(*ai_type), first, second, short, long];
        rows.row(ACCESS_INFO, &row)?;
    }
    let (types, count) = draw_types(random);
    for sf_type in &types[..count] {
        let is_active = Datum::Int((random.below(100) < 85).into());
        let [error, data] = [0, 1].map(|_| Datum::Int(random.between(0, 255)));
        capitals(random, 5, &mut long);
        let (s_id, sf_type) = (Datum::Int(id), Datum::Int(*sf_type));
        rows.row(SPECIAL_FACILITY, &[s_id, sf_type, is_active, error, data, Datum::Text(&long)])?;
        let (starts, _) = draw_types(random);
        let forwardings = random.between(0, 3) as usize;
        // Three of the four stand for the hours 0, 8 and 16.
        for start in starts.iter().filter(|start| **start < 4).take(forwardings) {
            let start = 8 * (start - 1);
            let end = Datum::Int(start + random.between(1, 8));
            long.clear();
            digits(random, 15, &mut long);
            let row = [s_id, sf_type, Datum::Int(start), end, Datum::Text(&long)];
            rows.row(CALL_FORWARDING, &row)?;
        }
    }
    Ok(())
}
