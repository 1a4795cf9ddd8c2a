//! PostgreSQL with one replica and `synchronous_commit=remote_apply`: a write is answered when the
//! replica has applied it, as ours is when its copy has it.

use crate::Plan;
use crate::measure::{KEYS, VALUE_BYTES};
use lockstep_bench::postgres::{Postgres, USER, find};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Each is a process of the server; more of them were not faster on one core.
const CONNECTIONS: u32 = 64;
const SERVER_CORE: usize = 0;
/// As little as it can do for a write that the replica has: nothing is synced, as with our hosts in
/// memory and with Redis.
const SETTINGS: &[&str] = &[
    "synchronous_commit=remote_apply",
    "fsync=off",
    "full_page_writes=off",
    "shared_buffers=256MB",
    "max_wal_size=16GB",
    "checkpoint_timeout=1h",
    "max_connections=80",
    "autovacuum=off",
    "jit=off",
];
const TABLE: &str = "CREATE TABLE kv (k BIGINT NOT NULL PRIMARY KEY, v VARCHAR(64))";
/// How long the connections may take to be made.
const CONNECT: Duration = Duration::from_secs(1);
/// The load goes on this long after what is measured.
const SPARE: Duration = Duration::from_secs(5);

/// The load; it ends when this is dropped.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processor time of both servers for a write; `None` where there is no PostgreSQL.
///
/// # Errors
/// A server does not start, or does not answer.
pub fn cpu_us_per_write(plan: &Plan) -> Result<Option<f64>, String> {
    let programs = match find(None) {
        Ok(programs) => programs,
        Err(problem) => {
            eprintln!("  {problem}: its figure is left out");
            return Ok(None);
        }
    };
    // The user who runs the servers is to read what is above them.
    let folder = std::env::temp_dir().join(format!("bench-cluster-{}", std::process::id()));
    let own = |name: &str| folder.join(name);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let measured = (|| {
        let primary = Postgres::start(&programs, &own("first"), SETTINGS, Some(SERVER_CORE))?;
        let replica = primary.start_replica(&own("second"), SETTINGS, Some(SERVER_CORE))?;
        primary.sql(TABLE)?;
        let script = own("write.sql");
        std::fs::write(&script, write_script()).map_err(|error| error.to_string())?;
        let seconds = (plan.warmup + CONNECT + plan.duration + SPARE).as_secs().to_string();
        let mut command = primary.bench();
        command.args(["-M", "prepared", "-c", &CONNECTIONS.to_string(), "-T", &seconds, "-f"]);
        command.arg(&script).arg(USER).stdout(Stdio::null()).stderr(Stdio::null());
        let load = Load(command.spawn().map_err(|error| format!("pgbench: {error}"))?);
        std::thread::sleep(plan.warmup + CONNECT);
        let cpu = || Ok::<_, String>((primary.cpu_time()? + replica.cpu_time()?).as_secs_f64());
        let (before, writes_before) = (cpu()?, writes(&primary)?);
        std::thread::sleep(plan.duration);
        let (after, writes_after) = (cpu()?, writes(&primary)?);
        drop(load);
        let writes = writes_after - writes_before;
        (writes > 0.0)
            .then(|| (after - before) * 1e6 / writes)
            .ok_or_else(|| "no write was answered".to_string())
    })();
    // The servers have removed their own folders.
    let _ = std::fs::remove_dir_all(&folder);
    measured.map(Some).map_err(|error: String| format!("PostgreSQL: {error}"))
}

/// An upsert of a row, with a key at random.
fn write_script() -> String {
    format!(
        "\\set k random(0, {})\nINSERT INTO kv VALUES (:k, '{}') ON CONFLICT (k) DO UPDATE SET v = \
         excluded.v;\n",
        KEYS - 1,
        "x".repeat(VALUE_BYTES)
    )
}

/// Each write is a transaction, and takes the next number.
fn writes(server: &Postgres) -> Result<f64, String> {
    let number = server.sql("SELECT txid_current()")?;
    number.parse().map_err(|_| format!("{number} is no number of a transaction"))
}
