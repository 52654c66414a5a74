//! What this app is to the command line.

use async_trait::async_trait;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use windlass_app::log::LogForm;
use windlass_app::{App, AppError, Exit, Host, Needs, Setting};

use crate::settings::TABLE;
use crate::verbs::{check, migrate, resume, retry, status, webhook, work};

/// The voice-message worker of Nurse Tour, and what its operator needs.
pub struct NurseTourApp;

#[derive(Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// How log lines look
    #[arg(long, global = true, value_enum, default_value_t = LogForm::Lines)]
    log: LogForm,
}

/// What can be done; without a verb, work.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Add what the database lacks
    Migrate,
    /// Say what the database lacks, and change nothing
    Check,
    /// Show queue depth, ages, failures and times
    Status,
    /// Try messages again that are over without a document
    Retry(retry::Which),
    /// Go on claiming at once, where a provider's wish to be left alone or a wrong setting had stopped it
    Resume,
    /// Serve the endpoint that Twilio calls
    Webhook,
}

const ENDING: &str = "\
SIGTERM and SIGINT end the worker: running stages finish within their grace, the rest is requeued, exit code 0.

Examples:
  windlass nurse-tour migrate
  windlass nurse-tour
  windlass nurse-tour --log json
  windlass nurse-tour status
  windlass nurse-tour retry SM0123 SM0456
  windlass nurse-tour resume";

#[async_trait]
impl App for NurseTourApp {
    fn name(&self) -> &'static str {
        "nurse-tour"
    }

    fn about(&self) -> &'static str {
        "Work the voice messages of Nurse Tour"
    }

    fn more(&self) -> &'static str {
        ENDING
    }

    fn settings(&self) -> &'static [Setting] {
        TABLE
    }

    fn needs(&self) -> Needs {
        Needs::Postgres
    }

    fn arguments(&self, command: Command) -> Command {
        Arguments::augment_args(command)
    }

    /// The worker and the webhook log to stdout, in their own form.
    fn logs_by_itself(&self, matches: &ArgMatches) -> bool {
        matches!(matches.subcommand_name(), None | Some("webhook"))
    }

    async fn run(&self, matches: &ArgMatches, host: Host) -> Result<Exit, AppError> {
        let Arguments { verb, log } = Arguments::from_arg_matches(matches)?;
        match verb {
            None => work::run(&host, log).await,
            Some(Verb::Webhook) => webhook::run(&host, log).await,
            Some(Verb::Migrate) => migrate::run(&host).await,
            Some(Verb::Check) => check::run(&host).await,
            Some(Verb::Status) => status::run(&host).await,
            Some(Verb::Retry(which)) => retry::run(&host, &which).await,
            Some(Verb::Resume) => resume::run(&host).await,
        }
    }
}
