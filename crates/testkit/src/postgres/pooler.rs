//! A real pgbouncer in transaction mode before a server.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::eventually::answered;

/// A pooler of transactions; it ends with this.
pub struct Pooler {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Pooler {
    /// Starts one before a server (its host and port), which must answer. It has one connection to each database, so that
    /// sessions are surely shared. `more` are further lines of its settings.
    pub async fn before(authority: &str, more: &str) -> Self {
        let folder = TempDir::with_prefix("windlass-pgbouncer-").expect("a folder");
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr());
        let port = free.expect("a port").port();
        let (host, server_port) = authority.split_once(':').expect("a host and a port");
        let settings = format!(
            "[databases]\n* = host={host} port={server_port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 1\nunix_socket_dir =\n{more}\n"
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("its settings");
        let mut command = Command::new(program());
        command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        if std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
            let readable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder.path(), readable).expect("a folder that it may read");
            command.args(["-u", "postgres"]);
        }
        let process = command.spawn().expect("pgbouncer starts");
        let pooler = Self { process, port, _folder: folder };
        let url = pooler.url("postgres");
        let ask = async || tokio_postgres::connect(&url, NoTls).await.ok().map(drop);
        assert!(answered(ask).await.is_some(), "pgbouncer does not answer");
        pooler
    }

    /// The URL of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn program() -> &'static Path {
    let places = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
    let program = places.into_iter().map(Path::new).find(|path| path.exists());
    program.expect("these tests need pgbouncer: run `apt-get install pgbouncer`")
}
