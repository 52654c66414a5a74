//! The start: settings, log, store, worker, routes; and the end of all of them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use windlass_engine::core::book::layout::Layout;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::store::Store;
use windlass_engine::process::sweep_orphans;
use windlass_engine::world::{RealWorld, World};
use windlass_engine::{Client, Worker, shutdown_on_signals};

use crate::args::{NewsNexusArgs, Part};
use crate::http::{Api, is_exposed, serve};
use crate::job_files::JobFiles;
use crate::queue::{self, DAYS_KEPT};
use crate::queue_file::QueueFile;
use crate::settings::Settings;
use crate::start_error::StartError;
use crate::sweeper::{DAY_MS, sweep_daily};
use crate::token::TokenHash;
use crate::variables::Variables;
use crate::{child, init, log};

/// The store that the app wants; whoever starts the app opens it. Jobs that
/// were unfinished when it was last open are failed, and a document that cannot
/// be read is set aside for an empty one.
pub struct StoreWish {
    /// Where its document is.
    pub path: PathBuf,
    /// How its document is written.
    pub layout: Arc<dyn Layout>,
    /// Finished jobs go this long after they were accepted.
    pub age_ms_max: u64,
}

/// Runs the server until SIGTERM or SIGINT, or the one job that this process
/// was started for. Answers the exit code.
pub async fn run<F>(args: NewsNexusArgs, open: impl FnOnce(StoreWish) -> F) -> Result<u8, StartError>
where
    F: Future<Output = Result<Arc<dyn Store>, StoreError>>,
{
    match args.part {
        Some(Part::Job { name }) => return Ok(child::run(&name).await),
        Some(Part::Init { folder }) => return init::run(&folder, &RealWorld::new()).map(|()| 0),
        None => {}
    }
    let world: Arc<dyn World> = Arc::new(RealWorld::new());
    let settings = settings(&*world)?;
    log::start(&settings, Arc::new(RealWorld::new()));
    let ended = async { Parts::prepare(settings, world, open).await?.run().await }.await;
    if let Err(error) = &ended {
        tracing::error!(%error, "The server ends");
    }
    ended.map(|()| 0)
}

/// The settings. Should they not do, the log file says so where it is known.
fn settings(world: &dyn World) -> Result<Settings, StartError> {
    let given = Variables::read(Path::new(".")).map_err(StartError::EnvFile)?;
    let log_settings = Settings::log_of(&given);
    Settings::of(given).map_err(|error| {
        if let Some(log_settings) = log_settings {
            log::last_words(&log_settings, &error.to_string(), world);
        }
        error.into()
    })
}

/// What there is when everything is ready to run.
struct Parts {
    listener: TcpListener,
    store: Arc<dyn Store>,
    worker: Worker,
    api: Arc<Api>,
}

impl Parts {
    /// Gets everything ready: the address first, since it refuses most often.
    async fn prepare<F>(
        settings: Settings,
        world: Arc<dyn World>,
        open: impl FnOnce(StoreWish) -> F,
    ) -> Result<Self, StartError>
    where
        F: Future<Output = Result<Arc<dyn Store>, StoreError>>,
    {
        for complaint in &settings.complaints {
            tracing::error!("{complaint}");
        }
        if let Some(way) = settings.way_out() {
            tracing::info!("{way}");
        }
        let listener = listen(&settings).await?;
        let store = open_store(&settings, open).await?;
        // Only whoever holds the queue file may look for what was left behind.
        let swept = sweep_orphans();
        if swept > 0 {
            tracing::warn!(swept, "Ended processes that an earlier start had left behind");
        }
        let worker = queue::worker(store.clone(), &settings)?;
        let api = Arc::new(Api {
            client: Client::in_world(store.clone(), world.clone()),
            token: settings.token.as_ref().map(TokenHash::of),
            files: JobFiles::beside(&settings.queue_file),
            port: listener.local_addr()?.port(),
            world,
            settings,
        });
        Ok(Self { listener, store, worker, api })
    }

    /// Runs everything until a signal comes or the worker must give up.
    async fn run(self) -> Result<(), StartError> {
        let Self { listener, store, worker, api } = self;
        let signals = shutdown_on_signals()?;
        let addr = listener.local_addr()?;
        tracing::info!(%addr, "Server listens");
        welcome(addr, api.settings.way_out());
        let stop = watch::Sender::new(false);
        let work = async {
            let ended = worker.run_until(stopped(&stop)).await;
            stop.send_replace(true);
            ended
        };
        let end = async {
            tokio::select! { () = signals => {}, () = stopped(&stop) => {} }
            stop.send_replace(true);
        };
        let sweep = async {
            let sweeper = sweep_daily(&*store, &api.files, &*api.world);
            tokio::select! { () = sweeper => {}, () = stopped(&stop) => {} }
        };
        let (worked, (), (), ()) =
            tokio::join!(work, serve(listener, stopped(&stop), api.clone()), end, sweep);
        worked?;
        tracing::info!("Server has ended");
        Ok(())
    }
}

/// Done when everything is to end.
fn stopped(stop: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut stop = stop.subscribe();
    async move {
        // Should the sender be gone, everything ends.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}

async fn listen(settings: &Settings) -> Result<TcpListener, StartError> {
    let Settings { host, port, .. } = settings;
    let name = format!("{host}:{port}");
    let listener = TcpListener::bind((host.as_str(), *port)).await;
    let listener = listener.map_err(|error| StartError::Listen(name, error))?;
    let addr = listener.local_addr()?;
    if is_exposed(addr) && settings.token.is_none() {
        return Err(StartError::Open(addr));
    }
    Ok(listener)
}

async fn open_store<F>(
    settings: &Settings,
    open: impl FnOnce(StoreWish) -> F,
) -> Result<Arc<dyn Store>, StartError>
where
    F: Future<Output = Result<Arc<dyn Store>, StoreError>>,
{
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
    let wish = StoreWish { path, layout, age_ms_max: u64::from(DAYS_KEPT) * DAY_MS };
    let store = open(wish).await?;
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
