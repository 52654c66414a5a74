//! A real pgbouncer in transaction mode, with nothing said of it in the URL.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use windlass_core::store::{Source, Store, Written};
use windlass_core::transition::Outcome;
use windlass_postgres::PostgresStore;
use windlass_testkit::eventually::answered;
use windlass_testkit::postgres::Server;

use crate::scene::{client, ends, job, wish};

/// A pooler before a server; it ends with this.
struct Pooler {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Pooler {
    /// Starts one with one server connection, so that sessions are surely shared.
    async fn before(server: &Server, more: &str) -> Self {
        let folder = TempDir::with_prefix("windlass-pgbouncer-").expect("a folder");
        let port =
            TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr()).expect("a port").port();
        let (host, server_port) =
            server.authority().split_once(':').map(|(h, p)| (h.to_owned(), p.to_owned())).expect("a port");
        let settings = format!(
            "[databases]\n* = host={host} port={server_port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nunix_socket_dir =\n{more}\n"
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("its settings");
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .into_iter()
            .find(|path| std::path::Path::new(path).exists());
        let program = program.expect("these tests need pgbouncer: run `apt-get install pgbouncer`");
        let mut command = Command::new(program);
        command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        if std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
            use std::os::unix::fs::PermissionsExt;
            let readable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder.path(), readable).expect("a folder that it may read");
            command.args(["-u", "postgres"]);
        }
        let process = command.spawn().expect("pgbouncer starts");
        let pooler = Self { process, port, _folder: folder };
        let url = pooler.url();
        let ask = async || tokio_postgres::connect(&url, tokio_postgres::NoTls).await.ok().map(drop);
        assert!(answered(ask).await.is_some(), "pgbouncer does not answer");
        pooler
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// One that refuses what it does not know, and one that leaves it out: both are recognised, and everything works.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_pooler_is_recognised() {
    for (more, direct) in
        [("", false), ("ignore_startup_parameters = options,extra_float_digits", false), ("", true)]
    {
        let server = Server::own().await;
        let pooler = Pooler::before(&server, more).await;
        let url = if direct { server.url("postgres") } else { pooler.url() };
        let store = PostgresStore::connect(&url).await.expect("a store");
        let says = |what: &str| what.contains("transaction pooler");
        let told = store.risks().await.expect("risks").iter().any(|risk| says(&risk.what));
        assert_eq!(told, !direct, "{more:?}");
        for round in 0..5 {
            let jobs = (1..=20).map(|n| job(round * 100 + n)).collect();
            store.enqueue(jobs).await.expect("enqueue");
            let leases: Vec<_> = store
                .claim(wish(20))
                .await
                .expect("claim")
                .leases
                .iter()
                .map(|leased| leased.lease_ref())
                .collect();
            assert_eq!(store.renew(leases.clone()).await.expect("renew").renewed.len(), 20);
            let settled = store.settle(ends(&leases, &Outcome::DONE)).await.expect("settle");
            assert_eq!(settled, vec![Written::Done; 20]);
        }
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
        drop(client(&url).await);
    }
}
