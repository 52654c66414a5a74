//! A real Postgres for tests.
//!
//! `WINDLASS_TEST_POSTGRES_URL` names a server that is there already (the test
//! script starts one for all tests); else one is started on a free port of the
//! loopback, as the user `postgres` when the tests run as root, with fsync on,
//! in a temporary folder. It dies with the tests, and its folder goes with it.

pub mod patroni;
mod pooler;
mod program;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::OnceCell;
use tokio_postgres::NoTls;

pub use self::pooler::Pooler;
pub use self::program::Dump;
use self::program::Program;
use crate::eventually::{answered, eventually};

/// The variable that names a server that is there already.
pub const URL_VARIABLE: &str = "WINDLASS_TEST_POSTGRES_URL";

/// A Postgres server.
pub struct Server {
    base: String,
    program: Option<Program>,
}

static SHARED: OnceCell<Arc<Server>> = OnceCell::const_new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// A base backup.
pub struct Backup(Program);

impl Backup {
    /// Recovers it to a restore point, by the log of the server that it is of, and starts it.
    pub async fn recovered_to(self, point: &str, of: &Server) -> Server {
        self.0.recover_to(point, of.own_program("recover from"));
        Server::started(self.0).await
    }
}

impl Server {
    /// The server of all tests of this process: the one that is named by
    /// `WINDLASS_TEST_POSTGRES_URL`, else one of our own.
    pub async fn shared() -> Arc<Server> {
        SHARED.get_or_init(|| async { Arc::new(Self::find_or_start().await) }).await.clone()
    }

    async fn find_or_start() -> Self {
        match std::env::var(URL_VARIABLE) {
            Ok(url) => Self { base: without_database(&url), program: None },
            Err(_) => Self::own().await,
        }
    }

    /// A server of one's own, to be stopped and started at will. It ends when
    /// this is dropped.
    pub async fn own() -> Self {
        Self::own_with(&[]).await
    }

    /// The same with settings of its own, as `fsync=off`.
    pub async fn own_with(settings: &[&str]) -> Self {
        Self::started(Program::create(settings)).await
    }

    /// A standby of one's own that follows an own server.
    pub async fn standby_of(primary: &Server) -> Self {
        Self::started(Program::standby_of(primary.own_program("follow"))).await
    }

    /// A base backup of an own server, as it is now.
    pub fn backup(&self) -> Backup {
        Backup(Program::backup_of(self.own_program("back up")))
    }

    async fn started(program: Program) -> Self {
        program.start().await;
        let server = Self {
            base: format!("postgres://postgres@127.0.0.1:{}", program.port()),
            program: Some(program),
        };
        server.ready().await;
        server
    }

    /// The URL of the server without a database.
    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// The URL of a database of this server.
    pub fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.base)
    }

    /// A new, empty database. It is dropped when the answer is.
    pub async fn fresh_database(self: &Arc<Self>) -> Database {
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let name = format!("windlass_test_{}_{number}", std::process::id());
        self.sql(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        self.sql(&format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        Database { server: self.clone(), name }
    }

    /// Stops an own server as a crash does, without a last checkpoint, and
    /// leaves it stopped.
    pub async fn stop(&self) {
        self.own_program("stop").stop().await;
    }

    /// Starts an own server that was stopped, on the same port.
    pub async fn start(&self) {
        self.own_program("start").start().await;
        self.ready().await;
    }

    /// Stops an own server as a crash does, and starts it again.
    pub async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// Kills an own server with all of its processes, and leaves it so.
    pub async fn kill(&self) {
        self.own_program("kill").kill().await;
    }

    /// A dump of a database of an own server, as `pg_dump -Fc` makes it.
    pub fn dump(&self, database: &str) -> Dump {
        self.own_program("dump").dump(database)
    }

    /// Writes a dump into an empty database of an own server, as `pg_restore` does.
    pub fn restore(&self, dump: &Dump, database: &str) {
        self.own_program("restore into").restore(dump, database);
    }

    /// Has commits wait for the standby that follows, from now on.
    pub async fn commit_with_standby(&self) {
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'").await;
        self.sql("SELECT pg_reload_conf()").await;
        let asked = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        eventually("the standby is waited for", async || self.number(asked).await.filter(|n| *n > 0)).await;
    }

    /// Waits until a standby has all that is committed by now.
    pub async fn until_followed_by(&self, standby: &Server) {
        let bytes = |function| format!("SELECT ({function}() - '0/0'::pg_lsn)::bigint");
        let asked = bytes("pg_current_wal_lsn");
        let written = eventually("a position", async || self.number(&asked).await).await;
        let asked = bytes("pg_last_wal_replay_lsn");
        eventually("the standby has it", async || standby.number(&asked).await.filter(|at| *at >= written))
            .await;
    }

    /// Stops what sends the log to standbys: they hear no more, and nobody is told.
    pub fn stop_sending(&self) {
        self.own_program("stop the senders of").stop_sending();
    }

    /// What a statement that gives one number gives; nothing where the server does not answer.
    async fn number(&self, statement: &str) -> Option<i64> {
        number(&self.url("postgres"), statement).await
    }

    /// Makes a primary of a standby.
    pub fn promote(&self) {
        self.own_program("promote").promote();
    }

    /// Until it takes writes, asked directly.
    pub fn takes_writes(&self) -> impl Future<Output = ()> + Send + 'static {
        let url = self.url("postgres");
        async move {
            let asked = "SELECT 1 - pg_is_in_recovery()::int::bigint";
            eventually("it takes writes", async || number(&url, asked).await.filter(|is| *is == 1)).await;
        }
    }

    /// Freezes an own server: it stands still with all its connections, and nothing is reset.
    pub fn freeze(&self) {
        self.own_program("freeze").signal("STOP");
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.own_program("thaw").signal("CONT");
    }

    /// Its host and port.
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.own_program("name the port of").port())
    }

    fn own_program(&self, verb: &str) -> &Program {
        match &self.program {
            Some(program) => program,
            None => {
                panic!("a test wants to {verb} a Postgres that others use too; it must ask for Server::own()")
            }
        }
    }

    /// Runs a statement in the database `postgres`.
    pub async fn sql(&self, statement: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url("postgres"), NoTls)
            .await
            .unwrap_or_else(|error| panic!("cannot reach Postgres at {}: {error}", self.base));
        let connection = tokio::spawn(connection);
        if let Err(error) = client.batch_execute(statement).await {
            panic!("Postgres refused {statement:?}: {error}");
        }
        drop(client);
        drop(connection.await);
    }

    async fn ready(&self) {
        let url = self.url("postgres");
        let ask = async || tokio_postgres::connect(&url, NoTls).await.ok().map(drop);
        if answered(ask).await.is_none() {
            let log = self.program.as_ref().map(Program::log).unwrap_or_default();
            panic!("Postgres does not answer at {}; its log says:\n{log}", self.base);
        }
    }
}

async fn number(url: &str, statement: &str) -> Option<i64> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
    tokio::spawn(connection);
    client.query_one(statement, &[]).await.ok()?.try_get(0).ok()
}

/// `postgres://user@host:port` of `postgres://user@host:port/database?options`.
fn without_database(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        panic!("{URL_VARIABLE} is {url:?}; it must be a URL such as postgres://postgres@127.0.0.1:5432");
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    format!("{scheme}://{authority}")
}

/// A database of a test's own.
pub struct Database {
    server: Arc<Server>,
    name: String,
}

impl Database {
    /// Its URL.
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// How many transactions there were in it. Asked from outside of it, so that the question is not among them; what a
    /// connection did in its last seconds may be missing.
    pub async fn transactions(&self) -> i64 {
        let counted = format!(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{}'",
            self.name
        );
        number(&self.server.url("postgres"), &counted).await.expect("the statistics of a database")
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // Whoever wants to look at it afterwards: `stores/postgres/tests/coverage`.
        if std::env::var_os("WINDLASS_TEST_KEEP_DATABASES").is_some() {
            return;
        }
        // A runtime of its own: the test's may be shutting down already.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let connected = tokio_postgres::connect(&server.url("postgres"), NoTls).await;
                if let Ok((client, connection)) = connected {
                    tokio::spawn(connection);
                    // A server that was stopped takes its databases with it.
                    drop(client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await);
                }
            });
            Ok::<(), std::io::Error>(())
        });
        drop(dropping.join());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_has_no_database() {
        for (url, base) in [
            ("postgres://postgres@127.0.0.1:5432/postgres?x=y", "postgres://postgres@127.0.0.1:5432"),
            ("postgres://u:p@h", "postgres://u:p@h"),
            ("postgres://u@h?sslmode=disable", "postgres://u@h"),
        ] {
            assert_eq!(without_database(url), base);
        }
    }

    /// An own server outlives a crash with what was committed, and a fresh
    /// database is empty and goes away.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_own_server_stops_and_starts() {
        let server = Arc::new(Server::own().await);
        let database = server.fresh_database().await;
        let url = database.url();
        let connect = async || tokio_postgres::connect(&url, NoTls).await;
        let (client, connection) = connect().await.expect("a fresh database");
        let connection = tokio::spawn(connection);
        client.batch_execute("CREATE TABLE kept AS SELECT 7 AS n").await.expect("a table");
        server.restart().await;
        assert!(client.batch_execute("SELECT 1").await.is_err(), "the old connection is dead");
        drop(connection.await);
        let (client, connection) = connect().await.expect("the server is back");
        tokio::spawn(connection);
        let row = client.query_one("SELECT n, current_setting('fsync') FROM kept", &[]).await.expect("a row");
        assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1)), (7, "on"));
        drop(database);
        assert!(connect().await.is_err(), "the database is gone");
        server.stop().await;
        assert!(tokio_postgres::connect(&server.url("postgres"), NoTls).await.is_err());
    }
}
