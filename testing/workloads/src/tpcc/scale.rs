//! Scale, options, and the numbers that the specification fixes (TPC-C 5.11; clauses in brackets).

use lockstep_base::random::SeededRandom;

/// Items, and so stock rows of a warehouse [1.2.1].
pub const ITEMS: u64 = 100_000;
/// Customers of a district, and orders that it begins with [1.2.1].
pub const CUSTOMERS: u64 = 3000;
/// Districts of a warehouse [1.2.1].
pub const DISTRICTS: u64 = 10;
/// Orders of a district that are not delivered at the beginning [4.3.3.1].
pub const NEW_ORDERS: u64 = 900;
/// The most warehouses: their numbers are SMALLINT.
pub const MAX_WAREHOUSES: u64 = 32_000;
/// What the answer to an order of an unknown item says [2.4.3.5].
pub const INVALID_ITEM: &str = "Item number is not valid";

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u64,
    /// Items.
    pub items: u64,
    /// Customers, and orders at the beginning, of a district.
    pub customers: u64,
    /// Orders of a district that are not delivered at the beginning.
    pub new_orders: u64,
}

impl Scale {
    /// N warehouses; a divisor over 1 makes everything in them smaller by it.
    ///
    /// # Errors
    /// No warehouse, too many, or a divisor that leaves no customer.
    pub fn new(warehouses: u64, divisor: u64) -> Result<Scale, String> {
        if warehouses == 0 || warehouses > MAX_WAREHOUSES {
            return Err(format!("{warehouses} warehouses > there may be 1 to {MAX_WAREHOUSES}"));
        }
        // An order has up to 15 different items.
        if divisor == 0 || divisor > 1000 {
            return Err(format!("{divisor} as a divisor > 1 to 1000 leaves something"));
        }
        Ok(Scale {
            warehouses,
            items: ITEMS / divisor,
            customers: CUSTOMERS / divisor,
            new_orders: NEW_ORDERS / divisor,
        })
    }
}

/// Where rows live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partitioning {
    /// By warehouse; ITEM is replicated.
    Warehouse,
    /// By district number; WAREHOUSE and DISTRICT are replicated, ITEM and STOCK live by item.
    District,
}

/// How Delivery is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// One transaction over the ten districts.
    Original,
    /// Ten calls, one for each district.
    Split,
    /// Not at all; Order-Status takes its share.
    LeftOut,
}

/// How sessions draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// As the PyTPCC harness: any warehouse each time, each item once an order, no pauses.
    Py,
    /// As the specification: terminals of one warehouse, keying and think times, decks.
    /// The pauses are this share of what it says, in percent.
    Spec {
        /// 100 is as specified.
        waits_percent: u64,
    },
}

/// The constants of the non-uniform draws [2.1.6].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NuConstants {
    /// For last names.
    pub last_name: i64,
    /// For customers.
    pub customer: i64,
    /// For items.
    pub item: i64,
}

/// Those that rows are filled with.
pub const LOAD_CONSTANTS: NuConstants = NuConstants { last_name: 157, customer: 259, item: 7911 };

impl NuConstants {
    /// Those of a run: the one for last names at an allowed distance from that of the rows
    /// [2.1.6.1].
    pub fn of_run(seed: u64) -> NuConstants {
        let mut random = SeededRandom::new(seed);
        let last_name = loop {
            let drawn = random.between(0, 255);
            if is_valid_run_constant(drawn, LOAD_CONSTANTS.last_name) {
                break drawn;
            }
        };
        let customer = random.between(0, 1023);
        NuConstants { last_name, customer, item: random.between(0, 8191) }
    }
}

/// Whether a run may use the constant for last names, with rows filled by the other [2.1.6.1].
pub fn is_valid_run_constant(run: i64, load: i64) -> bool {
    let distance = (run - load).abs();
    (65..=119).contains(&distance) && distance != 96 && distance != 112
}

/// Appends the last name of a number below 1000 [4.3.2.3].
pub fn last_name(number: u64, out: &mut String) {
    const PARTS: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    assert!(number < 1000, "names have three parts");
    for digit in [number / 100, number / 10 % 10, number % 10] {
        out.push_str(PARTS[digit as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_constants_are_those_of_the_specification() {
        let name = |number| {
            let mut out = String::new();
            last_name(number, &mut out);
            out
        };
        // The example of 4.3.2.3.
        assert_eq!(name(371), "PRICALLYOUGHT");
        assert_eq!((name(0), name(999)), ("BARBARBAR".into(), "EINGEINGEING".into()));
        let allowed: Vec<i64> = (0..=255).filter(|run| is_valid_run_constant(*run, 0)).collect();
        assert_eq!((allowed[0], allowed[allowed.len() - 1], allowed.len()), (65, 119, 53));
        for seed in 0..200 {
            let run = NuConstants::of_run(seed);
            assert!(is_valid_run_constant(run.last_name, LOAD_CONSTANTS.last_name), "{run:?}");
        }
        assert!(Scale::new(0, 1).is_err() && Scale::new(1, 0).is_err());
        assert!(Scale::new(MAX_WAREHOUSES + 1, 1).is_err() && Scale::new(1, 1001).is_err());
    }
}
