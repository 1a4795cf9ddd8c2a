//! Snapshots of several hosts: one cut, saved by each host in its part, complete or not there.

use crate::durability::data;
use crate::snapshot::{Folder, digest, fill};
use crate::support::{Answer, Peer, SetAtTheEnd, configuration, parameters, start};
use lockstep_durability::directory::{ClusterFile, SeveralHosts, initialize};
use lockstep_durability::snapshot::scan;
use lockstep_env::DiskErrorKind;
use lockstep_env::memory::MemoryDisk;
use lockstep_node::log::{Durability, directory::new_cluster};
use lockstep_node::{Server, local_cluster};
use lockstep_types::Datum::{Int, Text};
use lockstep_types::SqlType;
use lockstep_types::parameter::ParameterWriter;
use lockstep_workloads::bank;
use std::sync::atomic::{AtomicBool, Ordering};

const HOSTS: u32 = 3;
const SITES: u32 = 2;
/// Hosts of which a busy machine suspects none that runs.
const SLOW: [&str; 3] = ["heartbeat_interval_ms=200", "suspect_after_ms=3000", "lease_ms=1000"];
const ACCOUNTS: i64 = 40;

type Cluster = (Vec<Server>, Vec<Peer>);

fn cluster_of(hosts: u32, kfactor: u8, disks: &[MemoryDisk]) -> Cluster {
    let next = std::cell::Cell::new(0);
    let host = || {
        let disk = disks.get(next.replace(next.get() + 1));
        configuration(SITES, &SLOW, disk.map(|disk| data(disk, Durability::Sync)))
    };
    let members = local_cluster::members(hosts, kfactor, host).expect("there are free ports");
    let started = local_cluster::start(members).into_iter();
    let servers: Vec<Server> = started.map(|it| it.expect("it starts")).collect();
    let peers = servers.iter().map(|server| Peer::login(server.client_address())).collect();
    (servers, peers)
}

fn save(peer: &mut Peer, folder: &Folder, nonce: &str) -> Answer {
    peer.call("@SnapshotSave", &[Text(folder.text()), Text(nonce), Int(1)])
}

fn assert_saved(answer: &Answer) {
    assert_eq!(answer.status, 1, "{answer:?}");
    assert_eq!(answer.rows.lines().count() as u32, HOSTS * SITES, "{answer:?}");
    for host in 0..HOSTS {
        let of_host = answer.rows.lines().filter(|row| row.starts_with(&format!("{host},")));
        assert_eq!(of_host.filter(|row| row.contains(",SUCCESS,")).count() as u32, SITES);
    }
}

fn restore(peer: &mut Peer, folder: &Folder, nonce: &str) {
    let answer = peer.call("@SnapshotRestore", &[Text(folder.text()), Text(nonce)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.rows.lines().all(|line| line.contains(",SUCCESS,")), "{answer:?}");
}

/// Scans at most, until one ends with an answer.
const SCANS: usize = 20;

/// The snapshots that a scan of the whole cluster finds: whether each is complete.
fn found(peer: &mut Peer, folder: &Folder) -> Vec<(String, bool)> {
    // A host that is lost just now does not answer its part.
    const UNKNOWN: i8 = -7;
    let scans = std::iter::repeat_with(|| peer.call("@SnapshotScan", &[Text(folder.text())]));
    let scanned = scans.take(SCANS).find(|it| it.status != UNKNOWN).expect("a scan that ends");
    assert_eq!((scanned.status, scanned.tables), (1, 3), "{scanned:?}");
    let first = scanned.rows.split(';').next().expect("three tables").to_string();
    let read = |line: &str| {
        let nonce = line.split(',').nth(1).expect("a nonce").to_string();
        (nonce, line.contains(",TRUE,SNAP_PATH"))
    };
    first.lines().map(read).collect()
}

/// Moves amounts between accounts of all partitions until it is over; never the sum.
fn transfer(peer: &mut Peer, is_over: &AtomicBool) {
    let mut turn = 0;
    while !is_over.load(Ordering::Acquire) {
        turn += 1;
        let (from, to) = (Int(turn % ACCOUNTS), Int((turn * 7 + 1) % ACCOUNTS));
        let moved = peer.call("TransferAnywhere", &[from, to, Int(1)]);
        assert!([1, -1].contains(&moved.status), "{moved:?}");
    }
}

/// What is saved under load at one host comes back elsewhere, with the sum that it always had.
fn is_one_cut(kfactor: u8) {
    let folder = Folder::new(&format!("cluster-snapshot-{kfactor}"));
    let (servers, mut peers) = cluster_of(HOSTS, kfactor, &[]);
    peers[1].run(bank::SCHEMA);
    peers[1].run(bank::NATIVE_SCHEMA);
    for id in 0..ACCOUNTS {
        assert_eq!(peers[2].call("ACCOUNTS.insert", &[Int(id), Int(100)]).status, 1);
    }
    fill(&mut peers[0]);
    let before = digest(&mut peers[0]);
    let is_over = AtomicBool::new(false);
    let mut last = peers.pop().expect("three clients");
    std::thread::scope(|scope| {
        let _over = SetAtTheEnd(&is_over);
        for peer in &mut peers {
            let is_over = &is_over;
            scope.spawn(move || transfer(peer, is_over));
        }
        for nonce in ["A", "B"] {
            assert_saved(&save(&mut last, &folder, nonce));
        }
    });
    assert_eq!(found(&mut last, &folder), [("A".to_string(), true), ("B".to_string(), true)]);
    let status = last.call("@Statistics", &[Text("SNAPSHOTSTATUS"), Int(0)]).rows;
    for host in 0..HOSTS {
        assert!(status.contains(&format!("A-host_{host}-site_")), "{status}");
    }
    let check = |peer: &mut Peer| {
        let sum = peer.run("SELECT COUNT(*), SUM(balance) FROM accounts");
        assert_eq!(sum, format!("{ACCOUNTS},{}", ACCOUNTS * 100), "K = {kfactor}");
        // The last one is a sum of floats, whose rounding depends on the number of partitions.
        assert_eq!(digest(peer)[..4], before[..4], "K = {kfactor}");
    };
    drop(servers);
    let one = start(3, &[]);
    let mut peer = Peer::login(one.client_address());
    restore(&mut peer, &folder, "A");
    check(&mut peer);
    let (_servers, mut others) = cluster_of(2, 1, &[]);
    restore(&mut others[1], &folder, "B");
    others.iter_mut().for_each(check);
}

#[test]
fn a_snapshot_of_a_cluster_is_one_cut_that_others_restore() {
    is_one_cut(0);
}

#[test]
fn a_snapshot_of_a_cluster_with_copies_is_one_cut_that_others_restore() {
    is_one_cut(1);
}

#[test]
fn a_snapshot_is_listed_once_and_deleted_at_all_hosts() {
    let folder = Folder::new("cluster-snapshot-list");
    let (_servers, mut peers) = cluster_of(HOSTS, 0, &[]);
    fill(&mut peers[0]);
    let begun = peers[2].call("@SnapshotSave", &[Text(folder.text()), Text("N"), Int(0)]);
    for host in 0..HOSTS {
        let row = |line: &str| line.starts_with(&format!("{host},")) && line.contains(",PAIR,SUC");
        assert!(begun.rows.lines().any(row), "{begun:?}");
    }
    while save(&mut peers[0], &folder, "M").rows.contains("IN PROGRESS") {
        std::thread::yield_now();
    }
    let both = [("M".to_string(), true), ("N".to_string(), true)];
    assert_eq!(found(&mut peers[1], &folder), both);
    // Without the files of one host it is not complete, and is not restored.
    let kept = std::path::Path::new(folder.text()).join("N-host_1.manifest");
    let bytes = std::fs::read(&kept).expect("host 1 has a part");
    std::fs::remove_file(&kept).expect("it is ours");
    assert_eq!(found(&mut peers[1], &folder)[1], ("N".to_string(), false));
    let refused = peers[0].call("@SnapshotRestore", &[Text(folder.text()), Text("N")]);
    assert!(refused.text.contains("other hosts saved the partitions 1, 4"), "{refused:?}");
    std::fs::write(&kept, bytes).expect("it is ours");
    let text = format!(
        "{{\"path\": \"{}\", \"nonce\": \"T\", \"format\": \"csv\", \"block\": true}}",
        folder.text()
    );
    assert_saved(&peers[1].call("@SnapshotSave", &[Text(&text)]));
    let lines = |table: &str| {
        let files = folder.files().into_iter();
        let of_table = files.filter(|name| name.starts_with(&format!("T-{table}-host_")));
        let read = |name| std::fs::read_to_string(std::path::Path::new(folder.text()).join(name));
        of_table.map(|name: String| read(name).expect("it is there").lines().count()).sum::<usize>()
    };
    assert_eq!([lines("PAIR"), lines("EVERYWHERE")], [120, 120]);
    let mut delete = |nonce: &str| {
        let mut parameters = ParameterWriter::default();
        parameters.array(SqlType::Varchar, &[Text(folder.text())]);
        parameters.array(SqlType::Varchar, &[Text(nonce)]);
        peers[2].call_with("@SnapshotDelete", &parameters)
    };
    for nonce in ["N", "M", "T"] {
        let deleted = delete(nonce);
        assert!(deleted.rows.lines().all(|row| row.contains(",TRUE,SUCCESS")), "{deleted:?}");
    }
    assert_eq!(folder.files(), Vec::<String>::new());
    assert!(delete("N").rows.contains("there is no snapshot N"));
}

/// The directories of the hosts of a new cluster.
fn new_disks(kfactor: u8) -> Vec<MemoryDisk> {
    let make = |_| {
        let disk = MemoryDisk::new();
        let several = Some(SeveralHosts { hosts: HOSTS, sites: SITES, kfactor, witnesses: 0 });
        let partitions = HOSTS * SITES / (u32::from(kfactor) + 1);
        let file = ClusterFile { several, ..new_cluster(partitions) };
        initialize(&disk, file).expect("an empty disk can be made");
        disk
    };
    (0..HOSTS).map(make).collect()
}

/// By host, the names of the snapshots of which its directory has a file.
fn nonces(disks: &[MemoryDisk]) -> Vec<Vec<String>> {
    let of_disk = |disk: &MemoryDisk| {
        let found = scan(disk, "snapshots").expect("it can be listed");
        found.into_iter().map(|found| found.nonce).collect()
    };
    disks.iter().map(of_disk).collect()
}

#[test]
fn nothing_stays_of_a_snapshot_that_one_host_cannot_write() {
    let disks = new_disks(1);
    let (servers, mut peers) = cluster_of(HOSTS, 1, &disks);
    peers[0].run(
        "CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY);
        CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY);
        PARTITION TABLE p ON COLUMN id;",
    );
    for id in 0..20 {
        assert_eq!(peers[1].call("P.insert", &[Int(id)]).status, 1);
    }
    assert_eq!(peers[2].call("R.insert", &[Int(1)]).status, 1);
    let mut save = |nonce: &str, host: usize| {
        let text = format!("{{\"nonce\": \"{nonce}\", \"block\": true}}");
        peers[host].call("@SnapshotSave", &[Text(&text)])
    };
    assert_saved(&save("GOOD", 0));
    for bad in [2, 0] {
        // It fails while the rows are written, then where the folder is looked at.
        for part in [".rows", ".manifest.partial"] {
            disks[bad].set_hook(Some(Box::new(move |_, name, _, _| {
                match name.contains("BAD") && name.contains(part) {
                    true => Err(DiskErrorKind::Full),
                    false => Ok(()),
                }
            })));
            let refused = save("BAD", 1);
            let row = format!("{bad},");
            assert!(refused.rows.starts_with(&row), "{refused:?}");
            assert!(refused.rows.contains(",FAILURE,"), "{refused:?}");
            disks[bad].set_hook(None);
            crate::support::eventually("nothing stays", || {
                nonces(&disks).iter().all(|names| names == &["GOOD"])
            });
        }
    }
    let again = save("NEXT", 2);
    assert_saved(&again);
    assert_eq!(nonces(&disks), vec![vec!["GOOD".to_string(), "NEXT".to_string()]; 3]);
    drop(peers);
    drop(servers);
    // A start has the logs, and does not take what users saved for the data of a host.
    let (_servers, mut peers) = cluster_of(HOSTS, 1, &disks);
    assert_eq!(peers[2].run("SELECT COUNT(*) FROM p"), "20");
    assert_eq!(peers[1].run("SELECT COUNT(*) FROM r"), "1");
}

#[test]
fn a_host_that_is_lost_leaves_no_whole_snapshot_and_the_next_one_works() {
    let folder = Folder::new("cluster-snapshot-lost");
    let (mut servers, mut peers) = cluster_of(HOSTS, 1, &[]);
    fill(&mut peers[0]);
    let before = digest(&mut peers[0]);
    let bytes = crate::support::call_frame(
        "@SnapshotSave",
        7,
        &parameters(&[Text(folder.text()), Text("LOST"), Int(1)]),
    );
    peers[0].send(&bytes);
    drop(servers.pop());
    let answer = peers[0].answer();
    let is_saved = answer.status == 1 && answer.rows.contains(",SUCCESS,");
    // Its end may have come when all was saved, and then it is whole.
    let scanned = |peer: &mut Peer| {
        let found = found(peer, &folder).into_iter();
        found.filter(|(nonce, _)| nonce == "LOST").any(|(_, complete)| complete)
    };
    crate::support::eventually("what it is worth is seen", || scanned(&mut peers[1]) == is_saved);
    crate::support::eventually("the next one is saved", || {
        let saved = save(&mut peers[1], &folder, "NEXT");
        saved.status == 1 && saved.rows.contains(",SUCCESS,")
    });
    let one = start(2, &[]);
    let mut peer = Peer::login(one.client_address());
    restore(&mut peer, &folder, "NEXT");
    assert_eq!(digest(&mut peer), before);
}
