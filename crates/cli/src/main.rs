//! The `windlass` binary.

mod args;
mod command;
mod config;
mod exit;
mod output;
mod sample;
mod top;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    // The apps have a log of their own, as their operators know it.
    if !args.verb.logs_by_itself() {
        output::start_logging();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(command::run(args.verb, args.json)),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("error: {error:#}");
            exit::Code::of(&error).into()
        }
    }
}
