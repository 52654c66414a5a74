//! A complete small app: it reminds people, by jobs that a door takes and a
//! worker runs. `cargo run -p windlass-app --example app -- --help`

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use clap::{ArgMatches, Command};
use http::StatusCode;
use windlass::prelude::*;
use windlass_app::door::{Answered, Door, Guarded, Refusal, bind, json, text};
use windlass_app::log::{Lines, Log};
use windlass_app::{App, AppError, Exit, Host, Needs, Parts, Reading, Setting, Stop, Stores};

static SETTINGS: &[Setting] = &[
    Setting::new("REMINDERS_STORE", "sqlite:reminders.db", "the URL of the store"),
    Setting::new("REMINDERS_LISTEN", "127.0.0.1:7070", "where reminders are taken"),
    Setting::optional("REMINDERS_TOKEN", "none", "needed elsewhere than on this machine").secret(),
    Setting::required("REMINDERS_SENDER", "whom reminders come from"),
];

#[derive(Serialize, Deserialize)]
struct Remind {
    whom: String,
}

impl Job for Remind {
    const KIND: &'static str = "remind";
    type Output = ();
}

/// What the handlers share.
struct Sender(String);

async fn remind(job: Remind, context: Context<Sender>) -> Result<(), Failure> {
    tracing::info!(sender = context.state().0, "Reminded {}", job.whom);
    Ok(())
}

async fn take(State(client): State<Client>, Path(whom): Path<String>) -> Answered {
    let job = client.enqueue(Remind { whom }).await.map_err(Refusal::internal)?;
    Ok(json(StatusCode::ACCEPTED, &serde_json::json!({ "job": job.id() })))
}

struct Reminders;

#[async_trait]
impl App for Reminders {
    fn name(&self) -> &'static str {
        "reminders"
    }

    fn about(&self) -> &'static str {
        "Remind people"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn needs(&self) -> Needs {
        Needs::Store { default: "sqlite:reminders.db" }
    }

    async fn run(&self, _: &ArgMatches, host: Host) -> Result<Exit, AppError> {
        let mut settings = Reading::new(&host.environment, SETTINGS);
        let (url, listen) = (settings.text("REMINDERS_STORE"), settings.text("REMINDERS_LISTEN"));
        let token = settings.optional_secret("REMINDERS_TOKEN");
        let sender = Sender(settings.text("REMINDERS_SENDER"));
        settings.finish(())?;
        Log::new(Lines, host.world.clone()).own(module_path!()).out(std::io::stderr()).start();

        let guarded =
            Guarded { by_token: token.is_some(), listen: "REMINDERS_LISTEN", token: "REMINDERS_TOKEN" };
        let listener = bind(&listen, guarded).await?;
        tracing::info!(address = %listener.local_addr()?, "Listening");
        let store = host.stores.open(&url).await?;
        let routes = Router::new().route("/remind/{whom}", post(take)).with_state(Client::new(store.clone()));
        let door = Door::new(routes, host.world.clone())
            .token(token.as_ref())
            .health(|| async { Ok(text(StatusCode::OK, "text/plain", "ok\n")) });
        let worker = Worker::new(store).state(sender).handle(remind);
        Parts::new(Stop::on_signals()?)
            .with("worker", |stop| async move { worker.run_until(stop.wait()).await.map(drop) })
            .then("door", |stop| async move { door.serve(listener, stop.wait()).await })
            .run()
            .await?;
        Ok(Exit::DONE)
    }
}

/// In the `windlass` program this is one line in its list of apps; here it is a program of its own.
#[tokio::main]
async fn main() -> Result<(), AppError> {
    struct ByUrl;

    #[async_trait]
    impl Stores for ByUrl {
        async fn open(&self, url: &str) -> Result<Arc<dyn Store>, AppError> {
            Ok(windlass::open(url).await?)
        }
    }

    let command: Command = windlass_app::command(&Reminders);
    let matches = command.get_matches();
    let exit = windlass_app::run(&Reminders, &matches, Host::of_process(Arc::new(ByUrl), false)).await?;
    std::process::exit(i32::from(exit.0));
}
