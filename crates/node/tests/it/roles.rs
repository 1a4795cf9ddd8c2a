//! Roles: accepted with a warning, since there are no users yet.

use crate::support::{Peer, start};

#[test]
fn roles_are_accepted_with_a_warning_that_clients_show() {
    let server = start(2, &[]);
    let mut client = Peer::login(server.client_address());
    let plain = client.sql("CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY)");
    assert_eq!((plain.status, &*plain.text, &*plain.note), (1, "", ""));
    for (sql, named) in [
        ("CREATE ROLE ops WITH ADMIN", "role ops"),
        ("CREATE PROCEDURE p ALLOW ops AS SELECT * FROM t", "ALLOW of procedure p"),
        (
            "CREATE ROLE a; CREATE ROLE b; CREATE PROCEDURE q ALLOW a, b AS SELECT * FROM t",
            "role a, role b, ALLOW of procedure q",
        ),
    ] {
        let answer = client.sql(sql);
        assert_eq!(answer.status, 1, "{answer:?}");
        assert!(answer.text.contains(&format!("without effect: {named}. ")), "{answer:?}");
        assert!(answer.note.contains(&answer.text), "{answer:?}");
    }
    // What is there already is not repeated.
    for sql in ["CREATE PROCEDURE r AS SELECT * FROM t", "DROP PROCEDURE q", "DROP ROLE b"] {
        let answer = client.sql(sql);
        assert_eq!((answer.status, &*answer.text), (1, ""), "{sql}");
    }
    assert_eq!(client.call("p", &[]).status, 1, "anybody may call it");
}
