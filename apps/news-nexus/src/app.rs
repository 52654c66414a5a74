//! What this app is to the command line.

use std::path::PathBuf;

use async_trait::async_trait;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use windlass_app::{App, AppError, Check, Exit, Finding, Host, Needs, Setting};

use crate::settings::TABLE;
use crate::{child, init, look, server};

/// The job server of the News Nexus system.
pub struct NewsNexus;

#[derive(Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
}

/// Which part of the program this process is.
#[derive(Debug, Subcommand)]
enum Part {
    /// Make what a new installation needs: .env, workbooks, the database and its first rows
    ///
    /// What is there already is kept; it can be run again at any time.
    Init {
        /// The folder of the installation
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Run one job; the server starts this itself
    #[command(hide = true)]
    Job {
        /// Which.
        name: String,
    },
}

#[async_trait]
impl App for NewsNexus {
    fn name(&self) -> &'static str {
        "news-nexus"
    }

    fn about(&self) -> &'static str {
        "Run the job server of the News Nexus system"
    }

    fn settings(&self) -> &'static [Setting] {
        TABLE
    }

    fn needs(&self) -> Needs {
        Needs::OwnFile
    }

    fn arguments(&self, command: Command) -> Command {
        Arguments::augment_args(command)
    }

    fn check(&self) -> Option<&dyn Check> {
        Some(self)
    }

    async fn run(&self, matches: &ArgMatches, host: Host) -> Result<Exit, AppError> {
        match Arguments::from_arg_matches(matches)?.part {
            Some(Part::Job { name }) => Ok(Exit(child::run(&name, host).await)),
            Some(Part::Init { folder }) => Ok(init::run(&folder, &host).map(|()| Exit::DONE)?),
            None => Ok(server::run(host).await.map(|()| Exit::DONE)?),
        }
    }
}

#[async_trait]
impl Check for NewsNexus {
    async fn look(&self, host: &Host) -> Vec<Finding> {
        look::look(host)
    }
}
