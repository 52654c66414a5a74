//! What `sslmode` and its companions mean, against a real server with TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use windlass_core::error::StoreError;
use windlass_postgres::{Options, PostgresStore};
use windlass_testkit::eventually::answered;
use windlass_testkit::postgres::Server;

use crate::scene::client;

/// A server that speaks TLS as `localhost`, and the files that a client needs.
struct Scene {
    server: Arc<Server>,
    files: TempDir,
}

/// A root that signs certificates.
struct Root {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Root {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for a name, and its key.
    fn signs(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

impl Scene {
    async fn new() -> Self {
        let server = Arc::new(Server::own().await);
        let files = TempDir::new().unwrap();
        let root = Root::new("root");
        let (certificate, key) = root.signs("localhost");
        let (client_certificate, client_key) = root.signs("postgres");
        write(files.path(), "root.pem", &root.pem);
        write(files.path(), "other.pem", &Root::new("somebody else").pem);
        write(files.path(), "client.pem", &client_certificate);
        write(files.path(), "client.key", &client_key);
        for (file, text) in [("server.crt", &certificate), ("server.key", &key), ("root.crt", &root.pem)] {
            put(&server, file, text).await;
        }
        server.sql("CREATE DATABASE guarded").await;
        let rule = "hostssl guarded all 127.0.0.1/32 trust clientcert=verify-ca";
        // The first rule that fits decides, so this one goes to the top.
        server
            .sql(&format!(
                "COPY (SELECT 1) TO PROGRAM 'echo \"{rule}\" | cat - pg_hba.conf > hba && mv hba pg_hba.conf'"
            ))
            .await;
        for (setting, value) in [("ssl", "on"), ("ssl_ca_file", "root.crt")] {
            server.sql(&format!("ALTER SYSTEM SET {setting} = '{value}'")).await;
        }
        server.restart().await;
        Self { server, files }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn url(&self, host: &str, database: &str, parameters: &str) -> String {
        let port = self.server.base_url().rsplit(':').next().unwrap();
        let parameters = parameters.replace("DIR", self.files.path().to_str().unwrap());
        format!("postgres://postgres@{host}:{port}/{database}?{parameters}")
    }

    /// Whether the store's connections are encrypted; nothing when it was refused.
    async fn encrypted(&self, host: &str, database: &str, parameters: &str) -> Result<bool, StoreError> {
        let options = Options { connect_ms: 2_000, ..Options::default() };
        let store = PostgresStore::connect_with(&self.url(host, database, parameters), options).await?;
        let watcher = client(&self.server.url("postgres")).await;
        let sql = "SELECT coalesce(bool_and(ssl), false), count(*) > 1 FROM pg_stat_ssl JOIN pg_stat_activity \
                   USING (pid) WHERE application_name = 'windlass'";
        // One connection of the pool and the one that listens.
        let ask = async || {
            let row = watcher.query_one(sql, &[]).await.ok()?;
            row.get::<_, bool>(1).then(|| row.get::<_, bool>(0))
        };
        let encrypted = answered(ask).await.expect("the store's connections");
        drop(store);
        let gone = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'windlass'";
        let ask = async || watcher.query(gone, &[]).await.ok()?.is_empty().then_some(());
        answered(ask).await.expect("the store's connections to end");
        Ok(encrypted)
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// Writes a file into the server's folder, for its own eyes only.
async fn put(server: &Server, file: &str, text: &str) {
    let lines: Vec<String> = text.lines().map(|line| format!("('{line}')")).collect();
    let rows = lines.join(",");
    server.sql(&format!("COPY (SELECT * FROM (VALUES {rows}) t) TO PROGRAM 'umask 077; cat > {file}'")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sslmode_means_what_libpq_says() {
    let scene = Scene::new().await;
    for (host, parameters, expected) in [
        ("127.0.0.1", "sslmode=disable", Some(false)),
        ("127.0.0.1", "", Some(true)),
        ("127.0.0.1", "sslmode=prefer", Some(true)),
        ("127.0.0.1", "sslmode=require", Some(true)),
        ("127.0.0.1", "sslmode=require&sslrootcert=DIR/root.pem", Some(true)),
        ("127.0.0.1", "sslmode=require&sslrootcert=DIR/other.pem", None),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert=DIR/root.pem", Some(true)),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert=DIR/other.pem", None),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=DIR/root.pem", None),
        ("localhost", "sslmode=verify-full&sslrootcert=DIR/root.pem", Some(true)),
        ("localhost", "sslmode=verify-full&sslrootcert=DIR/other.pem", None),
        ("localhost", "sslmode=verify-full", None),
    ] {
        let found = scene.encrypted(host, "postgres", parameters).await;
        assert_eq!(found.as_ref().ok(), expected.as_ref(), "{host} {parameters}: {found:?}");
    }
}

/// A certificate that is refused is said to be so, with what to do; it is no server that is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_certificate_is_said() {
    let scene = Scene::new().await;
    for (host, parameters, why) in [
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=DIR/root.pem", "made for another host"),
        ("localhost", "sslaccept=strict&sslrootcert=DIR/other.pem", "no root that is known has signed it"),
    ] {
        let found = scene.encrypted(host, "postgres", parameters).await.unwrap_err().to_string();
        assert!(found.contains("the certificate of Postgres is refused") && found.contains(why), "{found}");
    }
    assert_eq!(scene.encrypted("127.0.0.1", "postgres", "ssl=true").await.ok(), Some(true));
}

/// A server that offers no encryption where it is wanted: what is so and what to do is said in plain words.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_encryption_is_said() {
    let url = format!("{}?sslmode=require", Server::shared().await.url("postgres"));
    let options = Options { connect_ms: 2_000, ..Options::default() };
    let found = PostgresStore::connect_with(&url, options).await.err().expect("it is refused").to_string();
    assert!(found.contains("offers no encryption") && found.contains("switch `ssl` on"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_certificate() {
    let scene = Scene::new().await;
    assert!(scene.encrypted("127.0.0.1", "guarded", "sslmode=require").await.is_err());
    let with = "sslmode=require&sslcert=DIR/client.pem&sslkey=DIR/client.key";
    assert_eq!(scene.encrypted("127.0.0.1", "guarded", with).await.ok(), Some(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_when_it_is_asked_for() {
    let server = Server::shared().await;
    let database = server.fresh_database().await;
    let connect = async |parameters: &str| {
        PostgresStore::connect_with(&format!("{}?{parameters}", database.url()), Options::default()).await
    };
    assert!(connect("sslmode=require").await.is_err());
    assert!(connect("sslmode=prefer").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_do_not_serve_are_named() {
    let scene = Scene::new().await;
    let empty = scene.file("empty.pem");
    std::fs::write(&empty, "nothing here").unwrap();
    for (parameters, says) in [
        ("sslmode=verify-ca&sslrootcert=DIR/nowhere.pem", "nowhere.pem"),
        ("sslmode=verify-ca&sslrootcert=DIR/empty.pem", "empty.pem, which holds no PEM certificate"),
        ("sslmode=require&sslcert=DIR/client.pem", "give both or none"),
        ("sslmode=require&sslcert=DIR/client.pem&sslkey=DIR/client.pem", "client.pem"),
        ("sslmode=maybe", "disable, allow, prefer, require, verify-ca, verify-full"),
    ] {
        let url = scene.url("127.0.0.1", "postgres", parameters);
        let refused = PostgresStore::connect_with(&url, Options::default()).await.err().unwrap().to_string();
        assert!(refused.contains(says), "{parameters}: {refused}");
    }
}
