//! The `windlass` binary.

mod args;
mod command;
mod output;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Verb};

fn main() -> ExitCode {
    let args = Args::parse();
    output::start_logging();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the runtime could not be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(async {
        match args.verb {
            Verb::Bench(bench) => command::bench::run(bench).await,
            Verb::Migrate(migrate) => command::migrate::run(migrate).await,
        }
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
