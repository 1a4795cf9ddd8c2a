//! A PostgreSQL server of the test's own: in a temporary directory, on a free port of loopback,
//! stopped when it is dropped.

use super::postgres_wire::{PostgresConnection, QueryOutcome};
use super::{Answer, Cell, System};
use crate::generator::Dialect;
use lockstep_types::Value;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const USER: &str = "lockstep";

/// A running server.
pub struct PostgresServer {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl PostgresServer {
    /// Makes a database in a temporary directory and serves it.
    ///
    /// # Errors
    /// `NotFound` where PostgreSQL is not installed; else what did not work.
    pub fn start() -> io::Result<PostgresServer> {
        let programs = programs()?;
        let folder = temporary_folder()?;
        let owner = unprivileged()?;
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(&folder, Some(user), Some(group))?;
        }
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(&folder).stdin(Stdio::null());
            if let Some((user, group)) = owner {
                command.uid(user).gid(group);
            }
            command
        };
        let data = folder.join("data");
        let output = command("initdb")
            .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", USER])
            .arg("-D")
            .arg(&data)
            .output()?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("initdb: {message}")));
        }
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let log = std::fs::File::create(folder.join("server.log"))?;
        let mut server = command("postgres");
        server.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "shared_buffers=32MB",
            "max_connections=10",
            "autovacuum=off",
            "jit=off",
            "statement_timeout=10s",
            "timezone=UTC",
            "max_locks_per_transaction=1000",
        ] {
            server.args(["-c", setting]);
        }
        let child = server.stdout(Stdio::null()).stderr(log).spawn()?;
        let server = PostgresServer { child, folder, port };
        server.wait()
    }

    /// Waits until it lets somebody in.
    fn wait(mut self) -> io::Result<PostgresServer> {
        let begin = Instant::now();
        loop {
            match self.connect() {
                Ok(_) => return Ok(self),
                Err(error) if begin.elapsed() > START_TIMEOUT => return Err(error),
                Err(_) => {}
            }
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(self.folder.join("server.log"));
                let log = log.unwrap_or_default();
                return Err(io::Error::other(format!("postgres ended with {status}: {log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A connection.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn connect(&self) -> io::Result<PostgresConnection> {
        PostgresConnection::connect(self.port, USER)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // SIGINT is PostgreSQL's fast shutdown, by which its children end too.
        let id = self.child.id().to_string();
        let told = Command::new("kill").args(["-INT", &id]).status();
        if !told.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The folder of `initdb` and `postgres`: of Debian's newest version, or in the path.
fn programs() -> io::Result<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().rev().chain(std::env::split_paths(&path));
    let has_both =
        |folder: &Path| folder.join("initdb").exists() && folder.join("postgres").exists();
    all.into_iter().find(|folder| has_both(folder)).ok_or_else(|| {
        let message = "PostgreSQL is not installed (Debian package postgresql-15)";
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

fn temporary_folder() -> io::Result<PathBuf> {
    let base = std::env::temp_dir();
    for number in 0..1000 {
        let folder = base.join(format!("lockstep-postgres-{}-{number}", std::process::id()));
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(folder),
        }
    }
    Err(io::Error::other("a thousand temporary folders are there already"))
}

/// Whom the server runs as: it refuses to run as root.
fn unprivileged() -> io::Result<Option<(u32, u32)>> {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(|id| id.parse().ok());
        Some((ids.next()??, ids.next()??))
    };
    let missing = || io::Error::other("/etc/passwd has neither postgres nor nobody");
    Ok(Some(find("postgres").or_else(|| find("nobody")).ok_or_else(missing)?))
}

/// A connection in one transaction, which ends with it: every script finds an empty database.
pub struct Postgres<'s> {
    connection: &'s mut PostgresConnection,
    lost: Option<String>,
}

impl<'s> Postgres<'s> {
    /// Begins.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn begin(connection: &'s mut PostgresConnection) -> io::Result<Postgres<'s>> {
        for sql in ["ROLLBACK", "BEGIN", "SAVEPOINT last"] {
            connection.query(sql)?;
        }
        Ok(Postgres { connection, lost: None })
    }

    fn answer(&mut self, sql: &str, gives_rows: bool) -> io::Result<Answer> {
        self.connection.query("RELEASE last")?;
        self.connection.query("SAVEPOINT last")?;
        Ok(match self.connection.query(sql)? {
            QueryOutcome::Failed(state, message) => {
                self.connection.query("ROLLBACK TO last")?;
                match state.as_str() {
                    // Not there, or not within the time.
                    "0A000" | "57014" => Answer::Unsupported(message),
                    _ => Answer::Refused(format!("{state} {message}")),
                }
            }
            QueryOutcome::Done(_, tag) if !gives_rows => {
                let count = tag.rsplit(' ').next().and_then(|count| count.parse().ok());
                Answer::Rows {
                    types: Vec::new(),
                    rows: vec![vec![Cell::Integer(count.unwrap_or(0))]],
                }
            }
            QueryOutcome::Done(rows, _) => {
                let cell = |text: Option<String>| match text {
                    Some(text) => Cell::Text(text),
                    None => Cell::Own(Value::Null),
                };
                let rows = rows.into_iter().map(|row| row.into_iter().map(cell).collect());
                Answer::Rows { types: Vec::new(), rows: rows.collect() }
            }
        })
    }
}

impl System for Postgres<'_> {
    fn name(&self) -> String {
        "PostgreSQL".to_string()
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn run(&mut self, sql: &str, gives_rows: bool) -> Answer {
        if let Some(why) = &self.lost {
            return Answer::Refused(why.clone());
        }
        self.answer(sql, gives_rows).unwrap_or_else(|error| {
            self.lost = Some(error.to_string());
            Answer::Refused(error.to_string())
        })
    }

    fn undo(&mut self) -> bool {
        matches!(self.connection.query("ROLLBACK TO last"), Ok(QueryOutcome::Done(..)))
    }
}
