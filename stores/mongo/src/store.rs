//! The store: opened, asked, closed.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mongodb::bson::doc;
use mongodb::bson::oid::ObjectId;
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::id::{Key, Kind, QueueName};
use windlass_core::store::WakeFns;
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::error::failed;
use crate::journal::history::Turn;
use crate::journal::op::{Answer, Op};
use crate::journal::{Appended, Copy, Journal};
use crate::options::Options;
use crate::wake;
use crate::writer::{Wish, Writer};

/// How many calls wait at most for the writer; more are refused.
const WISHES_MAX: usize = 10_000;
/// How often a new epoch is tried to be written down while others write.
const TURNS_MAX: usize = 100;

/// A store on a replica set. It closes when it is dropped.
pub struct MongoStore {
    pub(crate) shared: Arc<Shared>,
    wishes: mpsc::Sender<Wish>,
    tasks: [JoinHandle<()>; 2],
}

/// What calls, writer and listener share.
pub(crate) struct Shared {
    pub(crate) journal: Journal,
    pub(crate) options: Options,
    /// Who we are.
    pub(crate) program: ObjectId,
    /// What is true, as far as we have read.
    pub(crate) copy: Mutex<Copy>,
    /// Whether the history may be another than the one that we know: we have just come, or the journal fell silent.
    pub(crate) is_unsure: AtomicBool,
    pub(crate) wakes: WakeFns,
}

impl MongoStore {
    /// What its collections are called.
    pub const COLLECTIONS: [&'static str; 4] =
        ["windlass_journal", "windlass_parts", "windlass_snapshots", "windlass_chunks"];

    /// Opens the store of a URL, `mongodb://HOST/DATABASE?replicaSet=NAME`, and makes it when it is not there.
    pub async fn connect(url: &str) -> Result<Arc<Self>, StoreError> {
        Self::connect_with(url, Options::default()).await
    }

    /// As [`MongoStore::connect`].
    pub async fn connect_with(url: &str, options: Options) -> Result<Arc<Self>, StoreError> {
        Self::of(&database_of(url).await?, options).await
    }

    /// Whether the database of a URL has a store; nothing is made.
    pub async fn is_there(url: &str) -> Result<bool, StoreError> {
        let [journal, ..] = Self::COLLECTIONS;
        let database = database_of(url).await?;
        let names =
            database.list_collection_names().filter(doc! { "name": journal }).await.map_err(failed)?;
        Ok(!names.is_empty())
    }

    /// Opens the store in a database of a client that is there already.
    pub async fn of(database: &Database, options: Options) -> Result<Arc<Self>, StoreError> {
        let journal = Journal::open(database).await?;
        let (wishes, asked) = mpsc::channel(WISHES_MAX);
        let shared = Arc::new(Shared {
            journal,
            options,
            program: ObjectId::new(),
            copy: Mutex::default(),
            is_unsure: AtomicBool::new(true),
            wakes: WakeFns::default(),
        });
        shared.prepare(&mut *shared.copy.lock().await).await?;
        let writer = tokio::spawn(Writer::new(shared.clone()).run(asked));
        let listener = tokio::spawn(wake::listen(shared.clone()));
        Ok(Arc::new(Self { shared, wishes, tasks: [writer, listener] }))
    }

    /// Of these keys those that a job of this queue and kind has, in whatever state.
    pub async fn keys_of(
        &self,
        queue: &QueueName,
        kind: &Kind,
        keys: HashSet<Key>,
    ) -> Result<HashSet<Key>, StoreError> {
        self.look(|book, _| {
            let ours = book.jobs().filter(|job| job.spec.queue == *queue && job.spec.kind == *kind);
            ours.filter_map(|job| job.spec.key.as_ref()).filter(|key| keys.contains(*key)).cloned().collect()
        })
        .await
    }

    /// Has an operation done, and answers when a majority has it.
    pub(crate) async fn change(&self, op: Op, work: Option<Work>) -> Result<Answer, StoreError> {
        let (tell, told) = oneshot::channel();
        let full =
            || StoreError::Busy(format!("{WISHES_MAX} calls wait for MongoDB already; ask again later"));
        self.wishes.try_send(Wish { op, work, tell }).map_err(|_| full())?;
        told.await.map_err(|_| StoreError::Unavailable("the store's writer has ended".to_owned()))?
    }

    /// Looks at what is true now.
    pub(crate) async fn look<T>(&self, look: impl FnOnce(&Book, Time) -> T) -> Result<T, StoreError> {
        let mut copy = self.shared.copy.lock().await;
        let now = self.shared.follow(&mut copy).await?;
        Ok(look(&copy.book, now))
    }
}

impl Shared {
    /// Brings a copy up to date, and answers what time it is. The server's clock never goes back here, also when
    /// another node with another clock has become the primary.
    pub(crate) async fn follow(&self, copy: &mut Copy) -> Result<Time, StoreError> {
        let told = self.journal.follow(copy).await?;
        let now = self.time(copy, told).await?;
        if copy.lost.is_some() {
            self.turn(copy, now).await?;
        }
        Ok(now)
    }

    /// As [`Shared::follow`], for whoever is about to write: the primary must be the one that the journal names.
    pub(crate) async fn prepare(&self, copy: &mut Copy) -> Result<Time, StoreError> {
        let (told, primary) = futures::try_join!(self.journal.follow(copy), self.journal.primary())?;
        let now = self.time(copy, told).await?;
        let is_known = copy.history.as_ref().is_some_and(|history| history.primary == primary);
        if copy.lost.is_some() || !is_known || self.is_unsure.load(Ordering::Acquire) {
            self.is_unsure.store(false, Ordering::Release);
            let turned = self.turn(copy, now).await;
            if turned.is_err() {
                self.is_unsure.store(true, Ordering::Release);
            }
            turned?;
        }
        Ok(now.max(copy.at))
    }

    async fn time(&self, copy: &Copy, told: Option<Time>) -> Result<Time, StoreError> {
        let now = match (&self.options.clock, told) {
            (Some(clock), _) => return Ok(clock.wall()),
            (None, Some(now)) => now,
            (None, None) => self.journal.now().await?,
        };
        Ok(now.max(copy.at))
    }

    /// Writes down what has become of the history, unless somebody else was first.
    async fn turn(&self, copy: &mut Copy, now: Time) -> Result<(), StoreError> {
        for _ in 0..TURNS_MAX {
            let here = self.journal.history().await?;
            let Some(turn) = Turn::due(copy, here, now)? else { return Ok(()) };
            let op = Arc::new(Op::Turn(turn));
            let entry = copy.next(now, self.program, vec![op.clone()]);
            match self.journal.append(&entry).await? {
                Appended::Done { bytes } => {
                    entry.replay(copy, bytes);
                    if let Op::Turn(turn) = &*op {
                        turn.tell();
                    }
                    return Ok(());
                }
                Appended::Taken => drop(self.journal.follow(copy).await?),
            }
        }
        Err(StoreError::Busy("too many write to this store at once. Nothing was changed".to_owned()))
    }

    /// Refuses jobs beyond what a store may keep.
    pub(crate) fn full(&self, len: usize, new: usize) -> Result<(), StoreError> {
        let max = self.options.jobs_max;
        if new == 0 || len + new <= max {
            return Ok(());
        }
        let why = format!("it keeps {len} jobs and may keep {max}; let finished jobs go sooner (retention)");
        Err(StoreError::Full(why))
    }

    pub(crate) fn wake(&self, work: &Work) {
        for wake in self.wakes.all() {
            wake(work);
        }
    }
}

impl Drop for MongoStore {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The database that a URL names.
async fn database_of(url: &str) -> Result<Database, StoreError> {
    let settings = ClientOptions::parse(url).await.map_err(failed)?;
    let Some(database) = settings.default_database.clone() else {
        let why = "the URL names no database; write mongodb://HOST/DATABASE?replicaSet=NAME";
        return Err(StoreError::Schema(why.to_owned()));
    };
    Ok(Client::with_options(settings).map_err(failed)?.database(&database))
}
