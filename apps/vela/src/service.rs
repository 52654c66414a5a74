//! What runs: a task manager, a worker, or both.

use std::sync::Arc;

use url::Url;
use windlass_app::door::{Guarded, bind};
use windlass_app::{AppError, Host, Parts, Stop};
use windlass_engine::world::World;
use windlass_engine::{Client, Housekeeper, Store, Worker};
use windlass_outside::safe_http::{Guard, Http};

use crate::counter::Counter;
use crate::http::door;
use crate::jobs::TaskHandler;
use crate::office::Office;
use crate::settings::{self, DoorSettings, EtsySettings, TaskSettings, WorkerSettings};
use crate::sync::Sync;
use crate::task::{QUEUE, TaskKind};
use crate::tasks::Tasks;

/// Which parts run.
pub enum Wanted {
    /// Everything in one process.
    All,
    /// A task manager.
    Manager,
    /// A worker that asks these managers.
    Worker(Vec<Url>),
}

/// Runs until SIGTERM or SIGINT.
pub async fn run(host: &Host, wanted: Wanted) -> Result<(), AppError> {
    let stop = Stop::on_signals()?;
    let works = !matches!(wanted, Wanted::Manager);
    let (tasks, store_url, door_settings, worker_parts) = settings::read(&host.environment, |reading| {
        let tasks = TaskSettings::read(reading);
        let parts = works.then(|| (EtsySettings::read(reading, tasks.lease), WorkerSettings::read(reading)));
        (tasks, settings::store(reading), DoorSettings::read(reading), parts)
    })?;
    let listener = match wanted {
        Wanted::Worker(_) => None,
        Wanted::All | Wanted::Manager => {
            let by_token = door_settings.token.is_some();
            let guarded = Guarded { by_token, listen: "VELA_LISTEN or --listen", token: "VELA_TOKEN" };
            Some(bind(&door_settings.listen, guarded).await?)
        }
    };
    let store = host.stores.open(&store_url).await?;
    // A store that cannot keep records is refused before anything begins.
    store.records()?;
    let client = Client::in_world(store.clone(), host.world.clone());
    let board = Tasks::new(client.clone(), host.world.clone(), tasks.clone());
    board.prepare().await?;
    let mut parts = Parts::new(stop);
    if let Some((etsy, settings)) = worker_parts {
        let sync = Arc::new(Sync::new(store.clone(), host.world.clone(), &etsy, &tasks)?);
        let name = settings.id.clone().unwrap_or_else(|| made_up_name(&*host.world));
        let worker = match &wanted {
            Wanted::Worker(managers) => apart(managers.clone(), &door_settings)?,
            Wanted::All | Wanted::Manager => Worker::new(store.clone()),
        };
        let worker = equipped(worker, sync, &name, &settings).in_world(host.world.clone());
        tracing::info!(worker = name, slots = settings.slots, "Worker starting");
        parts = parts.with("worker", |stop| async move { worker.run_until(stop.wait()).await.map(drop) });
    }
    if let Some(listener) = listener {
        tracing::info!(address = %listener.local_addr()?, "Task manager listening");
        let office = Office::new(client.clone(), board.clone());
        office.mend_schedules().await?;
        let door = door(client, board, host.world.clone(), door_settings.token.as_ref());
        parts = parts.with("housekeeper", |stop| keep_house(store, host.world.clone(), stop));
        parts = parts.then("door", |stop| async move { door.serve(listener, stop.wait()).await });
    }
    parts.run().await?;
    Ok(())
}

/// A worker with the three kinds of tasks.
fn equipped(worker: Worker, sync: Arc<Sync>, name: &str, settings: &WorkerSettings) -> Worker {
    let worker =
        worker.name(name).queues([QUEUE]).slots(settings.slots).grace(settings.grace).housekeeping(false);
    TaskKind::ALL
        .into_iter()
        .fold(worker, |worker, kind| worker.handle_kind(kind.as_str(), TaskHandler::new(kind, sync.clone())))
}

/// A worker that asks task managers.
fn apart(managers: Vec<Url>, door: &DoorSettings) -> Result<Worker, AppError> {
    let mut guard = Guard::new();
    for manager in &managers {
        guard = guard.allow(manager).map_err(|why| format!("--manager cannot be used: {why}"))?;
    }
    Ok(Worker::from_source(Counter::new(Http::new(guard), managers, door.token.clone())))
}

/// Takes back lost leases, fires schedules and prunes, until it is told to end.
async fn keep_house(store: Arc<dyn Store>, world: Arc<dyn World>, stop: Stop) -> Result<(), AppError> {
    let housekeeper = Housekeeper::new(store).in_world(world);
    tokio::select! {
        () = housekeeper.run() => {}
        () = stop.wait() => {}
    }
    Ok(())
}

fn made_up_name(world: &dyn World) -> String {
    format!("vela-{}-{:08x}", std::process::id(), world.chance() >> 32)
}
