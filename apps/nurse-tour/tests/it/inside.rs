//! The worker in the test's own process: for tests that step a clock of their own, which no other process has, and
//! for the one that hears every crate at every level. All others start the program (`Scene::start`).

use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_engine::core::time::Clock;
use windlass_engine::world::{SimWorld, World};
use windlass_nurse_tour::mapping::mapping;
use windlass_nurse_tour::schema::Types;
use windlass_nurse_tour::settings::Settings;
use windlass_nurse_tour::worker::{NurseTour, Wiring};
use windlass_postgres::adopted::AdoptedTable;
use windlass_postgres::{Options, pool_of};

use crate::scene::Scene;

/// The table of messages as the worker adopts it; by the clock of the database, or by another.
pub async fn table(scene: &Scene, clock: Option<Arc<dyn Clock>>) -> Arc<AdoptedTable> {
    table_at(scene, &scene.database.url(), clock).await
}

/// The same by another way to the database.
pub async fn table_at(scene: &Scene, url: &str, clock: Option<Arc<dyn Clock>>) -> Arc<AdoptedTable> {
    let pool = pool_of(&scene.database.url(), &Options::default()).unwrap();
    let mapping = mapping(&settings(scene).worker, &Types::read(&pool).await.unwrap());
    AdoptedTable::open(url, Options { clock, ..Options::default() }, mapping).await.unwrap()
}

fn settings(scene: &Scene) -> Settings {
    Settings::read(&scene.env.clone().into_iter().collect()).unwrap()
}

/// A worker that runs until it is told to stop.
pub struct Inside {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Inside {
    /// Starts a worker in a world. `clock` is the database's, when it is not its own.
    pub async fn start(scene: &Scene, world: Arc<dyn World>, clock: Option<Arc<dyn Clock>>) -> Self {
        let source = table(scene, clock).await;
        let pool = pool_of(&scene.database.url(), &Options::default()).unwrap();
        let worker = NurseTour::new(Wiring { source, pool, world }, settings(scene)).unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move { drop(stopped.await) };
        let task = tokio::spawn(async move {
            worker.run(shutdown).await.unwrap();
        });
        Self { stop, task }
    }

    pub async fn stop(self) {
        // One that has ended by itself does not hear it.
        let _ = self.stop.send(());
        self.task.await.expect("the worker ends well");
    }

    /// Tells it to stop, and lets its time pass until it has.
    pub async fn stop_in(self, sim: &SimWorld) {
        let stopping = tokio::spawn(self.stop());
        while !stopping.is_finished() {
            sim.step(1_000).await;
        }
        stopping.await.unwrap();
    }
}
