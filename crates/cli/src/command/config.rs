//! `windlass config`: looks at `windlass.toml` before a server does.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::config::{Config, FILE, find};
use crate::exit::Code;
use crate::output::print_json;
use crate::say;

/// What to do with it.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Read it, and say what is wrong; nothing is changed
    Check {
        /// The file; windlass.toml when it is not said
        #[arg(long, env = "WINDLASS_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Checks the file.
pub fn run(args: ConfigArgs, json: bool) -> anyhow::Result<Code> {
    let Act::Check { config } = args.act;
    let Some(file) = find(config.as_deref()) else {
        eprintln!("there is no {FILE} here; docs/guide/config.md shows what one may say");
        return Ok(Code::NotFound);
    };
    let config = match Config::read(&file) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(Code::Failed);
        }
    };
    let counts = [
        ("queues", config.queues.len()),
        ("budgets", config.budgets.len()),
        ("schedules", config.schedules.len()),
        ("commands", config.commands.len()),
        ("tokens", config.tokens.len()),
    ];
    if json {
        print_json(&counts.into_iter().collect::<std::collections::BTreeMap<_, _>>())?;
        return Ok(Code::Done);
    }
    let said: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    say!("{} is right: {}", file.display(), said.join(", "));
    Ok(Code::Done)
}
