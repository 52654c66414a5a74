//! `windlass completions`: a script that completes the command line.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::apps::with_apps;
use crate::args::Args;
use crate::exit::Code;

/// For which shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  windlass completions bash > /etc/bash_completion.d/windlass")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: CompletionsArgs) -> anyhow::Result<Code> {
    let mut command = with_apps(Args::command(), true);
    clap_complete::generate(args.shell, &mut command, "windlass", &mut std::io::stdout());
    Ok(Code::Done)
}
