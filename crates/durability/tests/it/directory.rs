//! Making a host's directory, and reading what was made.

use lockstep_durability::ClusterId;
use lockstep_durability::directory::{
    ClusterFile, SeveralHosts, initialize, read_members, write_members,
};
use lockstep_env::Disk;
use lockstep_env::memory::{MemoryDisk, Survival};

fn file() -> ClusterFile {
    ClusterFile {
        cluster: ClusterId([7; 16]),
        partition_count: 3,
        created_ms: 1_700_000_000_000,
        several: None,
        is_witness: false,
    }
}

#[test]
fn what_was_made_is_read_and_not_made_again() {
    let disk = MemoryDisk::new();
    assert_eq!(ClusterFile::read(&disk), Ok(None));
    initialize(&disk, file()).unwrap();
    disk.cut_power(|_| Survival::Lost);
    assert_eq!(ClusterFile::read(&disk), Ok(Some(file())));
    let again = initialize(&disk, file()).unwrap_err().to_string();
    assert!(again.contains("belongs to a host already"), "{again}");
}

#[test]
fn a_directory_of_one_host_of_several_says_so_and_names_the_others() {
    let disk = MemoryDisk::new();
    let several = Some(SeveralHosts { hosts: 3, sites: 2, kfactor: 1, witnesses: 0 });
    let file = ClusterFile { several, ..file() };
    initialize(&disk, file).unwrap();
    assert_eq!(ClusterFile::read(&disk), Ok(Some(file)));
    assert_eq!(read_members(&disk), Ok(None));
    let members = [ClusterId([1; 16]), ClusterId([7; 16])];
    for known in [1, 2] {
        write_members(&disk, &members[..known]).unwrap();
        disk.cut_power(|_| Survival::Lost);
        assert_eq!(read_members(&disk), Ok(Some(members[..known].to_vec())));
    }
    let mut damaged = disk.bytes("members").unwrap();
    damaged[20] ^= 1;
    disk.replace("members", damaged);
    let error = read_members(&disk).unwrap_err().to_string();
    assert!(error.contains("checksum"), "{error}");
}

#[test]
fn a_witness_has_a_directory_without_data_and_its_hosts_know_of_it() {
    let disk = MemoryDisk::new();
    let witness = ClusterFile { is_witness: true, partition_count: 0, ..file() };
    initialize(&disk, witness).unwrap();
    assert_eq!(ClusterFile::read(&disk), Ok(Some(witness)));
    assert_eq!(disk.list("").unwrap(), ["cluster"]);
    let disk = MemoryDisk::new();
    let several = Some(SeveralHosts { hosts: 2, sites: 2, kfactor: 1, witnesses: 1 });
    let host = ClusterFile { several, ..file() };
    initialize(&disk, host).unwrap();
    assert_eq!(ClusterFile::read(&disk), Ok(Some(host)));
}

#[test]
fn a_directory_with_something_else_in_it_is_left_alone() {
    let disk = MemoryDisk::new();
    disk.replace("letters", b"dear".to_vec());
    let error = initialize(&disk, file()).unwrap_err().to_string();
    assert!(error.contains("'letters' is in it"), "{error}");
    assert_eq!(disk.list("").unwrap(), ["letters"]);
}

#[test]
fn a_making_that_was_cut_off_can_be_done_again() {
    let disk = MemoryDisk::new();
    disk.replace("cluster.unfinished", b"Lock".to_vec());
    disk.create_folder("log").unwrap();
    initialize(&disk, file()).unwrap();
    assert_eq!(ClusterFile::read(&disk), Ok(Some(file())));
}

#[test]
fn no_changed_byte_goes_unnoticed() {
    let disk = MemoryDisk::new();
    initialize(&disk, file()).unwrap();
    let sound = disk.bytes("cluster").unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 4;
        disk.replace("cluster", bytes);
        let error = ClusterFile::read(&disk).unwrap_err().to_string();
        assert!(error.starts_with("cluster: ") && error.contains("Put the file back"), "{error}");
        disk.replace("cluster", sound[..at].to_vec());
        assert!(ClusterFile::read(&disk).is_err(), "cut at {at}");
    }
}
