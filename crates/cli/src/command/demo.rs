//! `windlass demo`: a server and the workers at work, with nothing to set up.

use std::path::PathBuf;

use clap::Args;

use crate::demo::{self, Wish};
use crate::exit::Code;

/// How it is run.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing outside of this machine is asked: stand-ins play the feeds, web sites, models and shops.\n\n\
    Examples:\n  windlass demo\n  windlass demo --speed 5 --folder /tmp/demo"
)]
pub struct DemoArgs {
    /// Where everything is kept; a second start goes on
    #[arg(long, default_value = "windlass-demo", value_name = "FOLDER")]
    folder: PathBuf,
    /// How many times as fast as usual things happen
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// The port of its page; another is taken when it is not free
    #[arg(long, default_value_t = 7716)]
    port: u16,
}

fn speed(text: &str) -> Result<f64, String> {
    let fits = |speed: &f64| (0.1..=20.0).contains(speed);
    text.parse().ok().filter(fits).ok_or_else(|| "is not a number from 0.1 to 20".to_owned())
}

/// Runs it until Ctrl-C.
pub async fn run(args: DemoArgs, json: bool) -> anyhow::Result<Code> {
    let DemoArgs { folder, speed, port } = args;
    demo::run(Wish { folder, speed, port, json }).await?;
    eprintln!("the demo has ended; `windlass demo` goes on with it");
    Ok(Code::Done)
}
