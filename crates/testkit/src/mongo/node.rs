//! One process of a replica set: set up, started, stopped.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::Options;
use crate::keeper::Keeper;

/// A mongod with its folder.
pub(crate) struct Node {
    program: PathBuf,
    dir: PathBuf,
    pub(crate) port: u16,
    keeper: Keeper,
}

impl Node {
    /// Folders and ports for so many, with nothing in the ones and nobody on the others.
    pub(crate) fn empty(count: usize) -> Vec<Self> {
        let program = program();
        // All are bound at once, so that no two are the same.
        let bind = |_| TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let bound: Vec<TcpListener> = (0..count).map(bind).collect();
        let node = |free: &TcpListener| {
            let dir = TempDir::with_prefix("windlass-mongod-").expect("a temporary folder").keep();
            std::fs::create_dir(dir.join("data")).expect("a folder for the data");
            let port = free.local_addr().expect("a bound port").port();
            Self { program: program.clone(), dir, port, keeper: Keeper::default() }
        };
        bound.iter().map(node).collect()
    }

    pub(crate) fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts the server, with all it had.
    pub(crate) fn start(&self, options: &Options) {
        let mut server = Command::new(&self.program);
        server.args(["--replSet", super::NAME, "--bind_ip", "127.0.0.1", "--nounixsocket"]);
        server.args(["--port", &self.port.to_string()]).arg("--dbpath").arg(self.data());
        // Several of them share a small machine.
        server.args(["--wiredTigerCacheSizeGB", "0.25"]);
        server.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
        server.args(["--oplogSize", &options.oplog_mb.to_string()]).args(&options.arguments);
        let mut start = Command::new("setpriv");
        start.current_dir("/").args(["--pdeathsig", "TERM", "--"]);
        self.keeper.start(start, &self.dir, "KILL", &server);
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: &str) {
        let server = std::fs::read_to_string(self.data().join("mongod.lock")).unwrap_or_default();
        if !server.trim().is_empty() {
            // It may have ended by itself.
            drop(Command::new("kill").args(["-s", signal, server.trim()]).stderr(Stdio::null()).status());
        }
    }

    /// Kills the server as `kill -9` does, and waits until it is gone; its data stays.
    pub(crate) async fn kill(&self) {
        self.signal("KILL");
        self.keeper.ended().await;
    }

    /// The end of what the server wrote about itself.
    pub(crate) fn log(&self) -> String {
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // KILL ends a frozen one, too.
        self.keeper.end();
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

/// The mongod of the tests. Fetched where it is missing; a machine that cannot do that fails the test.
fn program() -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../stores/mongo/tests/mongod");
    let output = Command::new(script).output().expect("stores/mongo/tests/mongod can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).expect("a path in UTF-8").trim_end())
}
