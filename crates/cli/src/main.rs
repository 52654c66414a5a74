//! The `windlass` binary.

mod apps;
mod args;
mod command;
#[cfg(feature = "serve")]
mod config;
#[cfg(feature = "demo")]
mod demo;
mod exit;
mod left_out;
mod mcp;
mod names;
mod output;
#[cfg(feature = "serve")]
mod sample;
mod top;
mod wiring;

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
pub(crate) use windlass_app::say;

use crate::args::Args;

fn main() -> ExitCode {
    #[cfg(feature = "demo")]
    demo::end_with_parent();
    clap_complete::CompleteEnv::with_factory(|| apps::with_apps(Args::command(), true)).complete();
    let words = args::placed(std::env::args_os());
    let json = args::wants_json(&words);
    let matches = apps::with_apps(Args::command(), false)
        .try_get_matches_from(words)
        .unwrap_or_else(|error| exit::misused(&error, json));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(&matches)),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(code) => code.into(),
        Err(error) => {
            let code = exit::Code::of(&error);
            match json {
                true => eprintln!("{}", exit::as_json(&error)),
                false => eprintln!("error: {error:#}"),
            }
            code.into()
        }
    }
}

/// Runs an app, or a verb of the product's own.
async fn run(matches: &ArgMatches) -> anyhow::Result<exit::Code> {
    if let Some((app, of_app)) = apps::asked(matches)? {
        return apps::run(app, of_app, matches.get_flag("json")).await;
    }
    let args = Args::from_arg_matches(matches)
        .unwrap_or_else(|error| exit::misused(&error, matches.get_flag("json")));
    let _tracing = output::start_logging();
    command::run(args.verb, args.json).await
}
