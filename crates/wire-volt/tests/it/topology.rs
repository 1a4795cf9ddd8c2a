//! The tables that clients parse to route their calls.

use crate::corpus::{from_hex, show_table};
use lockstep_base::bytes::ByteReader;
use lockstep_types::{Datum, HashRing, HostId, PartitionId, SqlType, TableView};
use lockstep_wire_volt::topology::{
    self, KeyType, PartitionSites, ProcedureEntry, ProcedureRouting, RingForm, SiteAddress,
};

fn tables(bytes: &[u8]) -> Vec<String> {
    let mut reader = ByteReader::new(bytes);
    let mut texts = Vec::new();
    while reader.remaining() > 0 {
        texts.push(show_table(&TableView::read(&mut reader).expect("a table")));
    }
    texts
}

#[test]
fn topology_lists_sorted_sites_and_leaders() {
    let at = |host, site| SiteAddress { host: HostId(host), site };
    let rows = [
        PartitionSites {
            partition: PartitionId(0),
            sites: vec![at(10, 0), at(2, 1)],
            leader: Some(at(2, 1)),
        },
        PartitionSites { partition: PartitionId(1), sites: vec![], leader: None },
        PartitionSites {
            partition: PartitionId::MULTI,
            sites: vec![at(2, 5)],
            leader: Some(at(2, 5)),
        },
    ];
    let mut out = Vec::new();
    let count = topology::write_topology(&mut out, &rows, RingForm::Raw(&[1, 2]));
    assert_eq!(count, 2);
    assert_eq!(
        tables(&out),
        [
            "Partition INTEGER, Sites VARCHAR, Leader VARCHAR: (0, 10:0, 2:1, 2:1) (1, , ) \
             (16383, 2:5, 2:5)",
            "HASHTYPE VARCHAR, HASHCONFIG VARBINARY: (ELASTIC, 0102)",
        ]
    );
}

#[test]
fn the_raw_ring_starts_at_the_smallest_token_and_agrees_with_the_json_form() {
    let ring = HashRing::new(3);
    let raw = topology::raw_ring(&ring);
    assert_eq!(raw[..12], from_hex("00004000 80000000 00000002".replace(' ', "").as_str()));
    assert_eq!(raw.len(), 4 + 16_384 * 8);
    let json = topology::json_ring(&ring);
    let pairs: Vec<(i32, i32)> = json
        .trim_matches(['{', '}'])
        .split(',')
        .map(|pair| {
            let (token, partition) = pair.split_once(':').expect("a pair");
            let token = token.trim_matches('"').parse().expect("a token");
            (token, partition.parse().expect("a partition"))
        })
        .collect();
    let mut reader = ByteReader::new(&raw[4..]);
    for pair in pairs {
        assert_eq!((reader.i32(), reader.i32()), (Ok(pair.0), Ok(pair.1)));
    }
    assert_eq!(reader.remaining(), 0);
}

#[test]
fn procedures_carry_their_routing_as_json() {
    let entry = |name, read_only, routing| {
        let effects = name == "Sweep";
        ProcedureEntry { name, read_only, routing, compound: false, effects, more: "" }
    };
    let by = ProcedureRouting::ByParameter { parameter: 1, column_type: SqlType::BigInt };
    let mut out = Vec::new();
    let procedures = [
        entry("Vote", false, by),
        entry("Results", true, ProcedureRouting::Multi),
        entry("Sweep", false, ProcedureRouting::Directed),
    ];
    assert_eq!(topology::write_procedures(&mut out, procedures), 1);
    let table = TableView::read(&mut ByteReader::new(&out)).expect("a table");
    let rows: Vec<_> = table.rows().map(|row| row.expect("a row")).collect();
    let remarks = |row: usize| rows[row].get(6).expect("a text");
    assert_eq!(
        remarks(0),
        Datum::Text(
            "{\"readOnly\":false,\"singlePartition\":true,\"partitionParameter\":1,\
             \"partitionParameterType\":6,\"compound\":false}"
        )
    );
    assert_eq!(
        remarks(1),
        Datum::Text("{\"readOnly\":true,\"singlePartition\":false,\"compound\":false}")
    );
    assert_eq!(
        remarks(2),
        Datum::Text(
            "{\"readOnly\":false,\"singlePartition\":true,\"partitionParameter\":-1,\
             \"partitionParameterType\":-1,\"compound\":false,\"effects\":true}"
        )
    );
    assert_eq!(rows[0].get(2), Ok(Datum::Text("Vote")));
    assert_eq!(rows[0].get(0), Ok(Datum::Null));
    assert_eq!(table.column_count(), 9);
}

#[test]
fn partition_keys_hash_to_their_partitions() {
    for (name, key_type) in
        [("integer", KeyType::Integer), (" Varchar ", KeyType::Text), ("VARBINARY", KeyType::Bytes)]
    {
        assert_eq!(KeyType::parse(name), Ok(key_type));
        for count in [1, 2, 8, 100] {
            let ring = HashRing::new(count);
            let keys = topology::partition_keys(&ring, key_type);
            assert_eq!(keys.len(), count as usize);
            let mut out = Vec::new();
            assert_eq!(topology::write_partition_keys(&mut out, key_type, &keys), 1);
            let table = TableView::read(&mut ByteReader::new(&out)).expect("a table");
            for (partition, row) in table.rows().enumerate() {
                let row = row.expect("a row");
                assert_eq!(row.get(0), Ok(Datum::Int(partition as i64)));
                let key = row.get(1).expect("a key");
                assert_eq!(ring.partition_of(key), PartitionId(partition as u32), "{key}");
            }
        }
    }
    assert!(KeyType::parse("FLOAT").is_err_and(|f| f.message.contains("FLOAT")));
}

#[test]
fn reserved_handles_end_below_those_of_calls() {
    assert_eq!(topology::PING_HANDLE, 9_223_372_036_854_775_807);
    assert_eq!(topology::GRACEFUL_STOP_HANDLE, 9_223_372_036_854_775_804);
    const { assert!(topology::FIRST_RESERVED_HANDLE < topology::GRACEFUL_STOP_HANDLE) };
}
