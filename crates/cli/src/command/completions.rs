//! `windlass completions`: a script that completes the command line by asking the program, which knows the names in the store.

use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::exit::Code;

/// The variable by which a shell asks for completions.
const VARIABLE: &str = "COMPLETE";

/// For which shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It completes verbs and options, and the names of queues, budgets, schedules, kinds and jobs of the store that \
    the line or the environment names.\n\nExamples:\n  windlass completions bash > /etc/bash_completion.d/windlass\n  \
    windlass completions zsh > \"${fpath[1]}/_windlass\"\n  windlass completions fish > ~/.config/fish/completions/windlass.fish"
)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: CompletionsArgs) -> anyhow::Result<Code> {
    let shells = Shells::builtins();
    let name = args.shell.to_string();
    let shell = shells.completer(&name).ok_or_else(|| anyhow::anyhow!("{name} cannot be completed"))?;
    shell.write_registration(VARIABLE, "windlass", "windlass", "windlass", &mut std::io::stdout())?;
    Ok(Code::Done)
}
