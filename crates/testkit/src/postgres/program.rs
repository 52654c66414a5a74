//! The server's process: found, set up, started, stopped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::keeper::Keeper;

/// A server with its folder.
pub struct Program {
    bin: PathBuf,
    dir: PathBuf,
    port: u16,
    /// Settings beside the usual ones.
    settings: Vec<String>,
    keeper: Keeper,
}

/// A dump of a database; its file goes with it.
pub struct Dump {
    file: PathBuf,
    _folder: TempDir,
}

impl Program {
    /// Sets up an empty server on a free port.
    pub fn create(settings: &[&str]) -> Self {
        let mut program = Self::empty();
        program.settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut initdb = as_postgres(&[], None);
        initdb.arg(program.bin.join("initdb")).arg("-D").arg(program.data());
        run(initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]));
        program
    }

    /// Sets up a standby that follows another server, which must be running.
    pub fn standby_of(primary: &Self) -> Self {
        Self::copy_of(primary, &["--write-recovery-conf"])
    }

    /// A base backup of another server, which must be running; it is not started.
    pub fn backup_of(primary: &Self) -> Self {
        Self::copy_of(primary, &[])
    }

    fn copy_of(primary: &Self, more: &[&str]) -> Self {
        let program = Self::empty();
        let mut backup = as_postgres(&[], None);
        backup.arg(program.bin.join("pg_basebackup")).arg("-D").arg(program.data());
        backup.args(["-h", "127.0.0.1", "-p", &primary.port.to_string(), "-U", "postgres"]);
        run(backup.args(["--wal-method=stream", "--checkpoint=fast", "--no-sync"]).args(more));
        program
    }

    /// Has a base backup recover to a restore point when it is started, by what the other server has written of its log.
    pub fn recover_to(&self, point: &str, from: &Self) {
        let file = self.data().join("postgresql.auto.conf");
        let mut settings = std::fs::read_to_string(&file).expect("settings");
        settings += &format!(
            "restore_command = 'cp \"{log}/%f\" \"%p\"'\nrecovery_target_name = '{point}'\n\
             recovery_target_action = 'promote'\n",
            log = from.data().join("pg_wal").display()
        );
        std::fs::write(&file, settings).expect("settings");
        run(as_postgres(&[], None).arg("touch").arg(self.data().join("recovery.signal")));
    }

    /// A folder and a port, with nothing in the one and nobody on the other.
    fn empty() -> Self {
        let bin = find();
        let dir = folder().keep();
        Self { bin, dir, port: free_port(), settings: Vec::new(), keeper: Keeper::default() }
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Makes a primary of a standby.
    pub fn promote(&self) {
        let mut promote = as_postgres(&[], None);
        promote.arg(self.bin.join("pg_ctl")).arg("-D").arg(self.data());
        run(promote.args(["promote", "-w"]));
    }

    /// Dumps a database, in the form that `pg_restore` reads.
    pub fn dump(&self, database: &str) -> Dump {
        let folder = folder();
        let file = folder.path().join("dump");
        run(self.tool("pg_dump").arg("-Fc").arg("-f").arg(&file).arg(database));
        Dump { file, _folder: folder }
    }

    /// Restores a dump in a database that is empty.
    pub fn restore(&self, dump: &Dump, database: &str) {
        run(self.tool("pg_restore").args(["--exit-on-error", "-d", database]).arg(&dump.file));
    }

    /// One of Postgres's own programs, with where this server is.
    fn tool(&self, name: &str) -> Command {
        let mut tool = as_postgres(&[], None);
        tool.arg(self.bin.join(name)).args(["-h", "127.0.0.1", "-U", "postgres", "-p"]);
        tool.arg(self.port.to_string());
        tool
    }

    /// Stops the processes that send the log to standbys.
    pub fn stop_sending(&self) {
        stop_senders(&self.children());
    }

    /// kill -9 of the server and of all of its processes.
    pub async fn kill(&self) {
        self.signal("KILL");
        self.keeper.ended().await;
    }

    fn children(&self) -> Vec<String> {
        self.pid().map(|server| children_of(&server)).unwrap_or_default()
    }

    /// The server's process, as long as it has not ended in order.
    fn pid(&self) -> Option<String> {
        let file = std::fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        file.lines().next().map(str::to_owned)
    }

    /// Sends a signal to the server and to all of its processes.
    pub fn signal(&self, signal: &str) {
        let Some(server) = self.pid() else { return };
        let mut kill = Command::new("kill");
        kill.args(["-s", signal, &server]).args(children_of(&server));
        // One of them may have ended by itself.
        drop(kill.stderr(Stdio::null()).status());
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the server wrote about itself.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Starts the server.
    pub async fn start(&self) {
        let mut server = Command::new(self.bin.join("postgres"));
        server.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=on",
            "synchronous_commit=on",
            "max_connections=300",
            "shared_buffers=64MB",
        ] {
            server.args(["-c", setting]);
        }
        // Of two that are named alike the last counts.
        for setting in &self.settings {
            server.args(["-c", setting]);
        }
        self.keeper.start(as_postgres(&[], Some("TERM")), &self.dir, "QUIT", &server);
    }

    /// Stops the server at once, as a crash does; its data stays.
    pub async fn stop(&self) {
        let mut stop = as_postgres(&[], None);
        stop.arg(self.bin.join("pg_ctl")).arg("-D").arg(self.data());
        run(stop.args(["stop", "-m", "immediate", "-w"]));
        self.keeper.ended().await;
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A frozen one hears nothing else.
        self.signal("CONT");
        self.keeper.end();
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

/// A folder that the server's user may write to.
pub(super) fn folder() -> TempDir {
    let folder = TempDir::with_prefix("windlass-postgres-").expect("a temporary folder");
    if is_root() {
        run(Command::new("chown").arg("postgres").arg(folder.path()));
    }
    folder
}

/// A port that nobody has, a moment ago.
pub(super) fn free_port() -> u16 {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    free.local_addr().expect("a bound port").port()
}

/// Stops those of these processes that send the log to standbys.
pub(super) fn stop_senders(processes: &[String]) {
    let is_sender = |pid: &&String| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("walsender")
    };
    let senders: Vec<&String> = processes.iter().filter(is_sender).collect();
    assert!(!senders.is_empty(), "nobody follows this server");
    run(Command::new("kill").args(["-s", "STOP"]).args(senders));
}

/// The processes that one has started, as the system lists them.
pub(super) fn children_of(parent: &str) -> Vec<String> {
    let is_child = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name is in brackets, and may hold anything.
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.split_whitespace().nth(1) == Some(parent))
    };
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(is_child)
        .collect()
}

/// The newest Debian folder of Postgres, else what the path has.
pub(super) fn find() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| Some((version.file_name().to_str()?.parse().ok()?, version.path().join("bin"))))
        .filter(|(_, bin): &(u32, PathBuf)| is_whole(bin))
        .collect();
    found.sort();
    let on_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).find(|bin| is_whole(bin))
    };
    found.pop().map(|(_, bin)| bin).or_else(on_path).unwrap_or_else(|| {
        panic!(
            "these tests need Postgres: run `apt-get install postgresql`, \
             or set {} to the URL of a server that is there",
            super::URL_VARIABLE
        )
    })
}

fn is_whole(bin: &Path) -> bool {
    ["initdb", "postgres", "pg_ctl"].iter().all(|name| bin.join(name).is_file())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
}

/// `setpriv` as the user `postgres` when we are root, since Postgres refuses
/// to run as root, with these options; told to end by a signal when we die, where one is named.
pub(super) fn as_postgres(options: &[&str], pdeathsig: Option<&str>) -> Command {
    let mut command = Command::new("setpriv");
    command.current_dir("/");
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).args(options);
    }
    if let Some(signal) = pdeathsig {
        command.args(["--pdeathsig", signal]);
    }
    command.arg("--");
    command
}

pub(super) fn run(command: &mut Command) {
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            panic!("{command:?} does not start: {error}; run `apt-get install util-linux postgresql`")
        }
    };
    if !output.status.success() {
        panic!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
}
