//! The start: settings, log, store, worker, routes; and the end of all of them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use windlass_app::door::{Door, Guarded, bind};
use windlass_app::{Host, Parts, QueueFileWish, Stop, Stores};
use windlass_engine::Client;
use windlass_engine::core::store::Store;
use windlass_engine::process::sweep_orphans;
use windlass_engine::world::RealWorld;

use crate::answer::{CROWDED, Errors};
use crate::job_files::JobFiles;
use crate::log;
use crate::queue::{self, DAYS_KEPT};
use crate::queue_file::QueueFile;
use crate::routes::{self, Api};
use crate::settings::{Mode, Settings};
use crate::start_error::StartError;
use crate::sweeper::{DAY_MS, sweep_daily};

/// Runs the server until SIGTERM or SIGINT.
pub(crate) async fn run(host: Host) -> Result<(), StartError> {
    let settings = settings(&host)?;
    log::start(&settings, Arc::new(RealWorld::new()));
    let ended = serve(settings, host).await;
    if let Err(error) = &ended {
        tracing::error!(%error, "The server ends");
    }
    ended
}

/// The settings. Should they not do, the log file says so where it is known.
fn settings(host: &Host) -> Result<Settings, StartError> {
    let given = host.environment.clone().over_file(Path::new(".")).map_err(StartError::EnvFile)?;
    let log_file = Settings::log_of(&given);
    Settings::read(given).map_err(|error| {
        if let Some(log_file) = log_file {
            log::last_words(&log_file, &error.to_string(), &*host.world);
        }
        error.into()
    })
}

async fn serve(settings: Settings, host: Host) -> Result<(), StartError> {
    let Host { world, stores, .. } = host;
    if let Some(complaint) = &settings.complaint {
        tracing::error!("{complaint}");
    }
    let way_out = settings.way_out();
    if let Some(way) = &way_out {
        tracing::info!("{way}");
    }
    let guarded =
        Guarded { by_token: settings.token.is_some(), listen: "HOST and PORT", token: "WINDLASS_TOKEN" };
    let listener = bind(&address(&settings.host, settings.port), guarded).await?;
    let store = open_store(&settings, &*stores).await?;
    // Only whoever holds the queue file may look for what was left behind.
    let swept = sweep_orphans();
    if swept > 0 {
        tracing::warn!(swept, "Ended processes that an earlier start had left behind");
    }
    let worker = queue::worker(store.clone(), &settings)?;
    let files = JobFiles::beside(&settings.queue_file);
    let client = Client::in_world(store.clone(), world.clone());
    let form = Errors { development: settings.mode == Mode::Development };
    let token = settings.token.clone();
    let api = Arc::new(Api { client, files: files.clone(), world: world.clone(), settings });
    let door = Door::new(routes::all(&api), world.clone()).token(token.as_ref());
    let (asked, counted) = (api.clone(), api.clone());
    let door = door
        .form(form, CROWDED)
        .ignores_last_slash()
        .health(routes::health)
        .ready(move || routes::ready(asked.clone()))
        .metrics(move || routes::queue_info::metrics(counted.clone()));
    let stop = Stop::on_signals()?;
    let addr = listener.local_addr()?;
    tracing::info!(%addr, "Server listens");
    welcome(addr, way_out);
    Parts::new(stop)
        .with("worker", |stop| async move { worker.run_until(stop.wait()).await.map(drop) })
        .with("door", |stop| async move { door.serve(listener, stop.wait()).await })
        .with("sweeper", |stop| async move {
            tokio::select! { () = sweep_daily(&*store, &files, &*world) => {}, () = stop.wait() => {} }
            Ok::<(), Infallible>(())
        })
        .run()
        .await?;
    tracing::info!("Server has ended");
    Ok(())
}

/// An address as it is written: one of IPv6 stands in brackets.
fn address(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

async fn open_store(settings: &Settings, stores: &dyn Stores) -> Result<Arc<dyn Store>, StartError> {
    let path = settings.queue_file.clone();
    let cannot = |what: &str| {
        let what = what.to_owned();
        move |error| StartError::File(what, error)
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(cannot("the folder of PATH_TO_QUEUE_FILE"))?;
    }
    JobFiles::beside(&path).create().map_err(cannot("the folder beside PATH_TO_QUEUE_FILE"))?;
    std::fs::create_dir_all(&settings.responses_folder).map_err(cannot("PATH_TO_SAVE_CHATGPT_RESPONSES"))?;
    let layout = Arc::new(QueueFile { clock: Arc::new(RealWorld::new()) });
    let wish = QueueFileWish { path, layout, age_ms_max: u64::from(DAYS_KEPT) * DAY_MS };
    let store = stores.open_queue_file(wish).await?;
    store.put_queue(queue::name(), queue::policy()).await?;
    Ok(store)
}

/// Should nobody read it, the server serves all the same.
fn welcome(addr: SocketAddr, way_out: Option<String>) {
    use std::io::Write;
    let text = format!(
        "windlass news-nexus serves http://{addr}\n\nTry, in another terminal:\n  \
         curl -s http://{addr}/queue-info/queue_status\n  \
         curl -s -X POST http://{addr}/request-google-rss/start-job"
    );
    let way_out = way_out.map_or(String::new(), |way| format!("\n\n{way}"));
    let _ = writeln!(std::io::stdout(), "{text}{way_out}");
}
