//! Workloads at a small scale: what they generate is the same for the same seed, their checks hold
//! after a run, and do not when something is broken.

use super::embedded::EmbeddedDatabase;
use lockstep_workloads::tatp::{AlternateKey, Tatp};
use lockstep_workloads::tpcc::scale::{Delivery, Partitioning, Rules, Scale};
use lockstep_workloads::tpcc::session::{NEW_ORDER, TRANSACTIONS};
use lockstep_workloads::tpcc::{Tpcc, TpccOptions};
use lockstep_workloads::{Check, Session, Verdict, Workload};

/// What sessions did: per kind, good, aborted, errors; the sums of their counts; the first error.
struct Ran {
    kinds: Vec<[u64; 3]>,
    counts: Vec<u64>,
    first_error: Option<String>,
}

/// Runs N transactions of a few sessions in turn.
fn run(
    database: &mut EmbeddedDatabase,
    workload: &dyn Workload,
    transactions: usize,
    seed: u64,
) -> Ran {
    let mut sessions: Vec<Box<dyn Session>> =
        (0..7).map(|number| workload.session(number, seed)).collect();
    let mut ran = Ran {
        kinds: vec![[0; 3]; workload.transactions().len()],
        counts: vec![0; workload.counters().len()],
        first_error: None,
    };
    sessions.iter_mut().for_each(|session| {
        session.first_pause_us();
    });
    let count = sessions.len();
    for number in 0..transactions {
        let session = &mut sessions[number % count];
        loop {
            let step = database.step(&mut **session);
            if let Some(verdict) = step.ended {
                let place = match verdict {
                    Verdict::Good => 0,
                    Verdict::Aborted => 1,
                    Verdict::Error => 2,
                };
                if verdict == Verdict::Error {
                    let kind = workload.transactions()[step.kind];
                    ran.first_error.get_or_insert(format!("{kind}: {}", step.text));
                }
                ran.kinds[step.kind][place] += 1;
                break;
            }
        }
    }
    for session in &sessions {
        ran.counts.iter_mut().zip(session.counts()).for_each(|(sum, count)| *sum += count);
    }
    ran
}

fn set_up(workload: &mut dyn Workload) -> EmbeddedDatabase {
    let mut database = EmbeddedDatabase::new().expect("a host");
    database.set_up(workload, &mut |_| ()).expect("the schema and the rows are taken");
    workload.begin(&mut database).expect("it can be asked");
    database
}

fn wrong(checks: &[Check]) -> Vec<&str> {
    checks.iter().filter(|check| !check.holds).map(|check| check.name.as_str()).collect()
}

fn tpcc(rules: Rules, delivery: Delivery, partitioning: Partitioning, exact: bool) -> Tpcc {
    Tpcc::new(TpccOptions {
        scale: Scale::new(2, 100).expect("a scale"),
        partitioning,
        delivery,
        remote: true,
        rules,
        exact_money: exact,
    })
}

#[test]
fn tpcc_keeps_its_conditions_in_all_forms() {
    let spec = Rules::Spec { waits_percent: 0 };
    for (rules, delivery, partitioning, exact) in [
        (Rules::Py, Delivery::Original, Partitioning::Warehouse, false),
        (spec, Delivery::Split, Partitioning::Warehouse, true),
        (Rules::Py, Delivery::LeftOut, Partitioning::District, true),
        (spec, Delivery::Original, Partitioning::District, false),
    ] {
        let mut workload = tpcc(rules, delivery, partitioning, exact);
        let mut database = set_up(&mut workload);
        let ran = run(&mut database, &workload, 2000, 3);
        let shown = format!("{rules:?} {delivery:?} {partitioning:?}: {:?}", ran.first_error);
        assert_eq!(ran.first_error, None, "{shown}");
        let checks = workload.check(&mut database, &ran.counts, true).expect("it can be asked");
        assert_eq!((checks.len(), wrong(&checks)), (13, Vec::new()), "{shown} {checks:?}");
        let good = |kind: usize| ran.kinds[kind][0];
        let share = good(NEW_ORDER) as f64 / 2000.0;
        assert!((0.41..0.48).contains(&share), "{share}");
        for (kind, name) in TRANSACTIONS.iter().enumerate() {
            let left_out = *name == "DELIVERY" && delivery == Delivery::LeftOut;
            assert_eq!(good(kind) == 0, left_out, "{name} {shown}");
        }
        // About one of a hundred orders is of an unknown item.
        let rolled_back = ran.kinds[NEW_ORDER][1];
        assert!((1..=25).contains(&rolled_back), "{rolled_back}");
    }
}

#[test]
fn each_condition_of_tpcc_can_fail() {
    let mut workload = tpcc(Rules::Py, Delivery::Original, Partitioning::Warehouse, true);
    let mut database = set_up(&mut workload);
    let ran = run(&mut database, &workload, 300, 5);
    let check = |database: &mut EmbeddedDatabase| {
        let checks = workload.check(database, &ran.counts, true).expect("it can be asked");
        wrong(&checks)
            .iter()
            .filter_map(|name| name.strip_prefix("condition ")?.split(',').next()?.parse().ok())
            .collect::<Vec<u32>>()
    };
    assert!(check(&mut database).is_empty());
    // What is raised by one, and which conditions say so.
    let customer = "c_w_id = 1 AND c_d_id = 2 AND c_id = 3";
    let first_payment = "h_c_w_id = 2 AND h_c_d_id = 5 AND h_c_id = 4 AND h_data NOT LIKE '% %'";
    let cases: [(&str, &str, &str, &[u32]); 7] = [
        ("warehouse", "w_ytd", "w_id = 1", &[1, 8]),
        ("district", "d_ytd", "d_w_id = 1 AND d_id = 2", &[1, 9]),
        ("district", "d_next_o_id", "d_w_id = 1 AND d_id = 2", &[2]),
        ("orders", "o_ol_cnt", "o_w_id = 1 AND o_d_id = 4 AND o_id = 7", &[4, 6]),
        ("customer", "c_balance", customer, &[10, 12]),
        ("customer", "c_ytd_payment", customer, &[12]),
        ("history", "h_amount", first_payment, &[8, 9, 10]),
    ];
    for (table, column, place, conditions) in cases {
        let raise =
            |by: &str| format!("UPDATE {table} SET {column} = {column} {by} WHERE {place};");
        database.execute(&raise("+ 1")).expect("it runs");
        assert_eq!(check(&mut database), conditions, "{table} {column}");
        database.execute(&raise("- 1")).expect("it runs");
    }
    let line = "ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1";
    let deliver =
        |date: &str| format!("UPDATE order_line SET ol_delivery_d = {date} WHERE {line};");
    let order = "no_w_id = 2 AND no_d_id = 3 AND no_o_id = 1";
    let cases: [(String, String, &[u32]); 2] = [
        (deliver("NULL"), deliver("NOW"), &[7]),
        (
            "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (1, 3, 2);".to_string(),
            format!("DELETE FROM new_order WHERE {order};"),
            &[3, 5, 11],
        ),
    ];
    for (breaks, mends, conditions) in cases {
        database.execute(&breaks).expect("it runs");
        assert_eq!(check(&mut database), conditions, "{breaks}");
        database.execute(&mends).expect("it runs");
    }
    assert!(check(&mut database).is_empty());
}

#[test]
fn the_same_seed_makes_the_same_database() {
    let of = |seed| {
        let mut workload = tpcc(Rules::Py, Delivery::Original, Partitioning::Warehouse, true);
        let mut database = set_up(&mut workload);
        let ran = run(&mut database, &workload, 500, seed);
        let mut ask = |sql: &str| {
            use lockstep_workloads::Database;
            database.query(sql).expect("rows")
        };
        let lines = ask("SELECT SUM(ol_i_id * ol_number), SUM(ol_amount) FROM order_line;");
        let paid = ask("SELECT SUM(h_amount), SUM(h_c_id) FROM history;");
        (ran.kinds, lines, paid)
    };
    let first = of(1);
    assert_eq!(first, of(1));
    assert_ne!(first, of(2));
}

#[test]
fn tatp_finds_as_often_as_its_definition_says_in_all_modes() {
    for (name, mode) in AlternateKey::NAMES {
        let mut workload = Tatp::new(200, mode).expect("a scale");
        let mut database = set_up(&mut workload);
        let mut ran = run(&mut database, &workload, 6000, 9);
        assert_eq!(ran.first_error, None, "{name}");
        let checks = workload.check(&mut database, &ran.counts, true).expect("it can be asked");
        assert_eq!(wrong(&checks), Vec::<&str>::new(), "{name} {checks:?}");
        let shares: Vec<u64> = ran.kinds.iter().map(|counts| counts.iter().sum()).collect();
        for (share, wanted) in shares.iter().zip([35, 10, 35, 2, 14, 2, 2]) {
            let percent = *share as f64 / 60.0;
            assert!((percent - f64::from(wanted)).abs() < 3.2, "{name} {shares:?}");
        }
        // One forwarding that nobody inserted, and a lower share of rows found.
        ran.counts[0] += 1;
        ran.counts[13] = ran.counts[6] / 2;
        let checks = workload.check(&mut database, &ran.counts, true).expect("it can be asked");
        assert_eq!(wrong(&checks).len(), 2, "{name} {checks:?}");
    }
}
