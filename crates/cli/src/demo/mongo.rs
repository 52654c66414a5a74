//! A MongoDB for the demo: one of its own where `mongod` is on the machine, or the replica set that `MONGODB_URI` names.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use ::listener::Stage;
use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use windlass_engine::world::World;

use super::crew::bare;
use super::left;

/// Where listeners and jobs are, on whatever server.
pub const HOME: &str = "windlass_demo";
/// What is watched.
pub const WATCHED: &str = "workspace_windlass_demo";
/// The replica set of a server of our own.
const SET: &str = "demo";
/// How long a server may take to start, in looks of a tenth of a second.
const LOOKS_MAX: usize = 300;
const LOOK_MS: u64 = 100;

/// The replica set of the demo.
pub struct Mongo {
    /// `MONGODB_URI` and `MONGODB_PARAMS`, as the Listener reads them.
    pub settings: Vec<(String, String)>,
    uri: String,
    /// The server, when it is ours.
    server: Option<Child>,
}

impl Mongo {
    /// Starts it, or finds it; nothing when there is none on this machine.
    pub async fn find(folder: &Path, port: u16, world: &Arc<dyn World>) -> anyhow::Result<Option<Self>> {
        if let Ok(uri) = std::env::var("MONGODB_URI") {
            return Ok(Some(Self::at(uri, std::env::var("MONGODB_PARAMS").ok(), None)));
        }
        let Some(program) = program() else { return Ok(None) };
        let data = folder.join("mongo");
        std::fs::create_dir_all(&data)?;
        left::end(&data, "mongod.lock", world).await;
        let log = folder.join("logs/mongod.log");
        let mut command = bare(&program);
        command.arg("--dbpath").arg(&data).arg("--logpath").arg(&log).args(["--replSet", SET]);
        command.args(["--port", &port.to_string(), "--bind_ip", "127.0.0.1", "--oplogSize", "128"]);
        command.args(["--wiredTigerCacheSizeGB", "0.25"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut server =
            command.kill_on_drop(true).process_group(0).spawn().context("cannot start mongod")?;
        let authority = format!("127.0.0.1:{port}");
        for _ in 0..LOOKS_MAX {
            if let Ok(true) = Stage::initiate(&authority, SET).await {
                let uri = format!("mongodb://{authority}");
                return Ok(Some(Self::at(uri, Some(format!("replicaSet={SET}")), Some(server))));
            }
            if server.try_wait()?.is_some() {
                break;
            }
            world.sleep_ms(LOOK_MS).await;
        }
        anyhow::bail!("mongod does not start; {} says why", log.display())
    }

    fn at(uri: String, params: Option<String>, server: Option<Child>) -> Self {
        let whole = match &params {
            Some(params) => format!("{}/?{params}", uri.trim_end_matches('/')),
            None => uri.clone(),
        };
        let params = params.map(|params| ("MONGODB_PARAMS".to_owned(), params));
        let settings = [("MONGODB_URI".to_owned(), uri)].into_iter().chain(params).collect();
        Self { settings, uri: whole, server }
    }

    /// Where documents come and change.
    pub async fn stage(&self) -> anyhow::Result<Stage> {
        Ok(Stage::open(&self.uri, WATCHED).await?)
    }

    /// Ends it, if it is ours.
    pub async fn end(&mut self) {
        let Some(server) = &mut self.server else { return };
        let pid = server.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // One that has ended meanwhile does not hear it.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = server.wait().await;
    }
}

/// `mongod`, where programs are looked for.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join("mongod")).find(|program| program.is_file())
}
