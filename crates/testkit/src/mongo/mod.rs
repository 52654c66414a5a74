//! A real MongoDB for tests: replica sets of one and of three nodes.
//!
//! `WINDLASS_TEST_MONGODB_URL` names a server that is there already (the test
//! script starts one for all tests); else one is started on free ports of the
//! loopback, in temporary folders. It dies with the tests, and its folders go with it.

mod node;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::ClientOptions;
use tokio::sync::OnceCell;

use self::node::Node;
use crate::eventually::{answered, eventually};

/// The variable that names a server that is there already: `mongodb://127.0.0.1:PORT`.
pub const URL_VARIABLE: &str = "WINDLASS_TEST_MONGODB_URL";
/// What every replica set of the tests is called.
pub const NAME: &str = "windlass";

/// What a replica set is like.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many nodes it has.
    pub nodes: usize,
    /// How large the log of its changes is, in MB.
    pub oplog_mb: u32,
    /// After how long without a primary the others elect one.
    pub election_timeout_ms: u32,
    /// What each server is told besides, such as `--syncdelay 1`.
    pub arguments: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes: 1, oplog_mb: 200, election_timeout_ms: 2_000, arguments: Vec::new() }
    }
}

/// A replica set.
pub struct ReplicaSet {
    hosts: String,
    nodes: Vec<Node>,
    options: Options,
}

static SHARED: OnceCell<Arc<ReplicaSet>> = OnceCell::const_new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

impl ReplicaSet {
    /// The one of all tests of this process, with one node: the one that is
    /// named by `WINDLASS_TEST_MONGODB_URL`, else one of our own.
    pub async fn shared() -> Arc<Self> {
        SHARED.get_or_init(|| async { Arc::new(Self::find_or_start().await) }).await.clone()
    }

    async fn find_or_start() -> Self {
        let Ok(url) = std::env::var(URL_VARIABLE) else { return Self::one().await };
        let hosts = url.strip_prefix("mongodb://").and_then(|rest| rest.split(['/', '?']).next());
        let hosts =
            hosts.unwrap_or_else(|| panic!("{URL_VARIABLE} is {url:?}, not mongodb://127.0.0.1:PORT"));
        let set = Self { hosts: hosts.to_owned(), nodes: Vec::new(), options: Options::default() };
        set.initiate().await;
        set
    }

    /// One node of one's own. It ends when this is dropped.
    pub async fn one() -> Self {
        Self::with(Options::default()).await
    }

    /// Three nodes of one's own. They end when this is dropped.
    pub async fn three() -> Self {
        Self::with(Options { nodes: 3, ..Options::default() }).await
    }

    /// A replica set of one's own, as it is wished for.
    pub async fn with(options: Options) -> Self {
        let nodes = Node::empty(options.nodes);
        for node in &nodes {
            node.start(&options);
        }
        let hosts: Vec<String> = nodes.iter().map(Node::authority).collect();
        let set = Self { hosts: hosts.join(","), nodes, options };
        set.initiate().await;
        set
    }

    /// Makes a replica set of servers that have started, where they are none yet, and waits for its primary.
    async fn initiate(&self) {
        let hosts = self.hosts.split(',').enumerate();
        let members: Vec<Document> =
            hosts.map(|(at, host)| doc! { "_id": at as i32, "host": host }).collect();
        let settings = doc! { "electionTimeoutMillis": self.options.election_timeout_ms as i32, "heartbeatIntervalMillis": 500 };
        let config = doc! { "_id": NAME, "members": members, "settings": settings };
        let first = self.hosts.split(',').next().unwrap_or_default();
        let ask = async || {
            let answer =
                direct(first).await.database("admin").run_command(doc! { "replSetInitiate": &config }).await;
            match answer {
                Ok(_) => Some(()),
                Err(error) if code(&error) == Some(ALREADY_INITIALIZED) => Some(()),
                // Not there yet, or the other nodes are not.
                Err(_) => None,
            }
        };
        if answered(ask).await.is_none() {
            let logs: Vec<String> = self.nodes.iter().map(Node::log).collect();
            panic!("{} does not become a replica set; the logs say:\n{}", self.hosts, logs.join("\n---\n"));
        }
        self.primary().await;
    }

    /// The URI without a database.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?replicaSet={NAME}", self.hosts)
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("mongodb://{}/{database}?replicaSet={NAME}", self.hosts)
    }

    /// Host and port of a node.
    pub fn authority(&self, node: usize) -> String {
        self.own(node, "name").authority()
    }

    /// A client of its own.
    pub async fn client(&self) -> Client {
        Client::with_uri_str(self.uri()).await.expect("a URI of a replica set")
    }

    /// A new, empty database. It is dropped when the answer is.
    pub async fn fresh_database(self: &Arc<Self>) -> Database {
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let name = format!("windlass_test_{}_{number}", std::process::id());
        let client = self.client().await;
        client.database(&name).drop().await.expect("what is left of an older test goes");
        Database { set: self.clone(), client, name }
    }

    /// Waits for a primary, and answers which node it is.
    pub async fn primary(&self) -> usize {
        eventually("there is a primary", async || {
            for (at, host) in self.hosts.split(',').enumerate() {
                let hello = direct(host).await.database("admin").run_command(doc! { "hello": 1 }).await;
                if hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)) {
                    return Some(at);
                }
            }
            None
        })
        .await
    }

    /// Kills a node as `kill -9` does, and leaves it dead.
    pub async fn kill(&self, node: usize) {
        self.own(node, "kill").kill().await;
    }

    /// Starts a node that was killed, on the same port, and waits until it answers.
    pub async fn start(&self, node: usize) {
        let node = self.own(node, "start");
        node.start(&self.options);
        let host = node.authority();
        eventually("a node that was started answers", async || {
            direct(&host).await.database("admin").run_command(doc! { "ping": 1 }).await.ok()
        })
        .await;
    }

    /// Freezes a node: it stands still with all its connections, and nothing is reset.
    pub fn freeze(&self, node: usize) {
        self.own(node, "freeze").signal("STOP");
    }

    /// Lets a frozen node go on.
    pub fn thaw(&self, node: usize) {
        self.own(node, "thaw").signal("CONT");
    }

    /// Makes the primary step down at once for so many seconds. Answers which node it was.
    pub async fn step_down(&self, seconds: u32) -> usize {
        let at = self.primary().await;
        let command = doc! { "replSetStepDown": seconds, "secondaryCatchUpPeriodSecs": 0, "force": true };
        let host = self.hosts.split(',').nth(at).unwrap_or_default();
        // The answer may be lost with the connections.
        drop(direct(host).await.database("admin").run_command(command).await);
        at
    }

    fn own(&self, node: usize, verb: &str) -> &Node {
        self.nodes.get(node).unwrap_or_else(|| {
            panic!("a test wants to {verb} node {node}, which is not its own; it must ask for ReplicaSet::one() or three()")
        })
    }
}

const ALREADY_INITIALIZED: i32 = 23;

/// The code of what a server refused.
fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(refused) => Some(refused.code),
        _ => None,
    }
}

/// A client of one node alone, which answers or fails soon.
async fn direct(host: &str) -> Client {
    let uri = format!(
        "mongodb://{host}/?directConnection=true&serverSelectionTimeoutMS=1000&connectTimeoutMS=1000"
    );
    let options = ClientOptions::parse(uri).await.expect("a URI of one node");
    Client::with_options(options).expect("options of one node")
}

/// A database of a test's own.
pub struct Database {
    set: Arc<ReplicaSet>,
    client: Client,
    name: String,
}

impl Database {
    /// Its URL.
    pub fn url(&self) -> String {
        self.set.url(&self.name)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its replica set.
    pub fn set(&self) -> &Arc<ReplicaSet> {
        &self.set
    }

    /// The database, through a client of the test.
    pub fn open(&self) -> mongodb::Database {
        self.client.database(&self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (uri, name) = (self.set.uri(), self.name.clone());
        // A runtime of its own: the test's may be shutting down already.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                // A server that was stopped takes its databases with it.
                let uri = format!("{uri}&serverSelectionTimeoutMS=2000");
                if let Ok(client) = Client::with_uri_str(uri).await {
                    drop(client.database(&name).drop().await);
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

    /// A set of one outlives a kill with what was acknowledged, and a fresh database is empty and goes away.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_own_node_is_killed_and_started() {
        let set = Arc::new(ReplicaSet::one().await);
        let database = set.fresh_database().await;
        let name = database.name().to_owned();
        let kept = database.open().collection::<Document>("kept");
        kept.insert_one(doc! { "n": 7 }).await.expect("an insert");
        set.kill(0).await;
        let hello = direct(&set.authority(0)).await.database("admin").run_command(doc! { "hello": 1 }).await;
        assert!(hello.is_err(), "it is gone");
        set.start(0).await;
        set.primary().await;
        let client = set.client().await;
        let found = client.database(&name).collection::<Document>("kept").find_one(doc! {}).await;
        assert_eq!(found.expect("an answer").expect("the document").get("n"), Some(&7.into()));
        drop(database);
        let names = client.list_database_names().await.expect("the names");
        assert!(!names.contains(&name), "the database is gone");
    }

    /// Of three nodes any may go; the set goes on with another primary.
    #[tokio::test(flavor = "multi_thread")]
    async fn three_nodes_elect_another_primary() {
        let set = Arc::new(ReplicaSet::three().await);
        let client = set.client().await;
        let numbers = client.database("test").collection::<Document>("numbers");
        numbers.insert_one(doc! { "n": 1 }).await.expect("an insert");
        let before = set.step_down(60).await;
        eventually("another is the primary", async || (set.primary().await != before).then_some(())).await;
        numbers.insert_one(doc! { "n": 2 }).await.expect("an insert after the step-down");
        let second = set.primary().await;
        set.freeze(second);
        set.thaw(second);
        set.kill(second).await;
        eventually("the rest elects", async || (set.primary().await != second).then_some(())).await;
        set.start(second).await;
        assert_eq!(numbers.count_documents(doc! {}).await.expect("a count"), 2);
    }
}
