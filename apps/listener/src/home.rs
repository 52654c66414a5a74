//! The databases: connections, and the collections of this service.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, Timestamp, doc};
use mongodb::error::Error;
use mongodb::options::{
    Acknowledgment, ClientOptions, CollectionOptions, IndexOptions, ReadConcern, WriteConcern,
};
use mongodb::{Client, ClientSession, Collection, IndexModel};
use tokio::sync::OnceCell;
use windlass_engine::world::World;
use windlass_mongo::{MongoStore, Options};

use crate::settings::{JobsTarget, Place};

/// The collections of this service in its own database, beside `listeners` and the jobs.
pub(crate) const OWN: [&str; 6] = [
    "listener_positions",
    "listener_partitions",
    "listener_gaps",
    "listener_dead",
    "listener_history",
    "listener_instances",
];
/// How long the history of a document and dead letters are kept.
const HISTORY_DAYS: u64 = 30;
/// Connections of streams: each that waits holds one.
const STREAM_POOL: u32 = 64;

/// Connections, and what is in the listener's own database.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) client: Client,
    /// Streams wait on their connections, so that they have some of their own.
    pub(crate) streams: Client,
    pub(crate) database: String,
    pub(crate) jobs_name: String,
    pub(crate) listeners: Collection<Document>,
    pub(crate) positions: Collection<Document>,
    pub(crate) partitions: Collection<Document>,
    pub(crate) gaps: Collection<Document>,
    pub(crate) dead: Collection<Document>,
    pub(crate) history: Collection<Document>,
    pub(crate) instances: Collection<Document>,
    pub(crate) jobs: Collection<Document>,
    /// What a change makes.
    pub(crate) target: JobsTarget,
    /// How long the lock of a row lasts.
    pub(crate) lock_lifetime_ms: u32,
    /// The store, once somebody has asked for it: to open it is to read it.
    store: Arc<OnceCell<Arc<MongoStore>>>,
    pub(crate) world: Arc<dyn World>,
    /// The server's clock minus our own since boot, in milliseconds.
    offset_ms: Arc<AtomicI64>,
    /// The name of this instance, once it has one.
    instance: Arc<OnceLock<String>>,
    /// Sessions whose transactions a successor can end.
    known: Arc<Mutex<Vec<Document>>>,
}

/// Why the databases cannot be used; for people.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    #[error(
        "MONGODB_URI with MONGODB_PARAMS cannot be read: {0}; they should look like mongodb://user:password@host1,host2 and replicaSet=rs0"
    )]
    Uri(String),
    #[error(
        "MongoDB does not answer: {}; look at MONGODB_URI and MONGODB_PARAMS, and whether the server runs",
        plain(.0)
    )]
    Away(Box<Error>),
    #[error(
        "this MongoDB is a single server without a replica set, and only a replica set has change streams and transactions. \
         One member is enough: start mongod with --replSet rs0, run rs.initiate() once, and say replicaSet=rs0 in MONGODB_PARAMS"
    )]
    Standalone,
}

impl Home {
    /// Connects, and says what is wrong with the server.
    pub(crate) async fn open(place: &Place, world: Arc<dyn World>) -> Result<Self, HomeError> {
        let wrong = |why: Error| HomeError::Uri(without_secrets(&why, place));
        let mut options = ClientOptions::parse(place.uri.expose().as_str()).await.map_err(wrong)?;
        options.app_name = Some("windlass-listener".to_owned());
        options.write_concern = Some(WriteConcern::majority());
        options.read_concern = Some(ReadConcern::majority());
        options.connect_timeout = Some(Duration::from_secs(5));
        options.server_selection_timeout.get_or_insert(Duration::from_secs(10));
        let mut of_streams = options.clone();
        of_streams.max_pool_size = Some(STREAM_POOL);
        let client = Client::with_options(options).map_err(wrong)?;
        let streams = Client::with_options(of_streams).map_err(wrong)?;
        let own = client.database(&place.database);
        // The rows tell it, too: nobody waits for a majority to have it.
        let one = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
        let best_effort = CollectionOptions::builder().write_concern(one).build();
        let home = Self {
            listeners: own.collection("listeners"),
            positions: own.collection(OWN[0]),
            partitions: own.collection(OWN[1]),
            gaps: own.collection(OWN[2]),
            dead: own.collection(OWN[3]),
            history: own.collection_with_options(OWN[4], best_effort),
            instances: own.collection(OWN[5]),
            jobs: own.collection(&place.jobs),
            database: place.database.clone(),
            jobs_name: place.jobs.clone(),
            target: place.target,
            lock_lifetime_ms: place.lock_lifetime_ms,
            store: Arc::new(OnceCell::new()),
            client,
            streams,
            world,
            offset_ms: Arc::new(AtomicI64::new(0)),
            instance: Arc::new(OnceLock::new()),
            known: Arc::new(Mutex::new(Vec::new())),
        };
        let hello = home.hello().await.map_err(|why| HomeError::Away(Box::new(why)))?;
        if !hello.contains_key("setName") && hello.get_str("msg").ok() != Some("isdbgrid") {
            return Err(HomeError::Standalone);
        }
        Ok(home)
    }

    /// The rows, as they go over the wire.
    pub(crate) fn rows(&self) -> Collection<RawDocumentBuf> {
        self.jobs.clone_with_type()
    }

    /// The store in this service's own database.
    pub(crate) async fn store(&self) -> Result<&Arc<MongoStore>, Error> {
        let open = || async {
            let store = MongoStore::of(&self.client.database(&self.database), Options::default()).await;
            store.map_err(Error::custom)
        };
        self.store.get_or_try_init(open).await
    }

    /// This instance has a name.
    pub(crate) fn named(&self, instance: &str) {
        let _ = self.instance.set(instance.to_owned());
    }

    /// A session for a transaction. The server keeps a transaction whose client was killed for a minute, with all the
    /// rows that it holds: so each session is written down before it is used, and whoever takes over ends it.
    pub(crate) async fn session(&self) -> Result<ClientSession, Error> {
        let session = self.client.start_session().await?;
        let id = session.id().clone();
        let is_known = self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&id);
        if let Some(instance) = self.instance.get().filter(|_| !is_known) {
            let noted = doc! { "$addToSet": { "sessions": id.clone() } };
            self.instances.update_one(doc! { "_id": instance }, noted).upsert(true).await?;
            self.known.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        }
        Ok(session)
    }

    /// Ends the transactions of an instance that is not heard of any more.
    pub(crate) async fn end_sessions_of(&self, instance: &str) -> Result<(), Error> {
        let Some(found) = self.instances.find_one(doc! { "_id": instance }).await? else { return Ok(()) };
        if let Ok(sessions) = found.get_array("sessions") {
            self.client.database("admin").run_command(doc! { "killSessions": sessions.clone() }).await?;
        }
        Ok(())
    }

    /// Ends the transactions of all instances that were not heard of for the length of a lease: one that was killed
    /// while it took a listener has it in its transaction, and is nobody's owner yet.
    pub(crate) async fn end_sessions_of_silent(&self, lock_ms: i64) -> Result<(), Error> {
        let silent = doc! { "$lt": [ "$lastSeen", { "$subtract": [ "$$NOW", lock_ms ] } ] };
        let silent = doc! { "sessions.0": { "$exists": true }, "$expr": silent };
        let found: Vec<Document> = self.instances.find(silent).await?.try_collect().await?;
        for instance in found {
            let Ok(id) = instance.get_str("_id") else { continue };
            self.end_sessions_of(id).await?;
        }
        Ok(())
    }

    /// Names of collections whose changes no listener hears.
    pub(crate) fn own_names(&self) -> Vec<String> {
        let own = OWN.iter().map(|name| (*name).to_owned());
        let leases = format!("{}_windlass", self.jobs_name);
        let store = MongoStore::COLLECTIONS.iter().map(|name| (*name).to_owned());
        own.chain(store).chain([self.jobs_name.clone(), leases, "listeners".to_owned()]).collect()
    }

    /// Asks the server for its clock, and whether it is one of a set.
    pub(crate) async fn hello(&self) -> Result<Document, Error> {
        let asked = self.world.boot_ms();
        let hello = self.client.database("admin").run_command(doc! { "hello": 1 }).await?;
        if let Ok(time) = hello.get_datetime("localTime") {
            let middle = (asked + self.world.boot_ms()) / 2;
            self.offset_ms.store(time.timestamp_millis() - middle as i64, Ordering::Relaxed);
        }
        Ok(hello)
    }

    /// The server's clock, as it was last heard of, and gone on by a clock that nobody sets.
    pub(crate) fn now(&self) -> DateTime {
        DateTime::from_millis(self.world.boot_ms() as i64 + self.offset_ms.load(Ordering::Relaxed))
    }

    /// A moment behind everything that has been written.
    pub(crate) async fn after_everything(&self) -> Result<Timestamp, Error> {
        let hello = self.hello().await?;
        let time = hello.get_timestamp("operationTime").unwrap_or(Timestamp {
            time: u32::try_from(self.now().timestamp_millis() / 1_000).unwrap_or(0),
            increment: 0,
        });
        Ok(Timestamp { time: time.time, increment: time.increment + 1 })
    }

    /// The oldest moment that the server still remembers.
    pub(crate) async fn oldest(&self) -> Result<Option<Timestamp>, Error> {
        let oplog = self.client.database("local").collection::<Document>("oplog.rs");
        let first = oplog.find_one(doc! {}).sort(doc! { "$natural": 1 }).projection(doc! { "ts": 1 }).await?;
        Ok(first.and_then(|first| first.get_timestamp("ts").ok()))
    }

    /// Makes the indexes of this service's own collections and of the rows. They are there already, mostly.
    pub(crate) async fn ensure_indexes(&self) -> Result<(), Error> {
        windlass_mongo::agenda::ensure_index(&self.jobs).await?;
        windlass_mongo::agenda::ensure_locked_index(&self.jobs).await?;
        let kept = IndexOptions::builder().expire_after(Duration::from_secs(HISTORY_DAYS * 86_400)).build();
        self.history.create_index(IndexModel::builder().keys(doc! { "at": 1 }).options(kept).build()).await?;
        self.history
            .create_index(IndexModel::builder().keys(doc! { "document": 1, "at": -1 }).build())
            .await?;
        self.history
            .create_index(IndexModel::builder().keys(doc! { "documents": 1, "at": -1 }).build())
            .await?;
        self.dead
            .create_index(IndexModel::builder().keys(doc! { "listener": 1, "state": 1, "dueAt": 1 }).build())
            .await?;
        self.gaps
            .create_index(IndexModel::builder().keys(doc! { "listener": 1, "state": 1 }).build())
            .await?;
        // Instances that are long gone are forgotten.
        let gone = IndexOptions::builder().expire_after(Duration::from_secs(86_400)).build();
        self.instances
            .create_index(IndexModel::builder().keys(doc! { "lastSeen": 1 }).options(gone).build())
            .await?;
        let failed = doc! { "data.listenerId": 1, "failedAt": 1 };
        let partial = IndexOptions::builder()
            .name("windlassFailedRows".to_owned())
            .partial_filter_expression(doc! { "failedAt": { "$type": "date" } })
            .build();
        self.jobs.create_index(IndexModel::builder().keys(failed).options(partial).build()).await?;
        // By it the jobs of a document are found: for `doc`, and after a gap.
        let documents = IndexOptions::builder().name("windlassDocuments".to_owned()).build();
        let keys = doc! { "data.documentId": 1, "data.listenerId": 1 };
        self.jobs.create_index(IndexModel::builder().keys(keys).options(documents).build()).await?;
        for keys in [doc! { "lockInfo.instanceId": 1 }, doc! { "isActive": 1 }] {
            self.listeners.create_index(IndexModel::builder().keys(keys).build()).await?;
        }
        Ok(())
    }
}

/// What the driver says of a connection string, without the string.
fn without_secrets(why: &Error, place: &Place) -> String {
    let text = why.kind.to_string();
    let secret = place.uri.expose();
    let user = secret.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(user, _)| user);
    match user {
        Some(user) => text.replace(secret.as_str(), "…").replace(user, "…"),
        None => text.replace(secret.as_str(), "…"),
    }
}

/// What the driver says, for people.
fn plain(error: &Error) -> String {
    match error.kind.as_ref() {
        mongodb::error::ErrorKind::ServerSelection { message, .. } => servers(message),
        kind => kind.to_string(),
    }
}

/// The servers of a list of the driver's that is meant for its own people, and why each cannot be used.
fn servers(message: &str) -> String {
    let server = |part: &str| {
        let address = part.split(',').next().unwrap_or_default();
        let why = part.split_once("Error: Kind: ").and_then(|(_, why)| why.split_once(", labels"));
        why.map_or_else(|| address.to_owned(), |(why, _)| format!("{address} ({why})"))
    };
    let found: Vec<String> = message.split("Address: ").skip(1).map(server).collect();
    match found.is_empty() {
        false => format!("no primary among {}", found.join(", ")),
        true => "no server is a member of the replica set that is named".to_owned(),
    }
}

/// The number of an error of the server; 0 for anything else.
pub(crate) fn code(error: &Error) -> i32 {
    use mongodb::error::{ErrorKind, WriteFailure};
    match error.kind.as_ref() {
        ErrorKind::Command(command) => command.code,
        ErrorKind::Write(WriteFailure::WriteError(write)) => write.code,
        ErrorKind::InsertMany(many) => {
            many.write_errors.as_ref().and_then(|all| all.first()).map_or(0, |write| write.code)
        }
        _ => 0,
    }
}

/// Whether trying again may help: the network, an election, a conflict with another transaction.
pub(crate) fn is_passing(error: &Error) -> bool {
    use mongodb::error::ErrorKind;
    let kind = matches!(
        error.kind.as_ref(),
        ErrorKind::Io(_)
            | ErrorKind::ServerSelection { .. }
            | ErrorKind::ConnectionPoolCleared { .. }
            | ErrorKind::DnsResolve { .. }
    );
    let labels = [
        "TransientTransactionError",
        "UnknownTransactionCommitResult",
        "RetryableWriteError",
        "NetworkError",
    ];
    // Elections, shutdowns, interrupted operations, a conflict, a lock that was not to be had, a transaction that is gone.
    let codes = [
        6, 7, 24, 50, 89, 91, 112, 134, 189, 211, 226, 234, 246, 251, 262, 290, 9001, 10107, 11600, 11602,
        13435, 13436,
    ];
    kind || labels.iter().any(|label| error.contains_label(label)) || codes.contains(&code(error))
}

/// Whether a transaction was refused because somebody else wrote the same at that moment: a conflict, a lock that was
/// not to be had, a snapshot that is gone. Nothing of it was written.
pub(crate) fn is_collision(error: &Error) -> bool {
    [24, 112, 246].contains(&code(error))
}

/// A number of whatever type a document has it in.
pub(crate) fn number(document: &Document, name: &str) -> i64 {
    match document.get(name) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Double(number)) => *number as i64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_do_not_answer_are_named_with_the_reason() {
        let said = "Server selection timeout: No available servers. Topology: { Type: Unknown, Servers: [ { Address: db1:1, \
                    Type: Unknown, Error: Kind: I/O error: Connection refused (os error 111), labels: {}, source: None }, \
                    { Address: db2:27017, Type: RsSecondary } ] }";
        let words = "no primary among db1:1 (I/O error: Connection refused (os error 111)), db2:27017";
        assert_eq!(servers(said), words);
        assert!(servers("No available servers. Topology: { Servers: [  ] }").contains("replica set"));
    }
}
