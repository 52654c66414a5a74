//! A stage for the tests: a world, a store, a client, and a worker in the background.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass_engine::JobRecord;
use windlass_engine::core::id::{JobId, QueueName};
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::Store;
use windlass_engine::core::time::Clock;
use windlass_engine::testing::TestWorld;
use windlass_engine::world::{SimWorld, World};
use windlass_engine::{Client, Job, JobRequest, Summary, Worker, WorkerError};
use windlass_testkit::memory::MemoryStore;

/// How far time goes between two looks.
const STEP: Duration = Duration::from_millis(10);
/// How many steps of the world a test waits for something.
const STEPS_MAX: u32 = 1_000_000;

/// The payload of most tests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Note {
    pub text: String,
}

impl Job for Note {
    const KIND: &'static str = "note";
    type Output = ();
}

/// A job that gives something.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sum(pub Vec<u32>);

impl Job for Sum {
    const KIND: &'static str = "sum";
    type Output = u32;
}

pub fn note(text: &str) -> Note {
    Note { text: text.into() }
}

/// Whose time passes, and how.
#[derive(Clone)]
pub enum Scenery {
    /// When everybody waits.
    InPlace(TestWorld),
    /// By hand, while threads run.
    Threads(SimWorld),
}

impl Scenery {
    fn world(&self) -> Arc<dyn World> {
        match self {
            Self::InPlace(world) => Arc::new(world.clone()),
            Self::Threads(world) => Arc::new(world.clone()),
        }
    }

    async fn pass(&self) {
        match self {
            Self::InPlace(world) => world.advance(STEP).await,
            Self::Threads(world) => world.step(100).await,
        }
    }
}

#[derive(Clone)]
pub struct Stage {
    pub scenery: Scenery,
    pub store: Arc<MemoryStore>,
    pub client: Client,
}

/// A worker in the background; its time passes while it is waited for.
pub struct Running {
    scenery: Scenery,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<Summary, WorkerError>>,
}

impl Stage {
    pub fn new() -> Self {
        Self::of(Scenery::InPlace(TestWorld::new(7)))
    }

    /// For handlers that hold on to their threads.
    pub fn with_threads() -> Self {
        Self::of(Scenery::Threads(SimWorld::new(7)))
    }

    fn of(scenery: Scenery) -> Self {
        let clock: Arc<dyn Clock> = match &scenery {
            Scenery::InPlace(world) => Arc::new(world.clone()),
            Scenery::Threads(world) => Arc::new(world.clone()),
        };
        let store = Arc::new(MemoryStore::new(clock));
        let client = Client::in_world(store.clone(), scenery.world());
        Self { scenery, store, client }
    }

    /// Another stage in the same time, with nothing on it.
    pub fn fresh(&self) -> Self {
        Self::of(Scenery::InPlace(self.world().beside(7)))
    }

    /// The world of a stage whose time passes when everybody waits.
    pub fn world(&self) -> &TestWorld {
        match &self.scenery {
            Scenery::InPlace(world) => world,
            Scenery::Threads(_) => panic!("this stage has threads"),
        }
    }

    /// Lets a little time pass.
    pub async fn pass(&self) {
        self.scenery.pass().await;
    }

    /// A worker on this stage, yet to be given handlers.
    pub fn worker(&self) -> Worker {
        self.dress(Worker::new(self.store.clone()))
    }

    pub fn dress(&self, worker: Worker) -> Worker {
        worker.in_world(self.scenery.world()).name("w1").grace(Duration::from_secs(10))
    }

    pub fn start(&self, worker: Worker) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            let _ = stopped.await;
        };
        Running { scenery: self.scenery.clone(), stop, ended: tokio::spawn(worker.run_until(shutdown)) }
    }

    pub async fn enqueue(&self, text: &str) -> JobId {
        self.client.enqueue(note(text)).await.unwrap().id()
    }

    pub async fn enqueue_with(
        &self,
        text: &str,
        options: impl FnOnce(JobRequest<()>) -> JobRequest<()>,
    ) -> JobId {
        let job = options(JobRequest::of(&note(text)));
        self.client.enqueue(job).await.unwrap().id()
    }

    pub async fn policy(&self, change: impl FnOnce(&mut QueuePolicy)) {
        let mut policy = QueuePolicy::default();
        change(&mut policy);
        self.store.put_queue(QueueName::default(), policy).await.unwrap();
    }

    pub async fn job(&self, id: JobId) -> JobRecord {
        self.store.get(id).await.unwrap().unwrap()
    }

    /// Lets time pass, a little at a time, until `fits` holds.
    pub async fn until(&self, what: &str, fits: impl AsyncFn() -> bool) {
        for _ in 0..STEPS_MAX {
            if fits().await {
                return;
            }
            self.pass().await;
        }
        panic!("stepped {STEPS_MAX} times in vain: {what}");
    }

    pub async fn until_state(&self, id: JobId, state: StateName) -> JobRecord {
        self.until(&format!("the job is {state}"), async || self.job(id).await.state.name() == state).await;
        self.job(id).await
    }
}

impl Running {
    /// Stops the worker and waits for its end.
    pub async fn stop(self) -> Summary {
        let Self { scenery, stop, ended } = self;
        let _ = stop.send(());
        for _ in 0..STEPS_MAX {
            if ended.is_finished() {
                return ended.await.unwrap().unwrap();
            }
            scenery.pass().await;
        }
        panic!("the worker does not end");
    }
}
