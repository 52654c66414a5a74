//! The programs of a soak: servers and workers that are killed or stand still, and come again.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::http;
use crate::eventually::{eventually, pause};
use crate::program::{Program, last_words};

const WORKERS: usize = 3;
/// How long one stands still at most: two leases. One that does in the middle of a write has the lock of its file, so that
/// nobody else gets on, the client that would let it go on among them.
const STILL_MAX: Duration = Duration::from_secs(6);

/// What a job does. Each run writes down its lease first.
const SCRIPT: &str = r#"#!/bin/sh
echo "$WINDLASS_JOB_ID $WINDLASS_FENCE" >>"$SOAK_RUNS"
read -r payload
case $payload in
  *steps*) [ -n "$WINDLASS_STEPS" ] || echo '::windlass {"step": {"name": "half", "output": 1}}' ;;
  *again*) [ "$WINDLASS_ATTEMPT" -gt 1 ] || exit 1 ;;
  *never*) exit 65 ;;
  *slow*) sleep 0.4 ;;
esac
echo '::windlass {"result": "done"}'
"#;

pub(super) struct Fleet {
    program: PathBuf,
    store: String,
    folder: TempDir,
    ports: Vec<u16>,
    members: Vec<Member>,
    strikes: usize,
}

struct Member {
    program: Arc<Program>,
    frozen: bool,
    /// How often it was started.
    lives: usize,
}

impl Fleet {
    pub(super) async fn start(program: &Path, store: &str, servers: usize) -> Self {
        let folder = TempDir::with_prefix("windlass-soak-").expect("a folder");
        let script = folder.path().join("job");
        std::fs::write(&script, SCRIPT).expect("a script");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("one that runs");
        let free: Vec<TcpListener> =
            (0..servers).map(|_| TcpListener::bind(("127.0.0.1", 0)).expect("a port")).collect();
        let ports = free.iter().map(|port| port.local_addr().expect("a port").port()).collect();
        drop(free);
        let (program, store) = (program.to_owned(), store.to_owned());
        let mut fleet = Self { program, store, folder, ports, members: Vec::new(), strikes: 0 };
        for member in 0..servers + WORKERS {
            let started = fleet.run(member, 0);
            fleet.members.push(Member { program: Arc::new(started), frozen: false, lives: 1 });
            if member < servers {
                fleet.answers(member).await;
            }
        }
        fleet
    }

    /// Servers come first, then workers.
    fn run(&self, member: usize, life: usize) -> Program {
        let log = self.folder.path().join(format!("{member}-{life}.log"));
        let log = File::create(log).expect("a log");
        let mut command = Command::new(&self.program);
        command.current_dir(self.folder.path()).stdout(log.try_clone().expect("a log")).stderr(log);
        for name in ["WINDLASS_STORE", "WINDLASS_TOKEN", "WINDLASS_URL"] {
            command.env_remove(name);
        }
        match self.ports.get(member) {
            Some(port) => {
                command.args(["serve", "--store", &self.store, "--listen", &format!("127.0.0.1:{port}")])
            }
            None => {
                let port = self.ports[member % self.ports.len()];
                let url = format!("http://127.0.0.1:{port}");
                command.env("SOAK_RUNS", self.folder.path().join("runs"));
                command.args(["work", "--url", &url, "--kind", "soak", "--slots", "8", "--env", "SOAK_RUNS"]);
                command.args(["--queue", "kept", "--queue", "swept", "--queue", "pruned", "--", "./job"])
            }
        };
        Program::start(&mut command)
    }

    async fn answers(&self, server: usize) {
        let port = self.ports[server];
        let ask = async || (http::call(port, "GET", "/v1/now", &Value::Null).await.0 == 200).then_some(());
        eventually("a server answers", ask).await;
    }

    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn strikes(&self) -> usize {
        self.strikes
    }

    /// Kills a program and starts it again, or lets it stand still until the next strike that meets it, or for [`STILL_MAX`].
    pub(super) async fn strike(&mut self, victim: usize, freeze: bool) {
        self.strikes += 1;
        let member = &mut self.members[victim];
        if member.frozen {
            member.program.signal(libc::SIGCONT);
            member.frozen = false;
            return;
        }
        if freeze {
            member.program.signal(libc::SIGSTOP);
            member.frozen = true;
            tokio::spawn(goes_on(Arc::downgrade(&member.program)));
            return;
        }
        // A store for one process is free only when the one that had it is gone.
        member.program.signal(libc::SIGKILL);
        let life = member.lives;
        member.lives += 1;
        self.members[victim].program = Arc::new(Program::start(&mut Command::new("true")));
        self.members[victim].program = Arc::new(self.run(victim, life));
    }

    /// Everybody goes on.
    pub(super) fn thaw(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.frozen) {
            member.program.signal(libc::SIGCONT);
            member.frozen = false;
        }
    }

    /// The leases that were run, one for each run.
    pub(super) fn runs(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What the programs said last.
    pub(super) fn words(&self) -> String {
        last_words(self.folder.path(), 5)
    }
}

/// Lets a program go on that has stood still for long enough, unless it is gone.
async fn goes_on(program: Weak<Program>) {
    pause(STILL_MAX).await;
    if let Some(program) = program.upgrade() {
        program.signal(libc::SIGCONT);
    }
}
