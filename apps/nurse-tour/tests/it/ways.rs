//! The ways to the database: encrypted, refused, and past a pooler.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::Server;

use crate::errors::free_port;
use crate::scene::Scene;

/// A root that signs certificates.
struct Root {
    pem: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Root {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let (pem, text) = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
        Self { pem, key: text, issuer: Issuer::new(params, key) }
    }

    /// A certificate for a name, and its key.
    fn signs(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A server that shows this certificate.
async fn server((certificate, key): (String, String)) -> Arc<Server> {
    let server = Server::own().await;
    for (file, text) in [("server.crt", certificate), ("server.key", key)] {
        let rows = text.lines().map(|line| format!("('{line}')")).collect::<Vec<_>>().join(",");
        let put = format!("COPY (SELECT * FROM (VALUES {rows}) t) TO PROGRAM 'umask 077; cat > {file}'");
        server.sql(&put).await;
    }
    server.sql("ALTER SYSTEM SET ssl = 'on'").await;
    server.restart().await;
    Arc::new(server)
}

/// The database of a scene by another host, and with more said about the way to it.
fn by(scene: &mut Scene, host: &str, parameters: &str) {
    let url = scene.database.url().replace("127.0.0.1", host);
    scene.set("DATABASE_URL", &format!("{url}?{parameters}"));
}

/// Works one message, and answers whether all connections of the worker were encrypted meanwhile.
async fn works(scene: &Scene) -> bool {
    scene.migrate().await;
    assert_eq!(scene.check().await, (vec![], vec![]));
    scene.message("SM1").await;
    let running = scene.start().await;
    let done = async || (scene.of("SM1", "processing_status").await? == "DONE").then_some(());
    eventually("it is done", done).await;
    let sql = "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
               WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()";
    let encrypted = scene.client.query_one(sql, &[]).await.unwrap().get(0);
    running.stop().await;
    encrypted
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_way_and_certificates_that_are_refused() {
    let (root, files) = (Root::new("root"), TempDir::new().unwrap());
    let (ours, other) = (files.path().join("root.pem"), files.path().join("other.pem"));
    std::fs::write(&ours, &root.pem).unwrap();
    std::fs::write(&other, Root::new("somebody else").pem).unwrap();
    let mut scene = Scene::on(server(root.signs("localhost")).await).await;
    by(&mut scene, "127.0.0.1", "ssl=true");
    assert!(works(&scene).await, "every connection is encrypted");
    let own = Root::new("localhost");
    let alone = files.path().join("alone.pem");
    std::fs::write(&alone, &own.pem).unwrap();
    let mut by_itself = Scene::on(server((own.pem.clone(), own.key.clone())).await).await;
    let (unknown, elsewhere) = (
        "no root that is known has signed it; name the right one with sslrootcert",
        "it was made for another host; check the host in DATABASE_URL",
    );
    for (signed, host, file, why) in [
        (true, "localhost", &other, unknown),
        (true, "127.0.0.1", &ours, elsewhere),
        (false, "localhost", &alone, "it is that of an authority, and signed by itself"),
    ] {
        let scene = if signed { &mut scene } else { &mut by_itself };
        by(scene, host, &format!("sslmode=verify-full&sslrootcert={}", file.display()));
        for verb in [&["check"][..], &[]] {
            let output = scene.run(verb).await;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(
                said.contains("the certificate of the server is refused") && said.contains(why),
                "{said}"
            );
            assert!(!said.contains("Other("), "the words of a library: {said}");
        }
    }
}

/// A pooler in transaction mode before a server; it ends with this.
struct Pooler {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Pooler {
    fn before(server: &Server) -> Self {
        let (folder, port) = (TempDir::with_prefix("windlass-pgbouncer-").unwrap(), free_port());
        let (host, server_port) =
            server.authority().split_once(':').map(|(h, p)| (h.to_owned(), p.to_owned())).unwrap();
        let settings = format!(
            "[databases]\n* = host={host} port={server_port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 4\nunix_socket_dir =\n"
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        let mut places = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].into_iter();
        let program = places.find(|path| std::path::Path::new(path).exists());
        let mut command =
            Command::new(program.expect("this test needs pgbouncer: run `apt-get install pgbouncer`"));
        command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        if std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
            command.args(["-u", "postgres"]);
        }
        Self { process: command.spawn().unwrap(), port, _folder: folder }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Past a pooler everything works that says so; whoever does not say so is told what to say.
#[tokio::test(flavor = "multi_thread")]
async fn past_a_pooler() {
    let server = Arc::new(Server::own().await);
    let pooler = Pooler::before(&server);
    let mut scene = Scene::on(server).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/{}", pooler.port, scene.database_name());
    let open = async || tokio::net::TcpStream::connect(("127.0.0.1", pooler.port)).await.ok().map(drop);
    eventually("pgbouncer listens", open).await;
    scene.set("DATABASE_URL", &url);
    let output = scene.run(&["check"]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("add pgbouncer=true to DATABASE_URL"), "{said}");
    scene.set("DATABASE_URL", &format!("{url}?pgbouncer=true"));
    works(&scene).await;
}
