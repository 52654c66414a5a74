//! `windlass top`: a live screen of queues, running jobs and failures.

use clap::Args;

use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::print_json;
use crate::top::look;
use crate::wiring::open_place;

/// What to look at.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: j k move, p pause or resume the queue, ? help, q quit.\n\nExamples:\n  windlass top\n  \
    windlass top --url http://127.0.0.1:7717\n  windlass top --json   (one look, for programs)"
)]
pub struct TopArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

/// Shows it until q.
pub async fn run(args: TopArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    if json {
        print_json(&look(&*store, &mut None).await?)?;
        return Ok(Code::Done);
    }
    screen(store, &args.place).await
}

#[cfg(feature = "top")]
async fn screen(
    store: std::sync::Arc<dyn windlass_engine::Store>,
    place: &PlaceArgs,
) -> anyhow::Result<Code> {
    crate::top::show(store, crate::wiring::without_password(&place.target())).await.map(|()| Code::Done)
}

#[cfg(not(feature = "top"))]
async fn screen(_: std::sync::Arc<dyn windlass_engine::Store>, _: &PlaceArgs) -> anyhow::Result<Code> {
    anyhow::bail!(crate::left_out::LeftOut { what: "the screen of windlass top".to_owned(), feature: "top" })
}
