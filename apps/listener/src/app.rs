//! What this app is to the command line.

use async_trait::async_trait;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use windlass_app::log::{Log, LogForm};
use windlass_app::{App, AppError, Check, Exit, Host, Needs, Setting};

use crate::check::ServerCheck;
use crate::service::Service;
use crate::settings::{self, TABLE};
use crate::verbs;
use crate::verbs::add::NewListener;

/// The AI Rank Listener: changes of documents become jobs.
pub struct ListenerApp;

#[derive(Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Where page, API, /metrics and /healthz are
    #[arg(long)]
    listen: Option<String>,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogForm::Lines)]
    log: LogForm,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a listener
    Add(Box<NewListener>),
    /// List all listeners
    Ls,
    /// Show a listener
    Show {
        /// Its id
        id: String,
    },
    /// Pause a listener
    Pause {
        /// Its id
        id: String,
    },
    /// Resume a listener that was paused
    Resume {
        /// Its id
        id: String,
    },
    /// Delete a listener; its jobs stay
    Rm {
        /// Its id
        id: String,
    },
    /// Show how listeners do: owner, lease, lag, position, errors
    Status,
    /// Show what happened to a document
    Doc {
        /// The document's id
        id: String,
    },
    /// Ask for documents to be done again
    Retry {
        /// A document's id
        document: Option<String>,
        /// All of a listener that failed; with a document, that one of it
        #[arg(long)]
        listener: Option<String>,
        /// All that failed
        #[arg(long)]
        all_failed: bool,
    },
    /// Show documents that did not go through: given up, or tried again
    Dead {
        /// Of one listener
        #[arg(long)]
        listener: Option<String>,
    },
    /// Show who has which listener
    Locks,
    /// Show losses of history
    Gaps,
    /// Read the history from a moment on again; changes that have their job make no second one
    Replay {
        /// The listener; all of them when none is named
        id: Option<String>,
        /// Such as 2026-01-31T12:00:00Z
        #[arg(long)]
        from: String,
    },
    /// Make the indexes of this service and of Agenda's rows
    Init,
}

const EXAMPLES: &str = "\
Examples:
  windlass listener
  windlass listener add --collection batches --job processBatchResults --on insert,update --filter '{\"status\": \"received\"}'
  windlass listener status
  windlass listener doc 65a1b2c3d4e5f60718293a4b
  windlass listener retry --all-failed";

#[async_trait]
impl App for ListenerApp {
    fn name(&self) -> &'static str {
        "listener"
    }

    fn about(&self) -> &'static str {
        "Make jobs of changes in a MongoDB, exactly one each"
    }

    fn more(&self) -> &'static str {
        EXAMPLES
    }

    fn settings(&self) -> &'static [Setting] {
        TABLE
    }

    fn needs(&self) -> Needs {
        Needs::MongoDb
    }

    fn arguments(&self, command: Command) -> Command {
        Arguments::augment_args(command)
    }

    fn logs_by_itself(&self, matches: &ArgMatches) -> bool {
        matches.subcommand_name().is_none()
    }

    fn check(&self) -> Option<&dyn Check> {
        Some(&ServerCheck)
    }

    async fn run(&self, matches: &ArgMatches, mut host: Host) -> Result<Exit, AppError> {
        let Arguments { verb, listen, log } = Arguments::from_arg_matches(matches)?;
        if let Some(listen) = listen {
            host.environment = host.environment.with("LISTENER_LISTEN", &listen);
        }
        let Some(verb) = verb else { return serve(&host, log).await };
        let home = verbs::home(&host).await?;
        match verb {
            Verb::Add(new) => verbs::add::run(&host, &home, *new).await,
            Verb::Ls => verbs::listeners::list(&host, &home).await,
            Verb::Show { id } => verbs::listeners::show(&host, &home, &id).await,
            Verb::Pause { id } => verbs::listeners::set_active(&host, &home, &id, false).await,
            Verb::Resume { id } => verbs::listeners::set_active(&host, &home, &id, true).await,
            Verb::Rm { id } => verbs::listeners::remove(&host, &home, &id).await,
            Verb::Status => verbs::status::status(&host, &home).await,
            Verb::Locks => verbs::status::locks(&host, &home).await,
            Verb::Doc { id } => verbs::documents::history(&host, &home, &id).await,
            Verb::Retry { document, listener, all_failed } => {
                verbs::documents::retry(&host, &home, document, listener, all_failed).await
            }
            Verb::Dead { listener } => verbs::documents::dead(&host, &home, listener.as_deref()).await,
            Verb::Gaps => verbs::gaps::gaps(&host, &home).await,
            Verb::Replay { id, from } => verbs::gaps::replay(&host, &home, id.as_deref(), &from).await,
            Verb::Init => verbs::init(&host, &home).await,
        }
    }
}

async fn serve(host: &Host, form: LogForm) -> Result<Exit, AppError> {
    let debug = settings::debug(&host.environment);
    Log::new(form, host.world.clone()).without_callers(debug).out(std::io::stdout()).start();
    Service::new(host.environment.clone()).in_world(host.world.clone()).run().await?;
    Ok(Exit::DONE)
}
