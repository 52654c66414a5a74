//! The program as it runs: workers, door, and the end of both.

use std::sync::Arc;

use axum::response::Response;
use windlass_app::door::{Door, Guarded, Refusal, bind, text};
use windlass_app::log::{Log, LogForm};
use windlass_app::{AppError, Host, Parts, Stop};
use windlass_engine::core::policy::cron::CronLine;
use windlass_engine::core::store::Store;

use crate::app::Place;
use crate::cache::Cache;
use crate::routes::{self, Api};
use crate::settings::{Roles, Settings};
use crate::staff::Staff;
use crate::status::Status;
use crate::{jobs, metrics};

/// Which parts a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Having {
    /// Updater and processor.
    pub roles: Roles,
    /// The feed.
    pub api: bool,
}

/// Opens the store of a place; says which one, when it cannot.
pub async fn open(host: &Host, place: &Place) -> Result<Arc<dyn Store>, AppError> {
    let store = host.stores.open(&place.store).await?;
    store.records()?;
    Ok(store)
}

/// Runs until SIGTERM or SIGINT.
pub async fn run(host: Host, place: Place, having: Having) -> Result<(), AppError> {
    let settings = Settings::read(&host.environment, having.roles)?;
    start_log(&host, place.log);
    let store = open(&host, &place).await?;
    let staff = Staff::new(store.clone(), host.world.clone(), &settings, having.roles)?;
    let client = &staff.archive.client;
    jobs::prepare(&*store, &settings).await?;
    if having.roles.updater {
        jobs::schedule_updates(client, &settings).await?;
    }
    if having.roles.processor {
        jobs::schedule_publishing(client, &settings).await?;
        let repaired = staff.archive.repair().await?;
        if repaired > 0 {
            tracing::warn!(repaired, "Articles without a job were given one");
        }
    }
    let stop = Stop::on_signals()?;
    let mut parts = Parts::new(stop);
    let cron = settings.processor_cron.as_deref().filter(|_| having.roles.processor);
    let cron = cron.map(|line| CronLine::new(line, "UTC")).transpose()?;
    if let Some(worker) = staff.worker(cron.is_none()) {
        parts = parts.with("worker", |stop| async move { worker.run_until(stop.wait()).await.map(drop) });
    }
    if let Some(cron) = cron {
        let staff = staff.clone();
        parts = parts.with("processor", |stop| async move { staff.process_on(&cron, || stop.wait()).await });
    }
    if having.api {
        let guarded =
            Guarded { by_token: settings.admin_token.is_some(), listen: "--listen", token: "ADMIN_TOKEN" };
        let listener = bind(&place.listen, guarded).await?;
        let address = listener.local_addr()?;
        tracing::info!("Bitcoin News is at http://{address}/");
        let door = door(&host, staff, settings);
        parts = parts.then("door", |stop| async move { door.serve(listener, stop.wait()).await });
    } else {
        tracing::info!(updater = having.roles.updater, processor = having.roles.processor, "Working");
    }
    parts.run().await?;
    tracing::info!("Ended");
    Ok(())
}

fn door(host: &Host, staff: Staff, settings: Settings) -> Door {
    let token = settings.admin_token.clone();
    let (archive, world) = (staff.archive, host.world.clone());
    let cache = Cache::new(archive.clone(), world.clone());
    let (asked, counted) = (archive.client.store().clone(), archive.clone());
    let api = Arc::new(Api { archive, cache, settings });
    Door::new(routes::all(&api), world)
        .token(token.as_ref())
        .open_where(routes::is_open)
        .health(|| async { Ok(plain("ok\n")) })
        .ready(move || {
            let store = asked.clone();
            async move { Ok(store.now().await.map(|_| plain("ready\n"))?) }
        })
        .metrics(move || {
            let archive = counted.clone();
            async move {
                Status::look(&archive).await.map(|status| metrics::text(&status)).map_err(Refusal::internal)
            }
        })
}

fn plain(body: &'static str) -> Response {
    text(http::StatusCode::OK, "text/plain; charset=utf-8", body)
}

/// The log goes to stdout. A line for each reader of the feed would hide the lines that matter.
pub fn start_log(host: &Host, form: LogForm) {
    Log::new(form, host.world.clone()).without_callers(false).out(std::io::stdout()).start();
}
