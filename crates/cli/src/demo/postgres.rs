//! A Postgres for the demo: one of its own where the programs for it are on the machine, or a database of its own on the
//! server that `DATABASE_URL` names.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use windlass_engine::world::World;

use super::crew::bare;
use super::left;

/// The database, on whatever server.
const DATABASE: &str = "windlass_demo";
/// How long a server may take to start, in looks of a tenth of a second.
const LOOKS_MAX: usize = 300;
const LOOK_MS: u64 = 100;

/// The database of the demo.
pub struct Postgres {
    /// Where it is.
    pub url: String,
    /// The server, when it is ours.
    server: Option<Child>,
}

impl Postgres {
    /// Starts it, or finds it; nothing when there is none on this machine.
    pub async fn find(folder: &Path, port: u16, world: &Arc<dyn World>) -> anyhow::Result<Option<Self>> {
        if let Some(url) = std::env::var_os("DATABASE_URL").and_then(|url| url.into_string().ok()) {
            let url = database_of(&url).await.context("DATABASE_URL is set, and has no room for the demo")?;
            return Ok(Some(Self { url, server: None }));
        }
        let Some(programs) = programs() else { return Ok(None) };
        let home = Home::of(folder)?;
        if !home.data.join("PG_VERSION").exists() {
            let mut init = home.command(&programs.join("initdb"));
            init.arg("-D").arg(&home.data).args(["-U", "demo", "-A", "trust", "-E", "UTF8", "--no-sync"]);
            let made = init.output().await.context("cannot run initdb")?;
            anyhow::ensure!(
                made.status.success(),
                "initdb failed: {}",
                String::from_utf8_lossy(&made.stderr)
            );
        }
        left::end(&home.data, "postmaster.pid", world).await;
        let log = std::fs::File::create(folder.join("logs/postgres.log"))?;
        let mut server = home.command(&programs.join("postgres"));
        server.arg("-D").arg(&home.data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        server.args(["-c", "unix_socket_directories="]).stdout(log.try_clone()?).stderr(log);
        let mut server =
            server.kill_on_drop(true).process_group(0).spawn().context("cannot start Postgres")?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        for _ in 0..LOOKS_MAX {
            if let Ok(url) = database_of(&format!("postgres://demo@{address}/postgres")).await {
                return Ok(Some(Self { url, server: Some(server) }));
            }
            if server.try_wait()?.is_some() {
                break;
            }
            world.sleep_ms(LOOK_MS).await;
        }
        anyhow::bail!("Postgres does not start; {} says why", folder.join("logs/postgres.log").display())
    }

    /// Ends it, if it is ours.
    pub async fn end(&mut self) {
        let Some(server) = &mut self.server else { return };
        let pid = server.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // A fast shutdown: whoever is connected is sent away.
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = server.wait().await;
    }
}

/// The demo's database on a server; it is made when it is not there.
async fn database_of(url: &str) -> anyhow::Result<String> {
    let mut own = url::Url::parse(url)?;
    own.set_path(DATABASE);
    let pool = windlass_postgres::pool_of(url, &windlass_postgres::Options::default())?;
    let client = pool.get().await?;
    let there = client.query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&DATABASE]).await?;
    if there.is_none() {
        client.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await?;
    }
    Ok(own.to_string())
}

/// The folder with the programs of Postgres, the newest there is.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    folders.sort();
    let all = std::env::split_paths(&path).chain(folders.into_iter().rev());
    all.into_iter().find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
}

/// Where its data are, and as whom it runs: Postgres refuses to be root.
struct Home {
    data: PathBuf,
    user: Option<(u32, u32)>,
}

impl Home {
    fn of(folder: &Path) -> anyhow::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self { data: folder.join("postgres"), user: None });
        }
        let users = std::fs::read_to_string("/etc/passwd").context("cannot find the user postgres")?;
        let user = users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let is_it = fields.next() == Some("postgres");
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            is_it.then_some((uid, gid))
        });
        let (uid, gid) = user.context("Postgres does not run as root, and there is no user postgres")?;
        // Where that user may go, and always the same for the same demo.
        let name = folder.display().to_string().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let home = std::env::temp_dir().join(format!("windlass-demo-postgres{name}"));
        std::fs::create_dir_all(&home)?;
        std::os::unix::fs::chown(&home, Some(uid), Some(gid))?;
        Ok(Self { data: home.join("data"), user: Some((uid, gid)) })
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = bare(program);
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command.current_dir("/").stdin(Stdio::null());
        command
    }
}
