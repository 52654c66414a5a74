//! `windlass completions`: a script that completes the command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::exit::Code;

/// For which shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  windlass completions bash > /etc/bash_completion.d/windlass")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: CompletionsArgs) -> anyhow::Result<Code> {
    let mut command = crate::args::Args::command();
    clap_complete::generate(args.shell, &mut command, "windlass", &mut std::io::stdout());
    Ok(Code::Done)
}
