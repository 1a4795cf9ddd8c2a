//! Plans of ad hoc statements: statements that differ in constants share one, and nobody notices.

use crate::support::{Answer, Peer, start};
use lockstep_types::Datum::{Int, Text};

const SCHEMA: &str = "
    CREATE TABLE item (id BIGINT NOT NULL PRIMARY KEY, small TINYINT, medium INTEGER,
        name VARCHAR(12), price DECIMAL, weight FLOAT, made TIMESTAMP);
    PARTITION TABLE item ON COLUMN id;
    CREATE INDEX item_name ON item (name);
    CREATE INDEX item_half ON item (medium / 2);
    CREATE INDEX item_few ON item (small) WHERE medium > 100;
    CREATE TABLE word (word VARCHAR(20) NOT NULL PRIMARY KEY, number INTEGER);
    PARTITION TABLE word ON COLUMN word;";

/// Statements with a place for a constant, and what to put there.
const FORMS: &[(&str, &[&str])] = &[
    ("INSERT INTO item VALUES (@, 1, 2, 'three', 4.5, 6e0, NULL)", INTEGERS),
    ("INSERT INTO item (id, small) VALUES (77000 + @, 5)", INTEGERS),
    ("UPSERT INTO item (id, name, medium) VALUES (5, @, 7)", TEXTS),
    ("UPDATE item SET small = @ WHERE id = 3", INTEGERS),
    ("UPDATE item SET name = @ WHERE id = 4", TEXTS),
    ("UPDATE item SET price = @ WHERE id = 5", INTEGERS),
    ("UPDATE item SET weight = @, medium = 9 WHERE id = 5", INTEGERS),
    ("INSERT INTO word VALUES (@, 1)", TEXTS),
    ("SELECT number FROM word WHERE word = @ ORDER BY 1", TEXTS),
    ("SELECT * FROM item WHERE id = @", INTEGERS),
    ("SELECT id + 1, name FROM item WHERE medium = @ ORDER BY id", INTEGERS),
    ("SELECT id FROM item WHERE small < @ ORDER BY id", INTEGERS),
    ("SELECT id FROM item WHERE small = 5 AND medium > @ ORDER BY id", INTEGERS),
    ("SELECT id FROM item WHERE small > -@ ORDER BY id", INTEGERS),
    ("SELECT id FROM item WHERE medium / 2 = @ ORDER BY id", INTEGERS),
    ("SELECT id FROM item WHERE name = @ ORDER BY id", TEXTS),
    ("SELECT id FROM item WHERE name BETWEEN 'a' AND @ ORDER BY id", TEXTS),
    ("SELECT id FROM item WHERE name LIKE @ ORDER BY id", TEXTS),
    ("SELECT id FROM item WHERE price > @ ORDER BY id", INTEGERS),
    ("SELECT id FROM item WHERE made > @ ORDER BY id", TEXTS),
    ("SELECT id FROM item WHERE id IN (1, @, 5) ORDER BY id", INTEGERS),
    ("SELECT id, @ FROM item WHERE id < 10 ORDER BY id", INTEGERS),
    ("SELECT id FROM item WHERE id < 10 ORDER BY id LIMIT @", INTEGERS),
    ("SELECT COUNT(*) FROM item HAVING COUNT(*) > @", INTEGERS),
    ("SELECT CASE WHEN small > @ THEN 'more' ELSE 'less' END FROM item WHERE id = 3", INTEGERS),
    ("SELECT a.id FROM item a JOIN item b ON a.id = b.medium AND b.small = @ ORDER BY 1", INTEGERS),
    ("SELECT id FROM item WHERE id = (SELECT MAX(medium) FROM item WHERE id > @)", INTEGERS),
    ("DELETE FROM item WHERE id = @", INTEGERS),
    ("DELETE FROM item WHERE name = @", TEXTS),
];

const INTEGERS: &[&str] = &[
    "1",
    "2",
    "3",
    "4",
    "127",
    "128",
    "5",
    "300",
    "40000",
    "3000000000",
    "6",
    "2147483647",
    "9223372036854775807",
    "9223372036854775808",
    "'7'",
    "'x'",
    "1.5",
    "NULL",
    "7",
];

const TEXTS: &[&str] = &[
    "'a'",
    "'b'",
    "''",
    "'three'",
    "'it''s'",
    "'longer than twelve'",
    "'2020-01-01'",
    "'c'",
    "'twenty-one characters'",
    "8",
    "NULL",
    "'d'",
    "'é'",
];

fn shown(answer: &Answer) -> (i8, &str, &str) {
    (answer.status, &answer.text, &answer.rows)
}

/// A client of a host with the schema.
fn client(address: std::net::SocketAddr) -> Peer {
    let mut peer = Peer::login(address);
    peer.run(SCHEMA);
    peer
}

fn hits(peer: &mut Peer) -> i64 {
    let planner = peer.call("@Statistics", &[Text("PLANNER"), Int(0)]).rows;
    let row = planner.lines().next().expect("a row of the site");
    row.split(',').nth(7).expect("a column of hits").parse().expect("a number")
}

#[test]
fn sharing_plans_changes_no_answer() {
    let sharing = start(2, &[]);
    // With room for one text and one form nothing is shared: each form is followed by another.
    let apart = start(2, &["plan_cache_entries=1"]);
    let (mut sharing, mut apart) =
        (client(sharing.client_address()), client(apart.client_address()));
    let most = INTEGERS.len().max(TEXTS.len());
    for place in 0..most {
        for (form, constants) in FORMS {
            let Some(constant) = constants.get(place) else { continue };
            let text = form.replace('@', constant);
            let (with, without) = (sharing.sql(&text), apart.sql(&text));
            assert_eq!(shown(&with), shown(&without), "{text}");
        }
    }
    assert_eq!(hits(&mut apart), 0);
    let shared = hits(&mut sharing);
    assert!(shared > 100, "{shared} plans were shared");
}

#[test]
fn a_shared_plan_goes_where_its_constant_lives_and_ends_with_its_schema() {
    let server = start(3, &[]);
    let mut peer = client(server.client_address());
    for number in 0..50 {
        peer.run(&format!("INSERT INTO word VALUES ('word {number}', {number})"));
    }
    for number in 0..50 {
        let found = peer.run(&format!("SELECT number FROM word WHERE word = 'word {number}'"));
        assert_eq!(found, number.to_string());
    }
    assert!(hits(&mut peer) > 90);
    peer.run("ALTER TABLE word ADD COLUMN more INTEGER DEFAULT 4");
    let found = peer.run("SELECT * FROM word WHERE word = 'word 7'");
    assert_eq!(found, "word 7,7,4");
    // A parameter too many is one too many, whatever the plan has.
    let answer =
        peer.call("@AdHoc", &[Text("SELECT number FROM word WHERE word = 'word 1'"), Int(5)]);
    assert!(answer.text.contains("expected 0, passed 1"), "{}", answer.text);
}
