//! `windlass config`: looks at `windlass.toml` before a server does.

use std::net::ToSocketAddrs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use windlass_report::words::counted;

use super::serve::LISTEN;
use crate::config::{Config, FILE, find};
use crate::exit::{Code, not_found};
use crate::output::print_json;
use crate::say;
use crate::wiring::not_opened;

/// What to do with it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  windlass config check --config windlass.toml")]
pub struct ConfigArgs {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Read it, and say what `windlass serve` would refuse; nothing is changed
    Check {
        /// The file; windlass.toml when it is not said
        #[arg(long, env = "WINDLASS_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Checks the file by all that a server checks before it serves, but for its port, its database and its programs.
pub async fn run(args: ConfigArgs, json: bool) -> anyhow::Result<Code> {
    let Act::Check { config } = args.act;
    let file = find(config.as_deref()).ok_or_else(|| {
        not_found(format!("there is no {FILE} here; docs/guide/config.md shows what one may say"))
    })?;
    let config = Config::read(&file)?;
    check(&config).await.with_context(|| file.display().to_string())?;
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
    let said = counts.map(|(name, count)| counted(count as u64, name.trim_end_matches('s')));
    say!("{} is right: {}", file.display(), said.join(", "));
    Ok(Code::Done)
}

/// What a server would refuse.
async fn check(config: &Config) -> anyhow::Result<()> {
    let settings = config.settings(std::env::var("WINDLASS_TOKEN").ok())?;
    let listen = config.listen.as_deref().unwrap_or(LISTEN);
    let addresses = listen.to_socket_addrs().with_context(|| {
        format!("listen: {listen:?} is no address such as {LISTEN}; nothing could listen there")
    })?;
    for address in addresses {
        settings.check(address).context("listen")?;
    }
    if let Some(store) = &config.store {
        let wrong = |error| not_opened::<anyhow::Error>(store, error).context("store");
        windlass::check_url(store).await.map_err(wrong)?;
    }
    Ok(())
}
