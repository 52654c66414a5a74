//! `windlass man`: manual pages, one for each verb.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::apps::with_apps;
use crate::args::Args;
use crate::exit::Code;
use crate::say;

/// Where to.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  windlass man /usr/local/share/man/man1 && man windlass-jobs")]
pub struct ManArgs {
    /// The folder; it is made when it is not there
    folder: PathBuf,
}

/// Writes them.
pub fn run(args: ManArgs) -> anyhow::Result<Code> {
    std::fs::create_dir_all(&args.folder)?;
    let mut command = with_apps(Args::command(), true).disable_help_subcommand(true);
    // A template of the help for a terminal is none for a page.
    command = command.help_template("{all-args}");
    command.build();
    clap_mangen::generate_to(command, &args.folder)?;
    say!("manual pages are in {}", args.folder.display());
    Ok(Code::Done)
}
