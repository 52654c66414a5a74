//! Databases of a test's own, for tests of this crate.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_app::{Environment, Stop};
use windlass_engine::core::secret::Secret;
use windlass_engine::world::{RealWorld, World};
use windlass_testkit::mongo::{Database, ReplicaSet};

use crate::context::Context;
use crate::home::Home;
use crate::settings::{self, JobsTarget, Work};

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
        let environment = Environment::from_iter([("LISTENER_INSTANCE", name)]);
        let work = Work::read(&environment).unwrap();
        let (context, _) = Context::new(self.home().await, work, Stop::default());
        context.lease_until_boot_ms.store(u64::MAX, Ordering::Relaxed);
        context
    }
}
