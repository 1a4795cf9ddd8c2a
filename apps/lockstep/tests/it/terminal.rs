//! The shell at a terminal: a session through a pseudo-terminal, as text. With `LOCKSTEP_REWRITE=1`
//! the transcript is written again from what the terminal shows, to be read before it is committed.

use super::text;
use lockstep_client::{ConnectOptions, Connection};
use lockstep_node::options::Options;
use lockstep_node::{NativeRegistry, Server, ServerConfiguration, TestSettings};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/terminal.txt");
/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);
const CTRL_C: &str = "\x03";
/// Takes far longer than the test.
const ENDLESS: &str = "select count(*) from t a, t b, t c, t d where a.i + b.i + c.i + d.i < 0;";
const ROWS: usize = 1000;

/// What a terminal shows of the bytes that it gets: as much as a line editor needs.
#[derive(Default)]
struct Screen {
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// A control sequence whose end has not come yet.
    sequence: Option<String>,
}

impl Screen {
    fn take(&mut self, text: &str) {
        for c in text.chars() {
            match &mut self.sequence {
                Some(sequence) => {
                    sequence.push(c);
                    if sequence.len() > 1 && c.is_ascii_alphabetic() {
                        let sequence = self.sequence.take().unwrap_or_default();
                        self.control(&sequence);
                    }
                }
                None => self.plain(c),
            }
        }
    }

    fn plain(&mut self, c: char) {
        match c {
            '\x1b' => self.sequence = Some(String::new()),
            '\r' => self.column = 0,
            '\n' => self.row += 1,
            '\x08' => self.column = self.column.saturating_sub(1),
            '\x07' => {}
            c => {
                let column = self.column;
                let line = self.line();
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                self.column += 1;
            }
        }
    }

    fn line(&mut self) -> &mut Vec<char> {
        self.lines.resize(self.lines.len().max(self.row + 1), Vec::new());
        &mut self.lines[self.row]
    }

    fn control(&mut self, sequence: &str) {
        let (parameters, end) = sequence.split_at(sequence.len() - 1);
        let count = parameters.trim_start_matches('[').parse().unwrap_or(1);
        match end {
            "A" => self.row = self.row.saturating_sub(count),
            "B" => self.row += count,
            "C" => self.column += count,
            "D" => self.column = self.column.saturating_sub(count),
            "K" => {
                let column = self.column;
                self.line().truncate(column);
            }
            "J" => {
                let column = self.column;
                self.line().truncate(column);
                self.lines.truncate(self.row + 1);
            }
            _ => {}
        }
    }

    fn shown(&self) -> Vec<String> {
        let line = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_string();
        self.lines.iter().map(line).collect()
    }
}

/// A shell at a terminal of its own.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    bytes: Receiver<Vec<u8>>,
    screen: Screen,
    /// Prompts that were there before the last keys.
    prompts: usize,
}

impl Terminal {
    /// `script` gives a process a terminal, with its own input and output at the other end.
    fn open(server: &str, state: &Path) -> Terminal {
        let binary = env!("CARGO_BIN_EXE_lockstep");
        let line = format!("stty echo cols 120 rows 50; exec {binary} sql --server {server}");
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"])
            .env("XDG_STATE_HOME", state)
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script runs");
        let keys = child.stdin.take().expect("piped");
        let mut output = child.stdout.take().expect("piped");
        let (sender, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut terminal = Terminal { child, keys, bytes, screen: Screen::default(), prompts: 0 };
        terminal.await_prompt();
        terminal
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the shell reads");
        self.keys.flush().expect("the shell reads");
    }

    /// Waits until the terminal shows what is asked for.
    fn await_shown(&mut self, what: &str, is_shown: impl Fn(&[String]) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_shown(&self.screen.shown()) {
            let left = until.saturating_duration_since(Instant::now());
            let bytes = self.bytes.recv_timeout(left);
            let bytes = bytes.unwrap_or_else(|_| panic!("no {what}: {:#?}", self.screen.shown()));
            self.screen.take(&String::from_utf8_lossy(&bytes));
        }
    }

    fn await_prompt(&mut self) {
        let before = self.prompts;
        let count = |lines: &[String]| lines.iter().filter(|l| l.starts_with("lockstep>")).count();
        self.await_shown("prompt", |lines| {
            count(lines) > before && lines.last().is_some_and(|l| l == "lockstep>")
        });
        self.prompts = count(&self.screen.shown());
    }

    /// Types a line; waits until it has run.
    fn enter(&mut self, line: &str) {
        self.press(&format!("{line}\r"));
        self.await_prompt();
    }

    /// Types a line of a statement that goes on.
    fn begin(&mut self, line: &str) {
        let count = |lines: &[String]| lines.iter().filter(|l| l.starts_with("     ...>")).count();
        let before = count(&self.screen.shown());
        self.press(&format!("{line}\r"));
        self.await_shown("second prompt", |lines| {
            count(lines) > before && lines.last().is_some_and(|last| last == "     ...>")
        });
    }

    fn end(mut self) -> (Option<i32>, Vec<String>) {
        let status = self.child.wait().expect("it ends");
        while let Ok(bytes) = self.bytes.recv_timeout(PATIENCE) {
            self.screen.take(&String::from_utf8_lossy(&bytes));
        }
        (status.code(), self.screen.shown())
    }
}

fn host(client: SocketAddr) -> Server {
    let configuration = ServerConfiguration {
        sites: 2,
        for_tests: TestSettings::default(),
        client,
        admin: SocketAddr::from(([127, 0, 0, 1], 0)),
        options: Options::default(),
        natives: NativeRegistry::default(),
        pin_to_cores: Vec::new(),
        java_options: Vec::new(),
        data: None,
        cluster: None,
    };
    Server::start(configuration).expect("a host starts")
}

fn fill(server: &str) -> Connection {
    let mut connection =
        Connection::connect(server, &ConnectOptions::default()).expect("a connection");
    connection.sql("create table t (i bigint not null primary key)").expect("a table");
    connection.sql("partition table t on column i").expect("it is partitioned");
    for first in (0..ROWS).step_by(100) {
        let rows: Vec<String> = (first..first + 100).map(|i| format!("({i})")).collect();
        let rows = rows.join(", ");
        connection.sql(&format!("insert into t values {rows}")).expect("rows");
    }
    connection
}

/// Waits until a query keeps the host from answering others.
fn await_busy(server: &str) {
    let patience = Duration::from_millis(300);
    let options = ConnectOptions {
        connect_timeout: patience,
        call_timeout: patience,
        ..ConnectOptions::default()
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let connected = Connection::connect(server, &options);
        let Ok(mut connection) = connected else { return };
        if connection.sql("select count(*) from t").is_err() {
            return;
        }
        assert!(Instant::now() < until, "the query runs");
    }
}

/// The transcript without what differs from run to run.
fn transcript(lines: &[String], server: &str) -> String {
    let mut shown = String::new();
    for line in lines {
        let is_timed = line.ends_with(" s)") || line.ends_with(" us)");
        let line = match (line.rfind(" in "), is_timed) {
            (Some(at), true) => format!("{} in #)", &line[..at]),
            _ => line.replace(server, "HOST:PORT"),
        };
        shown.push_str(line.trim_end());
        shown.push('\n');
    }
    shown
}

/// A folder of its own for the history.
fn state_folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("lockstep-terminal-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder
}

#[test]
fn a_session_at_a_terminal_goes_on_through_ctrl_c_and_restarts() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no `script` to give the shell a terminal");
        return;
    }
    let first = host(SocketAddr::from(([127, 0, 0, 1], 0)));
    let address = first.client_address();
    let server = address.to_string();
    let mut other = fill(&server);
    let state = state_folder();
    let mut terminal = Terminal::open(&server, &state);

    for line in ["\\d", "\\d t", "\\foo", ".tables", "select count(*) as n from t;", "\\x"] {
        terminal.enter(line);
    }
    terminal.enter("select count(*) as n, max(i) as most from t;");
    terminal.enter("\\x off");
    let history = || {
        let kept = std::fs::read(state.join("lockstep/history")).expect("the history");
        text(&kept)
    };
    assert!(history().contains("max(i)"), "it is kept line by line: {}", history());

    // A query that runs is canceled at the host, and the next one of anybody runs at once.
    terminal.press(&format!("{ENDLESS}\r"));
    await_busy(&server);
    let begun = Instant::now();
    terminal.press(CTRL_C);
    terminal.await_prompt();
    other.sql("select count(*) from t").expect("the host serves others");
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(8), "before the query's own time is over: {waited:?}");
    terminal.enter("select count(*) as n from t;");

    // What is typed is given up.
    terminal.begin("select count(*)");
    terminal.begin("from t");
    terminal.press(CTRL_C);
    terminal.await_prompt();
    terminal.press("drop table t;");
    terminal.await_shown("line", |lines| lines.last().is_some_and(|l| l.ends_with("table t;")));
    terminal.press(CTRL_C);
    terminal.await_prompt();
    terminal.enter("select count(*) as n from t;");

    // The host is away, then there again.
    drop(other);
    first.stop().expect("the host stops");
    terminal.enter("select count(*) as n from t;");
    let second = host(address);
    fill(&server);
    terminal.enter("select count(*) as n from t;");
    terminal.enter("history");

    terminal.press(CTRL_C);
    terminal.await_prompt();
    terminal.press(CTRL_C);
    let (status, lines) = terminal.end();
    second.stop().expect("the host stops");
    assert_eq!(status, Some(0));
    assert!(history().trim_end().ends_with("from t;"), "{}", history());
    std::fs::remove_dir_all(&state).expect("the folder is ours");

    let actual = transcript(&lines, &server);
    if std::env::var_os("LOCKSTEP_REWRITE").is_some() {
        std::fs::write(FILE, &actual).expect("the transcript can be written");
    }
    let expected = std::fs::read_to_string(FILE).expect("the transcript");
    assert_eq!(actual, expected, "LOCKSTEP_REWRITE=1 writes the transcript again");
}
