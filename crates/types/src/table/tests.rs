//! The wire bytes of tables, held against captured ones, and hostile bytes.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex digits")
    };
    digits.chunks(2).map(byte).collect()
}

#[test]
fn the_worked_table_has_its_bytes() {
    let schema = TableSchema::new(&[("ID", SqlType::Integer), ("NAME", SqlType::Varchar)]);
    let mut out = Vec::new();
    let mut builder = TableBuilder::begin(&mut out, &schema);
    builder.row(&schema, &[Datum::Int(1), Datum::Text("ab")]);
    builder.row(&schema, &[Datum::Null, Datum::Null]);
    assert_eq!(builder.finish(), 2);
    let expected = hex("00000035 00000013 80 0002 05 09 00000002 4944 00000004 4e414d45 00000002
         0000000a 00000001 00000002 6162 00000008 80000000 ffffffff");
    assert_eq!(out, expected);
    let mut reader = ByteReader::new(&out);
    let table = TableView::read(&mut reader).expect("a table");
    assert_eq!(table.column_names(), Ok(vec!["ID", "NAME"]));
    let rows: Vec<_> = table.rows().map(|row| row.expect("a row")).collect();
    assert_eq!(rows[0].get(1), Ok(Datum::Text("ab")));
    assert_eq!(rows[1].get(0), Ok(Datum::Null));
    assert_eq!(table.scalar(), Ok(Some(Datum::Int(1))));
    assert_eq!(reader.remaining(), 0);
}

#[test]
fn every_cut_of_a_table_is_an_error_and_never_a_panic() {
    let schema = TableSchema::new(&[("A", SqlType::Decimal), ("B", SqlType::Varbinary)]);
    let mut out = Vec::new();
    let mut builder = TableBuilder::begin(&mut out, &schema);
    builder.row(&schema, &[Datum::Decimal(Decimal::from_integer(7)), Datum::Bytes(&[1, 2])]);
    builder.finish();
    for cut in 0..out.len() {
        assert!(TableView::read(&mut ByteReader::new(&out[..cut])).is_err());
    }
    for position in 0..out.len() {
        for flip in [1u8, 0x80, 0xff] {
            let mut bad = out.clone();
            bad[position] ^= flip;
            if let Ok(table) = TableView::read(&mut ByteReader::new(&bad)) {
                let _ = table.column_names();
                for row in table.rows().take(10).flatten() {
                    let _ = row.read_into(&mut Vec::new());
                }
            }
        }
    }
}

#[test]
fn a_column_that_is_not_there_is_an_error() {
    // Found by fuzzing: one row of no columns.
    let bytes = [0, 0, 0, 19, 0, 0, 0, 3, 128, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let table = TableView::read(&mut ByteReader::new(&bytes)).expect("a table");
    assert_eq!((table.column_count(), table.row_count()), (0, 1));
    assert_eq!(table.scalar(), Err(DecodeError::NoColumn(0)));
}
