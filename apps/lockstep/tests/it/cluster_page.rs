//! The commands of `docs/cluster.md`, run as printed: the hosts `a` to `e` are names of a network
//! namespace. A command that is on the page and in no scenario here fails the first test.

use super::namespace::Namespace;
use super::process::{Host, PATIENCE, TIMES};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Names of machines, and the last part of the address of each.
const MACHINES: [(&str, u8); 5] = [("a", 11), ("b", 12), ("c", 13), ("d", 14), ("e", 15)];

const WITHOUT_COPIES: &[&str] =
    &["lockstep start --sites 2 --client a:21212 --admin a:21211 --internal a:3021 \
     --peers a:3021,b:3021,c:3021"];
const GROUPS: &[&str] = &["lockstep start --sites 2 --kfactor 1 --internal a:3021 \
     --peers a:3021,b:3021,c:3021,d:3021,e:3021 --group rack-1"];
const DIRECTORIES: &[&str] = &[
    "lockstep init --dir D --hosts 3 --kfactor 1 --sites 2",
    "lockstep start --dir D --client a:21212 --admin a:21211 --internal a:3021 \
     --peers a:3021,b:3021,c:3021",
    "lockstep admin snapshot save monday --path /backup --server b:21211",
    "lockstep admin snapshot scan /backup --server a:21211",
    "lockstep start --dir D --client c:21212 --admin c:21211 --internal c:3021 \
     --peers a:3021,b:3021,c:3021 --rejoin",
    "lockstep admin cluster add d:3021 --server a:21211",
    "lockstep start --dir D --internal d:3021 --peers a:3021,b:3021,c:3021,3=d:3021",
    "lockstep admin cluster remove 0 --wait --server d:21211",
];
const WITNESS: &[&str] = &[
    "lockstep start --sites 2 --kfactor 1 --witnesses 1 --client a:21212 --admin a:21211 \
     --internal a:3021 --peers a:3021,b:3021,c:3021",
    "lockstep start --sites 2 --kfactor 1 --witnesses 1 --client b:21212 --admin b:21211 \
     --internal b:3021 --peers a:3021,b:3021,c:3021",
    "lockstep witness --internal c:3021 --peers a:3021,b:3021,c:3021",
];
const WITNESS_WITH_DIRECTORIES: &[&str] = &[
    "lockstep init --dir D --hosts 2 --witnesses 1 --kfactor 1 --sites 2",
    "lockstep init --dir D --witness",
    "lockstep start --dir D --client a:21212 --admin a:21211 --internal a:3021 \
     --peers a:3021,b:3021,c:3021",
    "lockstep witness --dir D --internal c:3021 --peers a:3021,b:3021,c:3021",
];
const IN_MEMORY: &[&str] = &[
    "lockstep start --sites 2 --kfactor 1 --internal c:3021 --peers a:3021,b:3021,c:3021 --rejoin",
    "lockstep admin host status --server a:21211",
    "lockstep admin host stop 2 --server a:21211",
    "lockstep admin cluster --server a:21211",
    "lockstep admin cluster --server a:21211 --json",
];
const MOVES: &[&str] = &[
    "lockstep admin cluster move-leader --server a:21211 --partition 3 --to 1",
    "lockstep admin host drain 2 --server a:21211",
    "lockstep admin cluster balance --server a:21211",
    "lockstep admin cluster move-copy --server a:21211 --partition 3 --from 0 --to 2",
    "lockstep admin cluster kfactor 2 --server a:21211",
    "lockstep admin cluster --watch --server a:21211",
];
const SCENARIOS: [&[&str]; 7] =
    [WITHOUT_COPIES, GROUPS, DIRECTORIES, WITNESS, WITNESS_WITH_DIRECTORIES, IN_MEMORY, MOVES];

/// The commands in blocks of code of the page. A block that begins with a prompt is a recording.
fn commands_of_page() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cluster.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let blocks = page.split("```").skip(1).step_by(2);
    let recorded = |block: &&str| !block.trim_start().starts_with('$');
    let lines = blocks.filter(recorded).flat_map(str::lines).map(str::trim);
    lines.filter(|line| line.starts_with("lockstep ")).map(str::to_string).collect()
}

#[test]
fn every_command_of_the_page_is_in_a_scenario() {
    let run: BTreeSet<String> =
        SCENARIOS.iter().flat_map(|it| it.iter()).map(|command| command.to_string()).collect();
    assert_eq!(commands_of_page(), run);
}

/// Machines of a namespace, and the members that run on them.
struct Machines {
    namespace: Namespace,
    place: PathBuf,
    members: RefCell<BTreeMap<&'static str, Host>>,
    /// Added to what makes a member and starts it, beside [`TIMES`].
    options: &'static [&'static str],
}

impl Machines {
    fn or_skip(scenario: &str, options: &'static [&'static str]) -> Option<Machines> {
        let place = std::env::temp_dir()
            .join(format!("lockstep-cluster-page-{}-{scenario}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(place.join("backup")).expect("it can be made");
        let names = MACHINES.map(|(name, number)| format!("127.0.0.{number} {name}\n")).concat();
        let hosts = place.join("hosts");
        std::fs::write(&hosts, names).expect("it can be written");
        let preparation =
            format!("ip link set lo up && mount --bind {} /etc/hosts", hosts.display());
        let namespace = Namespace::or_skip(&preparation)?;
        Some(Machines { namespace, place, members: RefCell::default(), options })
    }

    /// What runs a command of the page at a machine.
    fn command(&self, machine: &str, text: &str) -> Command {
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[0], "lockstep");
        let mut command = self.namespace.command(env!("CARGO_BIN_EXE_lockstep"));
        if ["start", "witness"].contains(&words[1]) {
            command.args(["--log", "error"]);
        }
        for word in &words[1..] {
            match *word {
                "D" => command.arg(self.place.join(machine)),
                "/backup" => command.arg(self.place.join("backup")),
                word => command.arg(word),
            };
        }
        command
    }

    /// Runs a command that ends with success; what it printed.
    fn run(&self, machine: &str, text: &str) -> String {
        let output = self.command(machine, text).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}: {said}{problem}");
        said
    }

    /// Makes the directory of a member.
    fn init(&self, machine: &str, text: &str) {
        let mut command = self.command(machine, text);
        let is_host = !text.contains("--witness") || text.contains("--witnesses");
        if is_host {
            command.args(self.options);
        }
        assert!(command.output().expect("it runs").status.success(), "{text} at {machine}");
    }

    /// Begins the process of a member: the command as it is for another machine has the addresses
    /// of that one. Ports for clients that it does not name are at the address of the machine:
    /// all machines are one.
    fn spawn(&self, machine: &'static str, text: &str) {
        let mut text = text.to_string();
        for (own, port) in [("--client", 21212), ("--admin", 21211), ("--internal", 3021)] {
            for (name, _) in MACHINES {
                let shown = format!("{own} {name}:{port}");
                text = text.replace(&shown, &format!("{own} {machine}:{port}"));
            }
        }
        let mut command = self.command(machine, &text);
        command.args(TIMES);
        if text.starts_with("lockstep start ") {
            if !text.contains("--client") {
                let ports = [format!("{machine}:21212"), format!("{machine}:21211")];
                command.args(["--client", &ports[0], "--admin", &ports[1]]);
            }
            command.args(self.options);
        }
        self.members.borrow_mut().insert(machine, Host::run(&mut command));
    }

    /// Waits until the process of a member is ready.
    fn ready(&self, machine: &str) {
        let mut members = self.members.borrow_mut();
        let (name, host) = members.remove_entry(machine).expect("it was begun");
        members.insert(name, host.ready());
    }

    /// Starts a member by a command for each of these machines, and waits until all are ready.
    fn start(&self, machines: &[&'static str], text: &str) {
        machines.iter().for_each(|machine| self.spawn(machine, text));
        machines.iter().for_each(|machine| self.ready(machine));
    }

    /// A member is killed.
    fn kill(&self, machine: &str) {
        self.members.borrow_mut().remove(machine).expect("it runs").kill();
    }

    /// Waits until the process of a member has ended by itself.
    fn await_end(&self, machine: &str) {
        let mut host = self.members.borrow_mut().remove(machine).expect("it runs");
        let (is_well, said) = host.wait();
        assert!(is_well, "{machine}: {said}");
    }

    /// What `admin cluster --json` shows at a machine.
    fn shown(&self, machine: &str) -> serde_json::Value {
        let text = format!("lockstep admin cluster --server {machine}:21211 --json");
        serde_json::from_str(&self.run(machine, &text)).expect("it is JSON")
    }

    /// Waits until a machine shows the cluster in a certain way.
    fn until(&self, machine: &str, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.shown(machine);
            if is_so(&now) {
                return;
            }
            assert!(Instant::now() < deadline, "never: {what}: {now}");
        }
    }

    /// Waits until all partitions have as many followers in sync.
    fn await_followers(&self, machine: &str, count: usize) {
        self.until(machine, "the copies are in sync", |shown| {
            let mut partitions = list(&shown["partitions"]).iter();
            partitions.all(|it| list(&it["followers"]).len() == count)
        });
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.members.borrow_mut().clear();
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

fn list(value: &serde_json::Value) -> &[serde_json::Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn hosts_without_copies_and_hosts_in_racks_start() {
    let Some(machines) = Machines::or_skip("start", &[]) else { return };
    machines.start(&["a", "b", "c"], WITHOUT_COPIES[0]);
    assert_eq!(list(&machines.shown("b")["partitions"]).len(), 6);
    drop(machines);
    let Some(machines) = Machines::or_skip("groups", &[]) else { return };
    let all = ["a", "b", "c", "d", "e"];
    for (machine, rack) in all.iter().zip(["rack-1", "rack-2", "rack-3", "rack-1", "rack-2"]) {
        machines.spawn(machine, &GROUPS[0].replace("rack-1", rack));
    }
    all.iter().for_each(|machine| machines.ready(machine));
    let shown = machines.shown("e");
    assert_eq!(shown["hosts"][4]["group"], "rack-2");
}

#[test]
fn hosts_with_directories_save_lose_one_grow_and_shrink() {
    let Some(machines) = Machines::or_skip("directories", &[]) else { return };
    let [init, start, save, scan, rejoin, add, start_added, remove] = DIRECTORIES else {
        unreachable!("as many as there are")
    };
    ["a", "b", "c"].iter().for_each(|machine| machines.init(machine, init));
    machines.start(&["a", "b", "c"], start);
    let made = "CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN k; \
                INSERT INTO t VALUES (7);";
    let sql = |machine: &str, text: &str| {
        let mut command = machines.command(machine, "lockstep sql");
        let output = command.args(["--server", &format!("{machine}:21212"), "-e", text]).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    sql("a", made);
    machines.run("a", save);
    let scanned = machines.run("a", scan);
    assert!(scanned.contains("monday"), "{scanned}");
    // The machine c is lost with its disk.
    machines.kill("c");
    machines.until("a", "c is down", |shown| shown["hosts"][2]["state"] == "down");
    std::fs::remove_dir_all(machines.place.join("c")).expect("it was its directory");
    machines.init("c", init);
    machines.start(&["c"], rejoin);
    machines.await_followers("a", 1);
    let said = machines.run("a", add);
    assert!(said.contains("3=") && said.contains("--peers"), "{said}");
    machines.init("d", init);
    machines.start(&["d"], start_added);
    machines.until("a", "d has its share", |shown| shown["hosts"][3]["plan"] == "stays");
    let said = machines.run("d", remove);
    assert!(said.contains("host 0 is not of the cluster any more"), "{said}");
    machines.await_end("a");
    machines.await_followers("d", 1);
    assert!(sql("d", "SELECT k FROM t").contains('7'));
}

#[test]
fn two_hosts_and_a_witness_go_on_without_one_of_them() {
    let Some(machines) = Machines::or_skip("witness", &[]) else { return };
    for (machine, text) in ["a", "b", "c"].into_iter().zip(WITNESS) {
        machines.spawn(machine, text);
    }
    ["a", "b", "c"].iter().for_each(|machine| machines.ready(machine));
    machines.kill("a");
    machines.until("b", "it goes on alone", |shown| shown["hosts"][0]["state"] == "down");
    drop(machines);
    let Some(machines) = Machines::or_skip("witness-directories", &[]) else { return };
    let [init, init_witness, start, witness] = WITNESS_WITH_DIRECTORIES else {
        unreachable!("as many as there are")
    };
    ["a", "b"].iter().for_each(|machine| machines.init(machine, init));
    machines.init("c", init_witness);
    ["a", "b"].iter().for_each(|machine| machines.spawn(machine, start));
    machines.spawn("c", witness);
    ["a", "b", "c"].iter().for_each(|machine| machines.ready(machine));
    assert_eq!(machines.shown("b")["hosts"][2]["role"], "witness");
}

#[test]
fn a_host_in_memory_is_stopped_and_comes_back() {
    let Some(machines) = Machines::or_skip("memory", &[]) else { return };
    let [rejoin, status, stop, shown, json] = IN_MEMORY else {
        unreachable!("as many as there are")
    };
    let start = rejoin.strip_suffix(" --rejoin").expect("it comes back by it");
    machines.start(&["a", "b", "c"], start);
    assert!(machines.run("a", status).contains('2'));
    machines.run("a", stop);
    machines.await_end("c");
    machines.start(&["c"], rejoin);
    machines.await_followers("a", 1);
    assert!(machines.run("a", shown).contains("running"));
    assert!(machines.run("a", json).contains("\"followers\""));
}

#[test]
fn leaders_and_copies_are_moved_and_k_is_changed() {
    let options = &["--option", "partitions_per_site=2"];
    let Some(machines) = Machines::or_skip("moves", options) else { return };
    let [move_leader, drain, balance, move_copy, kfactor, watch] = MOVES else {
        unreachable!("as many as there are")
    };
    let start = IN_MEMORY[0].replace(" --rejoin", "").replace("--kfactor 1", "--kfactor 2");
    machines.start(&["a", "b", "c"], &start);
    let leader = || machines.shown("a")["partitions"][3]["leader"].clone();
    if leader() == 1 {
        machines.run("a", &move_leader.replace("--to 1", "--to 0"));
    }
    machines.run("a", move_leader);
    assert_eq!(leader(), 1);
    machines.run("a", drain);
    assert!(list(&machines.shown("a")["partitions"]).iter().all(|it| it["leader"] != 2));
    machines.run("a", balance);
    assert!(list(&machines.shown("a")["partitions"]).iter().any(|it| it["leader"] == 2));
    machines.run("a", &kfactor.replace("kfactor 2", "kfactor 1"));
    machines.await_followers("a", 1);
    // The copy that is moved is at the first host, and none is at the last one.
    let has = |host: i64| {
        let partition = machines.shown("a")["partitions"][3].clone();
        partition["leader"] == host || list(&partition["followers"]).iter().any(|it| *it == host)
    };
    let settled = |host: i64| {
        machines.until("a", "the copy has moved", |_| has(host));
        machines.await_followers("a", 1);
    };
    let other = (0..3).find(|host| !has(*host)).expect("two of three have one");
    if other != 2 {
        machines.run("a", &move_copy.replace("0 --to 2", &format!("2 --to {other}")));
        settled(other);
    }
    machines.run("a", move_copy);
    settled(2);
    assert!(!has(0));
    machines.run("a", kfactor);
    machines.await_followers("a", 2);
    // It goes on until somebody ends it.
    let mut watching = machines.command("a", watch);
    let mut watching = watching.stdout(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(watching.stdout.take().expect("piped")).lines();
    let shows = lines.map_while(Result::ok).any(|line| line.contains("running"));
    watching.kill().expect("it runs until then");
    watching.wait().expect("it has ended");
    assert!(shows, "it shows the state of the cluster");
}
