//! `windlass serve`: the engine as a service.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_engine::core::error::Invalid;
use windlass_engine::core::store::Store;
use windlass_engine::shutdown_on_signals;
use windlass_server::{Sample, Server};

use crate::args::STORE;
use crate::config::Config;
use crate::exit::Code;
use crate::output::print_json;
use crate::sample::{self, Stage};
use crate::wiring::{make_store, without_password};

pub const LISTEN: &str = "127.0.0.1:7717";

/// Where to listen.
#[derive(Debug, Args)]
#[command(
    after_help = "On this machine alone no token is needed. To listen elsewhere, set WINDLASS_TOKEN to a long \
    random text;\nclients then send it as `Authorization: Bearer …`.\n\nExamples:\n  windlass serve\n  \
    windlass serve --sample\n  WINDLASS_TOKEN=$(openssl rand -hex 32) windlass serve --listen 0.0.0.0:7717"
)]
pub struct ServeArgs {
    /// The address; 127.0.0.1:7717 when nothing is said
    #[arg(long, env = "WINDLASS_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
    /// The token that may do everything; better in the environment than on the command line
    #[arg(long, env = "WINDLASS_TOKEN", hide_env_values = true, hide = true)]
    token: Option<String>,
    /// sqlite:FILE, json:FILE, postgres://USER@HOST/DATABASE or mongodb://HOST/DATABASE?replicaSet=NAME (not in every
    /// build); sqlite:windlass.db when nothing is said
    #[arg(long, env = "WINDLASS_STORE", hide_env_values = true, value_name = "URL")]
    store: Option<String>,
    /// Not for this verb: it is the server.
    #[arg(long, hide = true, value_name = "URL")]
    url: Option<String>,
    /// What queues, budgets, schedules and command kinds there are; windlass.toml when it is there
    #[arg(long, env = "WINDLASS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run a sample inside: a worker, and jobs that succeed, fail, retry, wait and run in steps
    #[arg(long)]
    sample: bool,
}

/// Serves until SIGTERM or SIGINT; a second one ends it at once.
pub async fn run(args: ServeArgs, json: bool) -> anyhow::Result<Code> {
    if args.url.is_some() {
        let why = "names a server, and `windlass serve` is one; name its store: --store URL";
        return Err(Invalid::new("--url", why).into());
    }
    let config = Config::load(args.config.as_deref())?;
    let listen = args.listen.or(config.listen.clone()).unwrap_or_else(|| LISTEN.to_owned());
    let store_url = args.store.or(config.store.clone()).unwrap_or_else(|| STORE.to_owned());
    let settings = config.settings(args.token)?;
    let listener = TcpListener::bind(&listen).await.map_err(|error| {
        anyhow::anyhow!("cannot listen on {listen}: {error}; choose another with --listen")
    })?;
    let addr = listener.local_addr()?;
    settings.check(addr)?;
    let store = make_store(&store_url).await?;
    config.apply(&*store).await?;
    let crew = Crew::start(config, &store);
    let stage = Stage::new(store.clone());
    let mut server = Server::new(store, settings);
    if args.sample {
        stage.start();
    } else {
        let stage = stage.clone();
        server = server.sample(Sample::new(sample::kinds()?, move || stage.start()));
    }
    match json {
        true => print_json(&Serving {
            url: format!("http://{addr}"),
            store: without_password(&store_url),
            sample: args.sample,
        })?,
        false => welcome(addr, &store_url, args.sample),
    }
    windlass_server::serve(listener, shutdown()?, server).await?;
    stage.end().await;
    crew.end().await;
    Ok(Code::Done)
}

/// Where it serves what, for programs.
#[derive(Serialize)]
struct Serving {
    url: String,
    store: String,
    sample: bool,
}

/// The workers of the command kinds that the file names, inside the server.
struct Crew {
    stop: watch::Sender<bool>,
    workers: JoinSet<()>,
}

impl Crew {
    fn start(config: Config, store: &Arc<dyn Store>) -> Self {
        let stop = watch::Sender::new(false);
        let mut workers = JoinSet::new();
        for worker in config.workers(store) {
            let mut stopped = stop.subscribe();
            workers.spawn(async move {
                let told = async move { drop(stopped.wait_for(|stop| *stop).await) };
                if let Err(error) = worker.run_until(told).await {
                    tracing::error!(%error, "a worker of the server has ended");
                }
            });
        }
        Self { stop, workers }
    }

    /// They give back what they cannot finish in time.
    async fn end(self) {
        self.stop.send_replace(true);
        self.workers.join_all().await;
    }
}

/// Done at the first signal; at the second the program ends.
fn shutdown() -> std::io::Result<impl Future<Output = ()> + Send> {
    let first = shutdown_on_signals()?;
    Ok(async move {
        first.await;
        eprintln!("ending; once more ends it at once");
        // Made only now, so that it hears the next signal and not this one.
        if let Ok(second) = shutdown_on_signals() {
            tokio::spawn(async move {
                second.await;
                std::process::exit(130);
            });
        }
    })
}

/// Should nobody read it, the server serves all the same.
fn welcome(addr: std::net::SocketAddr, store: &str, sample: bool) {
    use std::io::Write;
    let page = if sample { "The dashboard, with the sample running" } else { "The dashboard" };
    let text = format!(
        "windlass serves http://{addr} from {}\n\n{page}: http://{addr}/\nAll calls of the API: http://{addr}/docs\n\n\
         Try, in another terminal:\n  \
         curl -s http://{addr}/v1/jobs -H 'content-type: application/json' -d '{{\"kind\": \"hello\"}}'\n  \
         curl -s 'http://{addr}/v1/jobs?limit=5'\n  curl -s http://{addr}/v1/queues",
        without_password(store)
    );
    let _ = writeln!(std::io::stdout(), "{text}");
}
