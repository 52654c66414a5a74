//! A replica set, databases of a test's own, and the program.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, Timestamp, doc};
use mongodb::{Client, Collection, Database};
use serde_json::Value;
use windlass_testkit::eventually::answered_within;
use windlass_testkit::mongo::{Options, ReplicaSet};
use windlass_testkit::program::{Program, last_words};

static SCENES: AtomicU32 = AtomicU32::new(0);

pub struct Scene {
    pub set: Arc<ReplicaSet>,
    pub client: Client,
    pub folder: tempfile::TempDir,
    pub env: HashMap<String, String>,
    /// The listeners' own database.
    pub home: String,
    /// The beginning of tenants' databases.
    pub prefix: String,
    pub since: Timestamp,
}

/// How many times as long the long tests are: `./test --full` says ten.
pub fn rounds() -> usize {
    std::env::var("WINDLASS_ROUNDS").map_or(1, |said| said.parse().expect("a number of rounds"))
}

/// Whether the long forms are asked for.
pub fn is_full() -> bool {
    rounds() > 1
}

/// Lets time pass where that is what is tested.
pub async fn hold(length: Duration) {
    tokio::time::timeout(length, std::future::pending::<()>()).await.unwrap_err();
}

/// A port that is free now.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An instance, and where it listens.
pub struct Instance {
    pub program: Program,
    pub port: u16,
    pub name: String,
}

impl Scene {
    /// On the replica set of all tests.
    pub async fn new() -> Self {
        Self::on(ReplicaSet::shared().await).await
    }

    /// On one of its own that can be told to fail commands.
    pub async fn with_failpoints() -> Self {
        let arguments = ["--setParameter", "enableTestCommands=1"].map(str::to_owned).to_vec();
        Self::on(Arc::new(ReplicaSet::with(Options { arguments, ..Options::default() }).await)).await
    }

    pub async fn on(set: Arc<ReplicaSet>) -> Self {
        let number = SCENES.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}_{number}", std::process::id());
        let client = set.client().await;
        let hello = client.database("admin").run_command(doc! { "hello": 1 }).await.unwrap();
        let since = hello.get_timestamp("operationTime").unwrap();
        let since = Timestamp { time: since.time, increment: since.increment + 1 };
        let (home, prefix) = (format!("airank_{name}"), format!("workspace_{name}_"));
        let pairs = [
            ("MONGODB_URI", set.uri()),
            ("LISTENER_DATABASE", home.clone()),
            ("LISTENER_LOCK_SECONDS", "3".to_owned()),
            ("LISTENER_HEARTBEAT_SECONDS", "0.5".to_owned()),
            ("LISTENER_CLAIM_SECONDS", "1".to_owned()),
            ("LISTENER_RECOVERY_SECONDS", "1".to_owned()),
            ("LISTENER_LADDER", "200ms 300ms".to_owned()),
            ("DEBUG", "1".to_owned()),
        ];
        let env = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { set, client, folder: tempfile::tempdir().unwrap(), env, home, prefix, since }
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    pub fn db(&self, name: &str) -> Database {
        self.client.database(&format!("{}{name}", self.prefix))
    }

    pub fn people(&self) -> Collection<Document> {
        self.db("a").collection("people")
    }

    pub fn own(&self, name: &str) -> Collection<Document> {
        self.client.database(&self.home).collection(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(windlass_testkit::binary::windlass_full());
        command.arg("listener").args(args).env_clear().envs(&self.env);
        command
    }

    /// Runs a verb to its end.
    pub async fn run(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// Runs a verb that must succeed, and reads its JSON.
    pub async fn json(&self, args: &[&str]) -> Value {
        let mut told = self.lines(args).await;
        assert_eq!(told.len(), 1, "{args:?}: {told:?}");
        told.remove(0)
    }

    /// The same of a verb that lists: a value for each line.
    pub async fn lines(&self, args: &[&str]) -> Vec<Value> {
        let mut all = args.to_vec();
        all.push("--json");
        let output = self.run(&all).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        let value =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|why| panic!("{args:?}: {why}: {text}"));
        text.lines().map(value).collect()
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    pub fn start_with(&self, name: &str, more: &[(&str, &str)]) -> Instance {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log(name)).unwrap();
        let errors = log.try_clone().unwrap();
        let port = free_port();
        let mut command = self.command(&["--listen", &format!("127.0.0.1:{port}")]);
        command.env("LISTENER_INSTANCE", name).envs(more.iter().copied());
        let program = Program::start(command.stdout(Stdio::from(log)).stderr(Stdio::from(errors)));
        Instance { program, port, name: name.to_owned() }
    }

    /// An instance that has taken all lanes it will.
    pub async fn start(&self, name: &str) -> Instance {
        let instance = self.start_with(name, &[]);
        self.ready(&instance).await;
        instance
    }

    pub async fn ready(&self, instance: &Instance) {
        let ask = async || self.get(instance, "/healthz").await.filter(|(status, _)| *status == 200);
        if answered_within(400, ask).await.is_none() {
            panic!("{} is not healthy; it said:\n{}", instance.name, self.last_words());
        }
    }

    /// Asks an instance; nothing when it does not answer.
    pub async fn get(&self, instance: &Instance, path: &str) -> Option<(u16, Value)> {
        self.ask(instance, "GET", path, "").await
    }

    pub async fn ask(
        &self,
        instance: &Instance,
        method: &str,
        path: &str,
        body: &str,
    ) -> Option<(u16, Value)> {
        let (status, text) = self.text(instance, method, path, body).await?;
        Some((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    pub async fn text(
        &self,
        instance: &Instance,
        method: &str,
        path: &str,
        body: &str,
    ) -> Option<(u16, String)> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", instance.port)).await.ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            instance.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    }

    pub fn last_words(&self) -> String {
        last_words(self.folder.path(), 40)
    }

    /// Makes a listener of this scene's tenants by a plain driver.
    pub async fn listener(&self, id: &str, more: Document) {
        let mut document = doc! { "_id": id, "collection": "people", "jobName": format!("job-{id}"), "databasePrefix": &self.prefix,
        "operationType": ["insert", "update", "delete"], "isActive": true, "statusField": Bson::Null };
        document.extend(more);
        self.own("listeners").insert_one(document).await.unwrap();
    }

    /// Waits until a listener is followed by the shared stream of somebody.
    pub async fn live(&self, ids: &[&str], instances: &[&Instance]) {
        let ask = async || {
            let mut found = Vec::new();
            for instance in instances {
                let (_, status) = self.get(instance, "/status").await?;
                for lane in status["report"]["lanes"].as_array()? {
                    if lane["live"]["following"] == "live" {
                        found.push(lane["listener"].as_str()?.to_owned());
                    }
                }
            }
            ids.iter().all(|id| found.iter().any(|found| found == id)).then_some(())
        };
        if answered_within(400, ask).await.is_none() {
            panic!("{ids:?} are not live\n{}", self.last_words());
        }
    }

    pub async fn rows(&self, listener: &str) -> Vec<Document> {
        let query = doc! { "data.listenerId": listener };
        self.own("jobs").find(query).await.unwrap().try_collect().await.unwrap()
    }

    pub async fn count(&self, listener: &str) -> u64 {
        self.own("jobs").count_documents(doc! { "data.listenerId": listener }).await.unwrap()
    }

    /// Waits until a listener has as many rows, and says what the program said when it does not come to that.
    pub async fn until(&self, listener: &str, rows: u64) {
        let ask = async || (self.count(listener).await >= rows).then_some(());
        if answered_within(700, ask).await.is_none() {
            panic!("{listener} has {} of {rows} jobs\n{}", self.count(listener).await, self.last_words());
        }
    }

    /// Waits until a document has a row, so long at most.
    pub async fn row_within(&self, document: &str, length: Duration) {
        let row = doc! { "data.documentId": document };
        let found = answered_within(u32::MAX, async || self.own("jobs").find_one(row.clone()).await.ok()?);
        let found = tokio::time::timeout(length, found).await;
        assert!(found.is_ok(), "{document} has no row within {length:?}\n{}", self.last_words());
    }

    /// The second in which this scene began, as it is typed. The server remembers it, however young it is.
    pub fn beginning(&self) -> String {
        let since = mongodb::bson::DateTime::from_millis(i64::from(self.since.time) * 1_000);
        since.try_to_rfc3339_string().unwrap()
    }

    pub async fn ledger(&self) -> Vec<crate::ledger::Entry> {
        crate::ledger::read(&self.client, &self.prefix, self.since).await
    }

    /// Who has a listener.
    pub async fn owner(&self, id: &str) -> Option<String> {
        let listener = self.own("listeners").find_one(doc! { "_id": id }).await.unwrap()?;
        listener.get_document("lockInfo").ok()?.get_str("instanceId").ok().map(str::to_owned)
    }

    /// How often a listener has changed its owner.
    pub async fn fence(&self, id: &str) -> i64 {
        let position = self.own("listener_positions").find_one(doc! { "_id": id }).await.unwrap();
        position.unwrap().get_i64("fence").unwrap()
    }

    pub async fn owned_by(&self, id: &str, name: &str) {
        let beginning = format!("{name}-");
        let ask = async || self.owner(id).await.filter(|owner| owner.starts_with(&beginning)).map(drop);
        if answered_within(320, ask).await.is_none() {
            panic!("{id} is not {name}'s but {:?}'s\n{}", self.owner(id).await, self.last_words());
        }
    }

    /// A marker behind everything that was written: once it has its job, all that came before it has.
    pub async fn settled(&self, listener: &str, collection: &Collection<Document>) {
        let id = format!("marker-{}", SCENES.fetch_add(1, Ordering::Relaxed));
        collection.insert_one(doc! { "_id": &id, "marker": true, "kind": "a", "n": 1 }).await.unwrap();
        let query = doc! { "data.listenerId": listener, "data.documentId": &id };
        let ask = async || self.own("jobs").find_one(query.clone()).await.unwrap().map(drop);
        if answered_within(700, ask).await.is_none() {
            panic!(
                "{listener} does not come to its marker; {} jobs\n{}",
                self.count(listener).await,
                self.last_words()
            );
        }
    }
}

impl Instance {
    pub fn freeze(&self) {
        self.program.signal(libc::SIGSTOP);
    }

    pub fn thaw(&self) {
        self.program.signal(libc::SIGCONT);
    }
}
