//! A stage for the tests: a world, a store, a client, and a worker in the background.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass::core::id::{JobId, QueueName};
use windlass::core::job::Job;
use windlass::core::policy::queue::QueuePolicy;
use windlass::core::state::StateName;
use windlass::core::store::Store;
use windlass::world::SimWorld;
use windlass::{Client, NewJobBuilder, Payload, Summary, Worker, WorkerError};
use windlass_testkit::memory::MemoryStore;

/// How many steps of the world a test waits for something.
const STEPS_MAX: u32 = 20_000;

/// The payload of most tests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Note {
    pub text: String,
}

impl Payload for Note {
    const KIND: &'static str = "note";
}

pub fn note(text: &str) -> Note {
    Note { text: text.into() }
}

#[derive(Clone)]
pub struct Stage {
    pub world: SimWorld,
    pub store: Arc<MemoryStore>,
    pub client: Client,
}

/// A worker in the background; its time passes while it is waited for.
pub struct Running {
    world: SimWorld,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<Summary, WorkerError>>,
}

impl Stage {
    pub fn new() -> Self {
        let world = SimWorld::new(7);
        let store = Arc::new(MemoryStore::new(Arc::new(world.clone())));
        let client = Client::in_world(store.clone(), Arc::new(world.clone()));
        Self { world, store, client }
    }

    /// A worker on this stage, yet to be given handlers.
    pub fn worker(&self) -> Worker {
        self.dress(Worker::new(self.store.clone()))
    }

    pub fn dress(&self, worker: Worker) -> Worker {
        worker.in_world(Arc::new(self.world.clone())).name("w1").grace(Duration::from_secs(10))
    }

    pub fn start(&self, worker: Worker) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            let _ = stopped.await;
        };
        Running { world: self.world.clone(), stop, ended: tokio::spawn(worker.run_until(shutdown)) }
    }

    pub async fn enqueue(&self, text: &str) -> JobId {
        self.client.enqueue(note(text)).await.unwrap().id
    }

    pub async fn enqueue_with(
        &self,
        text: &str,
        options: impl FnOnce(NewJobBuilder) -> NewJobBuilder,
    ) -> JobId {
        let job = options(NewJobBuilder::of(&note(text)).unwrap());
        self.client.enqueue_job(job).await.unwrap().id
    }

    pub async fn policy(&self, change: impl FnOnce(&mut QueuePolicy)) {
        let mut policy = QueuePolicy::default();
        change(&mut policy);
        self.store.put_queue(QueueName::default(), policy).await.unwrap();
    }

    pub async fn job(&self, id: JobId) -> Job {
        self.store.get(id).await.unwrap().unwrap()
    }

    /// Lets time pass, a little at a time, until `fits` holds.
    pub async fn until(&self, what: &str, fits: impl AsyncFn() -> bool) {
        for _ in 0..STEPS_MAX {
            if fits().await {
                return;
            }
            self.world.step(100).await;
        }
        panic!("stepped {STEPS_MAX} times in vain: {what}");
    }

    pub async fn until_state(&self, id: JobId, state: StateName) -> Job {
        self.until(&format!("the job is {state}"), async || self.job(id).await.state.name() == state).await;
        self.job(id).await
    }
}

impl Running {
    /// Stops the worker and waits for its end.
    pub async fn stop(self) -> Summary {
        let Self { world, stop, ended } = self;
        let _ = stop.send(());
        for _ in 0..STEPS_MAX {
            if ended.is_finished() {
                return ended.await.unwrap().unwrap();
            }
            world.step(100).await;
        }
        panic!("the worker does not end");
    }
}
