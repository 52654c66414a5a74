//! What the command line takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The job server of the News Nexus system.
#[derive(Debug, Args)]
#[command(
    after_help = "Settings come from .env in the working folder and from the environment, which wins. Required:\n  \
    PATH_AND_FILENAME_FOR_QUERY_SPREADSHEET_AUTOMATED, PATH_TO_SEMANTIC_SCORER_DIR, PATH_TO_LOGS, NODE_ENV,\n  \
    KEY_OPEN_AI, PATH_TO_SAVE_CHATGPT_RESPONSES, NAME_APP, NAME_DB, PATH_DATABASE.\n\
    All settings: apps/news-nexus/README.md"
)]
pub struct NewsNexusArgs {
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
}

/// Which part of the program this process is.
#[derive(Debug, Subcommand)]
pub(crate) enum Part {
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
