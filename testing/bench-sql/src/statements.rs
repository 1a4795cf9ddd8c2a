//! The transactional schema and its statements, for both systems.

use crate::systems::Argument;
use lockstep_base::random::SeededRandom;

/// Our tables, indexes and the view.
pub const OUR_SCHEMA: &str = "\
CREATE TABLE account (id BIGINT NOT NULL, owner INTEGER NOT NULL, branch INTEGER NOT NULL,
  balance BIGINT NOT NULL, name VARCHAR(32) NOT NULL, email VARCHAR(64), PRIMARY KEY (id));
PARTITION TABLE account ON COLUMN id;
CREATE INDEX account_owner ON account (owner);
CREATE TABLE item (id BIGINT NOT NULL, name VARCHAR(32) NOT NULL, price BIGINT NOT NULL,
  PRIMARY KEY (id));
PARTITION TABLE item ON COLUMN id;
CREATE TABLE line (order_id BIGINT NOT NULL, number INTEGER NOT NULL, item BIGINT NOT NULL,
  quantity INTEGER NOT NULL, amount BIGINT NOT NULL, note VARCHAR(24) NOT NULL,
  PRIMARY KEY (order_id, number));
PARTITION TABLE line ON COLUMN order_id;
CREATE TABLE archive (order_id BIGINT NOT NULL, number INTEGER NOT NULL, amount BIGINT NOT NULL,
  PRIMARY KEY (order_id, number));
PARTITION TABLE archive ON COLUMN order_id;
CREATE TABLE journal (id BIGINT NOT NULL, account BIGINT NOT NULL, amount BIGINT NOT NULL,
  note VARCHAR(32) NOT NULL, PRIMARY KEY (id));
PARTITION TABLE journal ON COLUMN id;
CREATE TABLE document (id BIGINT NOT NULL, folder INTEGER NOT NULL, size INTEGER NOT NULL,
  title VARCHAR(32) NOT NULL, PRIMARY KEY (id));
PARTITION TABLE document ON COLUMN id;
CREATE INDEX document_folder ON document (folder);
CREATE INDEX document_size ON document (size);
CREATE TABLE payment (id BIGINT NOT NULL, branch INTEGER NOT NULL, amount BIGINT NOT NULL,
  PRIMARY KEY (id));
PARTITION TABLE payment ON COLUMN id;
CREATE VIEW branch_total (branch, number, total) AS
  SELECT branch, COUNT(*), SUM(amount) FROM payment GROUP BY branch;";

/// The same for SQLite: integer keys are row ids and compound keys make the table's order, which
/// are its fastest forms; the view is a table that triggers maintain.
pub const SQLITE_SCHEMA: &str = "\
CREATE TABLE account (id INTEGER PRIMARY KEY, owner INTEGER NOT NULL, branch INTEGER NOT NULL,
  balance INTEGER NOT NULL, name TEXT NOT NULL, email TEXT);
CREATE INDEX account_owner ON account (owner);
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price INTEGER NOT NULL);
CREATE TABLE line (order_id INTEGER NOT NULL, number INTEGER NOT NULL, item INTEGER NOT NULL,
  quantity INTEGER NOT NULL, amount INTEGER NOT NULL, note TEXT NOT NULL,
  PRIMARY KEY (order_id, number)) WITHOUT ROWID;
CREATE TABLE archive (order_id INTEGER NOT NULL, number INTEGER NOT NULL,
  amount INTEGER NOT NULL, PRIMARY KEY (order_id, number)) WITHOUT ROWID;
CREATE TABLE journal (id INTEGER PRIMARY KEY, account INTEGER NOT NULL,
  amount INTEGER NOT NULL, note TEXT NOT NULL);
CREATE TABLE document (id INTEGER PRIMARY KEY, folder INTEGER NOT NULL, size INTEGER NOT NULL,
  title TEXT NOT NULL);
CREATE INDEX document_folder ON document (folder);
CREATE INDEX document_size ON document (size);
CREATE TABLE payment (id INTEGER PRIMARY KEY, branch INTEGER NOT NULL, amount INTEGER NOT NULL);
CREATE TABLE branch_total (branch INTEGER PRIMARY KEY, number INTEGER NOT NULL,
  total INTEGER NOT NULL);
CREATE TRIGGER payment_insert AFTER INSERT ON payment BEGIN
  INSERT INTO branch_total VALUES (new.branch, 1, new.amount) ON CONFLICT (branch)
    DO UPDATE SET number = number + 1, total = total + excluded.total; END;
CREATE TRIGGER payment_delete AFTER DELETE ON payment BEGIN
  UPDATE branch_total SET number = number - 1, total = total - old.amount
    WHERE branch = old.branch;
  DELETE FROM branch_total WHERE branch = old.branch AND number = 0; END;
CREATE TRIGGER payment_update AFTER UPDATE OF amount ON payment BEGIN
  UPDATE branch_total SET total = total + new.amount - old.amount
    WHERE branch = new.branch; END;";

/// What both systems hold at the end, compared.
pub const CONTENTS: &[&str] = &[
    "SELECT COUNT(*), SUM(owner), SUM(balance), MAX(id) FROM account",
    "SELECT COUNT(*), SUM(id), SUM(account), SUM(amount) FROM journal",
    "SELECT COUNT(*), MAX(order_id), SUM(number), SUM(amount) FROM archive",
    "SELECT COUNT(*), SUM(order_id), SUM(number), SUM(amount) FROM line",
    "SELECT COUNT(*), SUM(id), SUM(folder), SUM(size) FROM document",
    "SELECT COUNT(*), SUM(id), SUM(branch), SUM(amount) FROM payment",
    "SELECT branch, number, total FROM branch_total",
];

/// Rows that are there at the start.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Rows of `account`; a tenth of them are orders of ten lines.
    pub accounts: i64,
}

/// Rows of `item`.
pub const ITEMS: i64 = 10_000;
/// Groups of the view.
const BRANCHES: u64 = 1_000;
/// Keys of rows that statements add begin here.
const FRESH: i64 = 1 << 32;
/// Deleted ranges have this many rows.
const RANGE: i64 = 10;

const NAMES: [&str; 8] = [
    "Ada Lovelace",
    "Charles Babbage",
    "Grace Hopper",
    "Alan Turing",
    "Barbara Liskov",
    "Edgar Codd",
    "Jim Gray",
    "Edsger Dijkstra",
];

/// Draws arguments: the same for both systems from the same seed.
pub struct Draw {
    random: SeededRandom,
    size: Size,
}

impl Draw {
    /// The draw of one run.
    pub fn new(seed: u64, size: Size) -> Draw {
        Draw { random: SeededRandom::new(seed), size }
    }

    fn account(&mut self) -> i64 {
        self.random.below(self.size.accounts as u64) as i64
    }

    fn order(&mut self) -> i64 {
        self.random.below(self.size.accounts as u64 / 10) as i64
    }

    fn below(&mut self, bound: u64) -> i64 {
        self.random.below(bound) as i64
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len() as u64) as usize]
    }
}

/// Pushes the arguments of the statement's run with a number.
pub type Arguments = fn(i64, &mut Draw, &mut Vec<Argument>);

/// A statement that is measured.
pub struct Measured {
    /// Its name, and that of our procedure.
    pub name: &'static str,
    /// The statements of one transaction, the same text for both unless `sqlite` differs.
    pub ours: &'static [&'static str],
    /// SQLite's own words, empty if they are the same.
    pub sqlite: &'static [&'static str],
    /// What it is called with.
    pub arguments: Arguments,
    /// Rows that must be there before: an insert, its runs for one run of the statement, and its
    /// arguments.
    pub prepared_by: Option<(&'static str, i64, Arguments)>,
}

use Argument::{Int, Text};

const fn plain(
    name: &'static str,
    ours: &'static [&'static str],
    arguments: Arguments,
) -> Measured {
    Measured { name, ours, sqlite: &[], arguments, prepared_by: None }
}

fn new_journal_row(run: i64, draw: &mut Draw, out: &mut Vec<Argument>) {
    let (account, amount, note) = (draw.account(), draw.below(10_000), draw.name());
    out.extend([Int(FRESH + run), Int(account), Int(amount), Text(note)]);
}

fn new_payment(run: i64, draw: &mut Draw, out: &mut Vec<Argument>) {
    let (branch, amount) = (draw.below(BRANCHES), draw.below(10_000));
    out.extend([Int(FRESH + run), Int(branch), Int(amount)]);
}

fn fresh_key(run: i64, _: &mut Draw, out: &mut Vec<Argument>) {
    out.push(Int(FRESH + run));
}

fn new_account(id: i64, draw: &mut Draw, out: &mut Vec<Argument>) {
    let (owner, branch) = (draw.account() / 10, draw.below(BRANCHES));
    let (balance, name) = (draw.below(100_000), draw.name());
    out.extend([Int(id), Int(owner), Int(branch), Int(balance), Text(name)]);
    out.push(Text("somebody@example.org"));
}

fn document(run: i64, draw: &mut Draw, out: &mut Vec<Argument>) {
    let (folder, size, title) = (draw.below(20_000), draw.below(1_000_000), draw.name());
    out.extend([Int(FRESH + run), Int(folder), Int(size), Text(title)]);
}

fn transfer(run: i64, draw: &mut Draw, out: &mut Vec<Argument>) {
    let (from, to, amount) = (draw.account(), draw.account(), draw.below(100));
    out.extend([Int(from), Int(amount), Int(from), Int(amount), Int(to)]);
    // Keys that `insert` does not use.
    out.extend([Int(2 * FRESH + run), Int(from), Int(amount), Text("transfer")]);
}

const INSERT_JOURNAL: &str = "INSERT INTO journal VALUES (?, ?, ?, ?)";
const INSERT_PAYMENT: &str = "INSERT INTO payment VALUES (?, ?, ?)";
const OUR_UPSERT: &str = "UPSERT INTO account VALUES (?, ?, ?, ?, ?, ?)";
const SQLITE_UPSERT: &str = "INSERT INTO account VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO \
    UPDATE SET owner = excluded.owner, branch = excluded.branch, balance = excluded.balance, \
    name = excluded.name, email = excluded.email";

/// The statements that read.
pub const READS: &[Measured] = &[
    plain(
        "get_by_key",
        &["SELECT owner, branch, balance, name FROM account WHERE id = ?"],
        |_, draw, out| out.push(Int(draw.account())),
    ),
    plain(
        "get_by_index",
        &["SELECT id, balance, name FROM account WHERE owner = ?"],
        |_, draw, out| out.push(Int(draw.account() / 10)),
    ),
    plain(
        "get_by_two_columns",
        &["SELECT item, quantity, amount, note FROM line WHERE order_id = ? AND number = ?"],
        |_, draw, out| out.extend([Int(draw.order()), Int(draw.below(10))]),
    ),
    plain(
        "range_of_10",
        &["SELECT id, balance FROM account WHERE id >= ? AND id < ? ORDER BY id"],
        |_, draw, out| {
            let from = draw.account();
            out.extend([Int(from), Int(from + 10)]);
        },
    ),
    plain(
        "range_of_100",
        &["SELECT id, balance FROM account WHERE id BETWEEN ? AND ? ORDER BY id"],
        |_, draw, out| {
            let from = draw.account();
            out.extend([Int(from), Int(from + 99)]);
        },
    ),
    plain(
        "join_by_key",
        &["SELECT l.number, l.quantity, i.name, i.price FROM line l JOIN item i ON i.id = l.item \
           WHERE l.order_id = ?"],
        |_, draw, out| out.push(Int(draw.order())),
    ),
    plain("count_by_index", &["SELECT COUNT(*) FROM account WHERE owner = ?"], |_, draw, out| {
        out.push(Int(draw.account() / 10))
    }),
    plain("max_by_index", &["SELECT MAX(number) FROM line WHERE order_id = ?"], |_, draw, out| {
        out.push(Int(draw.order()))
    }),
];

/// The statements that write.
pub const WRITES: &[Measured] = &[
    plain("insert", &[INSERT_JOURNAL], new_journal_row),
    plain("insert_3_indexes", &["INSERT INTO document VALUES (?, ?, ?, ?)"], document),
    plain(
        "update_by_key",
        &["UPDATE account SET balance = balance + ? WHERE id = ?"],
        |_, draw, out| out.extend([Int(draw.below(100)), Int(draw.account())]),
    ),
    plain(
        "update_indexed_column",
        &["UPDATE account SET owner = ? WHERE id = ?"],
        |_, draw, out| out.extend([Int(draw.account() / 10), Int(draw.account())]),
    ),
    Measured {
        name: "upsert_new",
        ours: &[OUR_UPSERT],
        sqlite: &[SQLITE_UPSERT],
        arguments: |run, draw, out| new_account(FRESH + run, draw, out),
        prepared_by: None,
    },
    Measured {
        name: "upsert_existing",
        ours: &[OUR_UPSERT],
        sqlite: &[SQLITE_UPSERT],
        arguments: |_, draw, out| {
            let id = draw.account();
            new_account(id, draw, out);
        },
        prepared_by: None,
    },
    Measured {
        name: "delete_by_key",
        ours: &["DELETE FROM journal WHERE id = ?"],
        sqlite: &[],
        arguments: |run, _, out| out.push(Int(3 * FRESH + run)),
        prepared_by: Some(("insert", 1, |run, draw, out| {
            new_journal_row(2 * FRESH + run, draw, out)
        })),
    },
    Measured {
        name: "delete_range_of_10",
        ours: &["DELETE FROM journal WHERE id >= ? AND id < ?"],
        sqlite: &[],
        arguments: |run, _, out| {
            let from = 4 * FRESH + run * RANGE;
            out.extend([Int(from), Int(from + RANGE)]);
        },
        prepared_by: Some(("insert", RANGE, |run, draw, out| {
            new_journal_row(3 * FRESH + run, draw, out)
        })),
    },
    plain("insert_with_view", &[INSERT_PAYMENT], new_payment),
    Measured {
        name: "update_with_view",
        ours: &["UPDATE payment SET amount = ? WHERE id = ?"],
        sqlite: &[],
        arguments: |run, draw, out| out.extend([Int(draw.below(10_000)), Int(2 * FRESH + run)]),
        prepared_by: Some(("insert_with_view", 1, |run, draw, out| {
            new_payment(FRESH + run, draw, out)
        })),
    },
    Measured {
        name: "delete_with_view",
        ours: &["DELETE FROM payment WHERE id = ?"],
        sqlite: &[],
        arguments: |run, draw, out| fresh_key(2 * FRESH + run, draw, out),
        prepared_by: Some(("insert_with_view", 1, |run, draw, out| {
            new_payment(2 * FRESH + run, draw, out)
        })),
    },
    Measured {
        name: "insert_select",
        ours: &["INSERT INTO archive (order_id, number, amount) \
                 SELECT ? + order_id, number, amount FROM line WHERE order_id = ?"],
        sqlite: &[],
        // The next copy of each order goes by its run.
        arguments: |run, draw, out| out.extend([Int((run + 1) << 32), Int(draw.order())]),
        prepared_by: None,
    },
    plain(
        "transfer_of_4_statements",
        &[
            "SELECT balance FROM account WHERE id = ?",
            "UPDATE account SET balance = balance - ? WHERE id = ?",
            "UPDATE account SET balance = balance + ? WHERE id = ?",
            INSERT_JOURNAL,
        ],
        transfer,
    ),
];

/// How rows that are there at the start are made: the procedure, SQLite's statement, the number,
/// and a row.
pub fn initial_rows(size: Size) -> [(&'static str, &'static str, i64, Arguments); 4] {
    [
        (
            "ACCOUNT.insert",
            "INSERT INTO account VALUES (?, ?, ?, ?, ?, ?)",
            size.accounts,
            new_account,
        ),
        ("ITEM.insert", "INSERT INTO item VALUES (?, ?, ?)", ITEMS, |run, draw, out| {
            let (name, price) = (draw.name(), draw.below(10_000));
            out.extend([Int(run), Text(name), Int(price)]);
        }),
        (
            "LINE.insert",
            "INSERT INTO line VALUES (?, ?, ?, ?, ?, ?)",
            size.accounts,
            |run, draw, out| {
                let (item, quantity) = (draw.below(ITEMS as u64), draw.below(10));
                let (amount, note) = (draw.below(100_000), draw.name());
                out.extend([Int(run / 10), Int(run % 10), Int(item), Int(quantity)]);
                out.extend([Int(amount), Text(note)]);
            },
        ),
        ("PAYMENT.insert", INSERT_PAYMENT, size.accounts, |run, draw, out| {
            let (branch, amount) = (draw.below(BRANCHES), draw.below(10_000));
            out.extend([Int(run), Int(branch), Int(amount)]);
        }),
    ]
}
