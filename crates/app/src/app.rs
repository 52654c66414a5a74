//! What an app is to the command line.

use async_trait::async_trait;
use clap::{ArgMatches, Command};

use crate::check::{Check, say_findings};
use crate::host::Host;
use crate::init::{self, with_init};
use crate::settings::{Setting, help};

/// Why an app could not do what was asked; its text says what to do next.
pub type AppError = Box<dyn std::error::Error + Send + Sync>;

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(pub u8);

impl Exit {
    /// Done.
    pub const DONE: Self = Self(0);
    /// It failed, or something is wrong.
    pub const FAILED: Self = Self(1);
    /// There is no such thing.
    pub const NOT_FOUND: Self = Self(3);
    /// It was refused; nothing was changed.
    pub const REFUSED: Self = Self(4);

    /// The worse of two.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

/// What an app works on, for people who choose where to run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// A store of any kind; this URL when nothing is said.
    Store {
        /// The URL.
        default: &'static str,
    },
    /// A Postgres database with tables that the app knows.
    Postgres,
    /// A file of the app's own.
    OwnFile,
    /// A MongoDB with collections that the app knows.
    MongoDb,
}

impl Needs {
    fn sentence(self) -> String {
        match self {
            Self::Store { default } => format!("It works on a store: {default} unless said otherwise."),
            Self::Postgres => "It works on tables of a Postgres database.".to_owned(),
            Self::OwnFile => "It keeps its jobs in a file of its own.".to_owned(),
            Self::MongoDb => "It works on collections of a MongoDB replica set.".to_owned(),
        }
    }
}

/// An app: one folder, a line in the list of the command line, and its name in two `Cargo.toml` (`CONTRIBUTING.md`).
#[async_trait]
pub trait App: Send + Sync {
    /// The verb that starts it.
    fn name(&self) -> &'static str;

    /// What starts it, behind its name: a verb of its own, or nothing when its name alone does.
    fn start(&self) -> &'static str {
        ""
    }

    /// What it does, in a line.
    fn about(&self) -> &'static str;

    /// What else its help should say, such as examples.
    fn more(&self) -> &'static str {
        ""
    }

    /// What can be set.
    fn settings(&self) -> &'static [Setting];

    /// What it works on.
    fn needs(&self) -> Needs;

    /// Adds its own arguments and verbs to a command that has its name, what
    /// it is about and the settings already.
    fn arguments(&self, command: Command) -> Command {
        command
    }

    /// Whether it starts a log of its own, in its own form. Else the command
    /// line's log goes to stderr.
    fn logs_by_itself(&self, _: &ArgMatches) -> bool {
        true
    }

    /// The verb `check`, for an app that has things to look at.
    fn check(&self) -> Option<&dyn Check> {
        None
    }

    /// Does what was asked.
    async fn run(&self, matches: &ArgMatches, host: Host) -> Result<Exit, AppError>;
}

/// The command of an app, with the verbs that the kit gives it.
pub fn command(app: &dyn App) -> Command {
    let settings = help(app.settings(), &[]);
    let after = format!("{}\n\n{settings}\n\n{}", app.needs().sentence(), app.more());
    let after = after.trim_end().to_owned();
    // Said after the app's own arguments, whose types may say something of themselves.
    let command = with_init(app, app.arguments(Command::new(app.name())));
    let command = command.about(app.about()).after_help(after);
    match app.check() {
        Some(_) => command
            .subcommand(Command::new("check").about("Say what is in order and what is not; change nothing")),
        None => command,
    }
}

/// Runs an app, or the verb of the kit that was asked for.
pub async fn run(app: &dyn App, matches: &ArgMatches, host: Host) -> Result<Exit, AppError> {
    if let (Some("check"), Some(check)) = (matches.subcommand_name(), app.check()) {
        return Ok(say_findings(&check.look(&host).await, host.json));
    }
    if let Some(of_init) = init::asked(app, matches) {
        return init::run(app, of_init, host.json);
    }
    app.run(matches, host).await
}
