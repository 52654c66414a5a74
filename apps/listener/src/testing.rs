//! Databases of a test's own, and time that a test lets pass, for tests of this crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use mongodb::bson::{Document, Timestamp};
use tokio::sync::{mpsc, oneshot};
use windlass_app::{Environment, Stop};
use windlass_engine::Time;
use windlass_engine::core::secret::Secret;
use windlass_engine::core::time::Clock;
use windlass_engine::world::{RealWorld, World};
use windlass_testkit::mongo::{Database, ReplicaSet};

use crate::context::Context;
use crate::home::Home;
use crate::lane::{Following, Handle, LaneId};
use crate::lease;
use crate::listener::Listener;
use crate::settings::{self, JobsTarget, Work};
use crate::token::Token;

/// A database on the replica set of all tests.
pub(crate) struct Place(Database);

impl Place {
    pub(crate) async fn new() -> Self {
        Self(ReplicaSet::shared().await.fresh_database().await)
    }

    pub(crate) async fn home(&self) -> Home {
        let place = settings::Place {
            uri: Secret::new(self.0.set().uri()),
            database: self.0.name().to_owned(),
            jobs: "jobs".to_owned(),
            target: JobsTarget::Agenda,
            lock_lifetime_ms: 600_000,
        };
        let world: Arc<dyn World> = Arc::new(RealWorld::new());
        Home::open(&place, world).await.unwrap()
    }

    /// An instance that holds what it has.
    pub(crate) async fn context(&self, name: &str) -> Arc<Context> {
        Self::instance(self.home().await, name)
    }

    /// The same where time passes as the test says.
    pub(crate) async fn stepped(&self, name: &str) -> (Arc<Context>, Waits) {
        let (world, waits) = Stepped::new();
        let mut home = self.home().await;
        home.world = Arc::new(world);
        home.hello().await.unwrap();
        (Self::instance(home, name), waits)
    }

    fn instance(home: Home, name: &str) -> Arc<Context> {
        let environment = Environment::from_iter([("LISTENER_INSTANCE", name)]);
        let work = Work::read(&environment).unwrap();
        let (context, _) = Context::new(home, work, Stop::default());
        context.lease_until_boot_ms.store(u64::MAX, Ordering::Relaxed);
        context
    }
}

/// A lane of a listener that this instance has, and that is followed by its shared stream.
pub(crate) async fn lane(context: &Context, listener: Document) -> (Arc<Handle>, Arc<Listener>) {
    let home = &context.home;
    home.listeners.insert_one(&listener).await.unwrap();
    let listener = Arc::new(Listener::read(&listener).unwrap());
    let lane = LaneId { listener: listener.key.clone(), part: None };
    let claimed = lease::claim(home, &context.instance, &lane, 30_000).await.unwrap().unwrap();
    let start = Token::before(Timestamp { time: 1, increment: 1 });
    let handle = context.registry.add(lane, claimed.fence, start, 0);
    handle.see(|seen| (seen.listener, seen.following) = (Some(listener.clone()), Following::Live));
    (handle, listener)
}

/// A world in which whoever waits does so until the test lets the time pass.
pub(crate) struct Stepped {
    real: RealWorld,
    /// What has passed by the test's word.
    passed_ms: Arc<AtomicU64>,
    waiting: mpsc::UnboundedSender<Wait>,
}

/// Somebody waits.
pub(crate) struct Wait {
    ms: u64,
    over: oneshot::Sender<()>,
}

/// Those who wait, as the test hears of them.
pub(crate) struct Waits {
    passed_ms: Arc<AtomicU64>,
    waiting: mpsc::UnboundedReceiver<Wait>,
}

impl Stepped {
    pub(crate) fn new() -> (Self, Waits) {
        let (sender, waiting) = mpsc::unbounded_channel();
        let passed_ms = Arc::new(AtomicU64::new(0));
        let world = Self { real: RealWorld::new(), passed_ms: passed_ms.clone(), waiting: sender };
        (world, Waits { passed_ms, waiting })
    }
}

impl Waits {
    /// Until somebody waits.
    pub(crate) async fn next(&mut self) -> Wait {
        self.waiting.recv().await.unwrap()
    }

    /// The time for which somebody waits passes.
    pub(crate) fn pass(&self, wait: Wait) {
        self.passed_ms.fetch_add(wait.ms, Ordering::Relaxed);
        // One who no longer waits has gone another way.
        let _ = wait.over.send(());
    }

    /// Lets all time pass for which this waits.
    pub(crate) async fn passing<T>(&mut self, what: impl Future<Output = T>) -> T {
        let mut what = std::pin::pin!(what);
        loop {
            tokio::select! {
                ended = &mut what => return ended,
                wait = self.next() => self.pass(wait),
            }
        }
    }
}

impl Clock for Stepped {
    fn wall(&self) -> Time {
        self.real.wall()
    }

    fn boot_ms(&self) -> u64 {
        self.real.boot_ms() + self.passed_ms.load(Ordering::Relaxed)
    }

    fn boot_id(&self) -> uuid::Uuid {
        self.real.boot_id()
    }
}

#[async_trait]
impl World for Stepped {
    async fn sleep_ms(&self, ms: u64) {
        let (over, is_over) = oneshot::channel();
        if self.waiting.send(Wait { ms, over }).is_err() || is_over.await.is_err() {
            // Nobody lets time pass any more.
            std::future::pending::<()>().await;
        }
    }

    fn chance(&self) -> u64 {
        self.real.chance()
    }
}
