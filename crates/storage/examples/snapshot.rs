//! How fast a snapshot is encoded and loaded: MB of row data a second of processor time, so that
//! other programs on the machine make no difference. For Linux.

use lockstep_storage::{
    ColumnLayout, IndexDefinition, KeySource, RowsRecord, Table, TableLayout, TableRestore, Tables,
    UndoLog,
};
use lockstep_types::{Datum, SqlType, TableId};

const ROWS: i64 = 1_000_000;

/// Processor time of this thread in seconds.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts it");
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    nanoseconds.expect("a number in front") / 1e9
}

fn empty(wide: bool, index: bool) -> Table {
    let mut columns = vec![
        ColumnLayout::fixed(SqlType::BigInt).not_null(),
        ColumnLayout::fixed(SqlType::Integer),
        ColumnLayout::variable(SqlType::Varchar, 8),
    ];
    if wide {
        columns.push(ColumnLayout::variable(SqlType::Varchar, 400));
    }
    let mut table = Table::new("T", TableLayout::new(&columns).expect("a legal layout"));
    if index {
        let source = KeySource::Columns(vec![0]);
        let primary = IndexDefinition { name: "PK".into(), unique: true, source };
        table.add_index(primary).expect("a legal index");
    }
    table
}

/// Spreads numbers over all 40-bit ones, each once.
fn scattered(number: i64) -> i64 {
    (number * 0x9E_3779_B97F) & ((1 << 40) - 1)
}

fn measure(name: &str, wide: bool, index: bool, is_scattered: bool) {
    let (mut tables, mut undo) = (Tables::new(), UndoLog::default());
    let id: TableId = tables.add(empty(wide, index));
    let text = "x".repeat(120);
    for key in 0..ROWS {
        let id_of = if is_scattered { scattered(key) } else { key };
        let values =
            [Datum::Int(id_of), Datum::Int(key % 7), Datum::Text("AB"), Datum::Text(&text)];
        let values = &values[..3 + usize::from(wide)];
        tables[id].insert(values, &mut undo).expect("it fits");
        undo.release_all(&mut tables);
    }
    let headers = tables.begin_snapshot(8 * 1024, |_| true);
    let mut stream = Vec::with_capacity(400 << 20);
    // As buffers that are used again: the system's first touch of memory is not measured.
    stream.resize(stream.capacity(), 1);
    stream.clear();
    let began = processor_seconds();
    tables.snapshot_step(&mut stream, usize::MAX);
    let encoded = processor_seconds() - began;
    let megabytes = stream.len() as f64 / 1e6;
    let began = processor_seconds();
    let header = &headers[0];
    let mut restore = TableRestore::new(empty(wide, index), header.used_slots, header.free_head)
        .expect("an empty table");
    let mut input = &stream[..];
    while let Some(record) = RowsRecord::take(&mut input).expect("sound") {
        restore.add(&record).expect("sound");
    }
    let restored = restore.finish().expect("whole");
    let loaded = processor_seconds() - began;
    assert_eq!(restored.content_hash(), tables[id].content_hash());
    let (encoded, loaded) = (megabytes / encoded, megabytes / loaded);
    println!("{name}: {megabytes:.0} MB, encoded {encoded:.0} MB/s, loaded {loaded:.0} MB/s");
}

fn main() {
    measure("21-byte rows, no index", false, false, false);
    measure("21-byte rows, primary key", false, true, false);
    measure("21-byte rows, primary key, scattered", false, true, true);
    measure("150-byte rows with a long text, no index", true, false, false);
    measure("150-byte rows with a long text, primary key", true, true, false);
    measure("150-byte rows with a long text, primary key, scattered", true, true, true);
}
