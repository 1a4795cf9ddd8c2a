//! A PostgreSQL server of our own: in a folder of its own, on the loopback address, gone with us.

use crate::process::free_address;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The database's owner, and who runs the server where we are root, whom it refuses.
pub const USER: &str = "postgres";
/// Connections that it is tried with: the best of these counts.
pub const CONNECTIONS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 100];

/// How long a server may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The server; it stops when this is dropped.
pub struct Postgres {
    child: Child,
    folder: PathBuf,
    programs: PathBuf,
    port: u16,
}

/// Where PostgreSQL's programs are.
///
/// # Errors
/// They are nowhere.
pub fn find(given: Option<&Path>) -> Result<PathBuf, String> {
    let mut folders: Vec<PathBuf> = given.into_iter().map(Path::to_path_buf).collect();
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut installed: Vec<PathBuf> = installed.map(|entry| entry.path().join("bin")).collect();
    installed.sort();
    folders.extend(installed.into_iter().rev());
    folders.into_iter().find(|folder| folder.join("initdb").exists()).ok_or_else(|| {
        "PostgreSQL is not installed (on Debian: apt install postgresql-15); --postgres names the \
         folder of initdb"
            .to_string()
    })
}

/// The folder of a server, which the user who runs it owns; where its database is.
fn make_folder(folder: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    if is_root() {
        run(Command::new("chown").arg(USER).arg(folder))?;
    }
    Ok(folder.join("data"))
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self")
        .is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

/// A command that runs as a user whom PostgreSQL accepts, on one core if one is given.
fn unprivileged(program: &Path, core: Option<usize>) -> Command {
    let mut words: Vec<OsString> = Vec::new();
    if let Some(core) = core {
        words.extend(["taskset", "-c", &core.to_string()].map(OsString::from));
    }
    if is_root() {
        let become_user = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"];
        words.extend(become_user.map(OsString::from));
    }
    words.push(program.into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).to_string()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

impl Postgres {
    /// Makes a database in `folder`, which is removed at the end, and starts a server for it with
    /// these settings, on one core if one is given. It listens at the loopback address.
    ///
    /// # Errors
    /// One of PostgreSQL's programs fails.
    pub fn start(
        programs: &Path,
        folder: &Path,
        settings: &[&str],
        core: Option<usize>,
    ) -> Result<Postgres, String> {
        let data = make_folder(folder)?;
        run(unprivileged(&programs.join("initdb"), None)
            .args(["--auth", "trust", "--username", USER, "--no-sync", "--pgdata"])
            .arg(&data)
            .current_dir("/"))?;
        Postgres::serve(programs, folder, settings, core)
    }

    /// Makes a replica of this server in `folder`, which is removed at the end, and starts it with
    /// these settings, on one core if one is given. From then on this server answers a commit when
    /// the replica has it, as its setting `synchronous_commit` says.
    ///
    /// # Errors
    /// One of PostgreSQL's programs fails, or the replica does not follow.
    pub fn start_replica(
        &self,
        folder: &Path,
        settings: &[&str],
        core: Option<usize>,
    ) -> Result<Postgres, String> {
        let data = make_folder(folder)?;
        run(unprivileged(&self.programs.join("pg_basebackup"), None)
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER])
            .args(["-R", "-X", "stream", "--checkpoint=fast", "--no-sync", "-D"])
            .arg(&data)
            .current_dir("/"))?;
        let replica = Postgres::serve(&self.programs, folder, settings, core)?;
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        self.sql("SELECT pg_reload_conf()")?;
        let patience = Instant::now() + START_LIMIT;
        while self.sql("SELECT sync_state FROM pg_stat_replication")? != "sync" {
            if Instant::now() > patience {
                return Err("the replica of PostgreSQL does not follow".to_string());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(replica)
    }

    /// Starts a server for the database that is in `folder`.
    fn serve(
        programs: &Path,
        folder: &Path,
        settings: &[&str],
        core: Option<usize>,
    ) -> Result<Postgres, String> {
        let port = free_address().map_err(|error| error.to_string())?.port();
        let (folder, data) = (folder.to_path_buf(), folder.join("data"));
        let mut command = unprivileged(&programs.join("postgres"), core);
        command.arg("-D").arg(&data).args(["-p", &port.to_string(), "-k"]).arg(&folder);
        command.args(["-c", "listen_addresses=127.0.0.1"]);
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let postgres = Postgres { child, folder, programs: programs.to_path_buf(), port };
        let patience = Instant::now() + START_LIMIT;
        while let Err(error) = postgres.sql("SELECT 1") {
            if Instant::now() > patience {
                return Err(format!("PostgreSQL does not answer: {error}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(postgres)
    }

    /// Processor time of the server and of its connections so far.
    ///
    /// # Errors
    /// It is gone.
    pub fn cpu_time(&self) -> Result<Duration, String> {
        crate::process::cpu_time_with_children(self.child.id()).map_err(|error| error.to_string())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The command line of `pgbench`, to which options are added.
    pub fn bench(&self) -> Command {
        let mut command = Command::new(self.programs.join("pgbench"));
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER, "-n"]);
        command
    }

    /// A client's command line, to which statements are added.
    pub fn client(&self) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER, "-d", USER]);
        command.args(["-q", "-A", "-t", "-X", "-v", "ON_ERROR_STOP=1"]);
        command
    }

    /// Runs a statement; its output.
    ///
    /// # Errors
    /// What the server says.
    pub fn sql(&self, statement: &str) -> Result<String, String> {
        run(self.client().args(["-c", statement])).map(|text| text.trim().to_string())
    }

    /// The server's version.
    ///
    /// # Errors
    /// What the server says.
    pub fn version(&self) -> Result<String, String> {
        self.sql("SHOW server_version")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is waited for. Interrupted, it ends its own
        // processes too.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
