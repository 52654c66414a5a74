//! `windlass serve`: the engine as a service.

use clap::Args;
use tokio::net::TcpListener;
use windlass::shutdown_on_signals;
use windlass_server::{Secret, Server, Settings};

use crate::args::StoreArgs;
use crate::exit::Code;
use crate::wiring::{open_store, without_password};

/// Where to listen.
#[derive(Debug, Args)]
#[command(
    after_help = "On this machine alone no token is needed. To listen elsewhere, set WINDLASS_TOKEN to a long \
    random text;\nclients then send it as `Authorization: Bearer …`.\n\nExamples:\n  windlass serve\n  \
    WINDLASS_TOKEN=$(openssl rand -hex 32) windlass serve --listen 0.0.0.0:7717"
)]
pub struct ServeArgs {
    /// The address
    #[arg(long, env = "WINDLASS_LISTEN", default_value = "127.0.0.1:7717", value_name = "ADDRESS")]
    listen: String,
    /// The token that may do everything; better in the environment than on the command line
    #[arg(long, env = "WINDLASS_TOKEN", hide_env_values = true, hide = true)]
    token: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Serves until SIGTERM or SIGINT; a second one ends it at once.
pub async fn run(args: ServeArgs) -> anyhow::Result<Code> {
    let token = args.token.filter(|token| !token.is_empty()).map(Secret::new);
    let settings = Settings { token, ..Settings::default() };
    let listener = TcpListener::bind(&args.listen).await.map_err(|error| {
        anyhow::anyhow!("cannot listen on {}: {error}; choose another with --listen", args.listen)
    })?;
    let addr = listener.local_addr()?;
    settings.check(addr)?;
    let store = open_store(&args.store.store).await?;
    welcome(addr, &args.store.store);
    windlass_server::serve(listener, shutdown()?, Server::new(store, settings)).await?;
    Ok(Code::Done)
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
fn welcome(addr: std::net::SocketAddr, store: &str) {
    use std::io::Write;
    let text = format!(
        "windlass serves http://{addr} from {}\n\nTry, in another terminal:\n  \
         curl -s http://{addr}/v1/jobs -H 'content-type: application/json' -d '{{\"kind\": \"hello\"}}'\n  \
         curl -s 'http://{addr}/v1/jobs?limit=5'\n  curl -s http://{addr}/v1/queues\n\n\
         All calls: http://{addr}/docs",
        without_password(store)
    );
    let _ = writeln!(std::io::stdout(), "{text}");
}
