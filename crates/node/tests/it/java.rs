//! Java procedures in a host: loaded, called, replaced while they are called, and badly behaved.
//! Without a JDK these tests say so and pass.

use crate::support::{Answer, Peer, SetAtTheEnd, parameters, start};
use lockstep_node::Server;
use lockstep_types::Datum;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// The same for all tests of the process, which have one JVM.
pub const OPTIONS: &[&str] = &["java_heap_bytes=268435456", "java_call_limit_ms=800"];
/// The sources of the procedures.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/java");

/// The source of a class that a host refuses to load.
pub fn refused_source(class: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/java_refused");
    Path::new(folder).join(format!("{class}.java"))
}

/// Compiles sources into a jar.
pub fn compile(name: &str, sources: &[PathBuf]) -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!("lockstep-java-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let api = folder.join("api.jar");
    std::fs::write(&api, lockstep_jvm::runtime_jar()).expect("a file");
    let classes = folder.join("classes");
    let mut javac = Command::new("javac");
    javac.arg("-cp").arg(&api).arg("-d").arg(&classes).args(sources);
    assert!(javac.status().expect("javac runs").success());
    let jar = folder.join("app.jar");
    let mut pack = Command::new("jar");
    pack.arg("cf").arg(&jar).arg("-C").arg(&classes).arg(".");
    assert!(pack.status().expect("jar runs").success());
    let bytes = std::fs::read(&jar).expect("the jar is there");
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
    bytes
}

/// The jar of all procedures of the folder; `None` where there is no JDK.
pub fn jar() -> Option<&'static [u8]> {
    static JAR: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let jar = JAR.get_or_init(|| {
        if lockstep_jvm::runtime_jar().is_empty() {
            return None;
        }
        let entries = std::fs::read_dir(Path::new(SOURCES)).expect("the folder of the sources");
        let sources: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        Some(compile("all", &sources))
    });
    if jar.is_none() {
        println!("skipped: no JDK");
    }
    jar.as_deref()
}

pub fn load(peer: &mut Peer, jar: &[u8]) {
    let answer = peer.call("@UpdateClasses", &[Datum::Bytes(jar), Datum::Null]);
    assert_eq!((answer.status, answer.text.as_str()), (1, ""));
}

/// A host with the classes loaded, and a connection to it.
pub fn host(sites: u32, schema: &str) -> Option<(Server, Peer)> {
    host_with(sites, schema, OPTIONS)
}

/// As [`host`], with options.
pub fn host_with(sites: u32, schema: &str, options: &[&str]) -> Option<(Server, Peer)> {
    let jar = jar()?;
    let server = start(sites, options);
    let mut peer = Peer::login(server.client_address());
    load(&mut peer, jar);
    peer.run(schema);
    Some((server, peer))
}

const VOTER: &str = "
    CREATE TABLE contestants (number INTEGER NOT NULL PRIMARY KEY);
    CREATE TABLE area_codes (area_code SMALLINT NOT NULL PRIMARY KEY, state VARCHAR(2) NOT NULL);
    CREATE TABLE votes (phone BIGINT NOT NULL, state VARCHAR(2) NOT NULL, contestant INTEGER);
    PARTITION TABLE votes ON COLUMN phone;
    CREATE VIEW votes_by_phone (phone, num_votes) AS
        SELECT phone, COUNT(*) FROM votes GROUP BY phone;
    CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone FROM CLASS Vote;";

#[test]
fn voters_procedure_runs_at_its_partitions() {
    for sites in [1, 2] {
        let Some((_server, mut peer)) = host(sites, VOTER) else { return };
        peer.run("INSERT INTO contestants VALUES (1); INSERT INTO area_codes VALUES (212, 'NY');");
        let mut vote = |phone: i64, contestant: i64| {
            peer.call("Vote", &[Datum::Int(phone), Datum::Int(contestant), Datum::Int(2)]).rows
        };
        for phone in 2_120_000_000..2_120_000_020 {
            let answers = [vote(phone, 1), vote(phone, 1), vote(phone, 1), vote(phone, 2)];
            assert_eq!(answers, ["0", "0", "2", "1"], "{sites} sites, {phone}");
        }
        assert_eq!(vote(1, 1), "0");
        let counts = peer.run("SELECT state, COUNT(*) FROM votes GROUP BY state ORDER BY state");
        assert_eq!(counts, "NY,40\nXX,1");
    }
}

#[test]
fn ten_parameters_of_several_types_arrive() {
    let schema = "
        CREATE TABLE district (d_id TINYINT NOT NULL, w_id SMALLINT NOT NULL, name VARCHAR(16),
            street1 VARCHAR(32), street2 VARCHAR(32), city VARCHAR(32), state VARCHAR(2),
            zip VARCHAR(9), tax FLOAT, total FLOAT, next_id INTEGER, PRIMARY KEY (w_id, d_id));
        PARTITION TABLE district ON COLUMN w_id;
        CREATE PROCEDURE PARTITION ON TABLE district COLUMN w_id PARAMETER 1
            FROM CLASS InsertDistrict;";
    let Some((_server, mut peer)) = host(2, schema) else { return };
    let insert = |tax: f64| {
        let text = ["a name", "1st street", "b", "Berlin", "BE", "10115"].map(Datum::Text);
        let mut values = vec![Datum::Int(3), Datum::Int(7)];
        values.extend(text);
        values.extend([Datum::Float(tax), Datum::Null]);
        values
    };
    let answer = peer.call("InsertDistrict", &insert(0.25));
    assert_eq!((answer.status, answer.rows.as_str()), (1, "1"), "{}", answer.text);
    assert_eq!(
        peer.run("SELECT * FROM district"),
        "3,7,a name,1st street,b,Berlin,BE,10115,0.25,NULL,1"
    );
    let again = peer.call("InsertDistrict", &insert(0.5));
    assert_eq!(again.status, -2);
    assert!(again.text.starts_with("VOLTDB ERROR: CONSTRAINT VIOLATION"), "{}", again.text);
    let few = peer.call("InsertDistrict", &insert(0.5)[..2]);
    assert_eq!(few.status, -2, "{}", few.text);
    assert!(few.text.contains("EXPECTS 10 PARAMS, BUT RECEIVED 2"), "{}", few.text);
}

pub const BEHAVE: &str = "
    CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, v BIGINT);
    PARTITION TABLE t ON COLUMN k;
    CREATE PROCEDURE PARTITION ON TABLE t COLUMN k FROM CLASS Behave;";

fn behave(peer: &mut Peer, key: i64, how: &str) -> Answer {
    peer.call("Behave", &[Datum::Int(key), Datum::Text(how)])
}

#[test]
fn exceptions_undo_the_call_and_say_where() {
    let Some((_server, mut peer)) = host(1, BEHAVE) else { return };
    for (how, status, parts) in [
        (
            "abort",
            -1,
            &["VOLTDB ERROR: USER ABORT", "as it was told", "Behave.run(Behave.java:"][..],
        ),
        (
            "throw",
            -3,
            &["java.lang.IllegalArgumentException", "a broken promise", "Behave.run(Behave.java:"],
        ),
        ("checked", -3, &["java.io.IOException", "no file", "Behave.run(Behave.java:"]),
        ("twice", -2, &["CONSTRAINT VIOLATION"]),
    ] {
        let answer = behave(&mut peer, 1, how);
        assert_eq!(answer.status, status, "{how}: {}", answer.text);
        for part in parts {
            assert!(answer.text.contains(part), "{how}: {part} in {}", answer.text);
        }
        let frames = answer.text.lines().filter_map(|line| line.trim().strip_prefix("at "));
        for frame in frames {
            assert!(!frame.contains('/'), "names of modules or loaders in {frame}");
        }
    }
    assert_eq!(peer.run("SELECT COUNT(*) FROM t"), "0");
    // A batch that failed is undone alone when the procedure goes on.
    assert_eq!(behave(&mut peer, 1, "caught").rows, "1");
    assert_eq!(peer.run("SELECT k FROM t"), "1");
}

#[test]
fn a_batch_that_failed_ends_a_call_over_partitions_at_the_only_one_too() {
    for sites in [1, 2] {
        let over_all = BEHAVE.replace("PARTITION ON TABLE t COLUMN k ", "");
        let Some((_server, mut peer)) = host(sites, &over_all) else { return };
        let caught = behave(&mut peer, 1, "caught at the end");
        assert_eq!((caught.status, caught.rows.as_str()), (-2, ""), "{sites}: {caught:?}");
        assert!(caught.text.contains("CONSTRAINT VIOLATION"), "{sites}: {}", caught.text);
        assert_eq!(peer.run("SELECT COUNT(*) FROM t"), "0", "at {sites}");
        // One that wants more is told so at once.
        let caught = behave(&mut peer, 1, "caught");
        assert_eq!((caught.status, caught.rows.as_str()), (-3, ""), "{sites}: {caught:?}");
        assert!(caught.text.contains("after hitting EE exception"), "{sites}: {}", caught.text);
        assert_eq!(peer.run("SELECT COUNT(*) FROM t"), "0", "at {sites}");
        assert_eq!(behave(&mut peer, 2, "well").rows, "1");
        assert_eq!(peer.run("SELECT k FROM t"), "2");
    }
}

#[test]
fn hostile_procedures_end_alone() {
    let Some((_server, mut peer)) = host(1, BEHAVE) else { return };
    assert_eq!(behave(&mut peer, 0, "well").rows, "1");
    let mut stops = Vec::new();
    for how in ["loop", "swallow", "sleep", "exit", "deep", "memory", "thread"] {
        let began = Instant::now();
        let answer = behave(&mut peer, 5, how);
        assert!(answer.status < 0, "{how}: {answer:?}");
        let after = behave(&mut peer, 7, "abort");
        assert_eq!(after.status, -1, "{how}: {}", after.text);
        println!("{how}: served again after {:?}: {}", began.elapsed(), answer.text);
        if matches!(how, "loop" | "swallow" | "sleep") {
            stops.push(began.elapsed());
        }
        assert_eq!(peer.run("SELECT k FROM t"), "0", "{how} is undone");
    }
    // The quickest of three, for the machine may be busy.
    let least = stops.iter().min().expect("some were stopped");
    assert!(least.as_millis() < 1000, "the site served again after {least:?} only");
    assert_eq!(behave(&mut peer, 6, "well").rows, "1");
}

#[test]
fn code_that_runs_when_classes_are_loaded_holds_nobody_up() {
    let Some((server, mut peer)) = host(1, BEHAVE) else { return };
    for class in ["EndlessInitializer", "StuckInitializer"] {
        let jar = compile(class, &[refused_source(class)]);
        let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut other = Peer::login(server.client_address());
                while !done.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let key = 1000 + calls.fetch_add(1, Ordering::Relaxed) as i64;
                    assert_eq!(behave(&mut other, key, "abort").status, -1);
                    assert_eq!(other.run("SELECT COUNT(*) FROM t"), "0");
                    assert!(began.elapsed().as_millis() < 1000, "{:?}", began.elapsed());
                }
            });
            let over = SetAtTheEnd(&done);
            let began = Instant::now();
            let answer = peer.call("@UpdateClasses", &[Datum::Bytes(&jar), Datum::Null]);
            println!("{class}: {:?}: {}", began.elapsed(), answer.text);
            drop(over);
            assert!(answer.status < 0 && answer.text.contains(class), "{answer:?}");
        });
        assert!(calls.load(Ordering::Relaxed) > 5, "others were served meanwhile");
        peer.run("CREATE TABLE more (n INTEGER)");
        peer.run("DROP TABLE more");
    }
    peer.run("CREATE PROCEDURE PARTITION ON TABLE t COLUMN k FROM CLASS Endless$Constructor;");
    let answer = peer.call("Endless$Constructor", &[Datum::Int(1)]);
    assert!(answer.status < 0, "{answer:?}");
    assert_eq!(behave(&mut peer, 1, "well").rows, "1");
}

#[test]
fn several_partitions_are_changed_together_or_not_at_all() {
    let schema = &format!("{BEHAVE} CREATE PROCEDURE FROM CLASS Spread;");
    let Some((_server, mut peer)) = host(2, schema) else { return };
    let mut spread = |first: i64, how: &str| {
        peer.call("Spread", &[Datum::Int(first), Datum::Int(3), Datum::Text(how)])
    };
    let answer = spread(1, "well");
    assert_eq!((answer.status, answer.rows.as_str()), (1, "1,0\n2,0\n3,0"), "{}", answer.text);
    let aborted = spread(11, "abort");
    assert_eq!(aborted.status, -1, "{}", aborted.text);
    assert!(aborted.text.contains("told to, after 3 rows"), "{}", aborted.text);
    // What a batch failed with takes the transaction back whatever the procedure makes of it.
    let swallowed = spread(21, "swallow");
    assert_eq!(swallowed.status, -2, "{}", swallowed.text);
    assert_eq!(spread(2, "well").status, -2);
    assert_eq!(spread(31, "well").rows, "1,0\n2,0\n3,0\n31,3\n32,3\n33,3");
    assert_eq!(behave(&mut peer, 5, "well").rows, "1");
}

/// A procedure that says which version of its class it is, twice a call.
fn version(number: u32) -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!("lockstep-version-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let procedure = folder.join("Version.java");
    let text = "import org.voltdb.*;
        public class Version extends VoltProcedure {
            public final SQLStmt read = new SQLStmt(\"SELECT COUNT(*) FROM t WHERE k = ?\");
            public long run(long key) {
                voltQueueSQL(read, key);
                voltExecuteSQL();
                return Number.VALUE * 1000 + Other.value();
            }
        }";
    let helper = |name: &str, body: &str| {
        let path = folder.join(format!("{name}.java"));
        std::fs::write(&path, format!("public class {name} {{ {body} }}")).expect("a file");
        path
    };
    std::fs::write(&procedure, text.replace("Number.VALUE", "Number.value()")).expect("a file");
    let value = format!("static long value() {{ return {number}; }}");
    let sources = [procedure, helper("Number", &value), helper("Other", &value)];
    let jar = compile("version", &sources);
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
    jar
}

#[test]
fn classes_are_replaced_while_they_are_called() {
    let Some((server, mut peer)) = host(2, BEHAVE) else { return };
    load(&mut peer, &version(1));
    peer.run("CREATE PROCEDURE PARTITION ON TABLE t COLUMN k FROM CLASS Version;");
    let jars: Vec<Vec<u8>> = (2..5).map(version).collect();
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = Peer::login(server.client_address());
            let mut seen = [0; 2];
            while !stop.load(Ordering::Relaxed) {
                let key = calls.fetch_add(1, Ordering::Relaxed) as i64 % 2;
                let answer = peer.call_with("Version", &parameters(&[Datum::Int(key)]));
                let number: i64 = answer.rows.parse().unwrap_or_else(|_| panic!("{answer:?}"));
                assert_eq!(number / 1000, number % 1000, "old and new do not mix");
                assert!(number >= seen[key as usize], "what is replaced does not come back");
                seen[key as usize] = number;
            }
        });
        let _over = SetAtTheEnd(&stop);
        for jar in &jars {
            load(&mut peer, jar);
            let before = calls.load(Ordering::Relaxed);
            crate::support::eventually("calls go on", || {
                calls.load(Ordering::Relaxed) > before + 50
            });
        }
    });
    assert_eq!(peer.call("Version", &[Datum::Int(1)]).rows, "4004");
    // What a procedure needs cannot be removed; what none needs can.
    let in_use = peer.call("@UpdateClasses", &[Datum::Null, Datum::Text("Version")]);
    assert!(in_use.status < 0 && in_use.text.contains("Version"), "{}", in_use.text);
    peer.run("DROP PROCEDURE Version;");
    let removed = peer.call("@UpdateClasses", &[Datum::Null, Datum::Text("Version")]);
    assert_eq!(removed.status, 1, "{}", removed.text);
    let listed = peer.call("@SystemCatalog", &[Datum::Text("CLASSES")]).rows;
    assert!(listed.contains("Behave,1,1") && !listed.contains("Version"), "{listed}");
}

#[test]
fn what_is_no_class_is_refused() {
    let Some((_server, mut peer)) = host(1, BEHAVE) else { return };
    let broken = peer.call("@UpdateClasses", &[Datum::Bytes(b"no jar"), Datum::Null]);
    assert!(broken.status < 0, "{broken:?}");
    for (ddl, part) in [
        ("CREATE PROCEDURE FROM CLASS no.such.Class;", "no.such.Class"),
        ("CREATE PROCEDURE PARTITION ON TABLE t COLUMN v FROM CLASS Vote;", "Vote"),
    ] {
        let answer = peer.sql(ddl);
        assert!(answer.status < 0 && answer.text.contains(part), "{ddl}: {answer:?}");
    }
    assert_eq!(behave(&mut peer, 1, "well").rows, "1");
}
