//! Tasks on a host that runs them: at their times, where they belong, and as what their calls
//! are: calls.

use crate::durability::{data, new_disk};
use crate::full_disk::leave_free;
use crate::support::{Peer, eventually, start, start_with};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_types::Datum::{Int, Text};

const SITES: u32 = 3;
const SCHEMA: &str = "\
    CREATE TABLE counter (id INTEGER NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
    CREATE TABLE hits (id INTEGER NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
    PARTITION TABLE hits ON COLUMN id;
    CREATE TABLE runs (began TIMESTAMP NOT NULL);
    CREATE PROCEDURE Tick AS UPDATE counter SET n = n + 1 WHERE id = ?;
    CREATE PROCEDURE Hit PARTITION ON TABLE hits COLUMN id PARAMETER 0 AS
        UPDATE hits SET n = n + 1 WHERE id = ?;
    CREATE PROCEDURE HitHere DIRECTED AS UPDATE hits SET n = n + 1;
    CREATE PROCEDURE Noted AS INSERT INTO runs (began) VALUES (NOW);
    CREATE PROCEDURE Count AS SELECT n FROM counter;";
const ROWS: i64 = 12;

fn fill(peer: &mut Peer) {
    peer.run(SCHEMA);
    for id in 0..ROWS {
        peer.run(&format!(
            "INSERT INTO counter VALUES ({id}, 0); INSERT INTO hits VALUES ({id}, 0)"
        ));
    }
}

fn host_with(options: &[&str]) -> (Server, Peer) {
    let server = start(SITES, options);
    let mut peer = Peer::login(server.client_address());
    fill(&mut peer);
    (server, peer)
}

fn host() -> (Server, Peer) {
    host_with(&[])
}

/// A row of `@Statistics TASK`, as far as tests look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    partition: i64,
    state: String,
    scope: String,
    status: String,
    calls: i64,
    failures: i64,
}

fn rows(peer: &mut Peer, task: &str) -> Vec<Row> {
    let answer = peer.call("@Statistics", &[Text("TASK"), Int(0)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    let read = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let back = |from_end: usize| fields[fields.len() - from_end].parse().expect("a number");
        (fields[4] == task).then(|| Row {
            partition: fields[3].parse().expect("a number"),
            state: fields[5].to_string(),
            scope: fields[6].to_string(),
            status: fields[16..fields.len() - 10].join(","),
            calls: back(10),
            failures: back(1),
        })
    };
    answer.rows.lines().filter_map(read).collect()
}

fn row(peer: &mut Peer, task: &str) -> Row {
    let rows = rows(peer, task);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

fn number(peer: &mut Peer, query: &str) -> i64 {
    peer.run(query).parse().expect("a number")
}

/// Waits until a task has run N times more.
fn runs_more(peer: &mut Peer, task: &str, more: i64) {
    let before: i64 = rows(peer, task).iter().map(|row| row.calls).sum();
    eventually("the task runs", || {
        rows(peer, task).iter().map(|row| row.calls).sum::<i64>() >= before + more
    });
}

#[test]
fn every_form_of_schedule_runs_at_its_time_and_not_more_often() {
    let (_server, mut peer) = host();
    for (schedule, least_ms) in
        [("EVERY 50 MILLISECONDS", 50), ("DELAY 50 MILLISECONDS", 50), ("CRON * * * * * ?", 1_000)]
    {
        peer.run(&format!("CREATE TASK k ON SCHEDULE {schedule} PROCEDURE Noted"));
        runs_more(&mut peer, "K", 3);
        peer.run("DROP TASK k");
        assert!(rows(&mut peer, "K").is_empty());
        let span = "SELECT COUNT(*), SINCE_EPOCH(MILLISECOND, MAX(began))
            - SINCE_EPOCH(MILLISECOND, MIN(began)) FROM runs";
        let seen = peer.run(span);
        let (count, span_ms) = seen.split_once(',').expect("two numbers");
        let (count, span_ms): (i64, i64) =
            (count.parse().expect("a number"), span_ms.parse().expect("a number"));
        assert!(count >= 3, "{schedule}: {seen}");
        // The first may have begun late, up to an interval.
        assert!(span_ms >= (count - 2) * least_ms, "{schedule}: {seen}");
        peer.run("DELETE FROM runs");
    }
}

#[test]
fn calls_of_tasks_are_calls_of_every_kind() {
    let (_server, mut peer) = host();
    let tasks = [
        ("many", "Tick WITH (3)", "SELECT n FROM counter WHERE id = 3"),
        ("single", "Hit WITH (5)", "SELECT n FROM hits WHERE id = 5"),
        ("generated", "hits.UPSERT WITH (100, 7)", "SELECT COUNT(*) FROM hits WHERE n = 7"),
        (
            "adhoc",
            "@AdHoc WITH ('INSERT INTO counter VALUES (200, 1)')",
            "SELECT COUNT(*) FROM counter WHERE id = 200",
        ),
    ];
    for (name, call, query) in tasks {
        peer.run(&format!(
            "CREATE TASK {name} ON SCHEDULE EVERY 5 MILLISECONDS PROCEDURE {call} ON ERROR IGNORE
             RUN ON HOSTS"
        ));
        eventually(name, || number(&mut peer, query) >= 1);
        runs_more(&mut peer, &name.to_uppercase(), 2);
        assert_eq!(row(&mut peer, &name.to_uppercase()).scope, "HOSTS");
    }
    // The host counts them as it counts everybody's.
    let counted = peer.call("@Statistics", &[Text("PROCEDUREPROFILE"), Int(0)]).rows;
    for name in ["Tick", "Hit", "HITS.upsert"] {
        let found = counted.lines().any(|line| line.split(',').any(|field| field == name));
        assert!(found, "{name} is not in {counted}");
    }
    // Those of system procedures, too, and one that reads.
    peer.run(
        "CREATE TASK reads ON SCHEDULE EVERY 5 MILLISECONDS PROCEDURE Count;
         CREATE TASK stats ON SCHEDULE EVERY 5 MILLISECONDS PROCEDURE @Statistics
         WITH ('TABLE', 0)",
    );
    for name in ["READS", "STATS"] {
        runs_more(&mut peer, name, 3);
        assert_eq!(row(&mut peer, name).failures, 0);
    }
    assert!(row(&mut peer, "ADHOC").failures > 0, "a key twice");
}

#[test]
fn a_directed_task_runs_at_each_partition() {
    for sites in [1, SITES] {
        let server = start(sites, &[]);
        let mut peer = Peer::login(server.client_address());
        fill(&mut peer);
        peer.run(
            "CREATE TASK k ON SCHEDULE EVERY 5 MILLISECONDS PROCEDURE HitHere
             RUN ON PARTITIONS",
        );
        eventually("all partitions run it", || {
            let rows = rows(&mut peer, "K");
            let partitions = rows.iter().map(|row| row.partition);
            assert!(partitions.eq(0..i64::from(sites)), "{rows:?}");
            assert!(rows.iter().all(|row| row.state == "RUNNING" && row.scope == "PARTITIONS"));
            rows.iter().all(|row| row.calls >= 3)
        });
        assert!(number(&mut peer, "SELECT MIN(n) FROM hits") >= 3);
        peer.run("DROP TASK k");
        let counts = number(&mut peer, "SELECT COUNT(DISTINCT n) FROM hits");
        assert!(counts <= i64::from(sites), "rows of one partition have one count, not {counts}");
    }
}

#[test]
fn a_host_without_room_takes_no_calls_of_tasks_until_it_has_some() {
    const RESERVE: u64 = 16 << 20;
    let disk = new_disk(SITES);
    let reserve = format!("disk_reserve_bytes={RESERVE}");
    let (_server, mut peer) = kept(&disk, &["resource_check_ms=10", &reserve]);
    fill(&mut peer);
    peer.run("CREATE TASK k ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE Tick WITH (0)");
    runs_more(&mut peer, "K", 3);
    leave_free(&disk, RESERVE / 8);
    eventually("it is not run", || row(&mut peer, "K").status.contains("it was not run: "));
    let refused = row(&mut peer, "K");
    assert!(refused.status.contains("disk_reserve_bytes"), "{refused:?}");
    assert_eq!((refused.state.as_str(), refused.failures), ("RUNNING", 0));
    leave_free(&disk, RESERVE * 2);
    runs_more(&mut peer, "K", 3);
    let again = row(&mut peer, "K");
    assert_eq!((again.status.as_str(), again.failures), ("NULL", 0));
}

#[test]
fn a_task_may_end_itself() {
    let (_server, mut peer) = host();
    peer.run(
        "CREATE TASK once ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE @AdHoc
         WITH ('DROP TASK once; CREATE TASK next ON SCHEDULE EVERY 1 SECONDS PROCEDURE Count')",
    );
    eventually("the other one runs", || rows(&mut peer, "NEXT").iter().any(|row| row.calls > 0));
    assert!(rows(&mut peer, "ONCE").is_empty());
}

#[test]
fn the_halves_of_the_statistics_have_its_columns() {
    let (_server, mut peer) = host();
    peer.run("CREATE TASK k ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE Tick WITH (0)");
    runs_more(&mut peer, "K", 3);
    peer.run("ALTER TASK k DISABLE");
    // A run may have been in progress.
    let fields = |peer: &mut Peer, selector: &str| {
        let answer = peer.call("@Statistics", &[Text(selector), Int(0)]);
        let fields: Vec<String> = answer.rows.split(',').skip(3).map(str::to_string).collect();
        fields
    };
    let mut all = Vec::new();
    eventually("nothing is under way", || {
        let before = std::mem::replace(&mut all, fields(&mut peer, "TASK"));
        number(&mut peer, "SELECT n FROM counter WHERE id = 0").to_string() == all[14]
            && before == all
    });
    let (head, rest) = all.split_at(4);
    assert_eq!(head, ["-1", "K", "DISABLED", "DATABASE"]);
    assert_eq!(rest.len(), 20);
    assert_eq!(fields(&mut peer, "TASK_SCHEDULER"), [head, &rest[..10]].concat());
    assert_eq!(fields(&mut peer, "TASK_PROCEDURE"), [head, &rest[10..]].concat());
    let numbers: Vec<i64> = rest.iter().map(|text| text.parse().unwrap_or(-1)).collect();
    let (scheduled, calls) = (numbers[0], numbers[10]);
    assert!(calls >= 3 && scheduled >= calls, "{all:?}");
    // Total, least, greatest, mean: of the calls, and of their waits.
    for times in [&numbers[11..15], &numbers[15..19]] {
        let &[total, least, greatest, mean] = times else { panic!("four numbers") };
        assert!(least <= mean && mean <= greatest && greatest <= total, "{all:?}");
        assert!(total >= calls * least && total > 0, "{all:?}");
    }
    assert_eq!(numbers[19], 0, "no failures");
}

#[test]
fn what_failures_lead_to() {
    let (_server, mut peer) = host();
    peer.run("CREATE TASK beat ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE Tick WITH (0)");
    peer.run("CREATE TASK k ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE HITS.insert WITH (1, 1)");
    eventually("it stops", || row(&mut peer, "K").state == "ERROR");
    let stopped = row(&mut peer, "K");
    assert_eq!((stopped.calls, stopped.failures), (1, 1));
    assert!(stopped.status.contains("procedure HITS.insert failed"), "{stopped:?}");
    assert!(stopped.status.contains("CONSTRAINT VIOLATION"), "{stopped:?}");
    runs_more(&mut peer, "BEAT", 20);
    assert_eq!(row(&mut peer, "K"), stopped);
    let listed = peer.call("@SystemCatalog", &[Text("TASKS")]).rows;
    assert!(listed.contains("K,NULL,NULL,PROCEDURE,HITS.insert, 1, 1,EVERY,1 MILLISECONDS,STOP,"));

    for word in ["LOG", "IGNORE"] {
        peer.run(&format!("ALTER TASK k ALTER ON ERROR {word}"));
        let before = row(&mut peer, "K").failures;
        eventually("it goes on", || row(&mut peer, "K").failures >= before + 3);
        assert_eq!(row(&mut peer, "K").state, "RUNNING");
    }
    peer.run("DELETE FROM hits WHERE id = 1");
    eventually("a call that did its work clears the status", || {
        let seen = row(&mut peer, "K").status;
        peer.run("DELETE FROM hits WHERE id = 1");
        seen == "NULL"
    });
    peer.run("ALTER TASK k ALTER ON ERROR STOP");
    eventually("it stops again", || row(&mut peer, "K").state == "ERROR");
}

#[test]
fn disabled_tasks_rest() {
    let (_server, mut peer) = host();
    peer.run("CREATE TASK beat ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE Tick WITH (0)");
    peer.run("CREATE TASK k ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE Tick WITH (1) DISABLE");
    runs_more(&mut peer, "BEAT", 20);
    assert_eq!(row(&mut peer, "K").calls, 0);
    assert_eq!(row(&mut peer, "K").state, "DISABLED");
    peer.run("ALTER TASK k ENABLE");
    runs_more(&mut peer, "K", 3);
    peer.run("ALTER TASK k DISABLE");
    // One may have been in progress.
    runs_more(&mut peer, "BEAT", 20);
    let before = row(&mut peer, "K");
    runs_more(&mut peer, "BEAT", 20);
    assert_eq!(row(&mut peer, "K"), before);
    assert_eq!(number(&mut peer, "SELECT n FROM counter WHERE id = 1"), before.calls);
}

#[test]
fn a_paused_host_runs_none() {
    let (server, mut peer) = host();
    let mut admin = Peer::login(server.admin_address());
    peer.run(
        "CREATE TASK k ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE Tick WITH (1);
         CREATE TASK c ON SCHEDULE CRON * * * * * * PROCEDURE Tick WITH (2)",
    );
    runs_more(&mut peer, "K", 3);
    assert_eq!(admin.call("@Pause", &[]).status, 1);
    for name in ["K", "C"] {
        assert_eq!(row(&mut peer, name).state, "PAUSED");
    }
    // What was in progress comes first.
    eventually("it is quiet", || {
        let before = number(&mut peer, "SELECT SUM(n) FROM counter");
        (0..20).all(|_| number(&mut peer, "SELECT SUM(n) FROM counter") == before)
    });
    let before = number(&mut peer, "SELECT SUM(n) FROM counter");
    for _ in 0..300 {
        assert_eq!(number(&mut peer, "SELECT SUM(n) FROM counter"), before);
    }
    assert_eq!(row(&mut peer, "K").failures, 0);
    assert_eq!(admin.call("@Resume", &[]).status, 1);
    runs_more(&mut peer, "K", 3);
    runs_more(&mut peer, "C", 1);
    assert_eq!(admin.call("@PrepareShutdown", &[]).status, 1);
    assert_eq!(row(&mut peer, "K").state, "PAUSED");
    assert_eq!(admin.call("@CancelShutdown", &[]).status, 1);
    runs_more(&mut peer, "K", 3);
}

#[test]
fn schemas_change_while_tasks_run() {
    let (server, mut peer) = host();
    peer.run(
        "CREATE TASK beat ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE Hit WITH (2);
         CREATE TASK here ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE HitHere RUN ON PARTITIONS",
    );
    for number in 0..30 {
        let action = ["DELAY", "EVERY"][number % 2];
        peer.run(&format!(
            "CREATE TASK k ON SCHEDULE {action} 1 MILLISECONDS PROCEDURE Tick WITH (4)"
        ));
        if number % 3 == 0 {
            peer.run("ALTER TASK k DISABLE; ALTER TABLE runs ADD COLUMN more INTEGER");
        }
        if number % 5 == 0 {
            runs_more(&mut peer, "BEAT", 1);
        }
        peer.run("DROP TASK k");
        if number % 3 == 0 {
            peer.run("ALTER TABLE runs DROP COLUMN more");
        }
    }
    for name in ["BEAT", "HERE"] {
        runs_more(&mut peer, name, 4);
        let rows = rows(&mut peer, name);
        assert!(rows.iter().all(|row| row.failures == 0 && row.state == "RUNNING"), "{rows:?}");
    }
    let refused = peer.sql("DROP PROCEDURE Hit");
    assert_eq!(refused.status, -2);
    assert!(refused.text.contains("Task BEAT could not make its calls any more"), "{refused:?}");
    server.stop().expect("it stops in order, with tasks under way");
}

#[test]
fn options_bound_tasks() {
    let (_server, mut peer) = host_with(&["max_tasks=2", "task_min_interval_ms=60000"]);
    let create = |name: &str| {
        format!("CREATE TASK {name} ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE Tick WITH (0)")
    };
    peer.run(&format!("{}; {}", create("a"), create("b")));
    let refused = peer.sql(&create("c"));
    assert_eq!(refused.status, -2, "{refused:?}");
    assert!(refused.text.contains("a host has 2 at most (option max_tasks)"), "{refused:?}");
    peer.run(&format!("DROP TASK a; {}", create("c")));
    for _ in 0..200 {
        assert_eq!(peer.run("SELECT n FROM counter WHERE id = 0"), "0");
    }
}

/// A host with a directory.
fn kept(disk: &MemoryDisk, options: &[&str]) -> (Server, Peer) {
    let options = [&["log_segment_bytes=131072", "statistics_interval_ms=0"], options].concat();
    let server = start_with(SITES, &options, Some(data(disk, Durability::Sync)));
    let server = server.expect("the host starts");
    let peer = Peer::login(server.client_address());
    (server, peer)
}

const KEPT: &str = "\
    CREATE TASK everywhere ON SCHEDULE EVERY 2 MILLISECONDS PROCEDURE Tick WITH (1) ON ERROR LOG;
    CREATE TASK here ON SCHEDULE DELAY 2 MILLISECONDS PROCEDURE HitHere RUN ON PARTITIONS;
    CREATE TASK c ON SCHEDULE CRON 0 0 3 ? * SUN PROCEDURE Hit WITH (5);
    CREATE TASK off ON SCHEDULE EVERY 1 MILLISECONDS PROCEDURE Tick WITH (2) DISABLE;";
const STATE: &str = "SELECT * FROM counter ORDER BY id; SELECT * FROM hits ORDER BY id";

#[test]
fn what_tasks_did_is_replayed_bit_by_bit_and_the_tasks_go_on() {
    let disk = new_disk(SITES);
    let (server, mut peer) = kept(&disk, &[]);
    fill(&mut peer);
    peer.run(KEPT);
    runs_more(&mut peer, "EVERYWHERE", 20);
    runs_more(&mut peer, "HERE", 20);
    let saved = peer.call("@SnapshotSave", &[Text(""), Text("one"), Int(1)]);
    assert_eq!(saved.status, 1, "{saved:?}");
    peer.run("ALTER TASK c ALTER ON ERROR IGNORE");
    runs_more(&mut peer, "EVERYWHERE", 20);
    let listed = peer.call("@SystemCatalog", &[Text("TASKS")]).rows;
    let digests = server.stop_with_digests().expect("it stops");

    // None of them runs here, so that what is there is what came back.
    for snapshots in [true, false] {
        let copy = disk.copy();
        if !snapshots {
            for name in lockstep_env::Disk::list(&copy, "snapshots").expect("it is there") {
                let name = format!("snapshots/{name}");
                lockstep_env::Disk::remove(&copy, &name).expect("it is there");
            }
        }
        let (server, mut peer) = kept(&copy, &["task_min_interval_ms=86400000"]);
        assert_eq!(peer.call("@SystemCatalog", &[Text("TASKS")]).rows, listed);
        assert_eq!(row(&mut peer, "EVERYWHERE").calls, 0, "counters begin anew");
        assert_eq!(server.stop_with_digests().expect("it stops"), digests);
    }
    let (_server, mut peer) = kept(&disk, &[]);
    runs_more(&mut peer, "EVERYWHERE", 3);
    runs_more(&mut peer, "HERE", 3);
    assert_eq!(row(&mut peer, "OFF").state, "DISABLED");
}

#[test]
fn a_power_cut_under_tasks_loses_nothing_that_was_seen() {
    let disk = new_disk(SITES);
    let (server, mut peer) = kept(&disk, &[]);
    fill(&mut peer);
    peer.run(KEPT);
    for _ in 0..3 {
        runs_more(&mut peer, "EVERYWHERE", 10);
        let seen = (
            number(&mut peer, "SELECT n FROM counter WHERE id = 1"),
            number(&mut peer, "SELECT SUM(n) FROM hits"),
        );
        let survivor = disk.survivor(|_| Survival::Lost);
        let (_server, mut peer) = kept(&survivor, &["task_min_interval_ms=86400000"]);
        let back = (
            number(&mut peer, "SELECT n FROM counter WHERE id = 1"),
            number(&mut peer, "SELECT SUM(n) FROM hits"),
        );
        assert!(back.0 >= seen.0 && back.1 >= seen.1, "{back:?} after {seen:?} was seen");
        assert!(!peer.run(STATE).is_empty());
        assert_eq!(rows(&mut peer, "HERE").len(), SITES as usize);
    }
    drop(server);
}
