//! Clocks that jump between two starts: times and numbers only grow, and recovery finds what is
//! newest, whatever the clock said when it was written.

use super::directory::Folder;
use super::process::Host;
use super::{lockstep, text};
use lockstep_types::Value;

const DAY_S: i64 = 86_400;

fn start(folder: &Folder, shift_s: i64) -> Host {
    let options = ["log_segment_bytes=1048576".to_string()];
    let mut command = Host::command(&folder.0, &options);
    Host::run(command.env("CLOCK_SHIFT_S", shift_s.to_string())).ready()
}

#[test]
fn times_and_numbers_grow_whatever_the_clock_does_between_two_starts() {
    let folder = Folder::made("clock");
    // Ahead, back to now, far back, ahead again; every other one ends with a snapshot.
    for (round, days) in (0i64..).zip([10, 0, -1_000, 20, -5, 0]) {
        let mut host = start(&folder, days * DAY_S);
        let mut connection = host.connect();
        if round == 0 {
            let table =
                "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY, made TIMESTAMP DEFAULT NOW)";
            connection.sql(table).expect("the table is made");
        }
        for a in 0..20 {
            let insert = format!("INSERT INTO t (a) VALUES ({})", round * 20 + a);
            connection.sql(&insert).expect("a row is inserted");
        }
        let times = connection.sql("SELECT made FROM t ORDER BY a").expect("the query runs");
        let times: Vec<i64> = times[0]
            .rows
            .iter()
            .map(|row| match row[0] {
                Value::Timestamp(us) => us,
                ref other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(times.len() as i64, (round + 1) * 20, "everything came back");
        assert!(times.is_sorted(), "round {round}: {times:?}");
        drop(connection);
        if round % 2 == 0 {
            let stop = ["admin", "shutdown", "--save", "--server", &host.admin()];
            let stopped = lockstep(&stop, "");
            assert!(stopped.status.success(), "{}", text(&stopped.stderr));
            assert!(host.wait().0);
        } else {
            host.kill();
        }
        let inspected = lockstep(&["log", "inspect", folder.shown()], "");
        assert!(text(&inspected.stdout).ends_with("sound\n"), "{}", text(&inspected.stdout));
    }
}
