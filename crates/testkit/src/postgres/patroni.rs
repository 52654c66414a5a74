//! Two servers under Patroni, with the etcd that they agree by. `stores/postgres/tests/patroni` fetches both programs.
//!
//! A leader is given up after 20 s, the least that Patroni takes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::program::{as_postgres, children_of, find, folder, free_port, run, stop_senders};
use crate::eventually::answered_within;
use crate::keeper::Keeper;

/// About three minutes: a leader that is gone is noticed after 20 to 30 s, and a standby is made in a few more.
const TRIES_MAX: u32 = 1_800;

/// Whether commits wait for the standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `synchronous_mode`.
    Synchronous,
    /// A standby may take over that lacks the newest commits, up to `maximum_lag_on_failover`.
    Asynchronous,
}

impl Mode {
    fn settings(self) -> &'static str {
        match self {
            Self::Synchronous => "synchronous_mode: true",
            Self::Asynchronous => "synchronous_mode: false\n    maximum_lag_on_failover: 1073741824",
        }
    }
}

/// A cluster of two.
pub struct Patroni {
    mode: Mode,
    tool: PathBuf,
    nodes: [Node; 2],
    etcd: Keeper,
    _etcd_folder: TempDir,
}

struct Node {
    dir: PathBuf,
    port: u16,
    keeper: Keeper,
}

impl Patroni {
    /// Starts a cluster, and waits until it has a standby.
    pub async fn start(mode: Mode) -> Self {
        let tool = tool();
        let etcd_folder = folder();
        let (etcd, etcd_port) = (Keeper::default(), free_port());
        let mut command = Command::new(tool.join("bin/etcd"));
        let here = |port: u16| format!("http://127.0.0.1:{port}");
        let (clients, peers) = (here(etcd_port), here(free_port()));
        command.arg("--data-dir").arg(etcd_folder.path().join("data"));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("default={peers}"), "--unsafe-no-fsync"]);
        etcd.start(as_reader(Some("TERM")), etcd_folder.path(), "KILL", &command);
        let nodes = [1, 2].map(|number| Node::set_up(number, etcd_port, mode));
        let cluster = Self { mode, tool, nodes, etcd, _etcd_folder: etcd_folder };
        for node in &cluster.nodes {
            node.start(&cluster.tool);
        }
        cluster.until_guarded().await;
        cluster
    }

    /// Both hosts, as a URL has them.
    pub fn authority(&self) -> String {
        let [one, two] = &self.nodes;
        format!("127.0.0.1:{},127.0.0.1:{}", one.port, two.port)
    }

    /// Which of the nodes takes writes, once one does that is not `but`.
    pub async fn primary_but(&self, but: Option<usize>) -> usize {
        let ask = async || {
            for (at, node) in self.nodes.iter().enumerate().filter(|(at, _)| Some(*at) != but) {
                if node.number("SELECT 1 - pg_is_in_recovery()::int::bigint").await == Some(1) {
                    return Some(at);
                }
            }
            None
        };
        self.waited("there is a primary", answered_within(TRIES_MAX, ask).await)
    }

    /// Until there is a primary with a standby, which it waits for if it is to.
    pub async fn until_guarded(&self) {
        let asked = match self.mode {
            Mode::Synchronous => "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'",
            Mode::Asynchronous => "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'",
        };
        let ask = async || {
            for node in &self.nodes {
                if node.number(asked).await == Some(1) {
                    return Some(());
                }
            }
            None
        };
        self.waited("the primary has a standby", answered_within(TRIES_MAX, ask).await);
    }

    /// Until the other node has all that this one has committed by now.
    pub async fn until_followed(&self, primary: usize) {
        let bytes = |function| format!("SELECT ({function}() - '0/0'::pg_lsn)::bigint");
        let (asked, answer) = (bytes("pg_current_wal_lsn"), bytes("pg_last_wal_replay_lsn"));
        let ask = async || self.nodes[primary].number(&asked).await;
        let written = self.waited("a position", answered_within(TRIES_MAX, ask).await);
        let ask = async || self.nodes[1 - primary].number(&answer).await.filter(|at| *at >= written);
        self.waited("the standby has it", answered_within(TRIES_MAX, ask).await);
    }

    /// Stops what sends the log to the other node: it hears no more, and nobody is told.
    pub fn stop_sending(&self, node: usize) {
        let postgres = self.nodes[node].postgres().expect("a server that runs");
        stop_senders(&children_of(&postgres));
    }

    /// kill -9 of a node: Patroni, and Postgres with all of its processes.
    pub async fn kill(&self, node: usize) {
        self.nodes[node].signal("KILL");
        self.nodes[node].keeper.ended().await;
    }

    /// Starts a node that was killed.
    pub fn revive(&self, node: usize) {
        self.nodes[node].start(&self.tool);
    }

    /// Stops a node as it is; nothing is reset.
    pub fn freeze(&self, node: usize) {
        self.nodes[node].signal("STOP");
    }

    /// Lets a frozen node go on.
    pub fn thaw(&self, node: usize) {
        self.nodes[node].signal("CONT");
    }

    /// Has the standby take over in order.
    pub fn switch_over(&self) {
        let mut ctl = as_reader(None);
        ctl.arg(self.tool.join("bin/patronictl")).arg("-c").arg(self.nodes[0].dir.join("patroni.yml"));
        run(ctl.args(["switchover", "windlass", "--force"]));
    }

    fn waited<T>(&self, what: &str, answer: Option<T>) -> T {
        answer.unwrap_or_else(|| {
            let log = |node: &Node| std::fs::read_to_string(node.dir.join("log")).unwrap_or_default();
            panic!(
                "waited in vain until {what}:\n{}",
                self.nodes.each_ref().map(log).join("\n--- the other:\n")
            )
        })
    }
}

impl Drop for Patroni {
    fn drop(&mut self) {
        for node in &self.nodes {
            node.signal("CONT");
            node.signal("KILL");
            node.keeper.end();
            drop(std::fs::remove_dir_all(&node.dir));
        }
        self.etcd.end();
    }
}

impl Node {
    fn set_up(number: u32, etcd_port: u16, mode: Mode) -> Self {
        let (dir, port, rest) = (folder().keep(), free_port(), free_port());
        let settings = format!(
            "scope: windlass\nname: node{number}\n\
             restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}\n\
             etcd3: {{hosts: '127.0.0.1:{etcd_port}'}}\n\
             bootstrap:\n  dcs:\n    ttl: 20\n    loop_wait: 5\n    retry_timeout: 5\n    {mode}\n\
             \x20   postgresql: {{use_pg_rewind: true, parameters: {{max_connections: 300, shared_buffers: 64MB}}}}\n\
             \x20 initdb: [{{encoding: UTF8}}, {{locale: C.UTF-8}}, {{auth: trust}}]\n\
             postgresql:\n  listen: '127.0.0.1:{port}'\n  connect_address: '127.0.0.1:{port}'\n\
             \x20 remove_data_directory_on_diverged_timelines: true\n  data_dir: {data}\n  bin_dir: {bin}\n  pgpass: {dir}/pgpass\n\
             \x20 pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust', 'local all all trust']\n\
             \x20 authentication: {{superuser: {{username: postgres}}, replication: {{username: postgres}}}}\n\
             \x20 parameters: {{unix_socket_directories: '{dir}'}}\n",
            mode = mode.settings(),
            data = dir.join("data").display(),
            bin = find().display(),
            dir = dir.display(),
        );
        std::fs::write(dir.join("patroni.yml"), settings).expect("its settings");
        Self { dir, port, keeper: Keeper::default() }
    }

    fn start(&self, tool: &Path) {
        let mut patroni = Command::new(tool.join("bin/patroni"));
        patroni.arg(self.dir.join("patroni.yml"));
        self.keeper.start(as_reader(Some("TERM")), &self.dir, "TERM", &patroni);
    }

    /// The process of its Postgres.
    fn postgres(&self) -> Option<String> {
        let file = std::fs::read_to_string(self.dir.join("data/postmaster.pid")).ok()?;
        file.lines().next().map(str::to_owned)
    }

    /// Sends a signal to Patroni, to Postgres and to all of its processes.
    fn signal(&self, signal: &str) {
        let postgres = self.postgres();
        let keeper = self.keeper.pid().map(|pid| pid.to_string());
        let mut all: Vec<String> = keeper.iter().flat_map(|keeper| children_of(keeper)).collect();
        all.extend(postgres.iter().flat_map(|postgres| children_of(postgres)));
        all.extend(postgres);
        // One of them may have ended by itself.
        drop(Command::new("kill").args(["-s", signal]).args(all).stderr(Stdio::null()).status());
    }

    async fn number(&self, statement: &str) -> Option<i64> {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.port);
        let asked = super::number(&url, statement);
        // A frozen one takes connections and says nothing.
        tokio::time::timeout(std::time::Duration::from_millis(500), asked).await.ok().flatten()
    }
}

/// As Postgres's user, who may read the folder in which the programs are, whosever it is.
fn as_reader(pdeathsig: Option<&str>) -> Command {
    as_postgres(&["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"], pdeathsig)
}

/// Where the programs are; they are fetched where they are not.
fn tool() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stores/postgres/tests/patroni");
    let output = Command::new(script).stderr(Stdio::inherit()).output().expect("a script that starts");
    assert!(output.status.success(), "these tests need Patroni and etcd from PyPI");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}
