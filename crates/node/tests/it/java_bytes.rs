//! Bytes that procedures in Java pass to statements that take texts, buffers, and large values.
//! Without a JDK these tests say so and pass.

use crate::java::host;
use lockstep_types::Datum;

const TPCC: &str = "
    CREATE TABLE warehouse (w_id SMALLINT NOT NULL PRIMARY KEY, w_name VARCHAR(16), w_tax FLOAT);
    PARTITION TABLE warehouse ON COLUMN w_id;
    CREATE TABLE district (d_id TINYINT NOT NULL, d_w_id SMALLINT NOT NULL, d_name VARCHAR(16),
        d_tax FLOAT, d_next_o_id INTEGER, PRIMARY KEY (d_w_id, d_id));
    PARTITION TABLE district ON COLUMN d_w_id;
    CREATE TABLE customer (c_id INTEGER NOT NULL, c_d_id TINYINT NOT NULL,
        c_w_id SMALLINT NOT NULL, c_first VARCHAR(32), c_last VARCHAR(32), c_credit VARCHAR(2),
        c_discount FLOAT, c_balance FLOAT, c_data VARCHAR(60), PRIMARY KEY (c_w_id, c_d_id, c_id));
    PARTITION TABLE customer ON COLUMN c_w_id;
    CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last);
    CREATE TABLE item (i_id INTEGER NOT NULL PRIMARY KEY, i_name VARCHAR(32), i_price FLOAT,
        i_data VARCHAR(64));
    CREATE TABLE stock (s_i_id INTEGER NOT NULL, s_w_id SMALLINT NOT NULL, s_quantity INTEGER,
        s_dist VARCHAR(32), s_data VARCHAR(64), PRIMARY KEY (s_w_id, s_i_id));
    PARTITION TABLE stock ON COLUMN s_w_id;
    CREATE TABLE orders (o_id INTEGER NOT NULL, o_d_id TINYINT NOT NULL,
        o_w_id SMALLINT NOT NULL, o_c_id INTEGER, o_entry_d TIMESTAMP, o_ol_cnt INTEGER,
        PRIMARY KEY (o_w_id, o_d_id, o_id));
    PARTITION TABLE orders ON COLUMN o_w_id;
    CREATE TABLE order_line (ol_o_id INTEGER NOT NULL, ol_d_id TINYINT NOT NULL,
        ol_w_id SMALLINT NOT NULL, ol_number INTEGER NOT NULL, ol_i_id INTEGER,
        ol_delivery_d TIMESTAMP, ol_quantity INTEGER, ol_amount FLOAT, ol_dist_info VARCHAR(32),
        PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
    PARTITION TABLE order_line ON COLUMN ol_w_id;
    CREATE TABLE history (h_c_id INTEGER, h_d_id TINYINT, h_w_id SMALLINT NOT NULL,
        h_date TIMESTAMP, h_amount FLOAT, h_data VARCHAR(40));
    PARTITION TABLE history ON COLUMN h_w_id;
    CREATE PROCEDURE PARTITION ON TABLE warehouse COLUMN w_id FROM CLASS NewOrder;
    CREATE PROCEDURE PARTITION ON TABLE warehouse COLUMN w_id FROM CLASS Payment;";

const ROWS: &str = "
    INSERT INTO warehouse VALUES (7, 'Müller', 0.1);
    INSERT INTO district VALUES (3, 7, 'Süd', 0.2, 3001);
    INSERT INTO customer VALUES (1, 3, 7, 'Ada', 'Übel', 'GC', 0.5, 10, 'old');
    INSERT INTO customer VALUES (2, 3, 7, 'Bob', 'Übel', 'BC', 0.5, 20, 'ältere Zeilen');
    INSERT INTO customer VALUES (3, 3, 7, 'Cid', 'Übel', 'GC', 0.5, 30, NULL);
    INSERT INTO item VALUES (11, 'Äpfel', 2.5, 'an ORIGINAL one');
    INSERT INTO item VALUES (12, 'nuts', 0.5, 'plain');
    INSERT INTO stock VALUES (11, 7, 50, 'größe 11', 'ORIGINAL too');
    INSERT INTO stock VALUES (12, 7, 60, 'size 12', 'ORIGINAL too');";

fn integers(elements: &[i64]) -> Vec<Datum<'static>> {
    elements.iter().copied().map(Datum::Int).collect()
}

#[test]
fn new_order_and_payment_pass_the_bytes_of_texts_on() {
    use lockstep_types::SqlType;
    use lockstep_types::parameter::ParameterWriter;
    for sites in [1, 2] {
        let Some((_server, mut peer)) = host(sites, TPCC) else { return };
        peer.run(ROWS);
        let order = |items: &[i64]| {
            let mut set = ParameterWriter::default();
            set.scalar(SqlType::SmallInt, Datum::Int(7)).scalar(SqlType::TinyInt, Datum::Int(3));
            set.integer(1).scalar(SqlType::Timestamp, Datum::Timestamp(1_000_000));
            set.array(SqlType::Integer, &integers(items));
            set.array(SqlType::Integer, &integers(&[4, 10]));
            set
        };
        let answer = peer.call_with("NewOrder", &order(&[11, 12]));
        let lines = "0.5,Übel,GC;Äpfel,46,B,10\nnuts,50,G,5";
        assert_eq!((answer.status, answer.rows.as_str()), (1, lines), "{}", answer.text);
        assert_eq!(
            peer.run("SELECT ol_o_id, ol_number, ol_dist_info FROM order_line ORDER BY ol_number"),
            "3001,1,größe 11\n3001,2,size 12"
        );
        let answer = peer.call_with("NewOrder", &order(&[11, 99]));
        assert_eq!(answer.status, -1, "{}", answer.text);
        assert!(answer.text.contains("there is no item 99"), "{}", answer.text);
        assert_eq!(peer.run("SELECT d_next_o_id FROM district"), "3002");

        let pay = |last: &'static [u8]| {
            let mut set = ParameterWriter::default();
            set.scalar(SqlType::SmallInt, Datum::Int(7)).scalar(SqlType::TinyInt, Datum::Int(3));
            set.scalar(SqlType::Float, Datum::Float(2.5));
            set.scalar(SqlType::Varbinary, Datum::Bytes(last));
            set.scalar(SqlType::Timestamp, Datum::Timestamp(2_000_000));
            set
        };
        let answer = peer.call_with("Payment", &pay("Übel".as_bytes()));
        let row = "2,Bob,Übel,BC,17.5,2 2.5|ältere Zeilen";
        assert_eq!((answer.status, answer.rows.as_str()), (1, row), "{}", answer.text);
        assert_eq!(peer.run("SELECT h_data FROM history"), "MüllerSüd");
        assert_eq!(
            peer.run("SELECT c_balance, c_data FROM customer WHERE c_id = 2"),
            "17.5,2 2.5|ältere Zeilen"
        );
        let answer = peer.call_with("Payment", &pay(b"Nobody"));
        assert!(answer.text.contains("nobody is called Nobody"), "{}", answer.text);
    }
}

const TEXTS: &str = "
    CREATE TABLE texts (k BIGINT NOT NULL PRIMARY KEY, s VARCHAR(20));
    PARTITION TABLE texts ON COLUMN k;
    CREATE TABLE large (k BIGINT NOT NULL, n INTEGER NOT NULL, s VARCHAR(1048576 BYTES),
        PRIMARY KEY (k, n));
    PARTITION TABLE large ON COLUMN k;";

#[test]
fn statements_take_bytes_for_texts() {
    for declaration in ["PARTITION ON TABLE texts COLUMN k", ""] {
        let schema = format!(
            "{TEXTS} CREATE PROCEDURE {declaration} FROM CLASS TextBytes;
            CREATE PROCEDURE {declaration} FROM CLASS TextBytes$Buffers;"
        );
        let Some((_server, mut peer)) = host(2, &schema) else { return };
        let mut key = 0;
        for (how, value, rows) in [
            ("find", "Zoë", "Zoë"),
            ("among", "Zoë", "Zoë"),
            ("like", "Z%", "Z%"),
            ("change", "Zoe", "1;bé,ZOE"),
            ("buffer", "from", "1;from,FROM"),
        ] {
            key += 1;
            let given = [Datum::Int(key), Datum::Text(how), Datum::Bytes(value.as_bytes())];
            let answer = peer.call("TextBytes", &given);
            assert_eq!((answer.status, answer.rows.as_str()), (1, rows), "{how}: {}", answer.text);
        }
        let given = [Datum::Int(90), Datum::Text("wrong"), Datum::Bytes(b"x")];
        let answer = peer.call("TextBytes", &given);
        assert_eq!(answer.status, -2, "{}", answer.text);
        assert!(answer.text.contains("the bytes are not UTF-8 text (at byte 0)"), "{answer:?}");
        let given = [Datum::Int(91), Datum::Bytes(b"buffered")];
        let answer = peer.call("TextBytes$Buffers", &given);
        assert_eq!((answer.status, answer.rows.as_str()), (1, "8"), "{}", answer.text);
        assert_eq!(peer.call("TextBytes$Buffers", &[Datum::Int(92), Datum::Null]).rows, "-1");
        assert_eq!(
            peer.run("SELECT s FROM texts WHERE k > 89 ORDER BY k"),
            "buffered\nNULL",
            "{declaration}"
        );
    }
}

#[test]
fn batches_may_be_large_and_values_have_a_limit() {
    const MIB: i64 = 1 << 20;
    for declaration in ["PARTITION ON TABLE large COLUMN k", ""] {
        let schema = format!("{TEXTS} CREATE PROCEDURE {declaration} FROM CLASS TextBytes$Large;");
        let Some((_server, mut peer)) = host(2, &schema) else { return };
        let mut large = |key: i64, count: i64, size: i64, how: &'static str| {
            let numbers = [key, count, size].map(Datum::Int);
            peer.call("TextBytes$Large", &[&numbers[..], &[Datum::Text(how)]].concat())
        };
        // More than the longest message has.
        let answer = large(1, 60, MIB, "insert");
        assert_eq!((answer.status, answer.rows.as_str()), (1, "60"), "{}", answer.text);
        let answer = large(2, 2, MIB, "bytes");
        assert_eq!((answer.status, answer.rows.as_str()), (1, "2"), "{}", answer.text);
        for how in ["insert", "bytes", "find"] {
            let answer = large(3, 1, MIB + 1, how);
            let part = "The size 1048577 of a parameter's value exceeds the limit of 1048576";
            assert!(answer.status < 0 && answer.text.contains(part), "{how}: {}", answer.text);
        }
        assert_eq!(large(3, 1, 10, "insert").rows, "1");
        assert_eq!(peer.run("SELECT COUNT(*), MAX(OCTET_LENGTH(s)) FROM large"), "63,1048576");
    }
}
